//! The operator: observes a cluster through kube-rs, asks the planner, applies, reports.
//!
//! A tour: `main` parses [`args`] and calls [`run`]; `reconcile` is one pass over one job:
//! observe → plan → apply → report. Only this crate has a clock, a client and randomness; only
//! the planner decides.

mod admin;
mod announce;
mod api;
mod apply;
pub mod args;
mod cache;
mod certificates;
mod connect;
mod context;
mod dirty;
mod error;
mod fault;
mod keys;
mod lease;
mod memory;
mod merge;
mod metrics;
mod mounts;
mod observe;
mod patience;
mod priorities;
mod reconcile;
mod report;
mod retry;
mod run;
mod shelf;
mod signal;
pub mod telemetry;
mod watch;
mod wire;

pub use run::{Scope, operate, run};
