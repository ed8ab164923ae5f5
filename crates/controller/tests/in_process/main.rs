//! The whole controller over a Kubernetes in this process: no API server, no container, and simulated
//! time. `cluster` starts it and plays the kubelet, `faults` stands between the controller and its
//! API and delays, fails or drops what a test names. Each other file tests one part.
//!
//! A test called `c01_…` shows finding C1 of the correctness review, and so on.

mod apply;
mod cluster;
mod faults;
mod found_gang;
mod held;
mod jobs;
mod keys;
mod observe;
mod report;
mod verdicts;
mod watch;
