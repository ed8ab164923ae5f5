//! What is known of the Secret with a job's keys, although the operator may not read Secrets. Decides whether
//! it is there, and whether one that is not known may be replaced; `apply` does that.

use std::time::Duration;

use contract::labels::JOB_UID_LABEL;
use dialects::Dialect;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ListMeta, ObjectMeta};
use kube::api::ListParams;
use planner::observed::{Key, Slot};
use planner::{Job, Keys, Kind, Recorded, WorkerSelection};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::api_error::ApiError;
use crate::context::Context;
use crate::error::Error;
use crate::lookup::Lookup;
use crate::memory::{JobMemory, KeySecret};
use crate::object_index::ObjectIndex;
use crate::pod_lookup::PodLookup;
use crate::wire::{self, ObjectKey, UserJob};
use crate::write_policy::{self, Next};

/// By then, whoever made a Secret has made pods, unless it crashed.
const COLLISION_OLD: Duration = Duration::from_secs(5);

/// What the status of a job records. A CRD may drop the record of its keys, which is then only remembered.
pub(crate) fn recorded(context: &Context, dialect: &Dialect, whole: &Value, uid: &str) -> Recorded {
    let mut recorded = (dialect.recorded)(whole);
    let unstored = |memory: &mut JobMemory| memory.unstored_keys.clone();
    let keys = recorded.keys.take();
    recorded.keys = keys.or_else(|| context.memory.with(uid, unstored));
    recorded
}

/// The key Secret is neither watched nor read, because then the Secrets of others would reach the operator.
/// It is known from its creation, and after a restart from the pods that mount it.
pub(crate) async fn key_secret(
    lookup: Lookup<'_>,
    job: &Job,
    recorded: &Recorded,
) -> Result<Slot<Key>, Error> {
    let Lookup { context, owner } = lookup;
    let Some(keys) = job.keys(&context.site) else {
        return Ok(Slot::Absent);
    };
    match context.memory.with(&owner.uid, |memory| memory.key) {
        KeySecret::Exists => return Ok(Slot::Ours(Key)),
        KeySecret::Gone => return Ok(Slot::Absent),
        KeySecret::Doubtful | KeySecret::Unknown => {}
    }
    let is_over = recorded.outcome.is_some();
    let for_one_start = matches!(keys, Keys::Agent { .. });
    if for_one_start && recorded.keys.is_some() && (is_over || job.lifecycle.suspended) {
        // It may be gone; deleting it once more does no harm.
        return Ok(Slot::Ours(Key));
    }
    if is_over {
        return Ok(Slot::Absent);
    }
    // Another operator records nothing, but its pods mount a Secret of the usual name.
    if (recorded.keys.is_some() || !for_one_start) && mounts_keys(context, job) {
        lookup.know_key(KeySecret::Exists);
        return Ok(Slot::Ours(Key));
    }
    // The Kubeflow operator makes the launcher's Job after the Secret, also for a suspended job.
    let is_begun = || launcher_uid(context, job).is_some();
    if recorded.keys.is_none() && !for_one_start && !is_begun() {
        let name = &job.names.ssh_key;
        return Ok(match is_free(lookup, name).await? {
            true => {
                lookup.know_key(KeySecret::Gone);
                Slot::Absent
            }
            false => Slot::Foreign,
        });
    }
    Ok(Slot::Absent)
}

/// Nobody uses the Secret of this name, which we did not make. Our cache does not prove that: another
/// operator that still believes to lead may have gone on while we slept. Pods are asked for last, because
/// they must not come after that.
pub(crate) async fn is_replaceable(lookup: Lookup<'_>, name: &str) -> Result<bool, ApiError> {
    Ok(is_collision_old(lookup)
        && is_still_recorded(lookup, name).await?
        && !has_pods(lookup).await?)
}

/// Forty bits and more that nobody can guess, as the name of an object may have them.
pub fn nonce() -> String {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let mut bytes = [0; 10];
    getrandom::fill(&mut bytes).expect("the system has randomness");
    let letter = |byte: &u8| char::from(LETTERS[usize::from(byte % 32)]);
    bytes.iter().map(letter).collect()
}

/// Pods of the job are there, so the keys that they mount are too: they are made first, and deleted last.
fn mounts_keys(context: &Context, job: &Job) -> bool {
    let pods = PodLookup { context, job };
    let mut workers = pods.of_workers(None).into_iter();
    let launchers = pods.of_launcher(launcher_uid(context, job).as_deref());
    let mut live = launchers.iter().filter(|pod| !pod.phase.is_over());
    workers.any(|pod| !pod.deleting) || live.any(|pod| !pod.deleting)
}

