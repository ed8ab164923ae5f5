//! The operator is killed at every single write of a job's whole life, once before the API server
//! sees the write and once after it was done, and another one takes up what is left. The end must be
//! the same each time: one of each object, none made twice, none replaced, the right verdict.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::api_fixture::{ApiFixture, SOON, name, uid};
use e2e::audit::Audit;
use e2e::figures::say;
use e2e::jobs::MpiJob;
use e2e::relay::{Moment, Relay};
use e2e::{condition, wait_for};
use serde_json::json;

use super::fixture::new_fixture;

/// Lives that are lived at the same time.
const LIVES: usize = 6;
/// An operator that writes nothing for this long has nothing to write.
const QUIET: Duration = Duration::from_millis(2500);
const WORKERS: usize = 2;

/// How a life went.
struct Life {
    /// The writes of the operator that was killed.
    writes: Vec<String>,
    /// Whether it was.
    killed: bool,
}

/// What of the job exists, by resource and name: the UID.
type Children = BTreeMap<String, String>;

fn children(fixture: &ApiFixture) -> Result<Children> {
    let mut found = Children::new();
    for resource in ["services", "configmaps", "secrets", "jobs", "pods"] {
        for object in fixture.list(resource)? {
            let owned = object["metadata"]["ownerReferences"][0]["kind"] == "MPIJob";
            if owned {
                found.insert(
                    format!("{resource} {}", name(&object)),
                    uid(&object).to_owned(),
                );
            }
        }
    }
    Ok(found)
}

/// All that a job has while it runs.
fn is_complete(children: &Children) -> bool {
    let names = ["services pi", "configmaps pi-config", "jobs pi-launcher"];
    let workers = (0..WORKERS).map(|index| format!("pods pi-worker-{index}"));
    let wanted: Vec<String> = names
        .map(str::to_owned)
        .into_iter()
        .chain(workers)
        .collect();
    let all = wanted.iter().all(|name| children.contains_key(name));
    all && keys(children).count() == 1 && wanted.len() + 1 == children.len()
}

/// The Secrets among them.
fn keys(children: &Children) -> impl Iterator<Item = &String> {
    let names = children.keys();
    names.filter(|name| name.starts_with("secrets pi-agent-"))
}

fn has_keys(fixture: &ApiFixture) -> Result<bool> {
    Ok(keys(&children(fixture)?).next().is_some())
}

/// Waits until something holds, or the operator was killed.
fn unless_killed<T>(
    relay: &Relay,
    what: &str,
    mut look: impl FnMut() -> Result<Option<T>>,
) -> Result<Option<T>> {
    wait_for(what, SOON, || match look()? {
        Some(found) => Ok(Some(Some(found))),
        None if relay.sprung() => Ok(Some(None)),
        None => Ok(None),
    })
}

/// The operator's first stretch of a job's life: until the end, or until it is killed.
fn first_stretch(fixture: &ApiFixture, relay: &Relay) -> Result<()> {
    // In this transport a life has every kind of write.
    let job = MpiJob::named("pi").with("/spec/muster/transport", "Agent");
    fixture.submit(&job.workers(2).clean_pod_policy("Running"))?;
    let started = unless_killed(relay, "the start", || {
        let created = condition(&fixture.job("pi")?, "Created") == Some("True");
        Ok((created && is_complete(&children(fixture)?)).then_some(()))
    })?;
    if started.is_none() || !is_quiet(relay) {
        return Ok(());
    }
    let pods = unless_killed(relay, "a launcher's pod", || {
        Ok(Some(fixture.pods("pi", "launcher")?).filter(|pods| !pods.is_empty()))
    })?;
    if pods.is_none() {
        return Ok(());
    }
    fixture.run("pi", WORKERS)?;
    let running = unless_killed(relay, "Running", || {
        Ok((condition(&fixture.job("pi")?, "Running") == Some("True")).then_some(()))
    })?;
    if running.is_none() || !is_quiet(relay) {
        return Ok(());
    }
    fixture.finish("pi")?;
    unless_killed(relay, "the end", || {
        let over = condition(&fixture.job("pi")?, "Succeeded") == Some("True");
        let clean = fixture.pods("pi", "worker")?.is_empty() && !has_keys(fixture)?;
        Ok((over && clean).then_some(()))
    })?;
    is_quiet(relay);
    Ok(())
}

