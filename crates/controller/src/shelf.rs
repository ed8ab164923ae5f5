//! All known objects of one kind, indexed by the job they belong to. Decides which of two tellings
//! of one object is the newer one; whose event it was, and what follows, is not known here.
//!
//! Our own writes count from the moment they are answered, and stand until the watch has caught
//! up with them. A view older than our own writes is how controllers do things twice.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use crate::wire::{Child, Controller, Place};

/// Objects of one kind.
#[derive(Debug, Default)]
pub(crate) struct Shelf {
    entries: HashMap<Place, Entry>,
    by_owner: HashMap<Arc<str>, Family>,
    /// Only objects whose label names a job that does not own them.
    by_claim: HashMap<Arc<str>, BTreeSet<Place>>,
    departed: Departed,
    /// Places that the running relist has shown so far.
    relist: Option<HashSet<Place>>,
}

/// Objects of one owner, which they all name: its name is kept once.
#[derive(Debug)]
struct Family {
    owner: Arc<Controller>,
    places: BTreeSet<Place>,
}

/// An object, and what we did to it.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) child: Child,
    /// Known from an answer to us; the watch has not shown it yet.
    unseen: bool,
    /// We deleted it; it is only not gone yet.
    pub(crate) doomed: bool,
}

/// What a watch event changed.
#[derive(Debug, Default)]
pub(crate) struct Change {
    /// The object that was there before, if it is no longer.
    pub(crate) gone: Option<Entry>,
    /// The job of the object that is there now, if anything new was told of it.
    pub(crate) news_for: Option<Place>,
}

impl Shelf {
    /// The watch showed an object.
    pub(crate) fn shown(&mut self, child: Child) -> Change {
        let known = self.entries.get(&child.place);
        let stale = self.departed.covers(&child)
            || known.is_some_and(|entry| child.version < entry.child.version);
        if stale {
            return Change::default();
        }
        self.put(child, false)
    }

    /// The watch showed an object's end.
    pub(crate) fn ended(&mut self, child: &Child) -> Change {
        self.departed.add(&child.uid, child.version);
        let same = self.entries.get(&child.place).is_some_and(|entry| {
            entry.child.uid == child.uid && child.version >= entry.child.version
        });
        Change {
            gone: if same { self.take(&child.place) } else { None },
            news_for: None,
        }
    }

    /// The API server answered one of our requests with an object.
    pub(crate) fn answered(&mut self, child: Child) {
        let known = self.entries.get(&child.place);
        let stale = self.departed.covers(&child)
            || known.is_some_and(|entry| child.version <= entry.child.version);
        if !stale {
            self.put(child, true);
        }
    }

    /// The API server answered that this very object is gone.
    pub(crate) fn absent(&mut self, place: &Place, uid: &str) {
        self.departed.add(uid, u64::MAX);
        if self
            .entries
            .get(place)
            .is_some_and(|entry| *entry.child.uid == *uid)
        {
            self.take(place);
        }
    }

    /// The API server answered that this object will go, without showing it again.
    pub(crate) fn doom(&mut self, place: &Place, uid: Option<&str>) {
        if let Some(entry) = self.entries.get_mut(place) {
            entry.doomed |= uid.is_none_or(|uid| *entry.child.uid == *uid);
        }
    }

    /// A relist began. It is a new beginning: it may rightly show what has ended before (a
    /// restored etcd), and a list that lags is soon followed by the end of what it shows.
    pub(crate) fn relist(&mut self) {
        self.relist = Some(HashSet::new());
        self.departed = Departed::default();
    }

    /// A relist showed an object. Unlike an event, it may show an older version than we know;
    /// only our own writes stand against it.
    pub(crate) fn listed(&mut self, child: Child) -> Change {
        if let Some(listed) = &mut self.relist {
            listed.insert(child.place.clone());
        }
        let known = self.entries.get(&child.place);
        let stale = known.is_some_and(|entry| entry.unseen && child.version < entry.child.version);
        if stale {
            return Change::default();
        }
        let place = child.place.clone();
        let change = self.put(child, false);
        if let Some(entry) = self.entries.get_mut(&place) {
            entry.doomed = false;
        }
        change
    }

