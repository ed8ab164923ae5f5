//! Carries a plan out: each action is one request. Decides how answers are taken: what is ours,
//! what was refused, what must be looked at again. What to do is decided by the planner alone.

use std::future::ready;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::stream::{self, StreamExt as _};
use jiff::Timestamp;
use planner::contract;
use planner::job::Owner;
use planner::{Action, Keys, Kind, Object};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::api::Target;
use crate::api_error::ApiError;
use crate::context::Context;
use crate::error::Error;
use crate::memory::KeySecret;
use crate::observe;
use crate::wire::ObjectKey;
use crate::{certificates, keys, wire};

/// Requests of one step that run at once.
const IN_FLIGHT_MAX: usize = 32;
/// Creates that collide in counting a quota are tried again at once, so often.
const QUOTA_TRIES: u32 = 5;

/// What became of one action.
enum Applied {
    Done,
    Stopped,
}

/// Carries steps out, one after the other; what was refused, or is not as it was seen, ends the
/// plan, and the next look will show it. Within a step, one failure does not hold up the rest,
/// except among creates of one kind: they are alike, so what was refused once will be again.
pub(crate) async fn apply(
    context: &Context,
    owner: &Owner,
    steps: Vec<Vec<Action>>,
) -> Result<(), Error> {
    let applier = Applier { context, owner };
    for step in steps {
        let (pods, others): (Vec<Action>, Vec<Action>) = step.into_iter().partition(
            |action| matches!(action, Action::Create(object) if object.kind == Kind::Pod),
        );
        let others = stream::iter(others.into_iter().map(|action| applier.act(action)));
        let others = others.buffer_unordered(IN_FLIGHT_MAX).collect::<Vec<_>>();
        let (pods, others) = futures::join!(applier.first_one_then_all(pods), others);
        let mut stopped = false;
        for outcome in pods.into_iter().chain(others) {
            stopped |= matches!(outcome?, Applied::Stopped);
        }
        if stopped {
            break;
        }
    }
    Ok(())
}

/// Takes in an object of ours that our watch does not show, if there is one under this name.
pub(crate) async fn find(
    context: &Context,
    owner: &Owner,
    kind: &Kind,
    name: &str,
) -> Result<(), ApiError> {
    Applier { context, owner }
        .resolve_conflict(kind, name)
        .await
        .map(drop)
}

/// Acts for one job.
struct Applier<'a> {
    context: &'a Context,
    owner: &'a Owner,
}

