//! All known objects of one kind, indexed by owner. Decides which of two versions of one object is
//! newer, and what changed for its job; knows nothing of requests. `tenants` decides how much is kept.
//!
//! Our own writes count from the moment they are answered, until the watch has caught up with them.
//! A controller whose view is older than its own writes does things twice.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use planner::Kind;

use crate::known_jobs::KnownJobs;
use crate::tenants::{Class, Limits, Tenants};
use crate::wire::{Child, ControllerRef, ObjectKey};

/// Objects of one kind.
#[derive(Debug)]
pub(crate) struct ObjectIndex {
    entries: HashMap<ObjectKey, Entry>,
    by_owner: HashMap<Arc<str>, Family>,
    /// Only objects whose label names a job that does not own them.
    by_job_label: HashMap<Arc<str>, BTreeSet<ObjectKey>>,
    tombstones: Tombstones,
    /// Which list runs, or ran last.
    relist: u32,
    jobs: Arc<KnownJobs>,
    tenants: Tenants,
    /// What was left out may be kept now, and only a new list shows it.
    wants_relist: bool,
}

/// Objects of one owner. They share its name in memory.
#[derive(Debug)]
struct Family {
    owner: Arc<ControllerRef>,
    keys: BTreeSet<ObjectKey>,
}

/// An object, and what we know besides.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) child: Child,
    /// Known from the answer to a request; the watch has not shown it yet.
    unconfirmed: bool,
    /// We deleted it, and it still exists.
    pub(crate) delete_requested: bool,
    /// The last list that showed it.
    relist: u32,
    class: Class,
    bytes: u32,
}

/// What a watch event changed.
#[derive(Debug, Default)]
pub(crate) struct Change {
    /// The object that was removed.
    pub(crate) gone: Option<Entry>,
    /// The job of an object that is new or changed.
    pub(crate) changed_job: Option<ObjectKey>,
    /// The first object of its namespace that was left out.
    pub(crate) left_out: Option<Class>,
}

impl Change {
    /// An object went, or nothing happened.
    pub(crate) fn removed(gone: Option<Entry>) -> Self {
        Self {
            gone,
            ..Self::default()
        }
    }
}

impl ObjectIndex {
    /// Of objects of this kind.
    pub(crate) fn new(kind: &Kind, jobs: Arc<KnownJobs>) -> Self {
        Self {
            entries: HashMap::new(),
            by_owner: HashMap::new(),
            by_job_label: HashMap::new(),
            tombstones: Tombstones::default(),
            relist: 0,
            jobs,
            tenants: Tenants::new(Limits::of(kind)),
            wants_relist: false,
        }
    }

    /// The watch showed an object.
    pub(crate) fn watch_applied(&mut self, child: Child) -> Change {
        let known = self.entries.get(&child.key);
        let stale = self.tombstones.covers(&child)
            || known.is_some_and(|entry| child.version < entry.child.version);
        if stale {
            return Change::default();
        }
        self.put(child, false)
    }

    /// The watch showed that an object was deleted.
    pub(crate) fn watch_deleted(&mut self, child: &Child) -> Change {
        self.tombstones.add(&child.uid, child.version);
        self.tenants.accounted_for(&child.key.namespace, &child.uid);
        let same = self.entries.get(&child.key).is_some_and(|entry| {
            entry.child.uid == child.uid && child.version >= entry.child.version
        });
        Change::removed(if same { self.take(&child.key) } else { None })
    }

    /// The API server answered one of our requests with an object.
    pub(crate) fn response(&mut self, child: Child) -> Change {
        let known = self.entries.get(&child.key);
        let stale = self.tombstones.covers(&child)
            || known.is_some_and(|entry| child.version <= entry.child.version);
        if stale {
            return Change::default();
        }
        self.put(child, true)
    }

    /// The API server answered that the object with this UID, or any, no longer exists.
    pub(crate) fn absent(&mut self, key: &ObjectKey, uid: Option<&str>) -> Change {
        let known = self
            .entries
            .get(key)
            .map(|entry| Arc::clone(&entry.child.uid));
        let gone = uid.map(Arc::from).or_else(|| known.clone());
        if let Some(uid) = &gone {
            self.tombstones.add(uid, u64::MAX);
        }
        Change::removed(if known == gone { self.take(key) } else { None })
    }

