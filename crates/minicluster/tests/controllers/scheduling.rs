//! The scheduler: room on the node, and groups that start whole.

use serde_json::{Value, json};

use crate::world::{PODS, World, pod};

#[test]
fn pods_wait_for_room() {
    let mut world = World::new();
    let large = |name: &str| {
        pod(name, |pod| {
            pod["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "3"}});
        })
    };
    world.create(PODS, &large("a"));
    world.create(PODS, &large("b"));
    world.tick();
    let pods = world.pods();
    assert_eq!(pods[0]["spec"]["nodeName"], "here");
    assert_eq!(pods[1]["spec"]["nodeName"], Value::Null);
    let why = pods[1]["status"]["conditions"][0]["message"]
        .as_str()
        .unwrap_or_default();
    assert!(why.contains("Insufficient cpu"), "{why}");
    world.start(&pods[0], "main");
    world.exit(&pods[0], "main", 0);
    assert_eq!(world.pods()[1]["spec"]["nodeName"], "here");
}

#[test]
fn a_group_is_scheduled_whole_or_not_at_all() {
    let mut world = World::new();
    let member = |name: &str| {
        pod(name, |pod| {
            pod["metadata"]["labels"] = json!({"scheduling.x-k8s.io/pod-group": "g"});
            pod["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "2"}});
        })
    };
    for name in ["a", "b", "c"] {
        world.create(PODS, &member(name));
    }
    world.tick();
    let bound = |world: &mut World| {
        world
            .pods()
            .iter()
            .filter(|pod| pod["spec"]["nodeName"] == "here")
            .count()
    };
    assert_eq!(bound(&mut world), 0, "three do not fit, so none runs");
    world.ask("DELETE", &format!("{PODS}/c"), &Value::Null);
    world.create(PODS, &pod("other", |_| {}));
    world.tick();
    assert_eq!(bound(&mut world), 3, "two fit, and the other pod");
}
