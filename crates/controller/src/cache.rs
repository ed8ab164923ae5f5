//! What the cluster holds for our jobs, as last seen or last written by us. Decides which job an
//! event concerns; what to do about it is for the reconciler.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use planner::Kind;
use tokio::sync::watch;

use crate::dirty::Dirty;
use crate::memory::Memory;
use crate::shelf::{Change, Entry, Shelf};
use crate::wire::{Child, Place};

/// One shelf per kind of child.
#[derive(Debug)]
pub(crate) struct Cache {
    shelves: Mutex<BTreeMap<Kind, Shelf>>,
    unlisted: watch::Sender<BTreeSet<Kind>>,
    needed: watch::Sender<BTreeSet<Kind>>,
    memory: Arc<Memory>,
    dirty: Arc<Dirty>,
}

impl Cache {
    /// Empty shelves for these kinds; none of them counts as known before its first list.
    pub(crate) fn new(kinds: &[Kind], memory: Arc<Memory>, dirty: Arc<Dirty>) -> Self {
        let shelves = kinds
            .iter()
            .map(|kind| (kind.clone(), Shelf::default()))
            .collect();
        let unlisted = watch::Sender::new(kinds.iter().cloned().collect());
        Self {
            shelves: Mutex::new(shelves),
            unlisted,
            needed: watch::Sender::default(),
            memory,
            dirty,
        }
    }

    /// Makes room for more kinds, and returns those that are new: they do not count as known before
    /// their first list.
    pub(crate) fn expect(&self, kinds: &[Kind]) -> Vec<Kind> {
        let mut shelves = self.shelves.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = |kind: &&Kind| !shelves.contains_key(*kind);
        let new: Vec<Kind> = kinds.iter().filter(is_new).cloned().collect();
        for kind in &new {
            shelves.insert(kind.clone(), Shelf::default());
        }
        self.unlisted
            .send_modify(|unlisted| unlisted.extend(new.iter().cloned()));
        new
    }

    /// Returns once every kind was listed that all jobs have, and those that these jobs have besides.
    /// What only jobs of another API have may be forbidden to us without harm to these.
    pub(crate) async fn listed(&self, besides: &[Kind]) {
        let counts = |kind: &Kind| kind.is_everyones() || besides.contains(kind);
        let mut unlisted = self.unlisted.subscribe();
        let all = unlisted
            .wait_for(|unlisted| !unlisted.iter().any(counts))
            .await;
        all.expect("the sender lives as long as the cache");
    }

    /// Every kind was listed that all jobs have.
    pub(crate) fn is_listed(&self) -> bool {
        !self.unlisted.borrow().iter().any(Kind::is_everyones)
    }

    /// A kind counts as listed.
    pub(crate) fn set_listed(&self, kind: &Kind) {
        self.unlisted
            .send_if_modified(|unlisted| unlisted.remove(kind));
    }

    /// A job needs an object of this kind.
    pub(crate) fn need(&self, kind: &Kind) {
        self.needed
            .send_if_modified(|needed| needed.insert(kind.clone()));
    }

    /// Returns once a job needs an object of this kind.
    pub(crate) async fn needed(&self, kind: &Kind) {
        let mut needed = self.needed.subscribe();
        let some = needed.wait_for(|needed| needed.contains(kind)).await;
        some.expect("the sender lives as long as the cache");
    }

    /// Reads, or takes in an answer to one of our own requests. Nobody is woken by it.
    pub(crate) fn on<T>(&self, kind: &Kind, look: impl FnOnce(&mut Shelf) -> T) -> T {
        // A panic while the lock was held cannot leave a shelf half changed for longer than the
        // next relist, so a poisoned lock is no reason to stop.
        let mut shelves = self.shelves.lock().unwrap_or_else(PoisonError::into_inner);
        look(shelves.entry(kind.clone()).or_default())
    }

    /// The watch showed an object.
    pub(crate) fn shown(&self, kind: &Kind, child: Child) {
        let place = child.place.clone();
        let change = self.on(kind, |shelf| shelf.shown(child));
        self.follow(kind, &place, change);
    }

    /// The watch showed an object's end.
    pub(crate) fn ended(&self, kind: &Kind, child: &Child) {
        let change = self.on(kind, |shelf| shelf.ended(child));
        self.follow(kind, &child.place, change);
    }

    /// A relist showed an object.
    pub(crate) fn relist_shown(&self, kind: &Kind, child: Child) {
        let place = child.place.clone();
        let change = self.on(kind, |shelf| shelf.listed(child));
        self.follow(kind, &place, change);
    }

    /// A relist ended. Returns the places that only our own writes tell of.
    pub(crate) fn relist_ended(&self, kind: &Kind) -> Vec<Place> {
        let (gone, doubtful) = self.on(kind, Shelf::relisted);
        for entry in gone {
            let place = entry.child.place.clone();
            self.follow(
                kind,
                &place,
                Change {
                    gone: Some(entry),
                    news_for: None,
                },
            );
        }
        self.set_listed(kind);
        doubtful
    }

    /// This very object turned out to be gone.
    pub(crate) fn found_absent(&self, kind: &Kind, place: &Place) {
        let entry = self.on(kind, |shelf| {
            let entry = shelf.get(place).cloned()?;
            shelf.absent(place, &entry.child.uid);
            Some(entry)
        });
        self.follow(
            kind,
            place,
            Change {
                gone: entry,
                news_for: None,
            },
        );
    }

    fn follow(&self, kind: &Kind, place: &Place, change: Change) {
        let Change { gone, news_for } = change;
        // Now that the watch speaks of the place, what we thought of it no longer counts.
        let freed = self.memory.release(kind, place);
        let left = gone.as_ref().and_then(|entry| entry.child.job());
        if let Some(Entry {
            child,
            doomed: false,
            ..
        }) = &gone
            && let Some(owner) = &child.owner
        {
            self.memory.doubt_key(&owner.uid);
        }
        for job in [freed, left, news_for].into_iter().flatten() {
            self.touch(&job);
        }
    }

    fn touch(&self, job: &Place) {
        self.memory.child_changed(job);
        self.dirty.mark(job);
    }
}
