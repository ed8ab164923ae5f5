//! The shipped operator beside queues and gang schedulers of others, on a real cluster with three nodes.
//! `cargo xtask test --only queues` builds them and starts all of it.

mod gangs;
mod how_to;
mod install;
mod kueue;
