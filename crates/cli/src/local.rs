//! This machine as a cluster: `cluster` brings API, controller and runner together, `runner` obeys
//! the cluster's kubelet with processes, `stages` is what runs inside a container before its
//! program does.

pub(crate) mod api_server;
pub(crate) mod cluster;
pub(crate) mod host;
pub(crate) mod output;
pub(crate) mod runner;
pub(crate) mod stages;
