//! This machine as a cluster: pods are processes. `stages` is what runs inside a container before
//! its program does; the rest runs beside the controller.

pub(crate) mod stages;
