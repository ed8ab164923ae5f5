//! Decides what should happen to an MPI job. `plan(&Observed) -> Plan` has no clock, no I/O, no
//! randomness and no async: all it knows is in [`Observed`], all it wants is in [`Plan`].
//!
//! A tour: [`Job`] is what was asked for, in no dialect; [`Observed`] is that plus what exists;
//! [`plan`] answers with actions, a status, a time to look again and the reason; [`check`] states the
//! laws that every plan obeys.

mod action;
pub mod check;
mod fingerprint;
#[cfg(feature = "fixtures")]
pub mod fixtures;
mod history;
mod host_name;
pub mod job;
mod keys;
mod launcher_run;
mod life;
mod mpi;
pub mod observed;
mod phase;
mod placement;
mod plan;
mod pod_start;
mod reach;
mod recorded;
mod render;
pub mod site;
mod ssh_port;
mod status;
mod takeover;
pub mod text;
mod waiting_on;
mod worker_batch;
mod worker_selection;

pub use action::{Action, Kind, Object};
pub use contract::Reason;
pub use fingerprint::Fingerprint;
pub use history::{History, LateWorker, LauncherAttempt};
pub use job::Job;
pub use keys::Keys;
pub use launcher_run::{EarlierAttempt, LauncherRun, RunEnd};
pub use life::{LifePart, parts_of_life};
pub use observed::Observed;
pub use phase::Phase;
pub use plan::{Plan, more_hopeful_cause, plan, read_agent_report};
pub use pod_start::{PodStart, StartSpan};
pub use recorded::{KeyRecord, Outcome, Recorded, Replacements, Verdict};
pub use ssh_port::SshPorts;
pub use status::{Count, PodNote, Status};
pub use takeover::taken_over;
pub use waiting_on::WaitingOn;
pub use worker_batch::WorkerBatch;
pub use worker_selection::WorkerSelection;
