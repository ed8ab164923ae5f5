//! A job that is suspended and resumed twenty times at random moments: before its first pod, while pods
//! start, run and go, and while it is cleaned up. At rest it has exactly what it should have, and its
//! launcher never starts before all workers are Ready.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use e2e::api::{Hangup, collection};
use e2e::api_fixture::{ApiFixture, SOON, name, uid};
use e2e::audit::Audit;
use e2e::fake_kubelet::{Behaviour, FakeKubelet};
use e2e::jobs::MpiJob;
use e2e::{condition, wait_for};
use serde_json::{Value, json};

use super::fixture::new_fixture;

const WORKERS: usize = 2;
const ROUNDS: u32 = 20;
/// Between two edits. A start takes about half as long, so that all of its moments are hit.
const PAUSE_MAX_MS: u64 = 1500;
/// Pods start one after the other, and take a while to go.
const KUBELET: Behaviour = Behaviour {
    start_after: (Duration::from_millis(20), Duration::from_millis(400)),
    stop_after: Duration::from_millis(150),
};

#[test]
fn a_job_survives_twenty_suspensions_at_random_moments() -> Result<()> {
    suspend_often(&MpiJob::named("pi").workers(2))
}

#[test]
fn a_launcher_that_waits_for_its_workers_does_so_after_each_of_twenty_suspensions() -> Result<()> {
    suspend_often(&MpiJob::named("pi").workers(2).wait_for_workers())
}

fn suspend_often(job: &MpiJob) -> Result<()> {
    let mut random = Random::seeded()?;
    let seed = random.0;
    println!("seed {seed}: MUSTER_SUSPEND_SEED={seed} repeats these moments");
    let fixture = new_fixture("often")?;
    let audit = Audit::from_now(&fixture.cluster)?;
    let history = History::start(&fixture)?;
    let kubelet = FakeKubelet::start(&fixture.api, &fixture.namespace, KUBELET)?;
    let _operator = fixture.operator()?;
    fixture.submit(&job.clone().clean_pod_policy("Running"))?;
    for round in 0..ROUNDS {
        let toggled = toggle_twice(&fixture, &mut random);
        toggled.with_context(|| format!("round {round} with seed {seed}"))?;
    }
    at_rest_running(&fixture)?;
    end(&fixture, &kubelet)?;
    kubelet.assert_well()?;
    audit.assert_never_forbidden(&fixture.account.user)?;
    let starts = history.launcher_starts(&fixture)?;
    ensure!(starts > 0, "no launcher was ever seen to start");
    println!("the launcher was started {starts} times in {ROUNDS} rounds");
    Ok(())
}

/// Suspends and resumes. Each may come in the middle of what the one before has begun, or when it is done.
fn toggle_twice(fixture: &ApiFixture, random: &mut Random) -> Result<()> {
    for suspended in [true, false] {
        if random.below(4) == 0 {
            match suspended {
                true => at_rest_running(fixture)?,
                false => at_rest_suspended(fixture)?,
            }
        } else {
            thread::sleep(Duration::from_millis(random.below(PAUSE_MAX_MS)));
        }
        suspend(fixture, suspended)?;
    }
    Ok(())
}

/// The program ends, and while the workers go, somebody suspends the job and resumes it: it is over.
fn end(fixture: &ApiFixture, kubelet: &FakeKubelet) -> Result<()> {
    let launcher = fixture.await_pods("pi", "launcher", 1)?;
    kubelet.end(name(&launcher[0]), 0)?;
    fixture.await_condition("pi", "Succeeded")?;
    suspend(fixture, true)?;
    suspend(fixture, false)?;
    fixture.await_pods("pi", "worker", 0)?;
    let job = fixture.job("pi")?;
    ensure!(
        condition(&job, "Succeeded") == Some("True") && condition(&job, "Running") != Some("True"),
        "{}",
        job["status"]
    );
    let after = fixture.pods("pi", "launcher")?;
    ensure!(after.len() == 1 && uid(&after[0]) == uid(&launcher[0]));
    Ok(())
}

fn suspend(fixture: &ApiFixture, suspend: bool) -> Result<()> {
    let edit = json!({"spec": {"runPolicy": {"suspend": suspend}}});
    fixture.edit("pi", &edit).map(drop)
}

/// An edit that the operator has not seen yet may still pass through, so all of it is looked at again.
fn at_rest_suspended(fixture: &ApiFixture) -> Result<()> {
    wait_for("a job at rest, suspended", SOON, || {
        let status = status(fixture, &json!({"Launcher": {}, "Worker": {}}))?;
        ensure!(condition(&status, "Suspended") == Some("True"), "{status}");
        ensure!(condition(&status, "Running") == Some("False"), "{status}");
        ensure!(fixture.list("pods")?.is_empty(), "it has pods");
        let launchers = fixture.list("jobs")?;
        let held = |launcher: &Value| launcher["spec"]["suspend"] == true;
        ensure!(launchers.len() <= 1 && launchers.iter().all(held));
        lasting(fixture).map(Some)
    })
}

