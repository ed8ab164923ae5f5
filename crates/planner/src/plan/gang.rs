//! Policy: the PodGroup of a job, where the site or the job itself has a gang scheduler.
//!
//! Fields that the job does not set are left alone: a queue that Volcano fills in is Volcano's.

use serde_json::{Map, Value, json};

use super::merge_patch;
use crate::action::{Action, Kind};
use crate::observed::{Observed, PodGroup, Slot};
use crate::render::pod_group as render;
use crate::site::{FoundGang, GangScheduler};

const MIN_MEMBER: &str = "minMember";
const MIN_RESOURCES: &str = "minResources";

/// Creates the group, or updates it to what the job asks for.
pub(super) fn ensure(observed: &Observed) -> Vec<Action> {
    let Some(scheduler) = observed.job.gang_scheduler(&observed.site) else {
        return Vec::new();
    };
    let action = match &observed.pod_group {
        Slot::Absent => Some(Action::Create(render::pod_group(observed, scheduler))),
        Slot::Ours(group) if !group.deleting => align(observed, scheduler, group),
        Slot::Ours(_) | Slot::Foreign => None,
    };
    action.into_iter().collect()
}

/// Kubernetes keeps its own groups until their last pod has ended, so pods that are created too early
/// would join the group of an earlier run, and keep it. Where pods of this run are in it already, it
/// stays as long as they do.
pub(super) fn is_leaving(observed: &Observed) -> bool {
    let native = observed.job.gang_scheduler(&observed.site) == Some(&GangScheduler::Native);
    let going = observed
        .pod_group
        .ours()
        .is_some_and(|group| group.deleting);
    let mut pods = observed.workers.iter().chain(&observed.launcher_pods);
    native && going && !pods.any(|pod| !pod.deleting && !pod.phase.is_over())
}

/// Who was found for a job that takes what is found: it keeps that one, so the status records it.
pub(super) fn found(observed: &Observed) -> Option<FoundGang> {
    let (job, site) = (&observed.job, &observed.site);
    let scheduler = || site.found_gang.as_ref().map(GangScheduler::api);
    job.takes_found_gang(site)
        .then(|| scheduler().map_or(FoundGang::Nobody, FoundGang::Scheduler))
}

/// The group goes.
pub(super) fn remove(observed: &Observed) -> Vec<Action> {
    let Some(scheduler) = observed.job.gang_scheduler(&observed.site) else {
        return Vec::new();
    };
    let group = observed.pod_group.ours().filter(|group| !group.deleting);
    let name = &observed.job.names.pod_group;
    let kind = Kind::PodGroup(scheduler.api());
    let delete = |group: &PodGroup| Action::delete(kind, name, &group.uid);
    group.map(delete).into_iter().collect()
}

fn align(observed: &Observed, scheduler: &GangScheduler, group: &PodGroup) -> Option<Action> {
    let changes = changes(&group.spec, render::spec(observed, scheduler));
    (!changes.is_empty()).then(|| {
        let (kind, name) = (
            Kind::PodGroup(scheduler.api()),
            &observed.job.names.pod_group,
        );
        Action::patch(kind, name, &group.uid, json!({"spec": changes}))
    })
}

/// A merge patch of the spec: the wanted fields that have another value now.
fn changes(now: &Value, mut wanted: Map<String, Value>) -> Map<String, Value> {
    // The resources are ours alone, so they also go when none are wanted any more.
    let resources = wanted.remove(MIN_RESOURCES).unwrap_or_default();
    let resources = resource_changes(&now[MIN_RESOURCES], &resources);

    let differs = |key: &str, value: &Value| match &now[key] {
        // Schedulers write the whole object back, and leave out a zero.
        Value::Null if key == MIN_MEMBER => *value != 0,
        held => held != value,
    };
    let fields = wanted
        .into_iter()
        .filter(|(key, value)| differs(key, value));
    fields
        .chain(resources.map(|value| (MIN_RESOURCES.to_owned(), value)))
        .collect()
}

/// Amounts are compared, not spellings: whoever writes the object back may spell them anew.
fn resource_changes(now: &Value, wanted: &Value) -> Option<Value> {
    let none = Map::new();
    let (held, list) = (
        now.as_object().unwrap_or(&none),
        wanted.as_object().unwrap_or(&none),
    );
    let same = |name: &String, amount: &Value| {
        held.get(name)
            .is_some_and(|held| held == amount || same_amount(held, amount))
    };
    if held.len() == list.len() && list.iter().all(|(name, amount)| same(name, amount)) {
        return None;
    }
    if list.is_empty() {
        return Some(Value::Null);
    }
    Some(merge_patch::replacing(now, wanted))
}

fn same_amount(left: &Value, right: &Value) -> bool {
    render::quantity(left).is_some_and(|left| render::quantity(right) == Some(left))
}
