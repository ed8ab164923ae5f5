//! The life of jobs as their status tells it: each step reports what the planner found, stores
//! the answer, and compares conditions, counters, times and events with what Kubeflow's clients
//! expect.

mod ends;
mod found;
mod life;
mod words;
