//! Jobs, scheduler and kubelet as pure steps under a clock of the test's own: no process runs and
//! nothing waits.

#[path = "controllers/history.rs"]
mod history;
#[path = "controllers/jobs.rs"]
mod jobs;
#[path = "controllers/pods.rs"]
mod pods;
#[path = "controllers/scheduling.rs"]
mod scheduling;
#[path = "controllers/world.rs"]
mod world;
