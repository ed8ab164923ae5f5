//! The laws: every plan obeys these, or it is a bug. Shells ask before they act; tests and the
//! simulator ask at every step. A law is stated against the observation, never against the code
//! that made the plan.

mod past;

use std::collections::BTreeSet;

use serde_json::Value;

use crate::action::{Action, Kind, Object};
use crate::job::{LauncherStart, Workers};
use crate::observed::{Observed, Pod, PodPhase};
use crate::phase::Phase;
use crate::plan::Plan;
use crate::site::GangScheduler;
use crate::waiting_on::WaitingOn;
use crate::worker_batch::WorkerBatch;
use crate::worker_selection::WorkerSelection;

/// Every law that the plan breaks, as a sentence.
pub fn violations(observed: &Observed, plan: &Plan) -> Vec<String> {
    let mut found = Vec::new();
    let known = match plan.steps.is_empty() {
        true => Known::default(),
        false => Known::of(observed),
    };
    for action in plan.steps.iter().flatten() {
        match action {
            Action::Create(object) | Action::CreateKey { secret: object, .. } => {
                created(observed, &known, object, &mut found);
            }
            Action::CreateWorkers(batch) => created_workers(observed, &known, batch, &mut found),
            Action::Patch {
                kind, name, uid, ..
            }
            | Action::Delete { kind, name, uid } => {
                if !known.uids.contains(uid.as_str()) {
                    found.push(format!(
                        "{} {name} is changed but is not ours",
                        kind.as_str()
                    ));
                }
                if *kind == Kind::Job && matches!(action, Action::Delete { .. }) {
                    launcher_removed(observed, &mut found);
                }
                if let Action::Patch { merge, .. } = action
                    && *kind == Kind::Role
                {
                    granted(observed, &known, &merge["rules"], &mut found);
                }
                if *kind == Kind::NetworkPolicy
                    && matches!(action, Action::Delete { .. })
                    && observed.job.isolated
                {
                    found.push("a job is opened that asks for a NetworkPolicy".to_owned());
                }
                let counted = observed.recorded.replacements.last.as_ref() == Some(uid);
                if matches!(action, Action::Delete { .. }) && *kind == Kind::Pod && !counted {
                    removed(observed, [name].into_iter(), &mut found);
                }
            }
            Action::ForgetPod { name, uid } => forgotten(observed, name, uid, &mut found),
            Action::DeleteKey { name } => keys_removed(observed, name, &mut found),
            Action::DeleteWorkers { selection, names } => {
                collected(observed, &known, selection, names, &mut found);
                removed(observed, names.iter(), &mut found);
            }
            Action::DeleteJob { uid } => ended(observed, uid, &mut found),
        }
    }
    whole(observed, plan, &mut found);
    past::law(observed, &plan.status, &mut found);
    found
}

/// A pod is forgotten only if others deleted it, its time to end is over and it is not Ready, and if the job
/// is to go on without it.
fn forgotten(observed: &Observed, name: &str, uid: &str, found: &mut Vec<String>) {
    let mut workers = observed.workers.iter();
    let is_silent = |pod: &Pod| {
        let is_late = pod.ends_by.is_some_and(|by| by < observed.now);
        pod.uid == uid && is_late && !pod.ready
    };
    if !workers.any(is_silent) {
        found.push(format!("pod {name} is forgotten while its node may end it"));
    }
    if observed.job.recovery.is_none() || observed.recorded.outcome.is_some() {
        found.push(format!(
            "pod {name} is forgotten, and nobody needs its name"
        ));
    }
}

/// Pods that run, or may be started again, need the keys. No other Secret is deleted than the one whose
/// name the job's status records, with the part that nobody could guess.
fn keys_removed(observed: &Observed, name: &str, found: &mut Vec<String>) {
    let recorded = observed.recorded.keys.as_ref();
    let prefix = format!("{}-", observed.job.names.agent_keys);
    if recorded.is_none_or(|keys| keys.secret != name) || !name.starts_with(&prefix) {
        found.push(format!("Secret {name} is deleted but is not ours"));
    }
    if observed.recorded.outcome.is_none() && !observed.job.lifecycle.suspended {
        found.push("keys are deleted while the job needs them".to_owned());
    }
}

