//! All known objects of one kind, indexed by the job they belong to. Decides which of two tellings
//! of one object is the newer one; whose event it was, and what follows, is not known here.
//!
//! Our own writes count from the moment they are answered, and stand until the watch has caught
//! up with them. A view older than our own writes is how controllers do things twice.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

use crate::wire::Child;

/// Objects of one kind.
#[derive(Debug, Default)]
pub(crate) struct Shelf {
    entries: HashMap<Place, Entry>,
    by_owner: HashMap<String, BTreeSet<Place>>,
    by_claim: HashMap<String, BTreeSet<Place>>,
    departed: Departed,
    /// Places that the running relist has shown so far.
    relist: Option<HashSet<Place>>,
}

/// Where an object stands: at most one at a time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place {
    pub(crate) namespace: String,
    pub(crate) name: String,
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
    pub(crate) news_for: Option<JobName>,
}

/// Which job, by the name that its children spell.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct JobName {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Shelf {
    /// The watch showed an object.
    pub(crate) fn shown(&mut self, child: Child) -> Change {
        let place = child.place();
        let stale = self.departed.covers(&child)
            || self
                .entries
                .get(&place)
                .is_some_and(|entry| child.version < entry.child.version);
        if stale {
            return Change::default();
        }
        self.put(child, false)
    }

    /// The watch showed an object's end.
    pub(crate) fn ended(&mut self, child: &Child) -> Change {
        self.departed.add(child.uid.clone(), child.version);
        let place = child.place();
        let same = self.entries.get(&place).is_some_and(|entry| {
            entry.child.uid == child.uid && child.version >= entry.child.version
        });
        if same {
            Change {
                gone: self.take(&place),
                news_for: None,
            }
        } else {
            Change::default()
        }
    }

    /// The API server answered one of our requests with an object.
    pub(crate) fn answered(&mut self, child: Child) {
        let place = child.place();
        let known = self.entries.get(&place);
        let stale = self.departed.covers(&child)
            || known.is_some_and(|entry| child.version <= entry.child.version);
        if !stale {
            self.put(child, true);
        }
    }

    /// The API server answered that this very object is gone.
    pub(crate) fn absent(&mut self, place: &Place, uid: &str) {
        self.departed.add(uid.to_owned(), u64::MAX);
        if self
            .entries
            .get(place)
            .is_some_and(|entry| entry.child.uid == uid)
        {
            self.take(place);
        }
    }

    /// The API server answered that this object will go, without showing it again.
    pub(crate) fn doom(&mut self, place: &Place) {
        if let Some(entry) = self.entries.get_mut(place) {
            entry.doomed = true;
        }
    }

    /// A relist began.
    pub(crate) fn relist(&mut self) {
        self.relist = Some(HashSet::new());
    }

    /// A relist showed an object. Unlike an event, it may rightly show an older version than we
    /// know (a restored etcd); only our own writes stand against it.
    pub(crate) fn listed(&mut self, child: Child) -> Change {
        let place = child.place();
        if let Some(listed) = &mut self.relist {
            listed.insert(place.clone());
        }
        let stale = self.departed.covers(&child)
            || self
                .entries
                .get(&place)
                .is_some_and(|entry| entry.unseen && child.version < entry.child.version);
        if stale {
            Change::default()
        } else {
            self.put(child, false)
        }
    }

    /// A relist ended: what it did not show is gone, except what only our own writes tell of.
    /// Those are returned second, to be asked for one by one.
    pub(crate) fn relisted(&mut self) -> (Vec<Entry>, Vec<Place>) {
        let listed = self.relist.take().unwrap_or_default();
        let missing = self
            .entries
            .iter()
            .filter(|(place, _)| !listed.contains(*place));
        let (doubtful, gone): (Vec<_>, Vec<_>) = missing.partition(|(_, entry)| entry.unseen);
        let doubtful = doubtful
            .into_iter()
            .map(|(place, _)| place.clone())
            .collect();
        let gone: Vec<Place> = gone.into_iter().map(|(place, _)| place.clone()).collect();
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
        self.indexed(self.by_owner.get(uid))
    }

    /// Objects whose label names a job.
    pub(crate) fn claiming(&self, uid: &str) -> impl Iterator<Item = &Entry> {
        self.indexed(self.by_claim.get(uid))
    }

    fn indexed<'a>(
        &'a self,
        places: Option<&'a BTreeSet<Place>>,
    ) -> impl Iterator<Item = &'a Entry> {
        places
            .into_iter()
            .flatten()
            .filter_map(|place| self.entries.get(place))
    }

    fn put(&mut self, child: Child, unseen: bool) -> Change {
        let place = child.place();
        let before = self.take(&place);
        let same = before
            .as_ref()
            .is_some_and(|entry| entry.child.uid == child.uid);
        let doomed = same && before.as_ref().is_some_and(|entry| entry.doomed);
        let news = before
            .as_ref()
            .is_none_or(|entry| !entry.child.tells_the_same_as(&child));
        if let Some(owner) = &child.owner {
            self.by_owner
                .entry(owner.uid.clone())
                .or_default()
                .insert(place.clone());
        }
        if let Some(job) = &child.claims {
            self.by_claim
                .entry(job.clone())
                .or_default()
                .insert(place.clone());
        }
        let news_for = child.job().filter(|_| news);
        self.entries.insert(
            place,
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

    fn take(&mut self, place: &Place) -> Option<Entry> {
        let entry = self.entries.remove(place)?;
        if let Some(owner) = &entry.child.owner {
            unindex(&mut self.by_owner, &owner.uid, place);
        }
        if let Some(job) = &entry.child.claims {
            unindex(&mut self.by_claim, job, place);
        }
        Some(entry)
    }
}

fn unindex(index: &mut HashMap<String, BTreeSet<Place>>, key: &str, place: &Place) {
    if let Some(places) = index.get_mut(key) {
        places.remove(place);
        if places.is_empty() {
            index.remove(key);
        }
    }
}

impl Child {
    /// Where it stands.
    pub(crate) fn place(&self) -> Place {
        Place {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        }
    }

    /// The job it belongs to: its owner, or the owner of the Job that made it, which is known by
    /// the way we name Jobs.
    pub(crate) fn job(&self) -> Option<JobName> {
        let owner = self.owner.as_ref()?;
        let name = match owner.kind.as_str() {
            "Job" => owner.name.strip_suffix("-launcher")?,
            _ => owner.name.as_str(),
        };
        Some(JobName {
            namespace: self.namespace.clone(),
            name: name.to_owned(),
        })
    }

    fn tells_the_same_as(&self, other: &Self) -> bool {
        self.uid == other.uid
            && self.owner == other.owner
            && self.claims == other.claims
            && self.facts == other.facts
    }
}

/// The last few objects that ended, so that a late event of one does not bring it back.
#[derive(Debug, Default)]
struct Departed {
    last_versions: HashMap<String, u64>,
    order: VecDeque<String>,
}

impl Departed {
    const MAX: usize = 1024;

    fn add(&mut self, uid: String, version: u64) {
        let known = self.last_versions.insert(uid.clone(), version);
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
    use crate::wire::{Controller, Facts};

    fn object(name: &str, uid: &str, version: u64) -> Child {
        Child {
            namespace: "team-a".to_owned(),
            name: name.to_owned(),
            uid: uid.to_owned(),
            version,
            owner: Some(Controller {
                kind: "MPIJob".to_owned(),
                name: "ring".to_owned(),
                uid: "job-1".to_owned(),
            }),
            claims: Some("job-1".to_owned()),
            watched: true,
            facts: Facts::Config(planner::observed::Config {
                uid: uid.to_owned(),
                data: std::collections::BTreeMap::default(),
            }),
        }
    }

    fn version_of(shelf: &Shelf, name: &str) -> Option<u64> {
        let place = Place {
            namespace: "team-a".to_owned(),
            name: name.to_owned(),
        };
        shelf.get(&place).map(|entry| entry.child.version)
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
        let place = object("a", "u1", 5).place();
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
        let place = object("a", "u1", 5).place();
        shelf.shown(object("a", "u1", 5));
        shelf.doom(&place);
        shelf.shown(object("a", "u1", 6));
        assert!(shelf.get(&place).is_some_and(|entry| entry.doomed));
        shelf.shown(object("a", "u2", 7));
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
        assert_eq!(gone[0].child.name, "a");
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
        assert_eq!(doubtful, [object("a", "u1", 9).place()]);
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
        assert_eq!(shelf.claiming("job-1").count(), 0);
        assert!(shelf.by_owner.is_empty());
    }

    #[test]
    fn an_event_that_tells_nothing_new_is_no_change() {
        let mut shelf = Shelf::default();
        assert!(shelf.shown(object("a", "u1", 5)).news_for.is_some());
        assert!(shelf.shown(object("a", "u1", 6)).news_for.is_none());
        assert_eq!(version_of(&shelf, "a"), Some(6));
    }
}