    /// A relist ended: what it did not show is gone, except what only our own writes tell of.
    /// Those are returned second, to be asked for one by one.
    pub(crate) fn relisted(&mut self) -> (Vec<Entry>, Vec<Place>) {
        let listed = self.relist.take().unwrap_or_default();
        let missing = self
            .entries
            .values()
            .filter(|entry| !listed.contains(&entry.child.place));
        let (doubtful, gone): (Vec<&Entry>, Vec<&Entry>) = missing.partition(|entry| entry.unseen);
        let places = |entries: Vec<&Entry>| -> Vec<Place> {
            entries
                .into_iter()
                .map(|entry| entry.child.place.clone())
                .collect()
        };
        let (doubtful, gone) = (places(doubtful), places(gone));
        (
            gone.iter().filter_map(|place| self.take(place)).collect(),
            doubtful,
        )
    }

    /// The object at a place.
    pub(crate) fn get(&self, place: &Place) -> Option<&Entry> {
        self.entries.get(place)
    }

    /// Objects that an owner controls.
    pub(crate) fn owned_by(&self, uid: &str) -> impl Iterator<Item = &Entry> {
        self.at(self.by_owner.get(uid).map(|family| &family.places))
    }

    /// Objects whose label names a job that does not control them.
    pub(crate) fn claiming(&self, uid: &str) -> impl Iterator<Item = &Entry> {
        self.at(self.by_claim.get(uid))
    }

    fn at<'a>(&'a self, places: Option<&'a BTreeSet<Place>>) -> impl Iterator<Item = &'a Entry> {
        places
            .into_iter()
            .flatten()
            .filter_map(|place| self.entries.get(place))
    }

    fn put(&mut self, mut child: Child, unseen: bool) -> Change {
        let before = self.take(&child.place);
        let same = before
            .as_ref()
            .is_some_and(|entry| entry.child.uid == child.uid);
        let doomed = same && before.as_ref().is_some_and(|entry| entry.doomed);
        let news = before
            .as_ref()
            .is_none_or(|entry| !entry.child.tells_the_same_as(&child));
        self.index(&mut child);
        let news_for = child.job().filter(|_| news);
        self.entries.insert(
            child.place.clone(),
            Entry {
                child,
                unseen,
                doomed,
            },
        );
        Change {
            gone: before.filter(|_| !same),
            news_for,
        }
    }

    /// Notes whose it is, and lets it share the names of its family.
    fn index(&mut self, child: &mut Child) {
        if let Some(owner) = &mut child.owner {
            let family = self
                .by_owner
                .entry(Arc::clone(&owner.uid))
                .or_insert_with(|| Family {
                    owner: Arc::clone(owner),
                    places: BTreeSet::new(),
                });
            if family.owner == *owner {
                *owner = Arc::clone(&family.owner);
            }
            if let Some(relative) = family.places.first()
                && relative.namespace == child.place.namespace
            {
                child.place.namespace = Arc::clone(&relative.namespace);
            }
            if child.claims.as_ref() == Some(&owner.uid) {
                child.claims = Some(Arc::clone(&owner.uid));
            }
            family.places.insert(child.place.clone());
        }
        if let Some(job) = child.foreign_claim() {
            self.by_claim
                .entry(Arc::clone(job))
                .or_default()
                .insert(child.place.clone());
        }
    }

    fn take(&mut self, place: &Place) -> Option<Entry> {
        let entry = self.entries.remove(place)?;
        if let Some(owner) = &entry.child.owner
            && let Some(family) = self.by_owner.get_mut(&owner.uid)
        {
            family.places.remove(place);
            if family.places.is_empty() {
                self.by_owner.remove(&owner.uid);
            }
        }
        if let Some(job) = entry.child.foreign_claim()
            && let Some(places) = self.by_claim.get_mut(job)
        {
            places.remove(place);
            if places.is_empty() {
                self.by_claim.remove(job);
            }
        }
        Some(entry)
    }
}

