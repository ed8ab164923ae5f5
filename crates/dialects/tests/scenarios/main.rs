//! The lives of jobs of every dialect, as planner and report see them: one test program, so that it is
//! linked once.

mod bdap;
mod driver;
mod flyte;
mod generated;
#[path = "../bases/jobs.rs"]
mod jobs;
mod laws;
mod openmpi;
#[expect(clippy::disallowed_methods, reason = "scripts are files")]
mod scripts;
mod start_times;
mod t9k;
mod transcript;
mod transitions;
