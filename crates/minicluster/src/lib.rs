//! A Kubernetes small enough to hold in a value: API store, watch, patch, garbage collection, Job
//! controller, scheduler and kubelet as pure steps. No clock, no runtime, no randomness: time and
//! seeds are passed in.

pub mod kubelet;
