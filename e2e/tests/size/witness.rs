//! What the API server told another client of a tenant's jobs, and when. Decides which part of a job's
//! start the operator answers for: while there are many objects of 1 MB to store or to delete, the API
//! server sends all watches late, and nobody can know sooner. Must not know the operator's own watch.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use e2e::api::{Hangup, METADATA_ONLY, collection};
use e2e::api_fixture::{ApiFixture, SOON};
use e2e::wait_for;
use serde_json::Value;

use super::fixture::SmallJob;

/// Two workers and the launcher.
const PODS: usize = 3;

/// When each object was first seen, by its name.
type Seen = Arc<Mutex<HashMap<String, Instant>>>;

/// A client that watches a namespace until it is dropped.
pub(crate) struct Witness {
    submitted: Seen,
    /// The Jobs of launchers.
    launchers: Seen,
    /// Pods that run.
    running: Seen,
    readers: Vec<(Hangup, JoinHandle<()>)>,
    /// A watch that ended.
    ended: Arc<Mutex<Option<String>>>,
}

impl Witness {
    /// Watches a namespace without jobs.
    pub(crate) fn start(tenant: &ApiFixture) -> Result<Self> {
        let mut witness = Self {
            submitted: Seen::default(),
            launchers: Seen::default(),
            running: Seen::default(),
            readers: Vec::new(),
            ended: Arc::default(),
        };
        witness.watch(tenant, "mpijobs", "")?;
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
            "mpijobs" => &self.submitted,
            "jobs" => &self.launchers,
            _ => &self.running,
        });
        let (ended, what) = (Arc::clone(&self.ended), resource.to_owned());
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
            *ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(what);
        });
        self.readers.push((hangup, reader));
        Ok(())
    }

    /// How long the operator took of a job's start: from when the job was seen until its objects were, and
    /// then from when all its pods were seen to run.
    pub(crate) fn operators_part(&self, job: &SmallJob) -> Result<[Duration; 2]> {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ensure!(ended.is_none(), "the witness's watch of {ended:?} ended");
        drop(ended);
        let submitted = seen(&self.submitted, &job.name)?;
        let launcher = seen(&self.launchers, &format!("{}-launcher", job.name))?;
        let of_job = format!("{}-", job.name);
        let last = wait_for("the witness to see the pods", SOON, || {
            let seen = lock(&self.running);
            let own = seen.iter().filter(|(name, _)| name.starts_with(&of_job));
            let own: Vec<Instant> = own.map(|(_, at)| *at).collect();
            Ok(own.iter().max().copied().filter(|_| own.len() >= PODS))
        })?;
        ensure!(submitted > job.submitted, "{} was there before", job.name);
        let created = launcher.saturating_duration_since(submitted);
        Ok([created, job.running.saturating_duration_since(last)])
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

/// When an object was first seen, also if that is still to come.
fn seen(seen: &Seen, name: &str) -> Result<Instant> {
    wait_for(&format!("the witness to see {name}"), SOON, || {
        Ok(lock(seen).get(name).copied())
    })
}

fn lock(seen: &Seen) -> MutexGuard<'_, HashMap<String, Instant>> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}
