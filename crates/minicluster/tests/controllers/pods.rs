//! The kubelet: in which order containers run, how they end, and what becomes of their pod.

use minicluster::kubelet::{Order, PodRef, PodReport};
use serde_json::json;

use crate::world::{PODS, World, pod};

#[test]
fn init_containers_run_in_order_and_sidecars_beside() {
    let mut world = World::new();
    world.create(
        PODS,
        &pod("p", |pod| {
            pod["spec"]["initContainers"] = json!([
                {"name": "first", "image": "none"},
                {"name": "side", "image": "none", "restartPolicy": "Always"},
                {"name": "second", "image": "none"},
            ]);
        }),
    );
    let names = |world: &mut World| -> Vec<String> {
        world
            .started()
            .into_iter()
            .map(|(_, container)| container)
            .collect()
    };
    assert_eq!(names(&mut world), ["first"]);
    let pod = world.pods()[0].clone();
    world.start(&pod, "first");
    world.exit(&pod, "first", 0);
    assert_eq!(names(&mut world), ["first", "side"]);
    world.start(&pod, "side");
    assert_eq!(names(&mut world), ["first", "side", "second"]);
    world.start(&pod, "second");
    world.exit(&pod, "second", 0);
    world.start(&pod, "main");
    assert_eq!(world.pods()[0]["status"]["phase"], "Running");
    world.exit(&pod, "main", 0);
    assert!(
        matches!(world.orders.last(), Some(Order::Stop { container, .. }) if container == "side")
    );
    assert_eq!(
        world.pods()[0]["status"]["phase"],
        "Running",
        "the sidecar still runs"
    );
    world.exit(&pod, "side", 143);
    assert_eq!(world.pods()[0]["status"]["phase"], "Succeeded");
}

#[test]
fn a_crashing_container_waits_longer_each_time() {
    let mut world = World::new();
    world.create(
        PODS,
        &pod("p", |pod| pod["spec"]["restartPolicy"] = "OnFailure".into()),
    );
    world.tick();
    let pod = world.pods()[0].clone();
    for (starts, wait) in [(1, 0), (2, 10), (3, 20), (4, 40)] {
        assert_eq!(world.started().len(), starts);
        world.start(&pod, "main");
        world.exit(&pod, "main", 1);
        if wait > 0 {
            let waiting = &world.pods()[0]["status"]["containerStatuses"][0]["state"]["waiting"];
            assert_eq!(waiting["reason"], "CrashLoopBackOff");
            world.pass(wait - 1);
            assert_eq!(world.started().len(), starts, "not before {wait} s");
            world.pass(1);
        }
    }
    assert_eq!(
        world.pods()[0]["status"]["containerStatuses"][0]["restartCount"],
        4
    );
}

#[test]
fn a_deleted_pod_is_stopped_and_then_gone() {
    let mut world = World::new();
    world.create(PODS, &pod("p", |_| {}));
    world.tick();
    let pod = world.pods()[0].clone();
    world.start(&pod, "main");
    world.ask(
        "DELETE",
        &format!("{PODS}/p"),
        &json!({"gracePeriodSeconds": 7}),
    );
    world.tick();
    assert!(matches!(
        world.orders.last(),
        Some(Order::Stop { grace_secs: 7, .. })
    ));
    world.ask(
        "DELETE",
        &format!("{PODS}/p"),
        &json!({"gracePeriodSeconds": 2}),
    );
    world.tick();
    assert!(matches!(
        world.orders.last(),
        Some(Order::Stop { grace_secs: 2, .. })
    ));
    assert_eq!(world.pods().len(), 1);
    world.exit(&pod, "main", 143);
    assert!(world.pods().is_empty());
    assert!(matches!(world.orders.last(), Some(Order::Release { .. })));
}

#[test]
fn a_pod_that_is_forced_out_is_killed() {
    let mut world = World::new();
    world.create(PODS, &pod("p", |_| {}));
    world.tick();
    let pod = world.pods()[0].clone();
    world.start(&pod, "main");
    world.ask(
        "DELETE",
        &format!("{PODS}/p"),
        &json!({"gracePeriodSeconds": 0}),
    );
    assert!(world.pods().is_empty());
    world.tick();
    let last: Vec<&Order> = world.orders.iter().rev().take(2).collect();
    assert!(matches!(last[1], Order::Stop { grace_secs: 0, .. }));
    assert!(matches!(last[0], Order::Release { .. }));
}

#[test]
fn a_pod_that_is_active_for_too_long_fails() {
    let mut world = World::new();
    world.create(
        PODS,
        &pod("p", |pod| pod["spec"]["activeDeadlineSeconds"] = 3.into()),
    );
    world.tick();
    let pod = world.pods()[0].clone();
    world.start(&pod, "main");
    world.pass(3);
    world.exit(&pod, "main", 143);
    let status = &world.pods()[0]["status"];
    assert_eq!(
        (&status["phase"], &status["reason"]),
        (&json!("Failed"), &json!("DeadlineExceeded"))
    );
}

#[test]
fn what_cannot_start_is_tried_again_or_is_over() {
    let mut world = World::new();
    world.create(PODS, &pod("p", |_| {}));
    world.tick();
    let object = world.pods()[0].clone();
    let cannot = |retry: bool| PodReport::CannotStart {
        pod: PodRef::of(&object),
        container: "main".to_owned(),
        reason: "CreateContainerConfigError".to_owned(),
        message: "no such ConfigMap".to_owned(),
        retry,
    };
    world.cluster.report(world.now, cannot(true));
    world.tick();
    let waiting = &world.pods()[0]["status"]["containerStatuses"][0]["state"]["waiting"];
    assert_eq!(waiting["reason"], "CreateContainerConfigError");
    world.pass(10);
    assert_eq!(world.started().len(), 2);
    world.cluster.report(world.now, cannot(false));
    world.tick();
    assert_eq!(world.pods()[0]["status"]["phase"], "Failed");
}