/// Waits until the operator has nothing more to write; false if it was killed meanwhile.
fn is_quiet(relay: &Relay) -> bool {
    let (mut seen, mut since) = (relay.writes().len(), Instant::now());
    while since.elapsed() < QUIET && !relay.sprung() {
        thread::sleep(Duration::from_millis(50));
        let now = relay.writes().len();
        if now != seen {
            (seen, since) = (now, Instant::now());
        }
    }
    !relay.sprung()
}

/// Another operator takes up what is left, and the job must come to its end.
fn second_stretch(fixture: &ApiFixture, before: &Children) -> Result<()> {
    let was_over = condition(&fixture.job("pi")?, "Succeeded") == Some("True");
    let launcher_over = !fixture.pods("pi", "launcher")?.is_empty()
        && fixture
            .pods("pi", "launcher")?
            .iter()
            .all(|pod| pod["status"]["phase"] == "Succeeded");
    let _operator = fixture.operator()?;
    if !was_over && !launcher_over {
        wait_for("the start after the crash", SOON, || {
            let now = children(fixture)?;
            ensure!(is_complete(&now), "there are {now:?}");
            let job = fixture.job("pi")?;
            Ok((condition(&job, "Created") == Some("True")).then_some(()))
        })?;
        let now = children(fixture)?;
        let replaced = are_keys_replaced(before);
        let kept = |name: &String| !replaced || !name.starts_with("secrets ");
        for (child, uid) in before.iter().filter(|(name, _)| kept(name)) {
            ensure!(
                now.get(child) == Some(uid),
                "{child} was replaced after the crash"
            );
        }
        fixture.run("pi", WORKERS)?;
        fixture.await_condition("pi", "Running")?;
        fixture.finish("pi")?;
    }
    let job = fixture.await_condition("pi", "Succeeded")?;
    fixture.await_pods("pi", "worker", 0)?;
    wait_for("the keys to go", SOON, || {
        Ok((!has_keys(fixture)?).then_some(()))
    })?;
    ensure!(condition(&job, "Failed").is_none(), "{}", job["status"]);
    let counters = &job["status"]["replicaStatuses"];
    ensure!(
        *counters == json!({"Launcher": {"succeeded": 1}, "Worker": {}}),
        "{counters}"
    );
    let left = children(fixture)?;
    ensure!(left.len() == 3, "Service, ConfigMap and Job stay: {left:?}");
    for (child, uid) in left {
        ensure!(
            before.get(&child).is_none_or(|before| *before == uid),
            "{child} was replaced"
        );
    }
    Ok(())
}

/// Keys that no pod has mounted yet are replaced: nobody may read whose they are. Workers that are gone
/// again have left a launcher.
fn are_keys_replaced(before: &Children) -> bool {
    let is_user = |name: &String| name.starts_with("pods ") || name.starts_with("jobs ");
    keys(before).next().is_some() && !before.keys().any(is_user)
}

/// Nothing else was ever made twice, by either operator, and neither saw anything wrong.
fn assert_made_once(fixture: &ApiFixture, audit: &Audit, keys_replaced: bool) -> Result<()> {
    let mut made: BTreeMap<String, usize> = BTreeMap::new();
    for request in audit.writes_of(&fixture.account.user)? {
        if request.verb == "create" && request.code < 300 && request.resource != "events" {
            *made
                .entry(format!("{} {}", request.resource, request.name))
                .or_default() += 1;
        }
    }
    let wanted = |name: &str| 1 + usize::from(keys_replaced && name.starts_with("secrets "));
    let as_wanted = made.iter().all(|(name, times)| *times == wanted(name));
    ensure!(made.len() == 4 + WORKERS && as_wanted, "{made:?}");
    let warnings = fixture
        .events("pi")?
        .into_iter()
        .filter(|event| event["type"] != "Normal");
    let warnings: Vec<_> = warnings.map(|event| event["message"].clone()).collect();
    ensure!(
        warnings.is_empty(),
        "a crash is nothing to warn of: {warnings:?}"
    );
    Ok(())
}