/// A launcher's Job is evidence, unless it ended because it was stopped, or stands still and was made for
/// another gang.
fn launcher_removed(observed: &Observed, found: &mut Vec<String>) {
    let launcher = observed.launcher.ours();
    let gang = observed.job.gang_scheduler(&observed.site);
    let gang = gang.map_or("", GangScheduler::as_str);
    let tells_nothing = launcher.is_some_and(|job| match &job.end {
        Some(_) => job.held,
        None => job.suspended && job.gang != gang,
    });
    if observed.recorded.outcome.is_none() && !tells_nothing {
        found.push("the launcher's Job is deleted before the outcome is recorded".to_owned());
    }
}

/// A job is deleted only after its end, when the time that it was given has passed.
fn ended(observed: &Observed, uid: &str, found: &mut Vec<String>) {
    let (job, over) = (&observed.job, &observed.recorded.outcome);
    let given = job.limits().expires_secs.zip(over.as_ref());
    let due = given.is_some_and(|(secs, outcome)| {
        observed.now.duration_since(outcome.at).as_secs() >= i64::from(secs)
    });
    if !due || *uid != job.owner.uid {
        found.push("the job is deleted before its time".to_owned());
    }
}

/// What is created belongs to the job, is wanted now, and stands on a free name.
fn created(observed: &Observed, known: &Known<'_>, object: &Object, found: &mut Vec<String>) {
    let job = &observed.job;
    let (what, name) = (object.kind.as_str(), &object.name);
    created_by_job(
        observed,
        &object.kind,
        name,
        &object.body["metadata"],
        found,
    );
    let free = match object.kind {
        Kind::Service => observed.service.is_absent(),
        Kind::ConfigMap => observed.config.is_absent(),
        Kind::Secret => {
            if observed.recorded.keys.as_ref().map(|keys| &keys.secret) != Some(name) {
                found.push(format!("{what} {name} is created before it is recorded"));
            }
            observed.key.is_absent()
        }
        Kind::ServiceAccount => observed.account.service_account.is_absent(),
        Kind::Role => {
            granted(observed, known, &object.body["rules"], found);
            observed.account.role.is_absent()
        }
        Kind::RoleBinding => observed.account.binding.is_absent(),
        Kind::PodGroup(_) => observed.pod_group.is_absent(),
        Kind::NetworkPolicy => {
            if !job.isolated {
                found.push(format!("{what} {name} is created but was not asked for"));
            }
            observed.network_policy.is_absent()
        }
        Kind::StatefulSet => {
            if matches!(job.workers, Workers::Pods(_)) {
                found.push(format!(
                    "{what} {name} is created for a job that wants pods"
                ));
            }
            if job.lifecycle.suspended {
                found.push(format!("{what} {name} is created for a suspended job"));
            }
            observed.worker_set.is_absent()
        }
        Kind::Job => {
            created_launcher(observed, object, found);
            observed.launcher.is_absent()
        }
        Kind::Pod if is_launcher_pod(observed, name) => {
            created_launcher(observed, object, found);
            observed.launcher_pods.is_empty() && !known.foreign.contains(name.as_str())
        }
        Kind::Pod => {
            created_worker(observed, name, found);
            known.is_free(name)
        }
    };
    if !free {
        found.push(format!("{what} {name} is created on a name that is taken"));
    }
}

/// What is created is the job's own, in its namespace, and the job still wants something.
fn created_by_job(
    observed: &Observed,
    kind: &Kind,
    name: &str,
    metadata: &Value,
    found: &mut Vec<String>,
) {
    let (job, what) = (&observed.job, kind.as_str());
    if metadata["namespace"] != job.owner.namespace.as_str() {
        found.push(format!(
            "{what} {name} is created outside the job's namespace"
        ));
    }
    if metadata["ownerReferences"][0]["uid"] != job.owner.uid.as_str() {
        found.push(format!(
            "{what} {name} is created without the job as its owner"
        ));
    }
    if observed.recorded.outcome.is_some() {
        found.push(format!("{what} {name} is created for a job that is over"));
    }
    if job.owner.deleting {
        found.push(format!("{what} {name} is created for a job that leaves"));
    }
}

