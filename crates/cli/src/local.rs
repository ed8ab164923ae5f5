//! This machine as a cluster: pods are processes. `stages` is what runs inside a container before
//! its program does; `runner` obeys the cluster's kubelet.

pub(crate) mod runner;
pub(crate) mod stages;