fn live(trap: Option<(usize, Moment)>) -> Result<Life> {
    let fixture = new_fixture("crash")?;
    let audit = Audit::from_now(&fixture.cluster)?;
    let relay = Relay::open(fixture.api.clone())?;
    let kubeconfig = fixture.account.kubeconfig_through(relay.address)?;
    let operator = fixture.operator_of(&fixture.account, &kubeconfig)?;
    operator.await_leading()?;
    if let Some((nth, moment)) = trap {
        relay.trap(nth, moment, operator.killer());
    }
    first_stretch(&fixture, &relay)?;
    let (killed, mut keys_replaced) = (relay.sprung(), false);
    if killed {
        wait_for("the operator to be dead", SOON, || operator.ended())?;
        let before = children(&fixture)?;
        keys_replaced = are_keys_replaced(&before);
        release_lease(&fixture)?;
        second_stretch(&fixture, &before)?;
    } else {
        operator.assert_alive()?;
    }
    assert_made_once(&fixture, &audit, keys_replaced)?;
    Ok(Life {
        writes: relay.writes(),
        killed,
    })
}

/// The dead cannot hand their lease over, and nobody here waits for it to run out.
fn release_lease(fixture: &ApiFixture) -> Result<()> {
    let free = json!({"spec": {"holderIdentity": "", "leaseDurationSeconds": 1}});
    fixture
        .api
        .merge(&fixture.path("leases", "mpi-operator"), &free)?;
    Ok(())
}

#[test]
fn a_crash_at_any_write_changes_nothing_about_the_end() -> Result<()> {
    let whole = live(None).context("without a crash")?;
    ensure!(!whole.killed);
    let count = whole.writes.len();
    let writes = whole.writes.iter().map(|write| {
        let (method, path) = write.split_once(' ').unwrap_or_default();
        let place = path
            .split('/')
            .skip_while(|part| *part != "namespaces")
            .skip(2);
        format!(" {method} {}", place.collect::<Vec<_>>().join("/"))
    });
    let writes: Vec<String> = writes.collect();
    say(&format!(
        "a life of {WORKERS} workers has {count} writes:{}",
        writes.join(",")
    ));
    let moments = [Moment::BeforeApplied, Moment::AfterApplied];
    // Requests that run at once may come in another order, and one more may come.
    let points: Vec<(usize, Moment)> = (1..=count + 1)
        .flat_map(|nth| moments.map(|moment| (nth, moment)))
        .collect();
    let (next, killed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let faults: Mutex<Vec<String>> = Mutex::default();
    thread::scope(|scope| {
        for _ in 0..LIVES {
            scope.spawn(|| {
                while let Some((nth, moment)) = points.get(next.fetch_add(1, Ordering::Relaxed)) {
                    match live(Some((*nth, *moment))) {
                        Ok(life) => _ = killed.fetch_add(life.killed.into(), Ordering::Relaxed),
                        Err(fault) => faults
                            .lock()
                            .expect("nobody panics with this lock held")
                            .push(format!("killed at write {nth}, {moment:?}: {fault:#}")),
                    }
                }
            });
        }
    });
    let faults = faults
        .into_inner()
        .expect("nobody panics with this lock held");
    ensure!(
        faults.is_empty(),
        "{} lives ended otherwise:\n{}",
        faults.len(),
        faults.join("\n")
    );
    let killed = killed.into_inner();
    say(&format!(
        "killed at {killed} points of {count} writes; the end was the same each time"
    ));
    ensure!(
        killed >= 2 * count,
        "only {killed} of {} points were reached",
        2 * count
    );
    Ok(())
}
