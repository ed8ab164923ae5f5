//! The batch Job controller, as far as launchers need it: one pod after another until one
//! succeeds, the retries are used up or the time is. Decides pods and status of Jobs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::api::delete::{Options, Propagation};
use crate::conditions;
use crate::schema::format;
use crate::server::Server;
use crate::store::{Change, Key, KindId, uid};
use crate::value::set_or_remove;
use crate::value::{items, text};

/// First wait before a failed pod is replaced; it doubles with each failure.
const BACKOFF_SECS: i64 = 10;
/// Longest such wait.
const BACKOFF_MAX_SECS: i64 = 600;

/// What the controller still has to look at.
#[derive(Clone, Debug, Default)]
pub(crate) struct Jobs {
    dirty: BTreeSet<Key>,
    timers: BTreeMap<Key, Timestamp>,
    /// Pods whose end is in their Job's status, by the Job's UID.
    counted: BTreeMap<String, BTreeSet<String>>,
    /// Pods that went without a word, by the Job's UID: their UIDs, and whether they succeeded.
    lost: BTreeMap<String, Vec<(String, bool)>>,
}

/// A Job's pods.
struct Pods {
    active: Vec<(Key, Arc<Value>)>,
    terminating: usize,
    ready: usize,
    /// Ended and not yet counted.
    ended: Vec<(String, bool)>,
    last_failure: Option<Timestamp>,
    restarts: i64,
}

impl Jobs {
    /// Takes in a change.
    pub(crate) fn note(&mut self, change: &Change) {
        if change.key.kind.is("batch/jobs") {
            self.dirty.insert(change.key.clone());
            if let (None, Some(before)) = (&change.after, &change.before) {
                self.timers.remove(&change.key);
                self.counted.remove(uid(before));
                self.lost.remove(uid(before));
            }
            return;
        }
        if !change.key.kind.is("/pods") {
            return;
        }
        let Some(pod) = change.after.as_ref().or(change.before.as_ref()) else {
            return;
        };
        let owners = items(&pod["metadata"]["ownerReferences"]);
        let Some(owner) = owners
            .iter()
            .find(|one| one["controller"] == true && one["kind"] == "Job")
        else {
            return;
        };
        let jobs = KindId::new("batch", "jobs");
        self.dirty
            .insert(Key::new(&jobs, &change.key.namespace, text(&owner["name"])));
        if change.after.is_none() {
            let succeeded = pod["status"]["phase"] == "Succeeded";
            let lost = self.lost.entry(text(&owner["uid"]).to_owned()).or_default();
            lost.push((uid(pod).to_owned(), succeeded));
        }
    }

    /// When something is due although nothing happens.
    pub(crate) fn next_wake(&self) -> Option<Timestamp> {
        self.timers.values().min().copied()
    }

    fn wake_due(&mut self, now: Timestamp) {
        let due: Vec<Key> = self
            .timers
            .iter()
            .filter(|(_, at)| **at <= now)
            .map(|(key, _)| key.clone())
            .collect();
        for key in due {
            self.timers.remove(&key);
            self.dirty.insert(key);
        }
    }
}

fn at(time: &Value) -> Option<Timestamp> {
    text(time).parse().ok()
}

fn later(time: Timestamp, secs: i64) -> Timestamp {
    time.checked_add(SignedDuration::from_secs(secs))
        .unwrap_or(time)
}

fn is_finished(status: &Value) -> bool {
    conditions::is_true(status, "Complete") || conditions::is_true(status, "Failed")
}

impl Jobs {
    /// Looks at Jobs that changed or whose time has come.
    pub(crate) fn run(&mut self, server: &mut Server, now: Timestamp) {
        self.wake_due(now);
        for key in std::mem::take(&mut self.dirty) {
            let Some(job) = server.store.get(&key).cloned() else {
                continue;
            };
            let manager = &job["spec"]["managedBy"];
            if !manager.is_null() && manager != "kubernetes.io/job-controller" {
                continue;
            }
            if is_finished(&job["status"]) {
                self.expire(server, now, &key, &job);
            } else if job["metadata"]["deletionTimestamp"].is_null() {
                self.sync_job(server, now, &key, &job);
            }
        }
    }

    /// A finished Job may have a time to live.
    fn expire(&mut self, server: &mut Server, now: Timestamp, key: &Key, job: &Value) {
        let Some(ttl) = job["spec"]["ttlSecondsAfterFinished"].as_i64() else {
            return;
        };
        let over = items(&job["status"]["conditions"])
            .iter()
            .filter(|one| one["type"] == "Complete" || one["type"] == "Failed")
            .find_map(|one| at(&one["lastTransitionTime"]));
        let due = later(over.unwrap_or(now), ttl);
        if due > now {
            self.timers.insert(key.clone(), due);
            return;
        }
        let options = Options {
            propagation: Some(Propagation::Foreground),
            uid: Some(uid(job).to_owned()),
            ..Options::default()
        };
        server.delete_any(now, key, &options);
    }

