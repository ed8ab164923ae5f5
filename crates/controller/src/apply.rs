//! Carries a plan out: each action is one request, and each answer goes into the cache. Makes no
//! choices: the planner decides what to do, `write_policy` what follows a failure.

use std::future::ready;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::stream::{self, StreamExt as _};
use jiff::{SignedDuration, Timestamp};
use planner::job::Owner;
use planner::{Action, Keys, Kind, Object, WorkerBatch, WorkerSelection};
use serde::Deserialize;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use crate::api_error::ApiError;
use crate::context::Context;
use crate::error::Error;
use crate::fair_turns::Turn;
use crate::lookup::Lookup;
use crate::memory::KeySecret;
use crate::write_policy::{self, Batches, Holder, Next};
use crate::{key_secret, wire};

/// Requests of one step that run at once.
const IN_FLIGHT_MAX: usize = 32;

/// A pass creates workers for so long, because others may wait for its place; another pass goes on.
const PASS_MAX: Duration = Duration::from_millis(500);

/// A Secret that stands in the way is replaced once.
const KEY_TRIES: u32 = 2;

/// What became of one action.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Applied {
    Done,
    /// The cluster is not as the plan assumed: the rest of the plan is dropped.
    Stopped,
    /// It is left for another pass.
    Later,
}

/// How far a plan was carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// As far as it goes.
    Whole,
    /// It had more requests than one pass sends, or than it had time for.
    Partial,
}

/// Carries out the steps of a plan, one after the other. After a refusal or a surprise it stops; the
/// next observation shows why. Within a step, one failure does not hold up independent actions. A step
/// that is too large for one pass ends it as well: what comes after it must not come before its end.
pub(crate) async fn apply(
    context: &Context,
    owner: &Owner,
    steps: Vec<Vec<Action>>,
) -> Result<Extent, Error> {
    let applier = Applier {
        context,
        lookup: Lookup { context, owner },
    };
    for step in steps {
        let batches = write_policy::batches(step);
        let (mut stopped, mut is_partial) = (false, batches.is_partial);
        for outcome in applier.step(batches).await {
            match outcome? {
                Applied::Done => {}
                Applied::Stopped => stopped = true,
                Applied::Later => is_partial = true,
            }
        }
        if stopped {
            break;
        }
        if is_partial {
            return Ok(Extent::Partial);
        }
    }
    Ok(Extent::Whole)
}

/// Acts for one job.
struct Applier<'a> {
    context: &'a Context,
    lookup: Lookup<'a>,
}