fn at_rest_running(fixture: &ApiFixture) -> Result<()> {
    wait_for("a job at rest, running", SOON, || {
        let counters = json!({"Launcher": {"active": 1}, "Worker": {"active": WORKERS}});
        let status = status(fixture, &counters)?;
        ensure!(condition(&status, "Suspended") != Some("True"), "{status}");
        ensure!(condition(&status, "Running") == Some("True"), "{status}");
        let pods = fixture.list("pods")?;
        let runs = |pod: &Value| {
            pod["status"]["phase"] == "Running" && pod["metadata"]["deletionTimestamp"].is_null()
        };
        ensure!(pods.len() == WORKERS + 1 && pods.iter().all(runs));
        ensure!(fixture.list("jobs")?.len() == 1, "several launchers");
        lasting(fixture).map(Some)
    })
}

/// The status of the job, if its counters read exactly so.
fn status(fixture: &ApiFixture, counters: &Value) -> Result<Value> {
    let mut job = fixture.job("pi")?;
    let status = job["status"].take();
    ensure!(status["replicaStatuses"] == *counters, "{status}");
    Ok(json!({"status": status}))
}

/// What a job keeps while it is suspended, and nothing else.
fn lasting(fixture: &ApiFixture) -> Result<()> {
    for (resource, wanted) in [
        ("services", "pi"),
        ("configmaps", "pi-config"),
        ("secrets", "pi-ssh"),
    ] {
        let objects = fixture.list(resource)?;
        let owned = |object: &&Value| !object["metadata"]["ownerReferences"].is_null();
        let names: Vec<_> = objects.iter().filter(owned).map(name).collect();
        ensure!(names == [wanted], "{resource}: {names:?}");
    }
    Ok(())
}

/// Everything that happened to pods and Jobs of a namespace.
struct History {
    events: Arc<Mutex<Vec<Value>>>,
    readers: Vec<(Hangup, JoinHandle<()>)>,
}

impl History {
    /// Nothing may be in the namespace yet.
    fn start(fixture: &ApiFixture) -> Result<Self> {
        let events = Arc::<Mutex<Vec<Value>>>::default();
        let mut readers = Vec::new();
        for resource in ["pods", "jobs"] {
            let path = format!("{}?watch=1", collection(&fixture.namespace, resource));
            let mut lines = fixture.api.watch(&path, "application/json")?;
            let (hangup, events) = (lines.hangup()?, Arc::clone(&events));
            let reader = thread::spawn(move || {
                while let Ok(Some(line)) = lines.next_line() {
                    let event = serde_json::from_slice(line).expect("a watch has events");
                    events.lock().expect("nobody panics here").push(event);
                }
            });
            readers.push((hangup, reader));
        }
        Ok(Self { events, readers })
    }

    /// How often the launcher's Job was let go. Each time, all workers must have been Ready. Without
    /// `WaitForWorkersReady` a container of the launcher waits instead, so they need only exist.
    fn launcher_starts(self, fixture: &ApiFixture) -> Result<usize> {
        let job = fixture.job("pi")?;
        let waits = job["spec"]["launcherCreationPolicy"] == "WaitForWorkersReady";
        wait_for("the last event", SOON, || {
            let events = self.events.lock().expect("nobody panics here");
            let last = |event: &Value| !event["object"]["status"]["completionTime"].is_null();
            Ok(events.iter().any(last).then_some(()))
        })?;
        for (hangup, reader) in self.readers {
            hangup.hang_up();
            reader.join().expect("a reader does not panic");
        }
        let mut events = std::mem::take(&mut *self.events.lock().expect("nobody panics here"));
        events.sort_by_key(version);
        let (mut starts, mut goes) = (0, false);
        let mut workers = BTreeMap::new();
        for event in &events {
            let (object, gone) = (&event["object"], event["type"] == "DELETED");
            if object["kind"] == "Job" {
                let let_go = !gone && object["spec"]["suspend"] != true;
                if let_go && !goes {
                    starts += 1;
                    let right = |worker: &&(bool, bool)| worker.0 && (worker.1 || !waits);
                    let there = workers.values().filter(right).count();
                    ensure!(there == WORKERS, "let go with {workers:?}");
                }
                goes = let_go;
            } else if name(object).contains("-worker-") {
                let stays = object["metadata"]["deletionTimestamp"].is_null();
                let ready = condition(object, "Ready") == Some("True");
                workers.insert(name(object).to_owned(), (stays && !gone, ready));
            }
        }
        Ok(starts)
    }
}

/// The API server counts all its writes alike.
fn version(event: &Value) -> u64 {
    let version = event["object"]["metadata"]["resourceVersion"].as_str();
    version
        .and_then(|version| version.parse().ok())
        .unwrap_or(0)
}

/// Numbers without a pattern (xorshift), which a seed repeats.
struct Random(u64);

impl Random {
    /// By `MUSTER_SUSPEND_SEED`, or by the clock.
    fn seeded() -> Result<Self> {
        let seed = match std::env::var("MUSTER_SUSPEND_SEED") {
            Ok(seed) => seed
                .parse()
                .context("MUSTER_SUSPEND_SEED is not a number")?,
            Err(_) => {
                let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
                since.as_nanos() as u64
            }
        };
        // Zero would stay zero.
        Ok(Self(seed | 1))
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}
