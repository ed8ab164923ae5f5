//! A second look at the API server before a launcher is created that may not be the first. Decides when what
//! we know may be too old for that, and whether the API server knows better. A watch that lags, another
//! operator or a process that stood still can each hide that the job is over, or that its launcher lives.

use std::time::Duration;

use contract::labels::{JOB_ROLE_LABEL, JOB_UID_LABEL, OPERATOR_NAME, OPERATOR_NAME_LABEL};
use dialects::Dialect;
use kube::api::ListParams;
use planner::{Action, Job, Kind, Recorded};
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;

use crate::api::Target;
use crate::api_error::ApiError;
use crate::context::Context;
use crate::error::Error;
use crate::lookup::Lookup;
use crate::memory::JobMemory;
use crate::wire::{self, ObjectKey, UserJob};

/// A job that nobody had begun with so long ago gets its first launcher without another look.
const FIRST: Duration = Duration::from_secs(5);

/// What the API server says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SecondLook {
    /// As we knew it, or nobody needs to ask.
    Same,
    /// There are pods that we did not know; now we do.
    NewPods,
    /// The job is not what it was: the next pass reads it.
    OtherJob,
}

impl JobMemory {
    /// What is known of the launcher, as a pass sees it.
    pub(crate) fn sees(&mut self, recorded: &Recorded, has_launcher: bool) {
        if !recorded.seen && self.first_seen.is_none() {
            self.first_seen = Some(Instant::now());
        }
        self.had_launcher |= has_launcher;
    }

    fn knows_that_launcher_is_first(&self) -> bool {
        let is_new = |at: Instant| at.elapsed() < FIRST;
        !self.had_launcher && self.first_seen.is_some_and(is_new)
    }
}

/// Asks the API server if these actions start a launcher which may not be the first. What comes before it, such as workers,
/// is done first and without the launcher, so that it is created right after the look.
pub(crate) async fn before(
    context: &Context,
    dialect: &Dialect,
    job: &Job,
    recorded: &Recorded,
    steps: &mut Vec<Vec<Action>>,
) -> Result<SecondLook, Error> {
    let starts = |step: &Vec<Action>| step.iter().any(|action| starts_launcher(job, action));
    let is_first = |memory: &mut JobMemory| memory.knows_that_launcher_is_first();
    let Some(start) = steps.iter().position(starts) else {
        return Ok(SecondLook::Same);
    };
    if context.memory.with(&job.owner.uid, is_first) {
        return Ok(SecondLook::Same);
    }
    if steps[..start].iter().any(|step| !step.is_empty()) {
        steps.truncate(start);
        return Ok(SecondLook::Same);
    }
    if !is_same_job(context, job, recorded).await? {
        let outdated = |memory: &mut JobMemory| memory.outdated = Some(u64::MAX);
        context.memory.with(&job.owner.uid, outdated);
        return Ok(SecondLook::OtherJob);
    }
    let name = &job.names.launcher;
    let new = new_launchers(context, dialect, job).await;
    let new = new.map_err(|source| Error::observing(&Kind::Pod, name, source))?;
    Ok(if new {
        SecondLook::NewPods
    } else {
        SecondLook::Same
    })
}

fn starts_launcher(job: &Job, action: &Action) -> bool {
    let Action::Create(object) = action else {
        return false;
    };
    match object.kind {
        Kind::Job => object.body["spec"]["suspend"] != true,
        Kind::Pod => object.name == job.names.launcher,
        _ => false,
    }
}

/// The job exists, and its user and its status ask for the same as before.
async fn is_same_job(context: &Context, job: &Job, recorded: &Recorded) -> Result<bool, Error> {
    let owner = &job.owner;
    let target = Target {
        resource: &context.resource,
        namespace: &owner.namespace,
        name: &owner.name,
    };
    let found = context.api.find(target).await;
    let live = found.and_then(|text| text.map(|text| UserJob::read(&text)).transpose());
    let live = live.map_err(|source| Error::Observe {
        what: "the newest version of the job".to_owned(),
        source,
    })?;
    let Some(live) = live else {
        return Ok(false);
    };
    let now = context.owner(&live);
    let whole = live.whole(&context.resource);
    let stored = (context.served.dialect_of(&whole).recorded)(&whole);
    Ok(now.uid == owner.uid
        && now.generation == owner.generation
        && now.deleting == owner.deleting
        && stored.outcome == recorded.outcome
        && stored.suspended == recorded.suspended)
}

/// Takes in launchers of the job that live, and that we do not know. True if there are any. Whose label was taken away is nobody's:
/// our watch would never tell of its end.
async fn new_launchers(context: &Context, dialect: &Dialect, job: &Job) -> Result<bool, ApiError> {
    let owner = &job.owner;
    let resource = wire::resource(&Kind::Pod);
    let target = Target {
        resource: &resource,
        namespace: &owner.namespace,
        name: "",
    };
    let (uid, role) = (&owner.uid, dialect.launcher_role);
    let labels = format!(
        "{JOB_UID_LABEL}={uid},{JOB_ROLE_LABEL}={role},{OPERATOR_NAME_LABEL}={OPERATOR_NAME}"
    );
    let alive = "status.phase!=Succeeded,status.phase!=Failed";
    let selection = ListParams::default().labels(&labels).fields(alive);
    let Some(bytes) = context.api.list_selected(target, selection).await? else {
        tracing::warn!("believing the watch: the launcher's pods are too large for a second look");
        return Ok(false);
    };
    let pods: Pods = serde_json::from_slice(&bytes).map_err(ApiError::Unreadable)?;
    let lookup = Lookup { context, owner };
    let mut new = false;
    for pod in pods.items {
        let (name, uid) = (part(&pod, "name"), part(&pod, "uid"));
        let key = ObjectKey::new(&owner.namespace, name);
        let is_known = || {
            context.cache.with(&Kind::Pod, |index| {
                let entry = index.get(&key);
                entry.is_some_and(|entry| *entry.child.uid == *uid)
            })
        };
        if !is_known() {
            lookup.refetch(&Kind::Pod, name, uid).await?;
            // It may be gone meanwhile; asking again would find the same.
            new |= is_known();
        }
    }
    Ok(new)
}

fn part<'a>(pod: &'a Value, field: &str) -> &'a str {
    pod["metadata"][field].as_str().unwrap_or_default()
}

#[derive(Deserialize)]
struct Pods {
    items: Vec<Value>,
}
