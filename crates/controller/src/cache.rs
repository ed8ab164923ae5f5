//! What the cluster holds for our jobs, as last seen or last written by us. Decides which job a
//! change concerns, and enqueues it; the reconciler decides what to do about it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use kube::core::ApiResource;
use planner::Kind;
use tokio::sync::watch;

use crate::known_jobs::KnownJobs;
use crate::memory::Memory;
use crate::metrics::Metrics;
use crate::object_index::{Change, ObjectIndex};
use crate::pending_jobs::PendingJobs;
use crate::tenants::Class;
use crate::wire::{Child, ObjectKey};

/// A kind that the API server does not let us list.
#[derive(Debug)]
pub(crate) struct Unlisted {
    pub(crate) kind: Kind,
    pub(crate) message: String,
}

/// One index per kind of child.
#[derive(Debug)]
pub(crate) struct Cache {
    indexes: Mutex<BTreeMap<Kind, ObjectIndex>>,
    /// Kinds that are not listed, or were not watched for too long, and why the API server refuses them.
    unlisted: watch::Sender<BTreeMap<Kind, Option<String>>>,
    requested: watch::Sender<BTreeSet<Kind>>,
    /// Kinds that must be listed again.
    relists: watch::Sender<BTreeSet<Kind>>,
    /// Resources whose jobs were not listed yet, and may be.
    unlisted_jobs: watch::Sender<BTreeSet<String>>,
    jobs: Arc<KnownJobs>,
    memory: Arc<Memory>,
    pending: Arc<PendingJobs>,
    metrics: Arc<Metrics>,
}

impl Cache {
    /// Empty indexes for these kinds. None of them counts as listed yet.
    pub(crate) fn new(
        kinds: &[Kind],
        memory: Arc<Memory>,
        pending: Arc<PendingJobs>,
        metrics: Arc<Metrics>,
        resources: impl IntoIterator<Item = ApiResource>,
    ) -> Self {
        let jobs = Arc::<KnownJobs>::default();
        let index = |kind: &Kind| ObjectIndex::new(kind, Arc::clone(&jobs));
        let indexes = kinds
            .iter()
            .map(|kind| (kind.clone(), index(kind)))
            .collect();
        let unlisted = kinds.iter().map(|kind| (kind.clone(), None)).collect();
        Self {
            indexes: Mutex::new(indexes),
            unlisted: watch::Sender::new(unlisted),
            requested: watch::Sender::default(),
            relists: watch::Sender::default(),
            unlisted_jobs: watch::Sender::new(
                resources
                    .into_iter()
                    .map(|resource| name(&resource))
                    .collect(),
            ),
            jobs,
            memory,
            pending,
            metrics,
        }
    }

    /// Adds kinds, and returns those that are new. None of them counts as listed yet.
    pub(crate) fn add_kinds(&self, kinds: &[Kind]) -> Vec<Kind> {
        let mut indexes = self.indexes.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = |kind: &&Kind| !indexes.contains_key(*kind);
        let new: Vec<Kind> = kinds.iter().filter(is_new).cloned().collect();
        for kind in &new {
            let index = ObjectIndex::new(kind, Arc::clone(&self.jobs));
            indexes.insert(kind.clone(), index);
        }
        self.unlisted
            .send_modify(|unlisted| unlisted.extend(new.iter().map(|kind| (kind.clone(), None))));
        new
    }

    /// Returns once all kinds were listed that these jobs may have, or once the API server refused
    /// one of them. Kinds that only jobs of another API have do not matter to these jobs.
    pub(crate) async fn wait_listed(&self, besides: &[Kind]) -> Result<(), Unlisted> {
        let matters = |kind: &Kind| kind.is_common() || besides.contains(kind);
        let refused = |unlisted: &BTreeMap<Kind, Option<String>>| {
            let mut missing = unlisted.iter().filter(|(kind, _)| matters(kind));
            missing.find_map(|(kind, message)| Some((kind.clone(), message.clone()?)))
        };
        let mut unlisted = self.unlisted.subscribe();
        let known = unlisted
            .wait_for(|unlisted| !unlisted.keys().any(matters) || refused(unlisted).is_some());
        let known = known.await.expect("the sender lives as long as the cache");
        match refused(&known) {
            Some((kind, message)) => Err(Unlisted { kind, message }),
            None => Ok(()),
        }
    }

