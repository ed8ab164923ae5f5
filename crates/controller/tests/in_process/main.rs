//! The whole controller over a Kubernetes in this process: no API server, no container, and simulated
//! time. `cluster` starts it and plays the kubelet, `faults` stands between the controller and its
//! API and delays, fails or drops what a test names. Each other file tests one part.

mod apply;
mod cluster;
mod faults;
mod jobs;
mod observe;
