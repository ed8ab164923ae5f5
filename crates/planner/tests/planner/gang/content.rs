//! What a PodGroup says, and how pods join it.

use planner::fixtures::{job, world};
use planner::{Action, Kind, Observed, plan};
use serde_json::{Value, json};

use super::{asking, classes, created, created_spec, plugins, volcano, wishful, world_with};

#[test]
fn each_scheduler_gets_the_wishes_it_knows() {
    let group = created(&world_with(volcano(), wishful()));
    assert_eq!(group["apiVersion"], "scheduling.volcano.sh/v1beta1");
    assert_eq!(group["kind"], "PodGroup");
    let spec = json!({
        "minMember": 2,
        "queue": "research",
        "priorityClassName": "urgent",
        "minResources": {"cpu": "0.50"},
    });
    assert_eq!(group["spec"], spec);

    let group = created(&world_with(plugins(), wishful()));
    assert_eq!(group["apiVersion"], "scheduling.x-k8s.io/v1alpha1");
    assert_eq!(group["kind"], "PodGroup");
    let spec =
        json!({"minMember": 2, "scheduleTimeoutSeconds": 90, "minResources": {"cpu": "0.50"}});
    assert_eq!(group["spec"], spec);
}

#[test]
fn the_group_is_named_owned_and_labelled() {
    let metadata = &created(&world_with(volcano(), wishful()))["metadata"];
    assert_eq!(metadata["name"], "demo");
    assert_eq!(metadata["namespace"], "team-a");
    assert_eq!(metadata["ownerReferences"][0]["uid"], "uid-demo");
    assert_eq!(metadata["ownerReferences"][0]["controller"], true);
    assert_eq!(metadata["labels"]["muster.dev/job-uid"], "uid-demo");
    assert_eq!(metadata["labels"]["app.kubernetes.io/managed-by"], "muster");
}

#[test]
fn without_wishes_the_templates_decide() {
    let demo = asking(
        99,
        &json!({"cpu": "1"}),
        &json!({"cpu": "2", "memory": "1Gi"}),
    );
    let demo = classes(demo, "normal", "low");
    let resources = json!({"cpu": "199", "memory": "99Gi"});
    let spec = json!({"minMember": 100, "priorityClassName": "normal", "minResources": resources});
    assert_eq!(created_spec(&world_with(volcano(), demo.clone())), spec);
    let spec = json!({"minMember": 100, "scheduleTimeoutSeconds": 0, "minResources": resources});
    assert_eq!(created_spec(&world_with(plugins(), demo)), spec);
}

#[test]
fn a_launcher_alone_is_a_group_of_one() {
    let demo = asking(0, &json!({"cpu": "1"}), &json!({}));
    let demo = demo.with(|job| job.gang.min_members = Some(1));
    for scheduler in [volcano(), plugins()] {
        let spec = created_spec(&world_with(scheduler, demo.clone()));
        assert_eq!(spec["minMember"], 1);
        assert_eq!(spec["minResources"], json!({"cpu": "1"}));
    }
}

#[test]
fn the_priority_class_is_the_first_that_is_named() {
    for (wish, launcher, worker, class) in [
        (Some("wish"), "launcher", "worker", json!("wish")),
        (Some(""), "launcher", "worker", json!("launcher")),
        (None, "launcher", "worker", json!("launcher")),
        (None, "", "worker", json!("worker")),
        (None, "", "", Value::Null),
    ] {
        let demo = classes(job("demo").workers(1), launcher, worker)
            .with(|job| job.gang.priority_class = wish.map(str::to_owned));
        let spec = created_spec(&world_with(volcano(), demo));
        assert_eq!(
            spec["priorityClassName"], class,
            "{wish:?} {launcher} {worker}"
        );
        assert_eq!(spec.get("priorityClassName").is_some(), !class.is_null());
    }
}

#[test]
fn pods_join_the_group() {
    let demo = || {
        job("demo").workers(1).with(|job| {
            job.launcher.role.template["spec"]["schedulerName"] = "the-users".into();
            job.launcher.role.template["metadata"] = json!({"annotations": {"mine": "stays"}});
        })
    };
    let pods = |world: &Observed| {
        let plan = plan(world);
        let objects = plan.steps.iter().flatten().flat_map(Action::objects);
        let bodies = objects.filter_map(|object| match object.kind {
            Kind::Pod => Some(object.body),
            Kind::Job => Some(object.body["spec"]["template"].clone()),
            _ => None,
        });
        let bodies: Vec<Value> = bodies.collect();
        assert_eq!(bodies.len(), 2, "a worker and a launcher");
        bodies
    };

    for pod in pods(&world_with(volcano(), demo())) {
        assert_eq!(pod["spec"]["schedulerName"], "volcano");
        assert_eq!(
            pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"],
            "demo"
        );
        assert!(
            pod["metadata"]["labels"]
                .get("scheduling.x-k8s.io/pod-group")
                .is_none()
        );
    }
    for pod in pods(&world_with(plugins(), demo())) {
        assert_eq!(pod["spec"]["schedulerName"], "gang-scheduler");
        assert_eq!(
            pod["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"],
            "demo"
        );
        assert!(
            pod["metadata"]["annotations"]
                .get("scheduling.k8s.io/group-name")
                .is_none()
        );
    }
    let launcher = &pods(&world_with(volcano(), demo()))[1];
    assert_eq!(launcher["metadata"]["annotations"]["mine"], "stays");

    let plain = pods(&world(demo()));
    assert!(plain[0]["spec"].get("schedulerName").is_none());
    assert_eq!(plain[1]["spec"]["schedulerName"], "the-users");
}