    /// Every kind was listed that all jobs have.
    pub(crate) fn is_listed(&self) -> bool {
        !self.unlisted.borrow().keys().any(Kind::is_common)
    }

    /// A kind counts as listed.
    pub(crate) fn set_listed(&self, kind: &Kind) {
        self.unlisted
            .send_if_modified(|unlisted| unlisted.remove(kind).is_some());
    }

    /// A kind was not watched for too long: jobs wait until it is listed again.
    pub(crate) fn set_unlisted(&self, kind: &Kind) {
        let is_new = self.unlisted.send_if_modified(|unlisted| {
            let is_new = !unlisted.contains_key(kind);
            unlisted.entry(kind.clone()).or_default();
            is_new
        });
        if is_new {
            let kind = kind.as_str();
            tracing::warn!(
                "{kind}s cannot be watched: nothing is done for jobs until they are listed again"
            );
        }
    }

    /// The API server refuses to list a kind. Jobs that wait for it say so.
    pub(crate) fn set_refused(&self, kind: &Kind, message: &str) {
        let is_news = self.unlisted.send_if_modified(|unlisted| {
            let Some(why) = unlisted.get_mut(kind) else {
                return false;
            };
            why.replace(message.to_owned()).as_deref() != Some(message)
        });
        if is_news {
            for job in self.jobs.keys() {
                self.pending.enqueue(&job);
            }
        }
    }

    /// A job needs an object of this kind.
    pub(crate) fn request_kind(&self, kind: &Kind) {
        self.requested
            .send_if_modified(|requested| requested.insert(kind.clone()));
    }

    /// Returns once a job needs an object of this kind.
    pub(crate) async fn kind_requested(&self, kind: &Kind) {
        let mut requested = self.requested.subscribe();
        let some = requested
            .wait_for(|requested| requested.contains(kind))
            .await;
        some.expect("the sender lives as long as the cache");
    }

    /// Reads.
    pub(crate) fn with<T>(&self, kind: &Kind, read: impl FnOnce(&ObjectIndex) -> T) -> T {
        self.change(kind, |index| read(index))
    }

    fn change<T>(&self, kind: &Kind, change: impl FnOnce(&mut ObjectIndex) -> T) -> T {
        // The next relist repairs an index that a panic left half changed, so a poisoned lock is
        // not an error.
        let mut indexes = self.indexes.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || ObjectIndex::new(kind, Arc::clone(&self.jobs));
        change(indexes.entry(kind.clone()).or_insert_with(new))
    }

    /// The jobs of this resource are known, or will not be soon.
    pub(crate) fn set_jobs_listed(&self, resource: &ApiResource) {
        self.unlisted_jobs
            .send_if_modified(|unlisted| unlisted.remove(&name(resource)));
    }

    /// Returns once all jobs are known that can be.
    pub(crate) async fn jobs_listed(&self) {
        let mut unlisted = self.unlisted_jobs.subscribe();
        let none = unlisted.wait_for(BTreeSet::is_empty).await;
        none.expect("the sender lives as long as the cache");
    }

    /// A job exists. If it was seen before us, it may have children, and some may have been left out
    /// because nobody seemed to own them.
    pub(crate) fn job_exists(&self, uid: &str, key: &ObjectKey, was_seen: bool) {
        if !self.jobs.add(uid, key) || !was_seen {
            return;
        }
        let mut indexes = self.indexes.lock().unwrap_or_else(PoisonError::into_inner);
        for (kind, index) in indexes.iter_mut() {
            index.job_came(&key.namespace);
            if index.take_wants_relist() {
                self.request_relist(kind);
            }
        }
    }

    /// A job is gone.
    pub(crate) fn job_is_gone(&self, uid: &str) {
        self.jobs.remove(uid);
    }

    /// A kind of which objects of jobs of this namespace may have been left out.
    pub(crate) fn left_out(&self, namespace: &str) -> Option<Kind> {
        let indexes = self.indexes.lock().unwrap_or_else(PoisonError::into_inner);
        let mut indexes = indexes.iter();
        let hides = |(_, index): &(&Kind, &ObjectIndex)| index.hides_children(namespace);
        indexes.find(hides).map(|(kind, _)| kind.clone())
    }

