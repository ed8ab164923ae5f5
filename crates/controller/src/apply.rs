//! Carries a plan out: each action is one request, and each answer goes into the cache. Makes no
//! choices: the planner decides what to do, `write_policy` what follows a failure.

use std::future::ready;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::stream::{self, StreamExt as _};
use jiff::{SignedDuration, Timestamp};
use planner::job::Owner;
use planner::{Action, Keys, Kind, Object};
use serde::Deserialize;
use serde_json::Value;

use crate::api_error::ApiError;
use crate::context::Context;
use crate::error::Error;
use crate::lookup::Lookup;
use crate::write_policy::{self, Holder, Next};
use crate::{agent_keys, keys, wire};

/// Requests of one step that run at once.
const IN_FLIGHT_MAX: usize = 32;

/// What became of one action.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Applied {
    Done,
    /// The cluster is not as the plan assumed: the rest of the plan is dropped.
    Stopped,
}

/// Carries out the steps of a plan, one after the other. After a refusal or a surprise it stops; the
/// next observation shows why. Within a step, one failure does not hold up independent actions.
pub(crate) async fn apply(
    context: &Context,
    owner: &Owner,
    steps: Vec<Vec<Action>>,
) -> Result<(), Error> {
    let applier = Applier {
        context,
        lookup: Lookup { context, owner },
    };
    for step in steps {
        let mut stopped = false;
        for outcome in applier.step(step).await {
            stopped |= outcome? == Applied::Stopped;
        }
        if stopped {
            break;
        }
    }
    Ok(())
}

/// Acts for one job.
struct Applier<'a> {
    context: &'a Context,
    lookup: Lookup<'a>,
}

impl Applier<'_> {
    async fn step(&self, step: Vec<Action>) -> Vec<Result<Applied, Error>> {
        let batches = write_policy::batches(step);
        let independent = stream::iter(batches.independent)
            .map(|action| self.act(action))
            .buffer_unordered(IN_FLIGHT_MAX)
            .collect::<Vec<_>>();
        let pods = async {
            let mut outcomes = Vec::new();
            if let Some(trial) = batches.trial {
                outcomes.push(self.act(trial).await);
            }
            if outcomes.iter().all(is_done) {
                outcomes.extend(self.until_one_fails(batches.alike).await);
            }
            outcomes
        };
        let (mut outcomes, pods) = futures::join!(independent, pods);
        outcomes.extend(pods);
        outcomes
    }

    /// Starts no more requests once one failed.
    async fn until_one_fails(&self, actions: Vec<Action>) -> Vec<Result<Applied, Error>> {
        let failed = AtomicBool::new(false);
        stream::iter(actions)
            .take_while(|_| ready(!failed.load(Ordering::Relaxed)))
            .map(|action| self.act(action))
            .buffer_unordered(IN_FLIGHT_MAX)
            .inspect(|outcome| _ = failed.fetch_or(!is_done(outcome), Ordering::Relaxed))
            .collect()
            .await
    }

    async fn act(&self, action: Action) -> Result<Applied, Error> {
        let what = describe(&action);
        let done = match action {
            Action::Create(object) => self.create(&object).await,
            Action::CreateKey { mut secret, keys } => {
                secret.body["data"] = match keys {
                    Keys::SshPair => keys::secret_data(),
                    Keys::Agent {
                        worker,
                        workers,
                        valid_secs,
                    } => agent_keys::secret_data(
                        &worker,
                        workers,
                        later(self.context.now(), valid_secs),
                    ),
                };
                self.create(&secret).await
            }
            Action::Patch {
                kind,
                name,
                uid,
                subresource,
                merge,
            } => self.patch(&kind, &name, &uid, subresource, merge).await,
            Action::Delete { kind, name, uid } => self.delete(&kind, &name, &uid).await,
            Action::DeleteWorkers {
                labels,
                fields,
                names,
            } => self.delete_workers(&labels, &fields, &names).await,
            Action::DeleteJob { uid } => self.delete_job(&uid).await,
        };
        done.map_err(|source| Error::Apply { what, source })
    }

    async fn create(&self, object: &Object) -> Result<Applied, ApiError> {
        let Object { kind, name, body } = object;
        let resource = wire::resource(kind);
        let target = self.lookup.target(&resource, name);
        let mut tries = 1;
        loop {
            let error = match self.context.api.create(target, body).await {
                Ok(text) => return self.done(kind, name, &text),
                Err(error) => error,
            };
            match write_policy::after_create(kind, &error, tries) {
                Next::RetryNow => tries += 1,
                Next::LookUp => return self.resolve_conflict(kind, name).await,
                next => return self.failed(kind, name, next, error),
            }
        }
    }

    /// Somebody holds the name.
    async fn resolve_conflict(&self, kind: &Kind, name: &str) -> Result<Applied, ApiError> {
        let found = self.lookup.find(kind, name).await?;
        match write_policy::after_lookup(kind, found) {
            Holder::Keep => {
                self.accepted(kind, name);
                Ok(Applied::Done)
            }
            Holder::Adopt { uid } => {
                let merge = write_policy::adoption();
                self.patch(kind, name, &uid, None, merge).await
            }
            Holder::Wait => {
                self.lookup.mark_name_taken(kind, name);
                Ok(Applied::Stopped)
            }
            Holder::Replan => Ok(Applied::Stopped),
        }
    }

    async fn patch(
        &self,
        kind: &Kind,
        name: &str,
        uid: &str,
        subresource: Option<&str>,
        mut merge: Value,
    ) -> Result<Applied, ApiError> {
        merge["metadata"]["uid"] = uid.into();
        let resource = wire::resource(kind);
        let target = self.lookup.target(&resource, name);
        match self.context.api.merge(target, subresource, &merge).await {
            Ok(text) => self.done(kind, name, &text),
            Err(error) => self.change_failed(kind, name, uid, error).await,
        }
    }

    async fn delete(&self, kind: &Kind, name: &str, uid: &str) -> Result<Applied, ApiError> {
        let resource = wire::resource(kind);
        let target = self.lookup.target(&resource, name);
        match self.context.api.delete(target, uid).await {
            Ok(text) if is_gone(&text)? => {
                self.accepted(kind, name);
                self.lookup.record_absent(kind, name, uid);
                Ok(Applied::Done)
            }
            Ok(text) => self.done(kind, name, &text),
            Err(error) => self.change_failed(kind, name, uid, error).await,
        }
    }

    async fn delete_workers(
        &self,
        labels: &str,
        fields: &str,
        names: &[String],
    ) -> Result<Applied, ApiError> {
        let resource = wire::resource(&Kind::Pod);
        let target = self.lookup.target(&resource, "");
        let deleted = self.context.api.delete_selected(target, labels, fields);
        let text = match deleted.await {
            Ok(text) => text,
            Err(error) => {
                let next = write_policy::refusal(&Kind::Pod, &error);
                return self.failed(&Kind::Pod, labels, next, error);
            }
        };
        self.accepted(&Kind::Pod, labels);
        // The answer lists what was deleted; a pod that ended meanwhile may not be among them.
        let deleted: Deleted = serde_json::from_str(&text).map_err(ApiError::Unreadable)?;
        let pods: Vec<(&str, Option<&str>)> = match &deleted.items {
            Some(items) => {
                let metadata = items.iter().map(|item| &item.metadata);
                metadata
                    .map(|pod| (pod.name.as_str(), Some(pod.uid.as_str())))
                    .collect()
            }
            None => names.iter().map(|name| (name.as_str(), None)).collect(),
        };
        for (name, uid) in pods {
            self.context
                .cache
                .record_delete_requested(&Kind::Pod, &self.lookup.key(name), uid);
        }
        Ok(Applied::Done)
    }

    /// The garbage collector then deletes what the job owns.
    async fn delete_job(&self, uid: &str) -> Result<Applied, ApiError> {
        let name = &self.lookup.owner.name;
        let target = self.lookup.target(&self.context.resource, name);
        match self.context.api.delete(target, uid).await {
            Err(error) if !error.is_other_object() => Err(error),
            _ => Ok(Applied::Stopped),
        }
    }

    fn done(&self, kind: &Kind, name: &str, text: &str) -> Result<Applied, ApiError> {
        self.lookup.record(kind, text)?;
        self.accepted(kind, name);
        Ok(Applied::Done)
    }

    fn accepted(&self, kind: &Kind, name: &str) {
        let memory = &self.context.memory;
        memory.release_name(kind, &self.lookup.key(name));
        memory.with(&self.lookup.owner.uid, |job| job.clear_refusal(kind, name));
    }

    async fn change_failed(
        &self,
        kind: &Kind,
        name: &str,
        uid: &str,
        error: ApiError,
    ) -> Result<Applied, ApiError> {
        match write_policy::after_change(kind, &error) {
            Next::LookUp => {
                self.lookup.refetch(kind, name, uid).await?;
                Ok(Applied::Stopped)
            }
            next => self.failed(kind, name, next, error),
        }
    }

    /// Remembers a refusal. The first failures of a server in trouble still fail the pass.
    fn failed(
        &self,
        kind: &Kind,
        name: &str,
        next: Next,
        error: ApiError,
    ) -> Result<Applied, ApiError> {
        let Next::Remember { code, message } = next else {
            return Err(error);
        };
        let (uid, now) = (&self.lookup.owner.uid, self.context.now());
        let reported = self.context.memory.with(uid, |job| {
            job.record_refusal(kind.clone(), name.to_owned(), code, message.clone(), now)
        });
        if !reported {
            return Err(error);
        }
        let kind = kind.as_str();
        tracing::warn!(code, message, "the API server refused {kind} {name}");
        Ok(Applied::Stopped)
    }
}