/// Of the launcher's Job. One of an earlier job of this name proves nothing: its Secret goes with it.
fn launcher_uid(context: &Context, job: &Job) -> Option<String> {
    let key = ObjectKey::new(&job.owner.namespace, &job.names.launcher);
    context.cache.with(&Kind::Job, |index: &ObjectIndex| {
        let child = &index.get(&key)?.child;
        let ours = child.is_owned_by(&job.owner.uid);
        ours.then(|| child.uid.to_string())
    })
}

/// Nobody has a Secret of a name that is not ours to choose. Asked before the name is recorded as the
/// job's, so that a user's own Secret is never taken for one that may be replaced. A refusal answers
/// nothing: quotas and webhooks are asked before the API server looks for the name.
async fn is_free(lookup: Lookup<'_>, name: &str) -> Result<bool, Error> {
    let context = lookup.context;
    let key = lookup.key(name);
    let taken_until = context
        .memory
        .name_taken_until(&Kind::Secret, &key, context.now());
    if taken_until.is_some() {
        return Ok(false);
    }
    let resource = wire::resource(&Kind::Secret);
    let body = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": lookup.owner.namespace},
    });
    let tried = context
        .api
        .try_create(lookup.target(&resource, name), &body);
    let answered = || {
        let clear = |memory: &mut JobMemory| memory.clear_refusal(&Kind::Secret, name);
        context.memory.with(&lookup.owner.uid, clear);
    };
    let error = match tried.await {
        Ok(_) => {
            answered();
            return Ok(true);
        }
        Err(error) if error.is_already_exists() => {
            answered();
            lookup.mark_name_taken(&Kind::Secret, name);
            return Ok(false);
        }
        Err(error) => error,
    };
    if let Next::Remember { code, message } = write_policy::refusal(&Kind::Secret, &error)
        && lookup.remember_refusal(&Kind::Secret, name, code, message)
    {
        let job = lookup.key(&lookup.owner.name);
        let memory = &context.memory;
        memory.mark_name_taken(&Kind::Secret, &key, job);
        return Ok(false);
    }
    Err(Error::observing(&Kind::Secret, name, error))
}

/// Another operator may just have made it, and then makes the pods.
fn is_collision_old(lookup: Lookup<'_>) -> bool {
    let Lookup { context, owner } = lookup;
    context.memory.with(&owner.uid, |memory| {
        let since = memory.key_collided_at.get_or_insert_with(Instant::now);
        since.elapsed() >= COLLISION_OLD
    })
}

/// The job as it is stored is not over, and still has this Secret.
async fn is_still_recorded(lookup: Lookup<'_>, name: &str) -> Result<bool, ApiError> {
    let Lookup { context, owner } = lookup;
    let target = lookup.target(&context.resource, &owner.name);
    let Some(text) = context.api.find(target).await? else {
        return Ok(false);
    };
    let job = UserJob::read(&text)?;
    if job.uid() != owner.uid {
        return Ok(false);
    }
    let whole = job.whole(&context.resource);
    let dialect = context.served.dialect_of(&whole);
    let recorded = recorded(context, dialect, &whole, &owner.uid);
    let is_same = recorded.keys.is_some_and(|keys| keys.secret == name);
    Ok(is_same && recorded.outcome.is_none())
}

/// Pods of the job are stored that have mounted the Secret, or will.
async fn has_pods(lookup: Lookup<'_>) -> Result<bool, ApiError> {
    #[derive(Deserialize)]
    struct Pods {
        metadata: ListMeta,
        items: Option<Vec<Pod>>,
    }
    #[derive(Deserialize)]
    struct Pod {
        metadata: ObjectMeta,
    }
    let resource = wire::resource(&Kind::Pod);
    let labels = format!("{JOB_UID_LABEL}={}", lookup.owner.uid);
    let selection = ListParams::default().labels(&labels);
    let selection = selection.fields(WorkerSelection::UNFINISHED);
    let api = &lookup.context.api;
    let listed = api.list_selected(lookup.target(&resource, ""), selection);
    let Some(bytes) = listed.await? else {
        // Those that are too large to be read are some.
        return Ok(true);
    };
    let pods: Pods = serde_json::from_slice(&bytes).map_err(ApiError::Unreadable)?;
    let has_more = pods.metadata.continue_.is_some_and(|next| !next.is_empty());
    let stays = |pod: &Pod| pod.metadata.deletion_timestamp.is_none();
    Ok(has_more || pods.items.unwrap_or_default().iter().any(stays))
}