    fn pods_of(&mut self, server: &Server, job: &Value) -> Pods {
        let mut pods = Pods {
            active: Vec::new(),
            terminating: 0,
            ready: 0,
            ended: Vec::new(),
            last_failure: None,
            restarts: 0,
        };
        // A pod that is being deleted has failed already, where the Job says so.
        let waits = job["spec"]["podReplacementPolicy"] == "Failed";
        let keys: Vec<Key> = server.store.dependents(uid(job)).cloned().collect();
        for key in keys.into_iter().filter(|key| key.kind.is("/pods")) {
            let Some(pod) = server.store.get(&key).cloned() else {
                continue;
            };
            let deleting = !pod["metadata"]["deletionTimestamp"].is_null();
            match text(&pod["status"]["phase"]) {
                "Succeeded" => pods.ended.push((uid(&pod).to_owned(), true)),
                "Failed" => {
                    pods.ended.push((uid(&pod).to_owned(), false));
                    pods.last_failure = pods.last_failure.max(finished_at(&pod));
                }
                _ if deleting => {
                    pods.terminating += 1;
                    if !waits {
                        pods.ended.push((uid(&pod).to_owned(), false));
                    }
                }
                _ => {
                    let containers = items(&pod["status"]["containerStatuses"])
                        .iter()
                        .chain(items(&pod["status"]["initContainerStatuses"]));
                    pods.restarts += containers
                        .filter_map(|one| one["restartCount"].as_i64())
                        .sum::<i64>();
                    pods.ready += usize::from(conditions::is_true(&pod["status"], "Ready"));
                    pods.active.push((key, pod));
                }
            }
        }
        pods.ended
            .extend(self.lost.remove(uid(job)).unwrap_or_default());
        pods
    }

    fn sync_job(&mut self, server: &mut Server, now: Timestamp, key: &Key, job: &Arc<Value>) {
        let mut pods = self.pods_of(server, job);
        let mut status = job["status"].clone();
        let time = format::seconds(now);
        let (mut succeeded, mut failed) = (
            status["succeeded"].as_i64().unwrap_or(0),
            status["failed"].as_i64().unwrap_or(0),
        );
        let counted = self.counted.entry(uid(job).to_owned()).or_default();
        for (pod, good) in std::mem::take(&mut pods.ended) {
            if counted.insert(pod) {
                succeeded += i64::from(good);
                failed += i64::from(!good);
            }
        }
        let spec = &job["spec"];
        let suspended = spec["suspend"] == true;
        let mut wake = None;
        let target = conditions::is_true(&status, "FailureTarget");
        let ending = if target {
            None
        } else {
            verdict(spec, &status, &pods, failed, now)
        };
        if let Some((reason, message)) = &ending {
            conditions::set(
                &mut status,
                "FailureTarget",
                "True",
                Some((reason, message)),
                &time,
            );
        }
        let failing = target || ending.is_some();
        let completions = spec["completions"].as_i64().unwrap_or(1);
        let succeeding = !failing && succeeded >= completions;
        if failing || succeeding || suspended {
            for (pod, object) in std::mem::take(&mut pods.active) {
                pods.terminating += 1;
                let options = Options {
                    uid: Some(uid(&object).to_owned()),
                    ..Options::default()
                };
                server.delete_any(now, &pod, &options);
                pods.terminating -= usize::from(server.store.get(&pod).is_none());
            }
        }
        if succeeding {
            succeed(&mut status, pods.terminating, &time);
        } else if failing {
            fail(&mut status, pods.terminating, &time);
        } else if suspended {
            suspend(&mut status, &time);
        } else {
            resume(&mut status, &time);
            wake = replace_pods(server, now, key, job, &mut pods, succeeded, failed);
        }
        let deadline = spec["activeDeadlineSeconds"]
            .as_i64()
            .filter(|_| !suspended && !failing);
        let due = deadline.and_then(|secs| Some(later(at(&status["startTime"])?, secs)));
        if let Some(at) = [wake, due].into_iter().flatten().min() {
            self.timers.insert(key.clone(), at);
        }
        count(&mut status, &pods, succeeded, failed);
        // Our own deletions may have changed the Job's neighbours, never the Job.
        if status != job["status"] {
            let mut object = (**job).clone();
            object["status"] = status;
            server.store.put(key, object);
        }
    }
}

