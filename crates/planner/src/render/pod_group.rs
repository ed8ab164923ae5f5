//! The PodGroup of a job, as each gang scheduler wants it, and what makes a pod its member.
//! Decides what they contain; whether the group is wanted is for the policy.

use serde_json::{Map, Value, json};

use self::requests::Requests;
pub(crate) use self::requests::quantity;
use super::pod::Draft;
use super::{child, object};
use crate::action::{Kind, Object};
use crate::job::{Job, LauncherStart};
use crate::observed::Observed;
use crate::site::{GangScheduler, Site};

mod requests;

const PRIORITY_CLASS_NAME: &str = "priorityClassName";
const VOLCANO: &str = "volcano";
const VOLCANO_GROUP_ANNOTATION: &str = "scheduling.k8s.io/group-name";
const SCHEDULER_PLUGINS_GROUP_LABEL: &str = "scheduling.x-k8s.io/pod-group";
const T9K: &str = "t9k-scheduler";
const T9K_GROUP_LABEL: &str = "scheduler.tensorstack.dev/group-name";
const T9K_QUEUE_LABEL: &str = "scheduler.tensorstack.dev/queue";

pub(crate) fn pod_group(observed: &Observed, scheduler: &GangScheduler) -> Object {
    let api = scheduler.api();
    let (group, version) = api.group_version();
    let (job, api_version) = (&observed.job, format!("{group}/{version}"));
    let mut spec = spec(observed, scheduler);
    spec.extend(fixed(job, scheduler));
    let (name, body) = (&job.names.pod_group, json!({"spec": spec}));
    child(job, Kind::PodGroup(api), &api_version, name, body)
}

/// What can be said only when the group is made.
fn fixed(job: &Job, scheduler: &GangScheduler) -> Map<String, Value> {
    let mut fixed = Map::new();
    if let GangScheduler::Native = scheduler {
        if let Some(class) = priority_class(job) {
            fixed.insert(PRIORITY_CLASS_NAME.to_owned(), class.into());
        }
        if !job.elastic {
            // A program that loses one of its pods fails, so one that must make room makes all of it.
            fixed.insert("disruptionMode".to_owned(), json!({"all": {}}));
        }
    }
    fixed
}

/// Its spec, as far as it follows the job. A field that the job does not set is left out, for the
/// scheduler to fill in.
pub(crate) fn spec(observed: &Observed, scheduler: &GangScheduler) -> Map<String, Value> {
    let job = &observed.job;
    let members = min_members(job);
    let queue = job.gang.queue.as_deref().filter(|queue| !queue.is_empty());
    let mut spec = Map::from_iter([("minMember".to_owned(), members.into())]);
    match scheduler {
        GangScheduler::Native => {
            // A group of none is not valid, and one of one holds nothing back.
            let policy = json!({"gang": {"minCount": members.max(1)}});
            return Map::from_iter([("schedulingPolicy".to_owned(), policy)]);
        }
        GangScheduler::Volcano => {
            if let Some(queue) = queue {
                spec.insert("queue".to_owned(), queue.into());
            }
            if let Some(class) = priority_class(job) {
                spec.insert(PRIORITY_CLASS_NAME.to_owned(), class.into());
            }
        }
        GangScheduler::SchedulerPlugins(_) => {
            let secs = job.gang.schedule_timeout_secs.unwrap_or(0);
            spec.insert("scheduleTimeoutSeconds".to_owned(), secs.into());
        }
        GangScheduler::T9k => {
            spec.insert("queue".to_owned(), queue.unwrap_or_default().into());
            let priority = job.gang.priority.unwrap_or(0);
            spec.insert("priority".to_owned(), priority.into());
            // Its groups know no resources.
            return spec;
        }
    }
    if let Some(resources) = min_resources(observed, members) {
        spec.insert("minResources".to_owned(), resources);
    }
    spec
}

