//! What the index says after the API server's answers and its watch, in any order.

use super::*;
use crate::wire::Facts;

fn object(name: &str, uid: &str, version: u64) -> Child {
    Child {
        key: ObjectKey::new("team-a", name),
        uid: uid.into(),
        version,
        owner: Some(Arc::new(ControllerRef {
            kind: "MPIJob".to_owned(),
            name: "ring".to_owned(),
            uid: "job-1".into(),
            job_name: None,
        })),
        job_label: Some("job-1".into()),
        orphan_of: None,
        has_watch_label: true,
        facts: Facts::Config(planner::observed::ConfigState::new(uid.to_owned(), [])),
    }
}

fn index() -> ObjectIndex {
    ObjectIndex::new(&Kind::ConfigMap, Arc::default())
}

fn version_of(index: &ObjectIndex, name: &str) -> Option<u64> {
    index
        .get(&ObjectKey::new("team-a", name))
        .map(|entry| entry.child.version)
}

#[test]
fn an_older_event_does_not_overwrite_our_own_write() {
    let mut index = index();
    index.watch_applied(object("a", "u1", 5));
    index.response(object("a", "u1", 9));
    index.watch_applied(object("a", "u1", 7));
    assert_eq!(version_of(&index, "a"), Some(9));
    index.watch_applied(object("a", "u1", 10));
    assert_eq!(version_of(&index, "a"), Some(10));
}

#[test]
fn an_answer_does_not_overwrite_a_newer_event() {
    let mut index = index();
    index.watch_applied(object("a", "u1", 9));
    index.response(object("a", "u1", 5));
    assert_eq!(version_of(&index, "a"), Some(9));
}

#[test]
fn the_end_of_an_older_object_does_not_remove_its_successor() {
    let mut index = index();
    index.watch_applied(object("a", "u1", 5));
    index.response(object("a", "u2", 9));
    assert!(index.watch_deleted(&object("a", "u1", 8)).gone.is_none());
    assert_eq!(version_of(&index, "a"), Some(9));
}

#[test]
fn a_late_event_does_not_bring_a_deleted_object_back() {
    let mut index = index();
    index.watch_applied(object("a", "u1", 5));
    assert!(index.watch_deleted(&object("a", "u1", 8)).gone.is_some());
    index.watch_applied(object("a", "u1", 7));
    assert_eq!(version_of(&index, "a"), None);
    index.response(object("a", "u1", 7));
    assert_eq!(version_of(&index, "a"), None);
}

#[test]
fn an_object_that_left_the_selection_may_come_back() {
    let mut index = index();
    index.watch_applied(object("a", "u1", 5));
    index.watch_deleted(&object("a", "u1", 8));
    index.response(object("a", "u1", 9));
    index.watch_deleted(&object("a", "u1", 8));
    assert_eq!(version_of(&index, "a"), Some(9));
}

#[test]
fn what_we_deleted_stays_deleted_until_the_watch_agrees() {
    let mut index = index();
    let key = object("a", "u1", 5).key;
    index.watch_applied(object("a", "u1", 5));
    index.absent(&key, Some("u1"));
    index.watch_applied(object("a", "u1", 6));
    assert_eq!(version_of(&index, "a"), None);
    index.watch_applied(object("a", "u2", 7));
    assert_eq!(version_of(&index, "a"), Some(7));
}

#[test]
fn a_requested_delete_survives_later_events() {
    let mut index = index();
    let key = object("a", "u1", 5).key;
    index.watch_applied(object("a", "u1", 5));
    index.set_delete_requested(&key, Some("u1"));
    index.watch_applied(object("a", "u1", 6));
    assert!(index.get(&key).is_some_and(|entry| entry.delete_requested));
    index.watch_applied(object("a", "u2", 7));
    assert!(index.get(&key).is_some_and(|entry| !entry.delete_requested));
    index.set_delete_requested(&key, Some("u1"));
    assert!(index.get(&key).is_some_and(|entry| !entry.delete_requested));
}

#[test]
fn a_relist_removes_what_it_does_not_show() {
    let mut index = index();
    index.watch_applied(object("a", "u1", 5));
    index.watch_applied(object("b", "u2", 6));
    index.relist_started();
    index.relist_applied(object("b", "u2", 6));
    let (gone, unconfirmed_keys) = index.relist_done();
    assert_eq!(gone.len(), 1);
    assert_eq!(*gone[0].child.key.name, *"a");
    assert!(unconfirmed_keys.is_empty());
    assert_eq!(index.owned_by("job-1").count(), 1);
}

#[test]
fn an_own_write_survives_a_relist_that_does_not_show_it() {
    let mut index = index();
    index.relist_started();
    index.response(object("a", "u1", 9));
    let (gone, unconfirmed_keys) = index.relist_done();
    assert!(gone.is_empty());
    assert_eq!(unconfirmed_keys, [object("a", "u1", 9).key]);
    assert_eq!(version_of(&index, "a"), Some(9));
}

#[test]
fn an_own_write_that_was_seen_back_does_not_survive_a_relist_without_it() {
    let mut index = index();
    index.response(object("a", "u1", 9));
    index.watch_applied(object("a", "u1", 9));
    index.relist_started();
    let (gone, unconfirmed_keys) = index.relist_done();
    assert_eq!((gone.len(), unconfirmed_keys.len()), (1, 0));
}

#[test]
fn a_relist_may_go_back_in_time_but_not_behind_our_own_writes() {
    let mut index = index();
    index.watch_applied(object("a", "u1", 50));
    index.response(object("b", "u2", 60));
    index.relist_started();
    index.relist_applied(object("a", "u1", 20));
    index.relist_applied(object("b", "u2", 20));
    index.relist_done();
    assert_eq!(version_of(&index, "a"), Some(20));
    assert_eq!(version_of(&index, "b"), Some(60));
}

#[test]
fn indexes_follow_the_objects() {
    let mut index = index();
    index.watch_applied(object("a", "u1", 5));
    let mut stolen = object("a", "u1", 6);
    stolen.owner = None;
    stolen.job_label = None;
    index.watch_applied(stolen);
    assert_eq!(index.owned_by("job-1").count(), 0);
    assert!(index.by_owner.is_empty());

    let mut pretender = object("b", "u2", 7);
    pretender.owner = None;
    index.watch_applied(pretender);
    assert_eq!(index.job_labelled("job-1").count(), 1);
    index.watch_deleted(&object("b", "u2", 8));
    assert!(index.by_job_label.is_empty());
}

#[test]
fn an_event_that_tells_nothing_new_is_no_change() {
    let mut index = index();
    assert!(
        index
            .watch_applied(object("a", "u1", 5))
            .changed_job
            .is_some()
    );
    assert!(
        index
            .watch_applied(object("a", "u1", 6))
            .changed_job
            .is_none()
    );
    assert_eq!(version_of(&index, "a"), Some(6));
}
