//! Policy: when the launcher is created, and a launcher that is a Job suspended and resumed.
//!
//! Retries, deadlines while it runs and the pods of such a Job are the Job controller's business.

use serde_json::{Map, Value, json};

use super::{identity, launcher_pod, worker_set, workers};
use crate::job::{LauncherAs, LauncherStart};
use crate::observed::{Directives, Launcher, Observed, PodPhase, Slot};
use crate::plan::{Action, Kind};
use crate::render::launcher as render;

/// Brings the launcher to what the user wants now.
pub(crate) fn align(observed: &Observed) -> Vec<Action> {
    match &observed.launcher {
        _ if observed.job.launcher_as == LauncherAs::Pod => launcher_pod::align(observed),
        Slot::Foreign => Vec::new(),
        Slot::Absent if may_create(observed) => {
            let object = render::launcher_job(&observed.job, &observed.site);
            vec![Action::Create(object)]
        }
        Slot::Absent => Vec::new(),
        Slot::Ours(launcher) if launcher.deleting || launcher.end.is_some() => Vec::new(),
        Slot::Ours(launcher) => match (launcher.suspended, hold(observed, launcher)) {
            (true, false) => vec![resume(observed, launcher)],
            (false, true) => vec![suspend(observed, launcher)],
            (true, true) | (false, false) => Vec::new(),
        },
    }
}

/// Never beside a launcher that still lives, and not before its workers if it must wait. A
/// suspended Job starts nothing, so it may come at any time.
fn may_create(observed: &Observed) -> bool {
    let alive = observed
        .launcher_pods
        .iter()
        .any(|pod| !pod.phase.is_over());
    !alive && (observed.job.policy.suspended || may_start(observed))
}

/// Its workers are there, if it must wait for them.
pub(super) fn may_start(observed: &Observed) -> bool {
    match observed.job.launcher_start {
        LauncherStart::AtOnce => true,
        LauncherStart::WhenWorkersReady => {
            workers::all_ready(observed) && worker_set::is_settled(observed)
        }
    }
}

/// The Job must be suspended: by the user, or because it has not started and may not yet.
fn hold(observed: &Observed, launcher: &Launcher) -> bool {
    observed.job.policy.suspended || (launcher.suspended && !may_start(observed))
}

/// Stops the launcher of a job that is being deleted.
pub(super) fn stop(observed: &Observed) -> Vec<Action> {
    if observed.job.launcher_as == LauncherAs::Pod {
        return launcher_pod::remove(observed, |_| true);
    }
    let launcher = observed.launcher.ours();
    let runs =
        |launcher: &&Launcher| !launcher.deleting && !launcher.suspended && launcher.end.is_none();
    let suspend = launcher
        .filter(runs)
        .map(|launcher| suspend(observed, launcher));
    suspend.into_iter().collect()
}

/// The launcher's object exists.
pub(crate) fn exists(observed: &Observed) -> bool {
    match observed.job.launcher_as {
        LauncherAs::Job => observed.launcher.ours().is_some(),
        LauncherAs::Pod => !observed.launcher_pods.is_empty(),
    }
}

/// Stops the launcher's pods; the Job and its past stay.
pub(crate) fn suspend(observed: &Observed, launcher: &Launcher) -> Action {
    patch(observed, launcher, None, json!({"spec": {"suspend": true}}))
}

/// Starts the launcher where the job's template says now. Kubernetes before 1.36 leaves the
/// start time of a suspended Job in place and then refuses changes of its template, so that is
/// cleared first, in a step of its own.
fn resume(observed: &Observed, launcher: &Launcher) -> Action {
    let wanted = render::directives(&observed.job, &observed.site);
    let changes = changes(&launcher.directives, &wanted);
    if changes.is_empty() {
        return patch(
            observed,
            launcher,
            None,
            json!({"spec": {"suspend": false}}),
        );
    }
    if launcher.started_at.is_some() {
        return patch(
            observed,
            launcher,
            Some("status"),
            json!({"status": {"startTime": null}}),
        );
    }
    let merge = json!({"spec": {"suspend": false, "template": changes}});
    patch(observed, launcher, None, merge)
}

/// A merge patch of the pod template. Labels and annotations that others added stay.
fn changes(now: &Directives, wanted: &Directives) -> Map<String, Value> {
    let mut metadata = Map::new();
    let mut spec = Map::new();
    for (key, now, wanted) in [
        ("labels", &now.labels, &wanted.labels),
        ("annotations", &now.annotations, &wanted.annotations),
    ] {
        let new = wanted
            .iter()
            .filter(|(key, value)| now.get(*key) != Some(*value));
        let new: Map<String, Value> = new
            .map(|(key, value)| (key.clone(), value.as_str().into()))
            .collect();
        if !new.is_empty() {
            metadata.insert(key.to_owned(), Value::Object(new));
        }
    }
    for (key, now, wanted) in [
        ("tolerations", &now.tolerations, &wanted.tolerations),
        (
            "schedulingGates",
            &now.scheduling_gates,
            &wanted.scheduling_gates,
        ),
    ] {
        if !same(now, wanted) {
            spec.insert(key.to_owned(), wanted.clone());
        }
    }
    if !same(&now.node_selector, &wanted.node_selector) {
        let selector = |value: &Value| {
            serde_json::from_value::<std::collections::BTreeMap<String, String>>(value.clone())
                .unwrap_or_default()
        };
        let merge = identity::replacing(
            &selector(&now.node_selector),
            &selector(&wanted.node_selector),
        );
        spec.insert("nodeSelector".to_owned(), Value::Object(merge));
    }
    if !same(&now.node_affinity, &wanted.node_affinity) {
        spec.insert(
            "affinity".to_owned(),
            json!({"nodeAffinity": wanted.node_affinity}),
        );
    }
    let parts = [("metadata", metadata), ("spec", spec)];
    let parts = parts.into_iter().filter(|(_, part)| !part.is_empty());
    parts
        .map(|(key, part)| (key.to_owned(), Value::Object(part)))
        .collect()
}

/// The API does not tell an empty list or map from none.
fn same(left: &Value, right: &Value) -> bool {
    let empty = |value: &Value| match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(entries) => entries.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    };
    left == right || (empty(left) && empty(right))
}

/// Launcher pods in phase Running.
pub(crate) fn running_pods(observed: &Observed) -> u32 {
    let running = |pod: &&crate::observed::Pod| pod.phase == PodPhase::Running;
    let pods = observed.launcher_pods.iter().filter(running).count();
    u32::try_from(pods).expect("a Job has far fewer pods than a u32 can count")
}

/// Launcher pods that failed, as far as anybody counted.
pub(crate) fn failed_pods(observed: &Observed) -> u32 {
    let failed = |pod: &&crate::observed::Pod| pod.phase == PodPhase::Failed && !pod.deleting;
    let pods = observed.launcher_pods.iter().filter(failed).count();
    match observed.launcher.ours() {
        Some(launcher) => launcher.failed_pods,
        None => u32::try_from(pods).expect("a launcher has far fewer pods than a u32 can count"),
    }
}

/// A patch of the launcher's Job.
pub(crate) fn patch(
    observed: &Observed,
    launcher: &Launcher,
    subresource: Option<&'static str>,
    merge: Value,
) -> Action {
    let name = observed.job.launcher_name();
    Action::Patch {
        kind: Kind::Job,
        name,
        uid: launcher.uid.clone(),
        subresource,
        merge,
    }
}
