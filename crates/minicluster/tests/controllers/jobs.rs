//! The Job controller: when pods are made, replaced and no longer wanted, and when a Job is over.

use jiff::SignedDuration;
use minicluster::kubelet::Order;
use serde_json::{Value, json};

use crate::world::{JOBS, PODS, World, condition, job};

#[test]
fn a_job_is_complete_when_its_pod_succeeded() {
    let mut world = World::new();
    world.create(JOBS, &job(&json!({"ttlSecondsAfterFinished": 60})));
    world.tick();
    let pod = world.pods()[0].clone();
    world.start(&pod, "main");
    assert_eq!(world.get(&format!("{JOBS}/j"))["status"]["ready"], 1);
    world.exit(&pod, "main", 0);
    let done = world.get(&format!("{JOBS}/j"));
    assert_eq!(
        condition(&done, "Complete").as_deref(),
        Some("CompletionsReached")
    );
    assert_eq!(done["status"]["succeeded"], 1);
    world.pass(59);
    assert_eq!(world.ask("GET", &format!("{JOBS}/j"), &Value::Null).0, 200);
    world.pass(1);
    assert_eq!(world.ask("GET", &format!("{JOBS}/j"), &Value::Null).0, 404);
    assert!(world.pods().is_empty());
}

#[test]
fn failed_pods_are_replaced_later_and_later_until_the_limit() {
    let mut world = World::new();
    world.create(JOBS, &job(&json!({"backoffLimit": 2})));
    world.tick();
    for (failures, wait) in [(1, 10), (2, 20)] {
        let pods = world.pods();
        let pod = pods
            .iter()
            .find(|pod| pod["status"]["phase"] == "Pending")
            .cloned();
        let pod = pod.expect("a pod was made");
        world.start(&pod, "main");
        world.exit(&pod, "main", 1);
        assert_eq!(world.pods().len(), failures, "no replacement at once");
        world.pass(wait - 1);
        assert_eq!(
            world.pods().len(),
            failures,
            "no replacement before {wait} s"
        );
        world.pass(1);
        assert_eq!(world.pods().len(), failures + 1);
    }
    let pods = world.pods();
    let last = pods
        .iter()
        .find(|pod| pod["status"]["phase"] == "Pending")
        .cloned();
    let last = last.expect("a pod was made");
    world.start(&last, "main");
    world.exit(&last, "main", 1);
    let job = world.get(&format!("{JOBS}/j"));
    assert_eq!(
        condition(&job, "Failed").as_deref(),
        Some("BackoffLimitExceeded")
    );
    assert_eq!(job["status"]["failed"], 3);
}

#[test]
fn a_job_that_takes_too_long_is_stopped_before_it_has_failed() {
    let mut world = World::new();
    world.create(JOBS, &job(&json!({"activeDeadlineSeconds": 5})));
    world.tick();
    let pod = world.pods()[0].clone();
    world.start(&pod, "main");
    assert_eq!(
        world.cluster.next_wake(),
        Some(world.now + SignedDuration::from_secs(5))
    );
    world.pass(5);
    let job = world.get(&format!("{JOBS}/j"));
    assert_eq!(
        condition(&job, "FailureTarget").as_deref(),
        Some("DeadlineExceeded")
    );
    assert_eq!(condition(&job, "Failed"), None, "its pod still runs");
    assert!(matches!(
        world.orders.last(),
        Some(Order::Stop { grace_secs: 30, .. })
    ));
    world.exit(&pod, "main", 143);
    let job = world.get(&format!("{JOBS}/j"));
    assert_eq!(
        condition(&job, "Failed").as_deref(),
        Some("DeadlineExceeded")
    );
}

#[test]
fn a_suspended_job_has_no_pods_until_it_goes_on() {
    let mut world = World::new();
    world.create(JOBS, &job(&json!({"suspend": true})));
    world.tick();
    let path = format!("{JOBS}/j");
    assert!(world.pods().is_empty());
    assert_eq!(
        condition(&world.get(&path), "Suspended").as_deref(),
        Some("JobSuspended")
    );
    world.ask("PATCH", &path, &json!({"spec": {"suspend": false}}));
    world.tick();
    assert_eq!(world.pods().len(), 1);
    assert_eq!(condition(&world.get(&path), "Suspended"), None);
    world.ask("PATCH", &path, &json!({"spec": {"suspend": true}}));
    world.tick();
    assert_eq!(world.get(&path)["status"]["startTime"], Value::Null);
}

#[test]
fn a_pod_on_its_way_out_is_replaced_when_it_is_gone() {
    let mut world = World::new();
    let settings = json!({"podReplacementPolicy": "Failed"});
    world.create(JOBS, &job(&settings));
    world.tick();
    let first = world.pods()[0].clone();
    world.start(&first, "main");
    let path = format!(
        "{PODS}/{}",
        first["metadata"]["name"].as_str().unwrap_or_default()
    );
    world.ask("DELETE", &path, &Value::Null);
    world.tick();
    assert_eq!(world.pods().len(), 1, "the old one still runs");
    world.exit(&first, "main", 143);
    world.pass(10);
    let pods = world.pods();
    assert_eq!(pods.len(), 1);
    assert_ne!(pods[0]["metadata"]["uid"], first["metadata"]["uid"]);
}
