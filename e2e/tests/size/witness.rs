//! What the API server told another client of a tenant's jobs, and when. Decides which part of a job's
//! start the operator answers for: while the garbage collector deletes pods of 1 MB, the API server
//! sends every watch of pods late, and nobody can know sooner. Must not know the operator's own watch.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use e2e::api::{Hangup, collection};
use e2e::api_fixture::{ApiFixture, SOON};
use e2e::wait_for;
use serde_json::Value;

use super::fixture::SmallJob;

const METADATA_ONLY: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
/// Two workers and the launcher.
const PODS: usize = 3;

/// When each object was first seen, by its name.
type Seen = Arc<Mutex<HashMap<String, Instant>>>;

/// A client that watches a namespace until it is dropped.
pub(crate) struct Witness {
    /// The Jobs of launchers.
    launchers: Seen,
    /// Pods that run.
    running: Seen,
    readers: Vec<(Hangup, JoinHandle<()>)>,
}

impl Witness {
    /// Watches a namespace without jobs.
    pub(crate) fn start(tenant: &ApiFixture) -> Result<Self> {
        let mut witness = Self {
            launchers: Seen::default(),
            running: Seen::default(),
            readers: Vec::new(),
        };
        witness.watch(tenant, "jobs", "")?;
        // A pod is added to this watch when it runs.
        witness.watch(tenant, "pods", "&fieldSelector=status.phase%3DRunning")?;
        Ok(witness)
    }

    fn watch(&mut self, tenant: &ApiFixture, resource: &str, selector: &str) -> Result<()> {
        let path = format!(
            "{}?watch=1{selector}",
            collection(&tenant.namespace, resource)
        );
        let mut lines = tenant.api.watch(&path, METADATA_ONLY)?;
        let hangup = lines.hangup()?;
        let seen = Arc::clone(match resource {
            "jobs" => &self.launchers,
            _ => &self.running,
        });
        let reader = thread::spawn(move || {
            while let Ok(Some(line)) = lines.next_line() {
                let event: Value = serde_json::from_slice(line).expect("a watch has events");
                let name = event["object"]["metadata"]["name"].as_str();
                if let (Some("ADDED"), Some(name)) = (event["type"].as_str(), name) {
                    lock(&seen)
                        .entry(name.to_owned())
                        .or_insert_with(Instant::now);
                }
            }
        });
        self.readers.push((hangup, reader));
        Ok(())
    }

    /// How long the operator took of a job's start: until its objects were there, and then from when all
    /// its pods were seen to run.
    pub(crate) fn operators_part(&self, job: &SmallJob) -> Result<[Duration; 2]> {
        let launcher = format!("{}-launcher", job.name);
        let launcher = wait_for("the witness to see the launcher", SOON, || {
            Ok(lock(&self.launchers).get(&launcher).copied())
        })?;
        let of_job = format!("{}-", job.name);
        let last = wait_for("the witness to see the pods", SOON, || {
            let seen = lock(&self.running);
            let own = seen.iter().filter(|(name, _)| name.starts_with(&of_job));
            let own: Vec<Instant> = own.map(|(_, at)| *at).collect();
            Ok(own.iter().max().copied().filter(|_| own.len() == PODS))
        })?;
        ensure!(launcher > job.submitted, "{} was there before", job.name);
        let noticed = job.running.saturating_duration_since(last);
        Ok([launcher - job.submitted, noticed])
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        for (hangup, reader) in self.readers.drain(..) {
            hangup.hang_up();
            // A reader that panicked has said so.
            drop(reader.join());
        }
    }
}

fn lock(seen: &Seen) -> MutexGuard<'_, HashMap<String, Instant>> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}