impl Applier<'_> {
    async fn step(&self, batches: Batches) -> Vec<Result<Applied, Error>> {
        let left = batches.requests;
        let independent = stream::iter(batches.independent)
            .map(|action| self.act(action, left))
            .buffer_unordered(IN_FLIGHT_MAX)
            .collect::<Vec<_>>();
        let workers = async {
            match &batches.workers {
                Some(batch) => self.create_workers(batch, left).await,
                None => Vec::new(),
            }
        };
        let (mut outcomes, workers) = futures::join!(independent, workers);
        outcomes.extend(workers);
        outcomes
    }

    /// Creates one worker, and then the others. Starts no more requests once one failed.
    async fn create_workers(
        &self,
        batch: &WorkerBatch,
        left: usize,
    ) -> Vec<Result<Applied, Error>> {
        let failed = AtomicBool::new(false);
        let Some((trial, others)) = batch.indices.split_first() else {
            return Vec::new();
        };
        let turn = self.context.turns.take(left, batch.body_bytes()).await;
        let mut outcomes = vec![self.create_worker(batch, *trial, turn).await];
        if !outcomes.iter().all(is_done) {
            return outcomes;
        }
        let end = Instant::now() + PASS_MAX;
        let others = stream::iter(others.to_vec())
            .take_while(|_| ready(!failed.load(Ordering::Relaxed)))
            .map(async |index| {
                let turn = self.context.turns.take(left, batch.body_bytes());
                match timeout_at(end, turn).await {
                    Ok(turn) if Instant::now() < end => {
                        self.create_worker(batch, index, turn).await
                    }
                    _ => Ok(Applied::Later),
                }
            })
            .buffer_unordered(IN_FLIGHT_MAX)
            .inspect(|outcome| _ = failed.fetch_or(!is_done(outcome), Ordering::Relaxed))
            .collect::<Vec<_>>();
        outcomes.extend(others.await);
        outcomes
    }

    /// The body exists only while its request runs.
    async fn create_worker(
        &self,
        batch: &WorkerBatch,
        index: u32,
        _turn: Turn,
    ) -> Result<Applied, Error> {
        let name = batch.name(index);
        let body = batch.body(index).into_bytes();
        let done = self.create_named(&Kind::Pod, &name, body).await;
        done.map_err(|source| Error::Apply {
            what: format!("creating Pod {name}"),
            source,
        })
    }

    /// Carries out one of `left` actions.
    async fn act(&self, action: Action, left: usize) -> Result<Applied, Error> {
        let _turn = self.context.turns.take(left, 0).await;
        let what = action.describe();
        let done = match action {
            Action::Create(object) => self.create(&object).await,
            Action::CreateWorkers(_) => unreachable!("workers are created one by one"),
            Action::CreateKey { secret, keys } => self.create_key(secret, keys).await,
            Action::DeleteKey { name } => self.delete_key(&name).await,
            Action::Patch {
                kind,
                name,
                uid,
                subresource,
                merge,
            } => self.patch(&kind, &name, &uid, subresource, merge).await,
            Action::Delete { kind, name, uid } => self.delete(&kind, &name, &uid, None).await,
            Action::ForgetPod { name, uid } => self.delete(&Kind::Pod, &name, &uid, Some(0)).await,
            Action::DeleteWorkers { selection, names } => {
                self.delete_workers(&selection, &names).await
            }
            Action::DeleteJob { uid } => self.delete_job(&uid).await,
        };
        done.map_err(|source| Error::Apply { what, source })
    }

    async fn create(&self, object: &Object) -> Result<Applied, ApiError> {
        let Object { kind, name, body } = object;
        let body = serde_json::to_vec(body).map_err(ApiError::Unreadable)?;
        self.create_named(kind, name, body).await
    }

    async fn create_named(
        &self,
        kind: &Kind,
        name: &str,
        body: Vec<u8>,
    ) -> Result<Applied, ApiError> {
        let resource = wire::resource(kind);
        let target = self.lookup.target(&resource, name);
        let mut tries = 1;
        loop {
            let error = match self.context.api.create_text(target, body.clone()).await {
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

    /// Creates the Secret with the job's keys. The status has recorded its name when nobody had such a
    /// Secret, so one that exists and that we do not remember is what an operator left that crashed, or
    /// what somebody planted. It is replaced without a look at it, unless pods may have mounted it.
    async fn create_key(&self, mut secret: Object, keys: Keys) -> Result<Applied, ApiError> {
        let Object { kind, name, body } = &mut secret;
        body["data"] = match keys {
            Keys::SshPair => (self.context.keys.ssh)(),
            Keys::Agent {
                worker,
                workers,
                valid_secs,
            } => {
                let valid_until = later(self.context.now(), valid_secs);
                (self.context.keys.agent)(&worker, workers, valid_until)
            }
        };
        let resource = wire::resource(kind);
        let target = self.lookup.target(&resource, name);
        let mut tries = 1;
        loop {
            let error = match self.context.api.create(target, body).await {
                Ok(_) => {
                    self.lookup.know_key(KeySecret::Exists);
                    self.accepted(kind, name);
                    return Ok(Applied::Done);
                }
                Err(error) => error,
            };
            if error.may_have_acted() && self.lookup.known_key() == KeySecret::Gone {
                // It may be there now.
                self.lookup.know_key(KeySecret::Unknown);
            }
            match write_policy::after_create(kind, &error, tries) {
                Next::RetryNow => tries += 1,
                // Only who may delete Secrets could have put another in its place.
                Next::LookUp if self.lookup.known_key() == KeySecret::Doubtful => {
                    self.lookup.know_key(KeySecret::Exists);
                    self.accepted(kind, name);
                    return Ok(Applied::Done);
                }
                Next::LookUp => {
                    let may_try = tries < KEY_TRIES;
                    if !may_try || !key_secret::is_replaceable(self.lookup, name).await? {
                        // By the next pass, pods may tell whose it is.
                        self.lookup.know_key(KeySecret::Unknown);
                        return Err(error);
                    }
                    self.context.api.delete_named(target).await?;
                    tries += 1;
                }
                next => return self.failed(kind, name, next, error),
            }
        }
    }

    async fn delete_key(&self, name: &str) -> Result<Applied, ApiError> {
        let resource = wire::resource(&Kind::Secret);
        let target = self.lookup.target(&resource, name);
        match self.context.api.delete_named(target).await {
            Ok(()) => {
                self.lookup.know_key(KeySecret::Gone);
                self.accepted(&Kind::Secret, name);
                Ok(Applied::Done)
            }
            Err(error) => {
                let next = write_policy::refusal(&Kind::Secret, &error);
                self.failed(&Kind::Secret, name, next, error)
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

    /// With the object's own grace time, or with so many seconds.
    async fn delete(
        &self,
        kind: &Kind,
        name: &str,
        uid: &str,
        grace_secs: Option<u32>,
    ) -> Result<Applied, ApiError> {
        let resource = wire::resource(kind);
        let target = self.lookup.target(&resource, name);
        match self.context.api.delete(target, uid, grace_secs).await {
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
        selection: &WorkerSelection,
        names: &[String],
    ) -> Result<Applied, ApiError> {
        let (labels, fields) = (&selection.labels(), selection.fields());
        let resource = wire::resource(&Kind::Pod);
        let target = self.lookup.target(&resource, "");
        let mut page = String::new();
        loop {
            let api = &self.context.api;
            let deleted = api.delete_selected(target, labels, fields, &page, names.len());
            let text = match deleted.await {
                Ok(text) => text,
                Err(error) => {
                    let next = write_policy::refusal(&Kind::Pod, &error);
                    return self.failed(&Kind::Pod, labels, next, error);
                }
            };
            self.accepted(&Kind::Pod, labels);
            let deleted: Deleted = serde_json::from_str(&text).map_err(ApiError::Unreadable)?;
            self.record_deleted(&deleted, names);
            page = deleted.metadata.next_page;
            if page.is_empty() {
                return Ok(Applied::Done);
            }
        }
    }

    /// The answer lists what was deleted; a pod that ended meanwhile may not be among them.
    fn record_deleted(&self, deleted: &Deleted, names: &[String]) {
        let record = |name: &str, uid: Option<&str>| {
            let key = self.lookup.key(name);
            let cache = &self.context.cache;
            cache.record_delete_requested(&Kind::Pod, &key, uid);
        };
        match &deleted.items {
            Some(items) => {
                for ItemMetadata { name, uid } in items.iter().map(|item| &item.metadata) {
                    record(name, Some(uid));
                }
            }
            None => names.iter().for_each(|name| record(name, None)),
        }
    }

    /// The garbage collector then deletes what the job owns.
    async fn delete_job(&self, uid: &str) -> Result<Applied, ApiError> {
        let name = &self.lookup.owner.name;
        let target = self.lookup.target(&self.context.resource, name);
        match self.context.api.delete(target, uid, None).await {
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
        match self.lookup.remember_refusal(kind, name, code, message) {
            true => Ok(Applied::Stopped),
            false => Err(error),
        }
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

/// Answer to a collection delete: a list of what was deleted, or a bare status.
#[derive(Deserialize)]
struct Deleted {
    #[serde(default)]
    metadata: ListMetadata,
    items: Option<Vec<Item>>,
}

#[derive(Default, Deserialize)]
struct ListMetadata {
    /// Where the next page begins; empty after the last.
    #[serde(default, rename = "continue")]
    next_page: String,
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
