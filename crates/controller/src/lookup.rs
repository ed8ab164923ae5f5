//! Asks the API server for one object by name, and keeps the answer in the cache. Decides whose an
//! object is: a job's own objects are those that its UID controls. Writes nothing to the cluster.
//! `observe` and `apply` use this file; it uses neither.

use std::sync::Arc;

use kube::core::ApiResource;
use planner::Kind;
use planner::job::Owner;

use crate::api::Target;
use crate::api_error::ApiError;
use crate::context::Context;
use crate::error::Error;
use crate::memory::KeySecret;
use crate::wire::{self, Child, ObjectKey, UserJob};

/// Looks up objects of one job.
#[derive(Clone, Copy)]
pub(crate) struct Lookup<'a> {
    pub(crate) context: &'a Context,
    pub(crate) owner: &'a Owner,
}

/// Who holds a name, as the API server answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Nobody.
    Absent,
    /// An object that the job does not control.
    Foreign,
    /// The job's own object.
    Ours { uid: String },
    /// The job's own object, without the label that our watch selects by.
    Unlabelled { uid: String },
}

impl<'a> Lookup<'a> {
    /// Asks who holds a name. Nobody asks for Secrets: the operator may not read them.
    pub(crate) async fn find(&self, kind: &Kind, name: &str) -> Result<Found, ApiError> {
        let Some(child) = self.get(kind, name).await? else {
            return Ok(Found::Absent);
        };
        let uid = child.uid.as_ref().to_owned();
        Ok(if !child.is_owned_by(&self.owner.uid) {
            Found::Foreign
        } else if !child.has_watch_label {
            Found::Unlabelled { uid }
        } else {
            self.context.cache.record_own(kind, child);
            Found::Ours { uid }
        })
    }

    /// Asks again for an object that a write did not find as we knew it.
    pub(crate) async fn refetch(&self, kind: &Kind, name: &str, uid: &str) -> Result<(), ApiError> {
        let child = self.get(kind, name).await?;
        if child.as_ref().is_none_or(|child| *child.uid != *uid) {
            self.record_absent(kind, name, uid);
        }
        if let Some(child) = child {
            self.context.cache.record_own(kind, child);
        }
        Ok(())
    }

    async fn get(&self, kind: &Kind, name: &str) -> Result<Option<Child>, ApiError> {
        let resource = wire::resource(kind);
        let text = self.context.api.find(self.target(&resource, name)).await?;
        let child = text.map(|text| wire::child(kind, &text)).transpose();
        child.map_err(ApiError::Unreadable)
    }

    /// Keeps the object that the API server answered a write with.
    pub(crate) fn record(&self, kind: &Kind, text: &str) -> Result<(), ApiError> {
        let child = wire::child(kind, text).map_err(ApiError::Unreadable)?;
        self.context.cache.record_own(kind, child);
        Ok(())
    }

    /// Keeps the API server's answer that the object with this UID no longer exists.
    pub(crate) fn record_absent(&self, kind: &Kind, name: &str, uid: &str) {
        self.context.cache.record_absent(kind, &self.key(name), uid);
    }

    /// The job waits for a name that somebody else holds.
    pub(crate) fn mark_name_taken(&self, kind: &Kind, name: &str) {
        let job = self.key(&self.owner.name);
        let memory = &self.context.memory;
        memory.mark_name_taken(kind, &self.key(name), job);
        let kind = kind.as_str();
        tracing::warn!("{kind} {name} exists and the job does not own it; waiting for the name");
    }

    /// Remembers a refusal. False for the first failures of a server in trouble, which nobody shows.
    pub(crate) fn remember_refusal(
        &self,
        kind: &Kind,
        name: &str,
        code: u16,
        message: String,
    ) -> bool {
        let reported = self.context.memory.with(&self.owner.uid, |job| {
            job.record_refusal(kind.clone(), name.to_owned(), code, message.clone())
        });
        if reported {
            let kind = kind.as_str();
            tracing::warn!(code, message, "the API server refused {kind} {name}");
        }
        reported
    }

    pub(crate) fn known_key(&self) -> KeySecret {
        let memory = &self.context.memory;
        memory.with(&self.owner.uid, |memory| memory.key)
    }

    pub(crate) fn know_key(&self, key: KeySecret) {
        self.context.memory.with(&self.owner.uid, |memory| {
            memory.key = key;
            if key != KeySecret::Unknown {
                memory.key_collided_at = None;
            }
        });
    }

    pub(crate) fn target(&self, resource: &'a ApiResource, name: &'a str) -> Target<'a> {
        Target {
            resource,
            namespace: &self.owner.namespace,
            name,
        }
    }

    pub(crate) fn key(&self, name: &str) -> ObjectKey {
        ObjectKey::new(&self.owner.namespace, name)
    }
}

/// The newest version of a job that we know: the watch's, or the answer to our last status write
/// while the watch has not caught up with it. None if the job is gone, and the watch has yet to say so:
/// whatever we created for it, the garbage collector would delete, and we would create it again.
pub(crate) async fn newest(
    context: &Context,
    stored: Arc<UserJob>,
) -> Result<Option<Arc<UserJob>>, Error> {
    let is_outdated = context.memory.with(stored.uid(), |memory| {
        let behind = |version: &u64| *version >= stored.version();
        memory.outdated = memory.outdated.filter(behind);
        memory.outdated.is_some()
    });
    if is_outdated {
        return match get(context, &stored).await {
            Ok(live) if live.uid() != stored.uid() => Ok(None),
            Ok(live) => {
                context.memory.with(live.uid(), |memory| {
                    let ours = |_: &u64| live.version() > stored.version();
                    memory.outdated = memory.outdated.filter(ours);
                });
                Ok(Some(live))
            }
            Err(Error::Observe { source, .. }) if source.code() == Some(404) => Ok(None),
            Err(error) => Err(error),
        };
    }
    newest_known(context, stored).await.map(Some)
}

async fn newest_known(context: &Context, stored: Arc<UserJob>) -> Result<Arc<UserJob>, Error> {
    let written = context.memory.with(stored.uid(), |memory| {
        let ahead = |written: &Arc<UserJob>| written.version() > stored.version();
        memory.written = memory.written.take().filter(ahead);
        memory.written.clone().zip(memory.written_at)
    });
    let whole = async |job: Arc<UserJob>| match job.is_left_out() {
        false => Ok(job),
        true => get(context, &job).await,
    };
    match written {
        None => whole(stored).await,
        // A watch lags this far only after somebody restored etcd. Our write may be lost then, and
        // only the API server knows.
        Some((_, at)) if at.elapsed() > context.watch_lag_max => {
            let live = get(context, &stored).await?;
            context.memory.with(stored.uid(), |memory| {
                memory.written = Some(live.remembered());
            });
            Ok(live)
        }
        Some((written, _)) => whole(written).await,
    }
}

async fn get(context: &Context, job: &UserJob) -> Result<Arc<UserJob>, Error> {
    let text = context.api.get(context.target(job)).await;
    let live = text.and_then(|text| UserJob::read(&text));
    live.map_err(|source| Error::Observe {
        what: "the newest version of the job".to_owned(),
        source,
    })
}