    /// The API server answered that it will delete the object, without showing it.
    pub(crate) fn set_delete_requested(&mut self, key: &ObjectKey, uid: Option<&str>) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.delete_requested |= uid.is_none_or(|uid| *entry.child.uid == *uid);
        }
    }

    /// A relist began. It may show objects that were deleted before, after somebody restored etcd.
    pub(crate) fn relist_started(&mut self) {
        self.relist = self.relist.wrapping_add(1);
        self.tombstones = Tombstones::default();
        self.tenants.relist_started();
        self.wants_relist = false;
    }

    /// A relist showed an object. It may be older than the version we know, after somebody restored
    /// etcd; only our own unconfirmed writes are newer.
    pub(crate) fn relist_applied(&mut self, child: Child) -> Change {
        let known = self.entries.get_mut(&child.key);
        if let Some(entry) = known
            && entry.unconfirmed
            && child.version < entry.child.version
        {
            entry.relist = self.relist;
            return Change::default();
        }
        let key = child.key.clone();
        let change = self.put(child, false);
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.delete_requested = false;
            entry.relist = self.relist;
        }
        change
    }

    /// A relist ended. Removes and returns what it did not show, except objects that only our own
    /// writes showed: their keys come second, to be asked for one by one.
    pub(crate) fn relist_done(&mut self) -> (Vec<Entry>, Vec<ObjectKey>) {
        let missing = self
            .entries
            .values()
            .filter(|entry| entry.relist != self.relist);
        let (unconfirmed, gone): (Vec<&Entry>, Vec<&Entry>) =
            missing.partition(|entry| entry.unconfirmed);
        // In order, so that the same events lead to the same requests.
        let keys = |entries: Vec<&Entry>| -> Vec<ObjectKey> {
            let keys = entries.into_iter().map(|entry| entry.child.key.clone());
            keys.collect::<BTreeSet<_>>().into_iter().collect()
        };
        let (unconfirmed, gone) = (keys(unconfirmed), keys(gone));
        self.tenants.relist_done();
        (
            gone.iter().filter_map(|key| self.take(key)).collect(),
            unconfirmed,
        )
    }

    /// The object with this key.
    pub(crate) fn get(&self, key: &ObjectKey) -> Option<&Entry> {
        self.entries.get(key)
    }

    /// Objects that an owner controls.
    pub(crate) fn owned_by(&self, uid: &str) -> impl Iterator<Item = &Entry> {
        self.at(self.by_owner.get(uid).map(|family| &family.keys))
    }

    /// Objects whose label names a job that does not control them.
    pub(crate) fn job_labelled(&self, uid: &str) -> impl Iterator<Item = &Entry> {
        self.at(self.by_job_label.get(uid))
    }

    fn at<'a>(&'a self, keys: Option<&'a BTreeSet<ObjectKey>>) -> impl Iterator<Item = &'a Entry> {
        keys.into_iter()
            .flatten()
            .filter_map(|key| self.entries.get(key))
    }

    /// A job has come that may have children already. Some may have been left out as nobody's.
    pub(crate) fn job_came(&mut self, namespace: &str) {
        self.wants_relist |= self.tenants.job_came(namespace);
    }

    /// Objects of jobs of this namespace may have been left out.
    pub(crate) fn hides_children(&self, namespace: &str) -> bool {
        self.tenants.hides_children(namespace)
    }

    /// Whether only a new list shows what there is now. It is asked for once.
    pub(crate) fn take_wants_relist(&mut self) -> bool {
        std::mem::take(&mut self.wants_relist)
    }

    fn put(&mut self, mut child: Child, unconfirmed: bool) -> Change {
        let before = self.unlink(&child.key).map(|(entry, _)| entry);
        let known = before.as_ref().filter(|entry| entry.child.uid == child.uid);
        let news = known.is_none_or(|entry| !entry.child.same_except_version(&child));
        let changed_job = child.job().filter(|_| news);
        // A child outlives its job by the time that the garbage collector needs.
        let was_claimed = known.is_some_and(|entry| entry.class == Class::Claimed);
        let class = match was_claimed {
            true => Class::Claimed,
            false => self.jobs.class(&child),
        };
        let bytes = child.bytes();
        let namespace = &child.key.namespace;
        // Our own writes count, or we would repeat them.
        if !unconfirmed && !self.tenants.has_room(namespace, bytes, class) {
            let is_first = self.tenants.leave_out(namespace, &child.uid, class);
            return Change {
                gone: before,
                changed_job,
                left_out: is_first.then_some(class),
            };
        }
        let (same, delete_requested, relist) = match known {
            Some(entry) => (true, entry.delete_requested, entry.relist),
            None => (false, false, self.relist.wrapping_sub(1)),
        };
        self.tenants.add(namespace, bytes, class);
        self.tenants.accounted_for(namespace, &child.uid);
        self.index(&mut child);
        let entry = Entry {
            child,
            unconfirmed,
            delete_requested,
            relist,
            class,
            bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
        };
        self.entries.insert(entry.child.key.clone(), entry);
        Change {
            gone: before.filter(|_| !same),
            changed_job,
            left_out: None,
        }
    }

    /// Indexes an object, and lets it share strings with its siblings.
    fn index(&mut self, child: &mut Child) {
        if let Some(owner) = &mut child.owner {
            let family = self
                .by_owner
                .entry(Arc::clone(&owner.uid))
                .or_insert_with(|| Family {
                    owner: Arc::clone(owner),
                    keys: BTreeSet::new(),
                });
            if family.owner == *owner {
                *owner = Arc::clone(&family.owner);
            }
            if let Some(relative) = family.keys.first()
                && relative.namespace == child.key.namespace
            {
                child.key.namespace = Arc::clone(&relative.namespace);
            }
            if child.job_label.as_ref() == Some(&owner.uid) {
                child.job_label = Some(Arc::clone(&owner.uid));
            }
            family.keys.insert(child.key.clone());
        }
        if let Some(job) = child.foreign_job_label() {
            self.by_job_label
                .entry(Arc::clone(job))
                .or_default()
                .insert(child.key.clone());
        }
    }

    fn take(&mut self, key: &ObjectKey) -> Option<Entry> {
        let (entry, has_room_again) = self.unlink(key)?;
        self.wants_relist |= has_room_again;
        Some(entry)
    }

    fn unlink(&mut self, key: &ObjectKey) -> Option<(Entry, bool)> {
        let entry = self.entries.remove(key)?;
        let (namespace, bytes) = (&entry.child.key.namespace, entry.bytes as usize);
        let has_room_again = self.tenants.remove(namespace, bytes, entry.class);
        if let Some(owner) = &entry.child.owner
            && let Some(family) = self.by_owner.get_mut(&owner.uid)
        {
            family.keys.remove(key);
            if family.keys.is_empty() {
                self.by_owner.remove(&owner.uid);
            }
        }
        if let Some(job) = entry.child.foreign_job_label()
            && let Some(keys) = self.by_job_label.get_mut(job)
        {
            keys.remove(key);
            if keys.is_empty() {
                self.by_job_label.remove(job);
            }
        }
        Some((entry, has_room_again))
    }
}

impl Child {
    /// The job that its label names, if that is not its owner.
    fn foreign_job_label(&self) -> Option<&Arc<str>> {
        self.job_label.as_ref().filter(|job| !self.is_owned_by(job))
    }
}

/// The last deleted objects, so that a late event does not bring one back.
#[derive(Debug, Default)]
struct Tombstones {
    last_versions: HashMap<Arc<str>, u64>,
    order: VecDeque<Arc<str>>,
}

impl Tombstones {
    const MAX: usize = 1024;

    fn add(&mut self, uid: &str, version: u64) {
        let uid: Arc<str> = uid.into();
        let known = self.last_versions.insert(Arc::clone(&uid), version);
        if known.is_none() {
            self.order.push_back(uid);
        }
        if self.order.len() > Self::MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.last_versions.remove(&oldest);
        }
    }

    /// Whether this version is older than the deletion. An object that lost its label leaves the
    /// watch in the same way, and may come back with a later version.
    fn covers(&self, child: &Child) -> bool {
        self.last_versions
            .get(&child.uid)
            .is_some_and(|version| child.version <= *version)
    }
}

#[cfg(test)]
mod tests;