/// The pods of a batch differ in their names alone, so one of them answers for the others.
fn created_workers(
    observed: &Observed,
    known: &Known<'_>,
    batch: &WorkerBatch,
    found: &mut Vec<String>,
) {
    for index in batch.indices.iter().take(1) {
        let body: Value = serde_json::from_str(&batch.body(*index)).unwrap_or_default();
        let (name, metadata) = (batch.name(*index), &body["metadata"]);
        created_by_job(observed, &Kind::Pod, &name, metadata, found);
        if metadata["name"] != name.as_str() {
            found.push(format!("pod {name} is created under another name"));
        }
    }
    for name in batch.indices.iter().map(|index| batch.name(*index)) {
        created_worker(observed, &name, found);
        if !known.is_free(&name) {
            found.push(format!("Pod {name} is created on a name that is taken"));
        }
    }
}

/// A worker's pod is one of those asked for, and nobody else's to make.
fn created_worker(observed: &Observed, name: &str, found: &mut Vec<String>) {
    let job = &observed.job;
    if matches!(job.workers, Workers::StatefulSet(_)) {
        found.push(format!("pod {name} is created, which a StatefulSet makes"));
    }
    let index = job.worker_index(name);
    if index.is_none_or(|index| index >= job.worker_count()) {
        found.push(format!(
            "pod {name} is created but no such worker was asked for"
        ));
    }
    if job.lifecycle.suspended {
        found.push(format!("pod {name} is created for a suspended job"));
    }
}

/// Nobody is let into a pod that is not, now, a worker of this job.
fn granted(observed: &Observed, known: &Known<'_>, rules: &Value, found: &mut Vec<String>) {
    let job = &observed.job;
    let is_worker = |name: &Value| {
        let name = name.as_str().unwrap_or_default();
        let index = job.worker_index(name);
        let asked_for = index.is_some_and(|index| index < job.worker_count());
        asked_for && known.workers.contains(name)
    };
    let has = |list: &Value, word: &str| {
        let items = list.as_array();
        items.is_some_and(|items| items.iter().any(|item| item == word || item == "*"))
    };
    for rule in rules.as_array().into_iter().flatten() {
        let names = rule["resourceNames"].as_array();
        let own = names.is_some_and(|names| !names.is_empty() && names.iter().all(is_worker));
        if has(&rule["resources"], "pods/exec") && !own {
            found.push("a role lets its holder into pods that are not workers".to_owned());
        }
        let writes = ["create", "update", "patch", "delete", "escalate", "bind"];
        let changes = writes.iter().any(|verb| has(&rule["verbs"], verb));
        if !has(&rule["resources"], "pods/exec") && changes {
            found.push("a role lets its holder change objects".to_owned());
        }
    }
}

fn is_launcher_pod(observed: &Observed, name: &str) -> bool {
    observed.job.launcher.kind.is_pod() && name == observed.job.names.launcher
}

fn created_launcher(observed: &Observed, object: &Object, found: &mut Vec<String>) {
    let asleep = object.body["spec"]["suspend"] == Value::Bool(true);
    if observed
        .launcher_pods
        .iter()
        .any(|pod| !pod.phase.is_over())
    {
        found.push("a launcher is created beside a live one".to_owned());
    }
    if observed.job.lifecycle.suspended && !asleep {
        found.push("a launcher is started for a suspended job".to_owned());
    }
    if !asleep && !gate_open(observed) {
        found.push("a launcher is started before its workers are ready".to_owned());
    }
}

/// Evidence stays until the outcome is recorded; only a suspension and a smaller job take workers.
fn removed<'a>(
    observed: &Observed,
    names: impl Iterator<Item = &'a String>,
    found: &mut Vec<String>,
) {
    let job = &observed.job;
    if observed.recorded.outcome.is_some() || job.lifecycle.suspended || job.owner.deleting {
        return;
    }
    let wanted = job.worker_count();
    let needed = |name: &&String| {
        let index = job.worker_index(name);
        index.is_some_and(|index| index < wanted) || is_launcher_pod(observed, name)
    };
    // A queue takes pods one after the other, and some fail because others went.
    let are_whole = || {
        let ready = observed.workers.iter();
        let ready = ready.filter(|pod| pod.ready && !pod.deleting);
        ready.count() >= wanted as usize
    };
    let is_taken = job.queue.is_some() && !are_whole();
    let fell = |name: &&String| {
        let mut launchers = observed.launcher_pods.iter();
        is_taken && launchers.any(|pod| pod.name == **name && pod.phase == PodPhase::Failed)
    };
    for name in names.filter(needed).filter(|name| !fell(name)) {
        found.push(format!("pod {name} is deleted while the job needs it"));
    }
}

