//! `status.tasks` and `status.aggregate` of a T9k job: every replica by name, from the moment it is
//! wanted until after it is gone. A pod that went with a pause or a clean-up is `Deleted`, which
//! only the status itself remembers.

use planner::observed::PodPhase;
use planner::{PodNote, Status};
use serde_json::{Map, Value, json};

use crate::status_draft::StatusDraft;

use super::super::lower::{LAUNCHER, WORKER};

/// The counters, in the order of the manual.
const COUNTERS: [&str; 7] = [
    "creating",
    "deleted",
    "failed",
    "pending",
    "running",
    "succeeded",
    "unknown",
];

/// One replica, as it is told of.
struct Replica<'a> {
    name: String,
    pod: Option<&'a PodNote>,
    /// The UID that the status remembers.
    uid: Option<&'a str>,
}

/// Writes both.
pub(super) fn write(draft: &mut StatusDraft<'_>, planned: &Status) {
    // Nobody creates pods of it: those that do not exist were deleted, or never existed.
    let gone = draft.is_over || planned.outcome.is_some() || planned.suspended;
    let known = known_uids(&draft.status);
    let name = draft.name();
    let replica = |name: String| Replica {
        pod: planned.pods.iter().find(|pod| pod.name == name),
        uid: known.get(&name).and_then(Value::as_str),
        name,
    };
    let launcher = vec![replica(format!("{name}-launcher"))];
    let workers = 0..planned.wanted;
    let workers = workers.map(|index| replica(format!("{name}-worker-{index}")));
    let workers: Vec<Replica<'_>> = workers.collect();

    let mut counts = COUNTERS.map(|counter| (counter, 0_u32));
    let mut tasks = Vec::new();
    for (kind, replicas) in [(LAUNCHER, launcher), (WORKER, workers)] {
        let restarts: u32 = replicas
            .iter()
            .filter_map(|replica| Some(replica.pod?.restarts))
            .sum();
        let mut told = Vec::new();
        for replica in &replicas {
            let Some(phase) = phase(replica, gone) else {
                continue;
            };
            for (counter, count) in &mut counts {
                *count += u32::from(counter.eq_ignore_ascii_case(phase));
            }
            told.extend((phase != "Creating").then(|| entry(replica, phase)));
        }
        tasks.push(json!({"type": kind, "restartCount": restarts, "status": told}));
    }
    let counts: Map<String, Value> = counts
        .into_iter()
        .map(|(counter, count)| (counter.to_owned(), count.into()))
        .collect();
    draft.insert("tasks", tasks);
    draft.insert("aggregate", counts);
}

/// The pod has failed.
pub(super) fn has_failed(pod: &PodNote) -> bool {
    pod.phase == PodPhase::Failed
}

fn known_uids(status: &Map<String, Value>) -> Map<String, Value> {
    let tasks = status.get("tasks").and_then(Value::as_array);
    let pods = tasks
        .into_iter()
        .flatten()
        .filter_map(|task| task.get("status")?.as_array());
    let uid = |pod: &Value| {
        Some((
            pod.get("name")?.as_str()?.to_owned(),
            pod.get("uid")?.clone(),
        ))
    };
    pods.flatten().filter_map(uid).collect()
}

/// None for a replica that is not wanted now and never was there.
fn phase(replica: &Replica<'_>, gone: bool) -> Option<&'static str> {
    Some(match replica.pod.map(|pod| pod.phase) {
        Some(PodPhase::Pending) => "Pending",
        Some(PodPhase::Running) => "Running",
        Some(PodPhase::Succeeded) => "Succeeded",
        Some(PodPhase::Failed) => "Failed",
        Some(PodPhase::Unknown) => "Unknown",
        None if gone => return replica.uid.map(|_| "Deleted"),
        None => "Creating",
    })
}

fn entry(replica: &Replica<'_>, phase: &str) -> Value {
    let uid = match replica.pod {
        Some(pod) => pod.uid.as_str(),
        None => replica.uid.unwrap_or_default(),
    };
    let code = replica.pod.and_then(|pod| pod.exit_code);
    let ended = code.map(|code| json!({"containerPhase": "Terminated", "exitCode": code}));
    let containers: Vec<Value> = ended.into_iter().collect();
    json!({"phase": phase, "name": replica.name, "uid": uid, "containers": containers})
}