impl Applier<'_> {
    /// Tries one before the rest, and starts no more once one did not get through: a thousand
    /// workers with a mistake in their template are one refused request, not a thousand.
    async fn first_one_then_all(&self, actions: Vec<Action>) -> Vec<Result<Applied, Error>> {
        let through = |outcome: &Result<Applied, Error>| matches!(outcome, Ok(Applied::Done));
        let mut actions = actions.into_iter();
        let mut outcomes = Vec::new();
        if let Some(first) = actions.next() {
            outcomes.push(self.act(first).await);
        }
        if outcomes.iter().all(through) {
            let stuck = AtomicBool::new(false);
            let rest = stream::iter(actions)
                .take_while(|_| ready(!stuck.load(Ordering::Relaxed)))
                .map(|action| self.act(action))
                .buffer_unordered(IN_FLIGHT_MAX)
                .inspect(|outcome| _ = stuck.fetch_or(!through(outcome), Ordering::Relaxed));
            outcomes.extend(rest.collect::<Vec<_>>().await);
        }
        outcomes
    }

    async fn act(&self, action: Action) -> Result<Applied, Error> {
        match action {
            Action::Create(Object { kind, name, body }) => {
                let done = self.create(&kind, &name, &body).await;
                done.map_err(|error| self.error("creating", &kind, &name, error))
            }
            Action::CreateKey {
                secret:
                    Object {
                        kind,
                        name,
                        mut body,
                    },
                keys,
            } => {
                body["data"] = match keys {
                    Keys::SshPair => keys::secret_data(),
                    Keys::Certificates { job } => certificates::secret_data(&job),
                };
                let done = self.create(&kind, &name, &body).await;
                done.map_err(|error| self.error("creating", &kind, &name, error))
            }
            Action::Patch {
                kind,
                name,
                uid,
                subresource,
                merge,
            } => {
                let done = self.patch(&kind, &name, &uid, subresource, merge).await;
                done.map_err(|error| self.error("changing", &kind, &name, error))
            }
            Action::Delete { kind, name, uid } => {
                let done = self.delete(&kind, &name, &uid).await;
                done.map_err(|error| self.error("deleting", &kind, &name, error))
            }
            Action::DeleteWorkers {
                labels,
                fields,
                names,
            } => {
                let done = self.delete_workers(&labels, &fields, &names).await;
                done.map_err(|error| self.error("deleting", &Kind::Pod, &labels, error))
            }
            Action::DeleteJob { uid } => self.delete_job(&uid).await,
        }
    }

    async fn create(&self, kind: &Kind, name: &str, body: &Value) -> Result<Applied, ApiError> {
        let resource = wire::resource(kind);
        let target = self.target(&resource, name);
        let mut tries = 1;
        loop {
            match self.context.api.create(target, body).await {
                Ok(text) => {
                    self.record_response(kind, &text)?;
                    self.accepted(kind, name);
                    return Ok(Applied::Done);
                }
                Err(error) if error.is_already_exists() => {
                    return self.resolve_conflict(kind, name).await;
                }
                Err(error) if error.code() == Some(409) && tries < QUOTA_TRIES => tries += 1,
                Err(error) => return self.refused(kind, name, error),
            }
        }
    }

    /// The name is taken. It may be by an object of ours that we did not know of: the answer to
    /// its creation was lost, or another operator made it.
    async fn resolve_conflict(&self, kind: &Kind, name: &str) -> Result<Applied, ApiError> {
        if *kind == Kind::Secret {
            let found = observe::identity_of(self.context, self.owner, kind, name).await;
            return match found {
                Ok(found) if found.controller.as_deref() == Some(&self.owner.uid) => {
                    self.accepted(kind, name);
                    self.know_key(KeySecret::Exists(found.uid));
                    Ok(Applied::Done)
                }
                Ok(_) => Ok(self.taken(kind, name)),
                Err(error) if error.code() == Some(404) => Ok(Applied::Stopped),
                Err(error) => Err(error),
            };
        }
        let resource = wire::resource(kind);
        let text = match self.context.api.get(self.target(&resource, name)).await {
            Ok(text) => text,
            Err(error) if error.code() == Some(404) => return Ok(Applied::Stopped),
            Err(error) => return Err(error),
        };
        let child = wire::child(kind, &text).map_err(ApiError::Unreadable)?;
        if !child.is_owned_by(&self.owner.uid) {
            return Ok(self.taken(kind, name));
        }
        match (child.has_watch_label, kind) {
            (true, _) => self.record_response(kind, &text)?,
            // Somebody took the label off, and must have had a reason: a pod can be made again.
            (false, Kind::Pod) => return Ok(self.taken(kind, name)),
            (false, _) => self.adopt(kind, name, &child.uid).await?,
        }
        self.accepted(kind, name);
        Ok(Applied::Done)
    }

    /// Our own object lacks the label that we watch by (the Kubeflow operator made it, or
    /// somebody took the label off): without it we would never hear of it again.
    async fn adopt(&self, kind: &Kind, name: &str, uid: &str) -> Result<(), ApiError> {
        let labels = json!({(contract::MANAGED_BY_LABEL): contract::MANAGED_BY});
        let merge = json!({"metadata": {"uid": uid, "labels": labels}});
        let resource = wire::resource(kind);
        let text = self
            .context
            .api
            .merge(self.target(&resource, name), None, &merge)
            .await?;
        self.record_response(kind, &text)
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
        match self
            .context
            .api
            .merge(self.target(&resource, name), subresource, &merge)
            .await
        {
            Ok(text) => {
                self.record_response(kind, &text)?;
                self.accepted(kind, name);
                Ok(Applied::Done)
            }
            Err(error) if error.is_other_object() => self.refetch(kind, name, uid).await,
            Err(error) => self.refused(kind, name, error),
        }
    }

    async fn delete(&self, kind: &Kind, name: &str, uid: &str) -> Result<Applied, ApiError> {
        let resource = wire::resource(kind);
        match self
            .context
            .api
            .delete(self.target(&resource, name), uid)
            .await
        {
            Ok(text) => {
                self.accepted(kind, name);
                if is_gone(&text)? {
                    self.absent(kind, name, uid);
                } else {
                    self.record_response(kind, &text)?;
                }
                Ok(Applied::Done)
            }
            Err(error) if error.is_other_object() => self.refetch(kind, name, uid).await,
            Err(error) => self.refused(kind, name, error),
        }
    }

    async fn delete_workers(
        &self,
        labels: &str,
        fields: &str,
        names: &[String],
    ) -> Result<Applied, ApiError> {
        let resource = wire::resource(&Kind::Pod);
        let target = self.target(&resource, "");
        let text = match self
            .context
            .api
            .delete_selected(target, labels, fields)
            .await
        {
            Ok(text) => text,
            Err(error) => return self.refused(&Kind::Pod, labels, error),
        };
        self.accepted(&Kind::Pod, labels);
        // The answer lists what was deleted; a pod that ended meanwhile may not be among them.
        let deleted: Deleted = serde_json::from_str(&text).map_err(ApiError::Unreadable)?;
        self.context
            .cache
            .with(&Kind::Pod, |index| match &deleted.items {
                Some(items) => {
                    for ItemMetadata { name, uid } in items.iter().map(|item| &item.metadata) {
                        index.set_delete_requested(&self.key(name), Some(uid));
                    }
                }
                None => {
                    for name in names {
                        index.set_delete_requested(&self.key(name), None);
                    }
                }
            });
        Ok(Applied::Done)
    }

    /// The job's own children go with it, by the garbage collector.
    async fn delete_job(&self, uid: &str) -> Result<Applied, Error> {
        let target = self.target(&self.context.resource, &self.owner.name);
        match self.context.api.delete(target, uid).await {
            Ok(_) => Ok(Applied::Stopped),
            // It is gone, or another one has its name.
            Err(error) if error.code() == Some(404) || error.is_other_object() => {
                Ok(Applied::Stopped)
            }
            Err(source) => Err(Error::Apply {
                job: format!("{}/{}", self.owner.namespace, self.owner.name),
                what: "deleting the job, whose time to live is over".to_owned(),
                source,
            }),
        }
    }

    /// The object is not what we took it for.
    async fn refetch(&self, kind: &Kind, name: &str, uid: &str) -> Result<Applied, ApiError> {
        if *kind == Kind::Secret {
            self.know_key(KeySecret::Unknown);
            return Ok(Applied::Stopped);
        }
        let resource = wire::resource(kind);
        match self.context.api.get(self.target(&resource, name)).await {
            Ok(text) => {
                let child = wire::child(kind, &text).map_err(ApiError::Unreadable)?;
                if *child.uid != *uid {
                    self.absent(kind, name, uid);
                }
                self.record_response(kind, &text)?;
            }
            Err(error) if error.code() == Some(404) => self.absent(kind, name, uid),
            Err(error) => return Err(error),
        }
        Ok(Applied::Stopped)
    }

    /// The API server's word counts from now on; the watch will confirm it.
    fn record_response(&self, kind: &Kind, text: &str) -> Result<(), ApiError> {
        if *kind == Kind::Secret {
            let secret = wire::identity(text).map_err(ApiError::Unreadable)?;
            self.know_key(KeySecret::Exists(secret.uid));
            return Ok(());
        }
        let child = wire::child(kind, text).map_err(ApiError::Unreadable)?;
        self.context.cache.with(kind, |index| index.response(child));
        Ok(())
    }

    fn know_key(&self, key: KeySecret) {
        self.context
            .memory
            .with(&self.owner.uid, |memory| memory.key = key);
    }

    fn absent(&self, kind: &Kind, name: &str, uid: &str) {
        if *kind == Kind::Secret {
            return self.know_key(KeySecret::Gone);
        }
        self.context
            .cache
            .with(kind, |index| index.absent(&self.key(name), uid));
    }

    fn accepted(&self, kind: &Kind, name: &str) {
        self.context.memory.release_name(kind, &self.key(name));
        self.context.memory.with(&self.owner.uid, |memory| {
            memory.clear_refusal(kind, name);
        });
    }

    fn taken(&self, kind: &Kind, name: &str) -> Applied {
        observe::note_taken(self.context, self.owner, kind, name);
        tracing::warn!(
            job = %format_args!("{}/{}", self.owner.namespace, self.owner.name),
            "{} {name} exists and is not this job's: waiting for the name", kind.as_str()
        );
        Applied::Stopped
    }

    /// Remembers a refusal so that the plan and the status know of it. A server in trouble is an
    /// error, until it has been one for so long that the job should say so.
    fn refused(&self, kind: &Kind, name: &str, error: ApiError) -> Result<Applied, ApiError> {
        let ApiError::Answered { code, message, .. } = &error else {
            return Err(error);
        };
        if !error.is_refusal() && *code < 500 {
            return Err(error);
        }
        let missing_api = *code == 404 && kind.as_str() == "PodGroup";
        let message = if missing_api {
            let api = wire::resource(kind).api_version;
            format!(
                "the cluster does not know PodGroups of {api}: is the gang scheduler installed?"
            )
        } else {
            message.clone()
        };
        let known = self.context.memory.with(&self.owner.uid, |memory| {
            memory.record_refusal(
                kind.clone(),
                name.to_owned(),
                *code,
                message.clone(),
                Timestamp::now(),
            );
            memory
                .refusals()
                .iter()
                .any(|refusal| refusal.kind == *kind && refusal.name == name)
        });
        if !known {
            return Err(error);
        }
        tracing::warn!(
            job = %format_args!("{}/{}", self.owner.namespace, self.owner.name),
            code, said = message, "{} {name} was refused", kind.as_str()
        );
        Ok(Applied::Stopped)
    }

    fn target<'a>(&'a self, resource: &'a kube::core::ApiResource, name: &'a str) -> Target<'a> {
        Target {
            resource,
            namespace: &self.owner.namespace,
            name,
        }
    }

    fn key(&self, name: &str) -> ObjectKey {
        ObjectKey::new(&self.owner.namespace, name)
    }

    fn error(&self, doing: &str, kind: &Kind, name: &str, source: ApiError) -> Error {
        Error::Apply {
            job: format!("{}/{}", self.owner.namespace, self.owner.name),
            what: format!("{doing} {} {name}", kind.as_str()),
            source,
        }
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

/// Answer to a delete: the object while it is on its way out, or a bare status when it is gone.
fn is_gone(text: &str) -> Result<bool, ApiError> {
    #[derive(Deserialize)]
    struct Answer {
        kind: String,
    }
    let answer: Answer = serde_json::from_str(text).map_err(ApiError::Unreadable)?;
    Ok(answer.kind == "Status")
}
