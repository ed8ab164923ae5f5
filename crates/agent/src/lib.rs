//! The agent inside users' pods. Decides which of its commands is meant; each command is a module.
//! Must not know Kubernetes: everything it needs comes as files and variables (`contract`).

pub mod contract;
pub mod frame;
pub mod hosts;
pub mod ssh_words;