fn later(now: Timestamp, secs: u64) -> Timestamp {
    let span = i64::try_from(secs).map(SignedDuration::from_secs);
    let time = span.ok().and_then(|span| now.checked_add(span).ok());
    time.unwrap_or(Timestamp::MAX)
}

fn is_done(outcome: &Result<Applied, Error>) -> bool {
    matches!(outcome, Ok(Applied::Done))
}

/// The action, for an error message.
fn describe(action: &Action) -> String {
    match action {
        Action::Create(Object { kind, name, .. })
        | Action::CreateKey {
            secret: Object { kind, name, .. },
            ..
        } => format!("creating {} {name}", kind.as_str()),
        Action::Patch { kind, name, .. } => format!("changing {} {name}", kind.as_str()),
        Action::Delete { kind, name, .. } => format!("deleting {} {name}", kind.as_str()),
        Action::DeleteWorkers { labels, .. } => format!("deleting the pods {labels}"),
        Action::DeleteJob { .. } => "deleting the job after its time to live".to_owned(),
    }
}

/// Answer to a collection delete: a list of what was deleted, or a bare status.
#[derive(Deserialize)]
struct Deleted {
    items: Option<Vec<Item>>,
}

#[derive(Deserialize)]
struct Item {
    metadata: ItemMetadata,
}

#[derive(Deserialize)]
struct ItemMetadata {
    name: String,
    uid: String,
}

/// Answer to a delete: the object while its finalizers or grace period run, or a bare status.
fn is_gone(text: &str) -> Result<bool, ApiError> {
    #[derive(Deserialize)]
    struct Answer {
        kind: String,
    }
    let answer: Answer = serde_json::from_str(text).map_err(ApiError::Unreadable)?;
    Ok(answer.kind == "Status")
}
