//! The operator: observes a cluster through kube-rs, asks the planner, applies, reports.
//!
//! A tour: `main` parses [`args`] and calls [`run`]; `reconcile` is one pass over one job:
//! observe → plan → apply → report. Only this crate has a clock, a client and randomness; only
//! the planner decides.

mod admin;
mod agent_keys;
mod answer;
mod api;
mod api_error;
mod apply;
pub mod args;
mod assembly;
mod backoff;
mod cache;
mod certificate;
mod connect;
mod context;
mod discovery;
mod dropped;
mod encoding;
mod error;
mod event_loop;
mod events;
mod fair_turns;
mod found_gang;
mod gang_apis;
mod http_port;
mod job_texts;
mod key_secret;
mod keys;
mod known_jobs;
mod large_jobs;
mod lease;
mod list_watch;
mod lookup;
mod memory;
mod merge;
mod metrics;
mod metrics_port;
mod mounts;
mod object_index;
mod observe;
mod pace;
mod pending_jobs;
mod pod_lookup;
mod priorities;
mod protobuf;
mod reconcile;
mod remains;
mod report;
mod requests;
mod restraint;
mod retry;
mod reviews;
mod run;
mod scope;
mod second_look;
mod signal;
pub mod stepwise;
pub mod telemetry;
mod tenants;
mod tenure;
pub mod untrusted;
mod watch;
mod watch_gap;
mod wire;
mod write_policy;

pub use key_secret::nonce;
pub use metrics_port::MetricsPorts;
pub use run::{operate, run};
pub use scope::{KeySource, Scope};
