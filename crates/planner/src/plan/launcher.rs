//! Policy: when the launcher is created, and a launcher that is a Job suspended and resumed.
//!
//! Retries, deadlines while it runs and the pods of that Job are the Job controller's business.

use serde_json::{Map, Value, json};

use super::{merge_patch, pods, worker_set};
use crate::action::{Action, Kind};
use crate::job::LauncherStart;
use crate::observed::{Directives, LauncherJob, Observed, Pod, PodPhase, Slot};
use crate::reach::Reach;
use crate::render::launcher as render;
use crate::site::GangScheduler;

/// Brings the launcher to what the user wants now.
pub(super) fn align(observed: &Observed, reach: Reach<'_>) -> Vec<Action> {
    let (job, site) = (&observed.job, &observed.site);
    match &observed.launcher {
        _ if job.launcher.kind.is_pod() => align_pod(observed, reach),
        Slot::Foreign => Vec::new(),
        Slot::Absent if may_create(observed) => {
            vec![Action::Create(render::launcher_job(job, site, reach))]
        }
        Slot::Absent if job.lifecycle.suspended => remove_orphans(observed),
        Slot::Absent => Vec::new(),
        Slot::Ours(launcher) if launcher.deleting => Vec::new(),
        // It ended because it was stopped, so it can neither be believed nor resumed.
        Slot::Ours(launcher) if launcher.end.is_some() && launcher.held => {
            vec![delete(observed, launcher)]
        }
        Slot::Ours(launcher) if launcher.end.is_some() => Vec::new(),
        Slot::Ours(launcher) => match (launcher.suspended, hold(observed, launcher)) {
            (true, false) if is_of_another_gang(observed, launcher) => {
                vec![delete(observed, launcher)]
            }
            (true, false) => vec![resume(observed, reach, launcher)],
            (false, true) => vec![suspend(observed, launcher)],
            (true, true) | (false, false) => Vec::new(),
        },
    }
}

/// A start that finds or names another gang scheduler than the one before cannot resume its launcher: the
/// scheduler in a Job's template never changes.
fn is_of_another_gang(observed: &Observed, launcher: &LauncherJob) -> bool {
    let gang = observed.job.gang_scheduler(&observed.site);
    launcher.gang != gang.map_or("", GangScheduler::as_str)
}

/// A pod is created once, and created again only when somebody deleted it, or when a queue takes its workers
/// before it and it fails for that.
fn align_pod(observed: &Observed, reach: Reach<'_>) -> Vec<Action> {
    let job = &observed.job;
    if job.lifecycle.suspended {
        return remove_pod(observed, |_| true);
    }
    let fell_with_workers = |pod: &Pod| pod.phase == PodPhase::Failed && pods::are_taken(observed);
    if observed.launcher_pods.iter().any(fell_with_workers) {
        return remove_pod(observed, fell_with_workers);
    }
    // A pod that is being deleted still holds the name.
    let held =
        !observed.launcher_pods.is_empty() || observed.foreign_pods.contains(&job.names.launcher);
    if held || !may_start(observed) {
        return Vec::new();
    }
    let pod = render::launcher_pod(job, &observed.site, reach);
    vec![Action::Create(pod)]
}

/// Deletes the launcher's pod, if it is one that is meant.
pub(super) fn remove_pod(observed: &Observed, is_meant: impl Fn(&Pod) -> bool) -> Vec<Action> {
    let pods = observed.launcher_pods.iter();
    pods.filter(|pod| !pod.deleting && is_meant(pod))
        .map(pods::delete)
        .collect()
}

/// Never beside a launcher that still lives, and not before its workers if it must wait. A
/// suspended Job starts nothing, so it may come at any time.
fn may_create(observed: &Observed) -> bool {
    let alive = observed
        .launcher_pods
        .iter()
        .any(|pod| !pod.phase.is_over());
    !alive && (observed.job.lifecycle.suspended || may_start(observed))
}

/// Its workers are there, if it must wait for them. Those of a run that was suspended answer until they
/// have ended, and nothing would tell the launcher that they are the wrong ones.
fn may_start(observed: &Observed) -> bool {
    match observed.job.launcher.start {
        LauncherStart::AtOnce => !observed.workers.iter().any(is_stopping),
        LauncherStart::WhenWorkersReady => {
            pods::ready_workers(observed) == observed.job.worker_count()
                && worker_set::is_settled(observed)
        }
    }
}

