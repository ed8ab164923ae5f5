//! This machine as a cluster. `cluster` connects API, controller and runner. `runner` carries out the
//! orders of the cluster's kubelet with processes. `stages` is what runs inside a container before its
//! program.

pub(crate) mod api_server;
pub(crate) mod cluster;
pub(crate) mod host;
pub(crate) mod output;
pub(crate) mod runner;
pub(crate) mod stages;