/// Creates what is missing; the answer is when to look again.
fn replace_pods(
    server: &mut Server,
    now: Timestamp,
    key: &Key,
    job: &Value,
    pods: &mut Pods,
    succeeded: i64,
    failed: i64,
) -> Option<Timestamp> {
    let spec = &job["spec"];
    let parallelism = spec["parallelism"].as_i64().unwrap_or(1);
    let left = spec["completions"]
        .as_i64()
        .map_or(parallelism, |total| total - succeeded);
    let mut wanted = parallelism.min(left) - i64::try_from(pods.active.len()).unwrap_or(i64::MAX);
    if spec["podReplacementPolicy"] == "Failed" {
        wanted -= i64::try_from(pods.terminating).unwrap_or(i64::MAX);
    }
    if wanted <= 0 {
        return None;
    }
    if let Some(last) = pods.last_failure.filter(|_| failed > 0) {
        let doublings = u32::try_from(failed - 1).unwrap_or(0).min(10);
        let due = later(last, (BACKOFF_SECS << doublings).min(BACKOFF_MAX_SECS));
        if due > now {
            return Some(due);
        }
    }
    for _ in 0..wanted {
        let name = format!("{}-{}", key.name, server.seed.suffix());
        let pod = pod_of(job, &name);
        match server.create_as_controller(
            now,
            ("", "v1", "pods"),
            &key.namespace,
            pod,
            "kube-controller-manager",
        ) {
            Ok(pod) => {
                let said = format!("Created pod: {name}");
                server.say(
                    now,
                    job,
                    "Normal",
                    "SuccessfulCreate",
                    &said,
                    "job-controller",
                );
                let place = Key::new(&KindId::new("", "pods"), &key.namespace, &name);
                pods.active.push((place, pod));
            }
            Err(refusal) => {
                let said = format!("Error creating: {}", refusal.message);
                server.say(now, job, "Warning", "FailedCreate", &said, "job-controller");
                return Some(later(now, BACKOFF_SECS));
            }
        }
    }
    None
}

fn finished_at(pod: &Value) -> Option<Timestamp> {
    let containers = items(&pod["status"]["containerStatuses"]).iter();
    let ends = containers.filter_map(|one| at(&one["state"]["terminated"]["finishedAt"]));
    ends.max()
        .or_else(|| at(&pod["metadata"]["creationTimestamp"]))
}

/// Why the Job has failed, if it has.
fn verdict(
    spec: &Value,
    status: &Value,
    pods: &Pods,
    failed: i64,
    now: Timestamp,
) -> Option<(&'static str, &'static str)> {
    let limit = spec["backoffLimit"].as_i64().unwrap_or(6);
    let in_place = spec["template"]["spec"]["restartPolicy"] == "OnFailure"
        && pods.restarts > 0
        && pods.restarts >= limit.max(1);
    if failed > limit || in_place {
        return Some((
            "BackoffLimitExceeded",
            "Job has reached the specified backoff limit",
        ));
    }
    let secs = spec["activeDeadlineSeconds"].as_i64()?;
    let start = at(&status["startTime"]).filter(|_| spec["suspend"] != true)?;
    (now >= later(start, secs)).then_some((
        "DeadlineExceeded",
        "Job was active longer than specified deadline",
    ))
}

fn succeed(status: &mut Value, terminating: usize, now: &str) {
    let why = Some((
        "CompletionsReached",
        "Reached expected number of succeeded pods",
    ));
    conditions::set(status, "SuccessCriteriaMet", "True", why, now);
    if terminating == 0 {
        conditions::set(status, "Complete", "True", why, now);
        status["completionTime"] = now.into();
    }
}

fn fail(status: &mut Value, terminating: usize, now: &str) {
    if terminating > 0 {
        return;
    }
    let target = items(&status["conditions"])
        .iter()
        .find(|one| one["type"] == "FailureTarget");
    let (reason, message) = target
        .map(|one| {
            (
                text(&one["reason"]).to_owned(),
                text(&one["message"]).to_owned(),
            )
        })
        .unwrap_or_default();
    conditions::set(status, "Failed", "True", Some((&reason, &message)), now);
}

fn suspend(status: &mut Value, now: &str) {
    conditions::set(
        status,
        "Suspended",
        "True",
        Some(("JobSuspended", "Job suspended")),
        now,
    );
    set_or_remove(status, "startTime", &Value::Null);
}

fn resume(status: &mut Value, now: &str) {
    let was = items(&status["conditions"])
        .iter()
        .any(|one| one["type"] == "Suspended");
    if was {
        let again = conditions::is_true(status, "Suspended");
        conditions::set(
            status,
            "Suspended",
            "False",
            Some(("JobResumed", "Job resumed")),
            now,
        );
        if again {
            status["startTime"] = now.into();
        }
    }
    if status["startTime"].is_null() {
        status["startTime"] = now.into();
    }
}

fn count(status: &mut Value, pods: &Pods, succeeded: i64, failed: i64) {
    let counts = [
        (
            "active",
            i64::try_from(pods.active.len()).unwrap_or(i64::MAX),
        ),
        ("succeeded", succeeded),
        ("failed", failed),
    ];
    for (field, count) in counts {
        let value = if count == 0 {
            Value::Null
        } else {
            count.into()
        };
        set_or_remove(status, field, &value);
    }
    status["ready"] = pods.ready.into();
    status["terminating"] = pods.terminating.into();
    status["uncountedTerminatedPods"] = json!({});
}

fn pod_of(job: &Value, name: &str) -> Value {
    let template = &job["spec"]["template"];
    let mut metadata = template["metadata"].clone();
    if metadata.is_null() {
        metadata = json!({});
    }
    metadata["name"] = name.into();
    metadata["generateName"] = format!("{}-", text(&job["metadata"]["name"])).into();
    metadata["ownerReferences"] = json!([{
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": job["metadata"]["name"],
        "uid": job["metadata"]["uid"],
        "controller": true,
        "blockOwnerDeletion": true,
    }]);
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]})
}
