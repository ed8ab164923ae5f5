//! The parts of a job's life.

use jiff::{SignedDuration, Timestamp};
use planner::fixtures::{job, noon, pod, world};
use planner::observed::{Observed, Pod};
use planner::{LifePart, PodStart, parts_of_life};

fn at(second: i64) -> Timestamp {
    noon() + SignedDuration::from_secs(second)
}

/// A pod that was made, placed and begun at these seconds.
fn begun(name: &str, made: i64, placed: i64, begun: i64) -> Pod {
    Pod {
        created_at: at(made),
        start: PodStart {
            scheduled_at: Some(at(placed)),
            begun_at: Some(at(begun)),
            ..PodStart::default()
        },
        ..pod(name)
    }
}

fn ran() -> Observed {
    let mut world = world(job("demo").workers(2));
    world.workers = vec![
        begun("demo-worker-0", 10, 11, 20),
        begun("demo-worker-1", 10, 14, 17),
    ];
    world.launcher_pods = vec![begun("demo-launcher", 12, 12, 25)];
    world
}

fn seconds(world: &Observed) -> Vec<i64> {
    let parts = parts_of_life(world, at(0), at(100));
    let names: Vec<LifePart> = parts.iter().map(|(part, _)| *part).collect();
    assert_eq!(names, LifePart::ALL[..names.len()]);
    parts.iter().map(|(_, length)| length.as_secs()).collect()
}

#[test]
fn each_part_of_a_life_begins_where_the_last_ended() {
    assert_eq!(seconds(&ran()), [10, 4, 6, 5, 75]);
}

#[test]
fn a_worker_that_never_began_is_where_the_story_ends() {
    let mut world = ran();
    world.workers[1].start.begun_at = None;
    world.launcher_pods[0].start.begun_at = None;
    assert_eq!(seconds(&world), [10, 4]);
}

#[test]
fn a_worker_that_was_replaced_while_the_program_ran_delayed_no_start() {
    let mut world = ran();
    world.workers[0] = begun("demo-worker-0", 50, 51, 60);
    assert_eq!(seconds(&world), [10, 4, 3, 8, 75]);
}

#[test]
fn a_launcher_without_workers_has_the_same_parts() {
    let mut world = ran();
    world.workers.clear();
    assert_eq!(seconds(&world), [12, 0, 13, 0, 75]);
}

#[test]
fn clocks_that_differ_make_no_part_negative() {
    let mut world = ran();
    world.launcher_pods[0].start.begun_at = Some(at(2));
    let parts = seconds(&world);
    assert!(parts.iter().all(|length| *length >= 0), "{parts:?}");
    assert_eq!(parts.iter().sum::<i64>(), 100);
}
