//! The shipped operator beside queues of others, on a real cluster with three nodes.
//! `cargo xtask test --only queues` builds them and starts all of it.

mod kueue;
