//! Bad weather. The operator's own watches, cache, passes and requests run over minicluster in simulated
//! time; one seed decides what users do, how pods fare, how long everything takes and what goes wrong.
//! After every write the laws of `laws/` are checked, and once the weather is calm, those about the end.
//!
//! Replaced are only kube-rs's runtime (`queue`), the network (`network`) and whoever runs containers
//! (`kubelet`). The same seed gives the same trace, line by line.

mod aftermath;
mod attempts;
mod beside;
mod call;
mod clock;
pub mod exhaustive;
pub mod fault;
mod job_view;
mod jobs;
mod keys;
mod kubelet;
mod laws;
mod machine;
mod network;
mod objects;
mod queue;
mod random;
mod replica;
mod reply;
mod role;
mod run;
pub mod schedule;
pub mod script;
mod sets;
pub mod shrink;
mod trace;
mod users;
mod world;

pub use aftermath::Aftermath;
pub use laws::LAWS;
pub use run::{Run, run, weather};