impl Child {
    /// The job that its label names, if that is not its owner.
    fn foreign_claim(&self) -> Option<&Arc<str>> {
        self.claims.as_ref().filter(|job| !self.is_owned_by(job))
    }
}

/// The last few objects that ended, so that a late event of one does not bring it back.
#[derive(Debug, Default)]
struct Departed {
    last_versions: HashMap<Arc<str>, u64>,
    order: VecDeque<Arc<str>>,
}

impl Departed {
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

    /// Anything told about the object up to its end. An object that merely left the selection of
    /// the watch may come back, at a later version.
    fn covers(&self, child: &Child) -> bool {
        self.last_versions
            .get(&child.uid)
            .is_some_and(|version| child.version <= *version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Facts;

    fn object(name: &str, uid: &str, version: u64) -> Child {
        Child {
            place: Place::new("team-a", name),
            uid: uid.into(),
            version,
            owner: Some(Arc::new(Controller {
                kind: "MPIJob".to_owned(),
                name: "ring".to_owned(),
                uid: "job-1".into(),
            })),
            claims: Some("job-1".into()),
            watched: true,
            facts: Facts::Config(planner::observed::Config {
                uid: uid.to_owned(),
                data: std::collections::BTreeMap::default(),
            }),
        }
    }

    fn version_of(shelf: &Shelf, name: &str) -> Option<u64> {
        shelf
            .get(&Place::new("team-a", name))
            .map(|entry| entry.child.version)
    }

    #[test]
    fn an_older_event_does_not_overwrite_our_own_write() {
        let mut shelf = Shelf::default();
        shelf.shown(object("a", "u1", 5));
        shelf.answered(object("a", "u1", 9));
        shelf.shown(object("a", "u1", 7));
        assert_eq!(version_of(&shelf, "a"), Some(9));
        shelf.shown(object("a", "u1", 10));
        assert_eq!(version_of(&shelf, "a"), Some(10));
    }

    #[test]
    fn an_answer_does_not_overwrite_a_newer_event() {
        let mut shelf = Shelf::default();
        shelf.shown(object("a", "u1", 9));
        shelf.answered(object("a", "u1", 5));
        assert_eq!(version_of(&shelf, "a"), Some(9));
    }

    #[test]
    fn the_end_of_an_older_object_does_not_remove_its_successor() {
        let mut shelf = Shelf::default();
        shelf.shown(object("a", "u1", 5));
        shelf.answered(object("a", "u2", 9));
        assert!(shelf.ended(&object("a", "u1", 8)).gone.is_none());
        assert_eq!(version_of(&shelf, "a"), Some(9));
    }

    #[test]
    fn a_late_event_does_not_bring_a_deleted_object_back() {
        let mut shelf = Shelf::default();
        shelf.shown(object("a", "u1", 5));
        assert!(shelf.ended(&object("a", "u1", 8)).gone.is_some());
        shelf.shown(object("a", "u1", 7));
        assert_eq!(version_of(&shelf, "a"), None);
        shelf.answered(object("a", "u1", 7));
        assert_eq!(version_of(&shelf, "a"), None);
    }

    #[test]
    fn an_object_that_left_the_selection_may_come_back() {
        let mut shelf = Shelf::default();
        shelf.shown(object("a", "u1", 5));
        shelf.ended(&object("a", "u1", 8));
        shelf.answered(object("a", "u1", 9));
        shelf.ended(&object("a", "u1", 8));
        assert_eq!(version_of(&shelf, "a"), Some(9));
    }

    #[test]
    fn what_we_deleted_stays_deleted_until_the_watch_agrees() {
        let mut shelf = Shelf::default();
        let place = object("a", "u1", 5).place;
        shelf.shown(object("a", "u1", 5));
        shelf.absent(&place, "u1");
        shelf.shown(object("a", "u1", 6));
        assert_eq!(version_of(&shelf, "a"), None);
        shelf.shown(object("a", "u2", 7));
        assert_eq!(version_of(&shelf, "a"), Some(7));
    }

    #[test]
    fn a_doomed_object_stays_doomed_through_later_events() {
        let mut shelf = Shelf::default();
        let place = object("a", "u1", 5).place;
        shelf.shown(object("a", "u1", 5));
        shelf.doom(&place, Some("u1"));
        shelf.shown(object("a", "u1", 6));
        assert!(shelf.get(&place).is_some_and(|entry| entry.doomed));
        shelf.shown(object("a", "u2", 7));
        assert!(shelf.get(&place).is_some_and(|entry| !entry.doomed));
        shelf.doom(&place, Some("u1"));
        assert!(shelf.get(&place).is_some_and(|entry| !entry.doomed));
    }

    #[test]
    fn a_relist_removes_what_it_does_not_show() {
        let mut shelf = Shelf::default();
        shelf.shown(object("a", "u1", 5));
        shelf.shown(object("b", "u2", 6));
        shelf.relist();
        shelf.listed(object("b", "u2", 6));
        let (gone, doubtful) = shelf.relisted();
        assert_eq!(gone.len(), 1);
        assert_eq!(*gone[0].child.place.name, *"a");
        assert!(doubtful.is_empty());
        assert_eq!(shelf.owned_by("job-1").count(), 1);
    }

    #[test]
    fn an_own_write_survives_a_relist_that_does_not_show_it() {
        let mut shelf = Shelf::default();
        shelf.relist();
        shelf.answered(object("a", "u1", 9));
        let (gone, doubtful) = shelf.relisted();
        assert!(gone.is_empty());
        assert_eq!(doubtful, [object("a", "u1", 9).place]);
        assert_eq!(version_of(&shelf, "a"), Some(9));
    }

    #[test]
    fn an_own_write_that_was_seen_back_does_not_survive_a_relist_without_it() {
        let mut shelf = Shelf::default();
        shelf.answered(object("a", "u1", 9));
        shelf.shown(object("a", "u1", 9));
        shelf.relist();
        let (gone, doubtful) = shelf.relisted();
        assert_eq!((gone.len(), doubtful.len()), (1, 0));
    }

    #[test]
    fn a_relist_may_go_back_in_time_but_not_behind_our_own_writes() {
        let mut shelf = Shelf::default();
        shelf.shown(object("a", "u1", 50));
        shelf.answered(object("b", "u2", 60));
        shelf.relist();
        shelf.listed(object("a", "u1", 20));
        shelf.listed(object("b", "u2", 20));
        shelf.relisted();
        assert_eq!(version_of(&shelf, "a"), Some(20));
        assert_eq!(version_of(&shelf, "b"), Some(60));
    }

    #[test]
    fn indexes_follow_the_objects() {
        let mut shelf = Shelf::default();
        shelf.shown(object("a", "u1", 5));
        let mut stolen = object("a", "u1", 6);
        stolen.owner = None;
        stolen.claims = None;
        shelf.shown(stolen);
        assert_eq!(shelf.owned_by("job-1").count(), 0);
        assert!(shelf.by_owner.is_empty());

        let mut pretender = object("b", "u2", 7);
        pretender.owner = None;
        shelf.shown(pretender);
        assert_eq!(shelf.claiming("job-1").count(), 1);
        shelf.ended(&object("b", "u2", 8));
        assert!(shelf.by_claim.is_empty());
    }

    #[test]
    fn an_event_that_tells_nothing_new_is_no_change() {
        let mut shelf = Shelf::default();
        assert!(shelf.shown(object("a", "u1", 5)).news_for.is_some());
        assert!(shelf.shown(object("a", "u1", 6)).news_for.is_none());
        assert_eq!(version_of(&shelf, "a"), Some(6));
    }
}