    fn request_relist(&self, kind: &Kind) {
        self.relists
            .send_if_modified(|kinds| kinds.insert(kind.clone()));
    }

    /// Returns once the kind must be listed again. Each request is returned once.
    pub(crate) async fn relist_requested(&self, kind: &Kind) {
        let mut relists = self.relists.subscribe();
        let some = relists.wait_for(|kinds| kinds.contains(kind)).await;
        drop(some.expect("the sender lives as long as the cache"));
        self.relists.send_if_modified(|kinds| kinds.remove(kind));
    }

    /// A request of the running pass was answered with this object. Enqueues no job: the pass
    /// observes again.
    pub(crate) fn record_own(&self, kind: &Kind, child: Child) {
        self.change(kind, |index| index.response(child));
    }

    /// A request of the running pass was answered: the object with this UID does not exist.
    pub(crate) fn record_absent(&self, kind: &Kind, key: &ObjectKey, uid: &str) {
        self.change(kind, |index| index.absent(key, Some(uid)));
    }

    /// A request of the running pass was answered: the object will be deleted.
    pub(crate) fn record_delete_requested(&self, kind: &Kind, key: &ObjectKey, uid: Option<&str>) {
        self.change(kind, |index| index.set_delete_requested(key, uid));
    }

    /// A watch event, an object of a list, or the answer to a request outside of any pass. Enqueues
    /// the job, once the index holds the change.
    pub(crate) fn update(
        &self,
        kind: &Kind,
        key: &ObjectKey,
        update: impl FnOnce(&mut ObjectIndex) -> Change,
    ) {
        let (change, wants_relist) =
            self.change(kind, |index| (update(index), index.take_wants_relist()));
        if wants_relist {
            self.request_relist(kind);
        }
        self.publish(kind, key, change);
    }

    /// A relist began.
    pub(crate) fn relist_started(&self, kind: &Kind) {
        self.change(kind, ObjectIndex::relist_started);
    }

    /// A relist ended. Returns the keys of objects that only our own writes showed.
    pub(crate) fn relist_done(&self, kind: &Kind) -> Vec<ObjectKey> {
        let (gone, unconfirmed) = self.change(kind, ObjectIndex::relist_done);
        for entry in gone {
            self.publish(kind, &entry.child.key.clone(), Change::removed(Some(entry)));
        }
        self.set_listed(kind);
        unconfirmed
    }

    fn publish(&self, kind: &Kind, key: &ObjectKey, change: Change) {
        let Change {
            gone,
            changed_job,
            left_out,
        } = change;
        if let Some(class) = left_out {
            self.tell_left_out(kind, key, class);
        }
        // The watch shows who holds the name; what we assumed no longer matters.
        let freed = self.memory.release_name(kind, key);
        let left = gone.as_ref().and_then(|entry| entry.child.job());
        if let Some(entry) = gone.filter(|entry| !entry.delete_requested)
            && let Some(owner) = &entry.child.owner
        {
            self.memory.object_vanished(&owner.uid);
        }
        let jobs = [freed, left, changed_job].into_iter().flatten();
        for job in jobs.filter(|job| self.jobs.has(job)) {
            self.memory.child_changed(&job);
            self.pending.enqueue(&job);
        }
    }

    /// Once per namespace and kind, until a new list shows less.
    fn tell_left_out(&self, kind: &Kind, key: &ObjectKey, class: Class) {
        let (namespace, kind) = (&key.namespace, kind.as_str());
        self.metrics.count_left_out(kind);
        match class {
            Class::Claimed => tracing::warn!(
                "namespace {namespace} has more {kind}s with muster's labels than muster keeps: the jobs \
                 of this namespace wait until some are deleted"
            ),
            Class::Unclaimed => tracing::warn!(
                "namespace {namespace} has many {kind}s with muster's labels that belong to no job; \
                 muster ignores them"
            ),
        }
    }
}

fn name(resource: &ApiResource) -> String {
    format!(
        "{}.{}/{}",
        resource.plural, resource.group, resource.version
    )
}