fn gate_open(observed: &Observed) -> bool {
    let wanted = observed.job.worker_count() as usize;
    observed.job.launcher.start == LauncherStart::AtOnce
        || observed
            .workers
            .iter()
            .filter(|pod| pod.ready && !pod.deleting)
            .count()
            >= wanted
}

/// A collection delete names the job's UID, means only pods of ours, and reaches no others.
fn collected(
    observed: &Observed,
    known: &Known<'_>,
    selection: &WorkerSelection,
    names: &[String],
    found: &mut Vec<String>,
) {
    if selection.job_uid != observed.job.owner.uid {
        found.push("a collection is deleted that is not selected by the job's UID".to_owned());
    }
    if observed.foreign_in_selection {
        found.push("a collection is deleted that holds a pod which is not ours".to_owned());
    }
    for name in names {
        if !known.workers.contains(name.as_str()) {
            found.push(format!("pod {name} is deleted but is not ours"));
        }
    }
    let meant: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    let staying = observed.workers.iter().filter(|pod| !pod.deleting);
    for pod in staying.filter(|pod| pod.is_in(selection)) {
        if !meant.contains(pod.name.as_str()) {
            let name = &pod.name;
            found.push(format!(
                "pod {name} is in a collection that does not mean it"
            ));
        }
    }
}

/// Laws about the plan as a whole.
fn whole(observed: &Observed, plan: &Plan, found: &mut Vec<String>) {
    if plan.steps.iter().any(Vec::is_empty) {
        found.push("a step is empty".to_owned());
    }
    let over = plan.status.phase == Phase::Finished;
    if over != (plan.because == WaitingOn::Nothing) {
        found.push("a job that is not over waits for nothing".to_owned());
    }
    if let Some(outcome) = &observed.recorded.outcome
        && plan.status.outcome.as_ref() != Some(outcome)
    {
        found.push("a recorded outcome is changed".to_owned());
    }
    if plan.wake.is_some_and(|at| at <= observed.now) {
        found.push("the plan asks to be woken in the past".to_owned());
    }
    let resumes = |action: &Action| match action {
        Action::Patch { kind, merge, .. } => {
            *kind == Kind::Job && merge["spec"]["suspend"] == Value::Bool(false)
        }
        _ => false,
    };
    let must_wait = observed.job.lifecycle.suspended || !gate_open(observed);
    if must_wait && plan.steps.iter().flatten().any(resumes) {
        found.push("a launcher is resumed before it may start".to_owned());
    }
}

/// What laws look up, collected once: a plan may have an action for each of thousands of pods.
#[derive(Default)]
struct Known<'a> {
    /// UIDs of everything that is the job's own.
    uids: BTreeSet<&'a str>,
    /// Names of its workers.
    workers: BTreeSet<&'a str>,
    /// Names of its pods that others hold.
    foreign: BTreeSet<&'a str>,
}

impl<'a> Known<'a> {
    fn of(observed: &'a Observed) -> Self {
        let workers = observed.workers.iter().map(|pod| pod.name.as_str());
        let foreign = observed.foreign_pods.iter().map(String::as_str);
        Self {
            uids: own_uids(observed),
            workers: workers.collect(),
            foreign: foreign.collect(),
        }
    }

    /// No pod has the name of this worker.
    fn is_free(&self, name: &str) -> bool {
        !self.workers.contains(name) && !self.foreign.contains(name)
    }
}

fn own_uids(observed: &Observed) -> BTreeSet<&str> {
    let children = [
        observed.service.ours().map(|child| child.uid.as_str()),
        observed.config.ours().map(|child| child.uid.as_str()),
        observed.pod_group.ours().map(|child| child.uid.as_str()),
        observed
            .network_policy
            .ours()
            .map(|child| child.uid.as_str()),
        observed.launcher.ours().map(|child| child.uid.as_str()),
        observed.worker_set.ours().map(|child| child.uid.as_str()),
    ];
    let slots = &observed.account;
    let account = [&slots.service_account, &slots.role, &slots.binding];
    let account = account.into_iter().filter_map(|slot| slot.ours());
    let account = account.map(|child| child.uid.as_str());
    let pods = observed.workers.iter().chain(&observed.launcher_pods);
    let workers = pods.map(|pod| pod.uid.as_str());
    let children = children.into_iter().flatten();
    children.chain(account).chain(workers).collect()
}