#[test]
fn resources_are_those_of_the_first_members_by_priority() {
    // Launchers count in cpu, workers in memory, so that a sum shows who is in it.
    let (launcher, worker) = (json!({"cpu": "1"}), json!({"memory": "1Gi"}));
    for (members, launcher_class, worker_class, resources) in [
        (None, "", "", json!({"cpu": "1", "memory": "4Gi"})),
        (Some(5), "", "", json!({"cpu": "1", "memory": "4Gi"})),
        (Some(500), "", "", json!({"cpu": "1", "memory": "4Gi"})),
        (
            Some(i32::MAX),
            "low",
            "high",
            json!({"cpu": "1", "memory": "4Gi"}),
        ),
        (Some(3), "", "", json!({"cpu": "1", "memory": "2Gi"})),
        (Some(1), "", "", json!({"cpu": "1"})),
        (
            Some(3),
            "unknown",
            "unknown too",
            json!({"cpu": "1", "memory": "2Gi"}),
        ),
        (Some(3), "unknown", "", json!({"cpu": "1", "memory": "2Gi"})),
        (Some(3), "high", "low", json!({"cpu": "1", "memory": "2Gi"})),
        (Some(3), "low", "high", json!({"memory": "3Gi"})),
        (Some(5), "low", "high", json!({"cpu": "1", "memory": "4Gi"})),
        (Some(3), "", "high", json!({"memory": "3Gi"})),
        (
            Some(3),
            "",
            "negative",
            json!({"cpu": "1", "memory": "2Gi"}),
        ),
        (Some(3), "negative", "", json!({"memory": "3Gi"})),
        (Some(3), "negative", "unknown", json!({"memory": "3Gi"})),
        (Some(0), "", "", Value::Null),
        (Some(-1), "", "", Value::Null),
        (Some(i32::MIN), "low", "high", Value::Null),
    ] {
        for scheduler in [volcano(), plugins()] {
            let demo = classes(asking(4, &launcher, &worker), launcher_class, worker_class);
            let demo = demo.with(|job| job.gang.min_members = members);
            let world = world_with(scheduler, demo).with(|world| {
                for (class, value) in [("high", 100), ("low", 10), ("negative", -5)] {
                    world.priorities.insert(class.to_owned(), value);
                }
            });
            let spec = created_spec(&world);
            let case = format!("{members:?} {launcher_class} {worker_class}");
            assert_eq!(spec["minResources"], resources, "{case}");
            assert_eq!(spec["minMember"], members.unwrap_or(5), "{case}");
        }
    }
}

#[test]
fn a_negative_group_of_a_launcher_alone_is_passed_on() {
    let demo = asking(0, &json!({"cpu": "1"}), &json!({}));
    let demo = demo.with(|job| job.gang.min_members = Some(-7));
    assert_eq!(
        created_spec(&world_with(volcano(), demo)),
        json!({"minMember": -7})
    );
}

#[test]
fn given_resources_win_even_over_a_group_of_none() {
    let demo = wishful().with(|job| job.gang.min_members = Some(0));
    let spec = created_spec(&world_with(plugins(), demo));
    assert_eq!(spec["minResources"], json!({"cpu": "0.50"}));
}

#[test]
fn hostile_amounts_do_no_harm() {
    let hostile = json!({
        "cpu": "1e999999999", "memory": "99999999999Ei", "x/a": "-9e99", "x/b": "1e-999999999",
        "x/c": "Infinity", "x/d": {"a": []}, "x/e": "",
    });
    let spec = created_spec(&world_with(volcano(), asking(999, &hostile, &hostile)));
    let resources = spec["minResources"]
        .as_object()
        .expect("readable amounts are counted");
    let names: Vec<&str> = resources.keys().map(String::as_str).collect();
    assert_eq!(names, ["cpu", "memory", "x/a", "x/b"]);
    assert_eq!(resources["x/b"], "1e-6");
}