/// The launcher starts when every worker is Ready, and it has not started: nobody made it yet, or it stands
/// still after a suspension.
pub(super) fn awaits_all_workers(observed: &Observed) -> bool {
    let job = &observed.job;
    let has_not_started = match &observed.launcher {
        _ if job.launcher.kind.is_pod() => observed.launcher_pods.is_empty(),
        Slot::Absent => true,
        Slot::Ours(launcher) => launcher.suspended && launcher.end.is_none() && !launcher.deleting,
        Slot::Foreign => false,
    };
    let nobody_lives = observed.launcher_pods.iter().all(|pod| pod.phase.is_over());
    job.launcher.start == LauncherStart::WhenWorkersReady && has_not_started && nobody_lives
}

/// The Job must be suspended: by the user, or because it has not started and may not yet. Until the pods
/// that it stopped have ended, nobody can tell whether it can be resumed.
fn hold(observed: &Observed, launcher: &LauncherJob) -> bool {
    let must_wait = !may_start(observed) || observed.launcher_pods.iter().any(is_stopping);
    observed.job.lifecycle.suspended || (launcher.suspended && must_wait)
}

fn is_stopping(pod: &Pod) -> bool {
    pod.deleting && !pod.phase.is_over()
}

/// Deletes pods that live on without their Job, which somebody deleted and not its pods. Nobody else can
/// stop them.
pub(super) fn remove_orphans(observed: &Observed) -> Vec<Action> {
    if observed.job.launcher.kind.is_pod() || observed.launcher.ours().is_some() {
        return Vec::new();
    }
    remove_pod(observed, |pod| !pod.phase.is_over())
}

/// Deletes the launcher's Job, with its pods.
pub(super) fn delete(observed: &Observed, launcher: &LauncherJob) -> Action {
    Action::delete(Kind::Job, &observed.job.names.launcher, &launcher.uid)
}

/// Stops the launcher of a job that is being deleted.
pub(super) fn stop(observed: &Observed) -> Vec<Action> {
    if observed.job.launcher.kind.is_pod() {
        return remove_pod(observed, |_| true);
    }
    let launcher = observed.launcher.ours();
    let runs = |launcher: &&LauncherJob| {
        !launcher.deleting && !launcher.suspended && launcher.end.is_none()
    };
    let suspend = launcher
        .filter(runs)
        .map(|launcher| suspend(observed, launcher));
    suspend
        .into_iter()
        .chain(remove_orphans(observed))
        .collect()
}

/// Stops the launcher's pods; the Job and its past stay.
pub(super) fn suspend(observed: &Observed, launcher: &LauncherJob) -> Action {
    patch(observed, launcher, json!({"spec": {"suspend": true}}))
}

/// Starts the launcher with the job's template as it is now. Kubernetes before 1.36 leaves the
/// start time of a suspended Job in place and then refuses changes of its template, so that is
/// cleared first, in a step of its own.
fn resume(observed: &Observed, reach: Reach<'_>, launcher: &LauncherJob) -> Action {
    let wanted = render::directives(&observed.job, &observed.site, reach);
    let changes = changes(&launcher.directives, &wanted);
    if changes.is_empty() {
        return patch(observed, launcher, json!({"spec": {"suspend": false}}));
    }
    if launcher.started_at.is_some() {
        return Action::Patch {
            kind: Kind::Job,
            name: observed.job.names.launcher.clone(),
            uid: launcher.uid.clone(),
            subresource: Some("status"),
            merge: json!({"status": {"startTime": null}}),
        };
    }
    let merge = json!({"spec": {"suspend": false, "template": changes}});
    patch(observed, launcher, merge)
}

/// A merge patch of the pod template. Labels and annotations that others added stay.
fn changes(now: &Directives, wanted: &Directives) -> Map<String, Value> {
    let mut metadata = Map::new();
    let mut spec = Map::new();
    for (key, now, wanted) in [
        ("labels", &now.labels, &wanted.labels),
        ("annotations", &now.annotations, &wanted.annotations),
    ] {
        let mut new = wanted.clone();
        new.retain(|key, value| now.get(key) != Some(value));
        if !new.is_empty() {
            metadata.insert(key.to_owned(), json!(new));
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
        let object = |value: &Value| json!(value.as_object().cloned().unwrap_or_default());
        let (now, wanted) = (object(&now.node_selector), object(&wanted.node_selector));
        let merge = merge_patch::replacing(&now, &wanted);
        spec.insert("nodeSelector".to_owned(), merge);
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

/// A patch of the launcher's Job.
pub(super) fn patch(observed: &Observed, launcher: &LauncherJob, merge: Value) -> Action {
    Action::patch(
        Kind::Job,
        &observed.job.names.launcher,
        &launcher.uid,
        merge,
    )
}
