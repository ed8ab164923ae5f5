//! `muster` as people use it, on this machine: real mpirun, real processes, no cluster.

#[path = "local/bad_input.rs"]
mod bad_input;
#[path = "local/browser.rs"]
mod browser;
#[path = "local/checkpoints.rs"]
mod checkpoints;
#[path = "local/dialects.rs"]
mod dialects;
#[path = "local/examples.rs"]
mod examples;
#[path = "local/how_to.rs"]
mod how_to;
#[path = "local/jobs.rs"]
mod jobs;
#[path = "local/kubeconfig.rs"]
mod kubeconfig;
#[path = "local/kubectl.rs"]
mod kubectl;
#[path = "local/openmpi.rs"]
mod openmpi;
#[path = "local/pages.rs"]
mod pages;
#[path = "local/readme.rs"]
mod readme;
#[path = "local/recipes.rs"]
mod recipes;
#[path = "local/recovery.rs"]
mod recovery;
#[path = "local/report.rs"]
mod report;
#[path = "local/ui.rs"]
mod ui;
#[path = "local/watching.rs"]
mod watching;
#[path = "local/world.rs"]
mod world;
