//! The jobs that exist, as far as our watches show. Decides whether an object may be a job's own; the
//! API server alone knows whether it is.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::tenants::Class;
use crate::wire::{Child, ObjectKey};

/// Jobs of all APIs.
#[derive(Debug, Default)]
pub(crate) struct KnownJobs(Mutex<Jobs>);

#[derive(Debug, Default)]
struct Jobs {
    by_uid: HashMap<Arc<str>, ObjectKey>,
    /// Two APIs may each have a job of this name.
    names: HashMap<ObjectKey, usize>,
}

impl KnownJobs {
    /// A job exists. Returns whether that is new.
    pub(crate) fn add(&self, uid: &str, key: &ObjectKey) -> bool {
        let mut jobs = self.lock();
        if jobs.by_uid.contains_key(uid) {
            return false;
        }
        jobs.by_uid.insert(uid.into(), key.clone());
        *jobs.names.entry(key.clone()).or_default() += 1;
        true
    }

    /// A job is gone.
    pub(crate) fn remove(&self, uid: &str) {
        let mut jobs = self.lock();
        let Some(key) = jobs.by_uid.remove(uid) else {
            return;
        };
        if let Some(count) = jobs.names.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                jobs.names.remove(&key);
            }
        }
    }

    /// A job of this name exists.
    pub(crate) fn has(&self, key: &ObjectKey) -> bool {
        self.lock().names.contains_key(key)
    }

    /// The names of all jobs.
    pub(crate) fn keys(&self) -> Vec<ObjectKey> {
        self.lock().names.keys().cloned().collect()
    }

    /// Whether an object names a job that exists, as its owner, or by a label of ours.
    pub(crate) fn class(&self, child: &Child) -> Class {
        let jobs = self.lock();
        let by_label = child
            .job_label
            .as_ref()
            .and_then(|uid| jobs.by_uid.get(uid));
        let by_label = by_label.is_some_and(|job| job.namespace == child.key.namespace);
        let by_owner = || child.job().is_some_and(|job| jobs.names.contains_key(&job));
        match by_label || by_owner() {
            true => Class::Claimed,
            false => Class::Unclaimed,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Jobs> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
