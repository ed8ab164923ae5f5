//! What is put right in a PodGroup that others write to, and what is theirs.

use std::collections::BTreeMap;

use planner::Observed;
use planner::fixtures::job;
use planner::observed::Slot;
use serde_json::{Value, json};

use super::{asking, created_spec, holding, patched, plugins, volcano, wishful, world_with};

#[test]
fn what_was_created_is_left_alone() {
    for scheduler in [volcano(), plugins()] {
        for demo in [
            wishful(),
            job("demo"),
            asking(3, &json!({"cpu": "1"}), &json!({"cpu": 2})),
        ] {
            let world = world_with(scheduler.clone(), demo).settled();
            assert!(world.pod_group.ours().is_some());
            assert_eq!(patched(&world.with(set_group_uid)), None);
        }
    }
}

fn set_group_uid(world: &mut Observed) {
    if let Slot::Ours(group) = &mut world.pod_group {
        "uid-group".clone_into(&mut group.uid);
    }
}

#[test]
fn what_others_fill_in_is_theirs() {
    let world = world_with(
        volcano(),
        asking(1, &json!({"cpu": "1"}), &json!({"cpu": "1"})),
    );
    let filled_in = json!({
        "minMember": 2,
        "minResources": {"cpu": "2"},
        "queue": "default",
        "priorityClassName": "injected",
        "minTaskMember": {"worker": 1},
    });
    assert_eq!(patched(&holding(world, filled_in)), None);
}

#[test]
fn another_spelling_is_no_drift() {
    let demo = asking(
        1,
        &json!({"cpu": "500m", "memory": "512Mi"}),
        &json!({"cpu": "500m"}),
    );
    let world = world_with(volcano(), demo);
    let respelled = |cpu: Value, memory: Value| json!({"minMember": 2, "minResources": {"cpu": cpu, "memory": memory}});
    for spec in [
        respelled(json!("1"), json!("512Mi")),
        respelled(json!(1), json!("536870912")),
        respelled(json!("1000m"), json!("0.5Gi")),
    ] {
        assert_eq!(
            patched(&holding(world.clone(), spec.clone())),
            None,
            "{spec}"
        );
    }
    let spec = respelled(json!("1001m"), json!("512Mi"));
    let fixed = json!({"minResources": {"cpu": "1", "memory": "512Mi"}});
    assert_eq!(patched(&holding(world, spec)), Some(fixed));
}

#[test]
fn a_wish_that_cannot_be_read_is_written_once() {
    let wish = BTreeMap::from([
        ("cpu".to_owned(), json!("lots")),
        ("x/none".to_owned(), json!(null)),
    ]);
    let demo = job("demo").with(|job| job.gang.min_resources = Some(wish));
    let world = world_with(volcano(), demo);
    let spec = created_spec(&world);
    assert_eq!(spec["minResources"], json!({"cpu": "lots"}));
    assert_eq!(patched(&holding(world, spec)), None);
}

#[test]
fn a_zero_that_a_scheduler_left_out_is_no_drift() {
    let demo = job("demo")
        .workers(1)
        .with(|job| job.gang.min_members = Some(0));
    let world = world_with(volcano(), demo);
    assert_eq!(
        patched(&holding(world.clone(), json!({"queue": "default"}))),
        None
    );
    let spec = json!({"minMember": 3});
    assert_eq!(
        patched(&holding(world, spec)),
        Some(json!({"minMember": 0}))
    );

    // A timeout is different: none means the scheduler's own.
    let world = world_with(plugins(), job("demo").workers(1));
    let spec = json!({"minMember": 2});
    assert_eq!(
        patched(&holding(world, spec)),
        Some(json!({"scheduleTimeoutSeconds": 0}))
    );
}

#[test]
fn drift_is_patched_field_by_field() {
    let world = world_with(volcano(), wishful());
    let spec = |key: &str, value: Value| {
        let mut spec = created_spec(&world);
        spec[key] = value;
        spec
    };
    for (key, drifted, wanted) in [
        ("minMember", json!(3), json!(2)),
        ("minMember", Value::Null, json!(2)),
        ("queue", json!("default"), json!("research")),
        ("priorityClassName", json!("other"), json!("urgent")),
        ("priorityClassName", Value::Null, json!("urgent")),
        ("minResources", Value::Null, json!({"cpu": "0.50"})),
        ("minResources", json!({"cpu": "x"}), json!({"cpu": "0.50"})),
        (
            "minResources",
            json!({"cpu": "500m", "memory": "1"}),
            json!({"cpu": "0.50", "memory": null}),
        ),
    ] {
        let drifted = holding(world.clone(), spec(key, drifted));
        assert_eq!(patched(&drifted), Some(json!({(key): wanted})), "{key}");
    }
    assert!(patched(&holding(world, json!("no spec at all"))).is_some());
}

#[test]
fn resources_go_when_none_are_wanted_any_more() {
    let world = world_with(volcano(), job("demo").workers(1));
    let spec = json!({"minMember": 2, "minResources": {"cpu": "2"}});
    assert_eq!(
        patched(&holding(world.clone(), spec)),
        Some(json!({"minResources": null}))
    );
    let spec = json!({"minMember": 2, "minResources": {}});
    assert_eq!(patched(&holding(world, spec)), None);
}

#[test]
fn the_group_follows_a_change_of_scale() {
    let worker = json!({"cpu": "1"});
    let two = world_with(volcano(), asking(2, &worker, &worker));
    let spec = created_spec(&two);
    let five = world_with(volcano(), asking(5, &worker, &worker));
    let followed = json!({"minMember": 6, "minResources": {"cpu": "6"}});
    assert_eq!(patched(&holding(five, spec)), Some(followed));
}
