//! `status.tasks` and `status.aggregate` of a T9k job: replicas by name, from the moment they are
//! wanted until after they are gone. A pod that goes, or went, with a pause or a clean-up is
//! `Deleted`, which only the status itself remembers. Decides which replicas are told of where all
//! of them would not fit into an object; the counts cover all.

use std::collections::BTreeMap;

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

/// Replicas of one type that are told of by name, at about 150 bytes each: the API server stores no
/// object of more than 1.5 MiB.
const TOLD_MAX: usize = 1000;

/// The counter of pods that went.
const DELETED: &str = COUNTERS[1];

/// Where a type of replicas says how many of them it does not name.
const OMITTED: &str = "omitted";

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
    let known = Remembered::of(&draft.status);
    let pods = planned.pods.iter();
    let pods: BTreeMap<&str, &PodNote> = pods.map(|pod| (pod.name.as_str(), pod)).collect();
    let name = draft.name();
    let replica = |name: String| Replica {
        pod: pods.get(name.as_str()).copied(),
        uid: known.uids.get(name.as_str()).copied(),
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
        let phases = replicas.iter().map(|replica| phase(replica, gone));
        let mut shown = Vec::new();
        for (replica, phase) in replicas.iter().zip(phases) {
            let Some(phase) = phase else { continue };
            for (counter, count) in &mut counts {
                *count += u32::from(counter.eq_ignore_ascii_case(phase));
            }
            shown.extend((phase != "Creating").then_some((replica, phase)));
        }
        // Those that went and were never named; the pods of some may still be there.
        let unnamed = shown.iter().filter(|(replica, _)| replica.uid.is_none());
        let unnamed = match gone {
            true => known.omitted(kind).saturating_sub(unnamed.count()),
            false => 0,
        };
        for (counter, count) in &mut counts {
            let deleted = if *counter == DELETED { unnamed } else { 0 };
            *count += u32::try_from(deleted).unwrap_or(u32::MAX);
        }
        let omitted = unnamed + shown.len().saturating_sub(TOLD_MAX);
        let told: Vec<Value> = most_telling(shown)
            .into_iter()
            .map(|(replica, phase)| entry(replica, phase))
            .collect();
        let mut task = json!({"type": kind, "restartCount": restarts, "status": told});
        if omitted > 0 {
            task[OMITTED] = omitted.into();
        }
        tasks.push(task);
    }
    let counts: Map<String, Value> = counts
        .into_iter()
        .map(|(counter, count)| (counter.to_owned(), count.into()))
        .collect();
    draft.insert("tasks", tasks);
    draft.insert("aggregate", counts);
}

pub(super) fn has_failed(pod: &PodNote) -> bool {
    pod.phase == PodPhase::Failed
}

/// All of them, or those that failed and then the first ones, in the order of their indices.
fn most_telling<'r>(
    mut shown: Vec<(&'r Replica<'r>, &'static str)>,
) -> Vec<(&'r Replica<'r>, &'static str)> {
    let room = TOLD_MAX.min(shown.len());
    let fails = |phase: &str| matches!(phase, "Failed" | "Unknown");
    let failed = shown.iter().filter(|(_, phase)| fails(phase)).count();
    let (mut failed, mut others) = (failed.min(room), room - failed.min(room));
    shown.retain(|(_, phase)| {
        let left = if fails(phase) {
            &mut failed
        } else {
            &mut others
        };
        let keeps = *left > 0;
        *left = left.saturating_sub(1);
        keeps
    });
    shown
}

/// The replicas that the stored status tells of.
struct Remembered<'a> {
    uids: BTreeMap<&'a str, &'a str>,
    tasks: &'a [Value],
}

impl<'a> Remembered<'a> {
    fn of(status: &'a Map<String, Value>) -> Self {
        let tasks = status.get("tasks").and_then(Value::as_array);
        let tasks = tasks.map(Vec::as_slice).unwrap_or_default();
        let pods = tasks
            .iter()
            .filter_map(|task| task.get("status")?.as_array());
        let uid = |pod: &'a Value| Some((pod.get("name")?.as_str()?, pod.get("uid")?.as_str()?));
        Self {
            uids: pods.flatten().filter_map(uid).collect(),
            tasks,
        }
    }

    /// How many of this type are not named.
    fn omitted(&self, kind: &str) -> usize {
        let task = self.tasks.iter().find(|task| task["type"] == kind);
        let omitted = task.and_then(|task| task.get(OMITTED)?.as_u64());
        omitted
            .and_then(|count| usize::try_from(count).ok())
            .unwrap_or_default()
    }
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