/// Makes a pod a member of the job's group, where there is one.
pub(crate) fn enlist(job: &Job, site: &Site, draft: &mut Draft) {
    let Some(scheduler) = job.gang_scheduler(site) else {
        return;
    };
    let group = &job.names.pod_group;
    let name = match scheduler {
        GangScheduler::Volcano => {
            let annotations = object(&mut draft.metadata, "annotations");
            annotations.insert(VOLCANO_GROUP_ANNOTATION.to_owned(), group.as_str().into());
            VOLCANO
        }
        GangScheduler::SchedulerPlugins(name) => {
            draft.label(SCHEDULER_PLUGINS_GROUP_LABEL, group);
            name
        }
        GangScheduler::T9k => {
            draft.label(T9K_GROUP_LABEL, group);
            draft.label(
                T9K_QUEUE_LABEL,
                job.gang.queue.as_deref().unwrap_or_default(),
            );
            T9K
        }
        GangScheduler::Native => {
            let link = json!({"podGroupName": group});
            draft.spec.insert("schedulingGroup".to_owned(), link);
            // It places no group whose pods differ from it in priority.
            if let (Some(class), None) = (priority_class(job), named_class(&draft.spec)) {
                draft
                    .spec
                    .insert(PRIORITY_CLASS_NAME.to_owned(), class.into());
            }
            return;
        }
    };
    draft.spec.insert("schedulerName".to_owned(), name.into());
}

/// As the job sets it, otherwise all pods that are created together.
fn min_members(job: &Job) -> i64 {
    let together = i64::from(job.worker_count()) + i64::from(launcher_comes_along(job));
    job.gang.min_members.map_or(together, i64::from)
}

/// A launcher that waits for its workers must not be counted with them: the scheduler would hold
/// the workers back until the launcher comes, and the launcher comes when they are Ready.
fn launcher_comes_along(job: &Job) -> bool {
    job.worker_count() == 0 || job.launcher.start == LauncherStart::AtOnce
}

/// Of the job, otherwise of the launcher's template, otherwise of the workers'.
fn priority_class(job: &Job) -> Option<&str> {
    let given = job
        .gang
        .priority_class
        .as_deref()
        .filter(|class| !class.is_empty());
    let workers = || class_of(&job.workers.role().template);
    given
        .or_else(|| class_of(&job.launcher.role.template))
        .or_else(workers)
}

fn class_of(template: &Value) -> Option<&str> {
    template["spec"].as_object().and_then(named_class)
}

fn named_class(spec: &Map<String, Value>) -> Option<&str> {
    let class = spec.get(PRIORITY_CLASS_NAME)?.as_str()?;
    (!class.is_empty()).then_some(class)
}

/// As the job sets them, otherwise what the first `members` pods ask for, in the order in which the
/// scheduler would place them.
fn min_resources(observed: &Observed, members: i64) -> Option<Value> {
    let job = &observed.job;
    if let Some(given) = &job.gang.min_resources {
        // In a merge patch a null would mean something else.
        let given = given.iter().filter(|(_, amount)| !amount.is_null());
        return Some(
            given
                .map(|(name, amount)| (name.clone(), amount.clone()))
                .collect(),
        );
    }
    let launcher = launcher_comes_along(job).then_some((1, &job.launcher.role));
    let workers = (job.worker_count(), job.workers.role());
    let mut roles: Vec<_> = launcher.into_iter().chain([workers]).collect();
    let priority = |template: &Value| {
        class_of(template)
            .and_then(|class| observed.priorities.get(class))
            .copied()
            .unwrap_or(0)
    };
    // The sort is stable: at equal priority the launcher stays first.
    roles.sort_by_key(|(_, role)| std::cmp::Reverse(priority(&role.template)));

    let mut missing = u32::try_from(members.max(0)).unwrap_or(u32::MAX);
    let mut total = Requests::default();
    for (count, role) in roles {
        let taken = count.min(missing);
        missing -= taken;
        if taken > 0 {
            total.add(&Requests::of_pod(&role.template).times(taken));
        }
    }
    (!total.is_empty()).then(|| total.into_json())
}
