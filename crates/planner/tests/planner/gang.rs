//! The PodGroup of a job: what it says, when it comes and goes, and how pods join it.

use std::collections::BTreeMap;

use planner::fixtures::{job, world};
use planner::job::CleanUp;
use planner::observed::{GangScheduler, PodGroup, PodPhase, Slot};
use planner::{Action, Job, Kind, Observed, Plan, Verdict, WaitingOn, plan};
use serde_json::{Value, json};

fn volcano() -> GangScheduler {
    GangScheduler::Volcano
}

fn plugins() -> GangScheduler {
    GangScheduler::SchedulerPlugins("gang-scheduler".to_owned())
}

fn world_with(scheduler: GangScheduler, job: Job) -> Observed {
    world(job).with(|world| world.site.gang = Some(scheduler))
}

/// A launcher and workers that ask for these resources.
fn asking(workers: u32, launcher: &Value, worker: &Value) -> Job {
    let template = |list: &Value| json!({"spec": {"containers": [{"name": "main", "resources": {"requests": list}}]}});
    let job = if workers == 0 {
        job("demo")
    } else {
        job("demo").workers(workers)
    };
    job.with(|job| {
        job.launcher.template = template(launcher);
        if let Some(workers) = &mut job.workers {
            workers.role.template = template(worker);
        }
    })
}

/// With these priority classes in the templates; empty for none.
fn classes(job: Job, launcher: &str, worker: &str) -> Job {
    job.with(|job| {
        job.launcher.template["spec"]["priorityClassName"] = launcher.into();
        if let Some(workers) = &mut job.workers {
            workers.role.template["spec"]["priorityClassName"] = worker.into();
        }
    })
}

fn group_actions(plan: &Plan) -> Vec<&Action> {
    let of_group = |action: &&Action| {
        let kind = match action {
            Action::Create(object) | Action::CreateKey { secret: object, .. } => &object.kind,
            Action::Patch { kind, .. } | Action::Delete { kind, .. } => kind,
            Action::DeleteWorkers { .. } | Action::DeleteJob { .. } => return false,
        };
        matches!(kind, Kind::VolcanoPodGroup | Kind::SchedulerPluginsPodGroup)
    };
    plan.steps.iter().flatten().filter(of_group).collect()
}

/// The group that a fresh world gets.
fn created(world: &Observed) -> Value {
    match group_actions(&plan(world)).as_slice() {
        [Action::Create(object)] => object.body.clone(),
        other => panic!("one group is created, not {other:?}"),
    }
}

fn created_spec(world: &Observed) -> Value {
    created(world)["spec"].clone()
}

/// The spec part of the one patch of the group, if there is one.
fn patched(world: &Observed) -> Option<Value> {
    match group_actions(&plan(world)).as_slice() {
        [] => None,
        [
            Action::Patch {
                uid,
                subresource: None,
                merge,
                ..
            },
        ] => {
            assert_eq!(uid, "uid-group");
            Some(merge["spec"].clone())
        }
        other => panic!("the group is patched, not {other:?}"),
    }
}

/// The world with a group of ours that has this spec.
fn holding(world: Observed, spec: Value) -> Observed {
    let group = PodGroup {
        uid: "uid-group".to_owned(),
        spec,
        deleting: false,
    };
    world.with(|world| world.pod_group = Slot::Ours(group))
}

/// Everything that the user can say.
fn wishful() -> Job {
    asking(2, &json!({"cpu": "1"}), &json!({"cpu": "4"})).with(|job| {
        job.gang.min_members = Some(2);
        job.gang.queue = Some("research".to_owned());
        job.gang.min_resources = Some(BTreeMap::from([("cpu".to_owned(), json!("0.50"))]));
        job.gang.priority_class = Some("urgent".to_owned());
        job.gang.schedule_timeout_secs = Some(90);
    })
}

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
            job.launcher.template["spec"]["schedulerName"] = "the-users".into();
            job.launcher.template["metadata"] = json!({"annotations": {"mine": "stays"}});
        })
    };
    let pods = |world: &Observed| {
        let plan = plan(world);
        let bodies = plan
            .steps
            .iter()
            .flatten()
            .filter_map(|action| match action {
                Action::Create(object) if object.kind == Kind::Pod => Some(object.body.clone()),
                Action::Create(object) if object.kind == Kind::Job => {
                    Some(object.body["spec"]["template"].clone())
                }
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
    assert_eq!(resources["x/b"], "1u");
}

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

#[test]
fn a_group_on_its_way_out_is_left_alone() {
    let world = world_with(volcano(), wishful());
    let world = holding(world, json!({})).with(|world| {
        if let Slot::Ours(group) = &mut world.pod_group {
            group.deleting = true;
        }
    });
    assert!(group_actions(&plan(&world)).is_empty());
    let suspended = world.with(|world| world.job.policy.suspended = true);
    assert!(group_actions(&plan(&suspended)).is_empty());
}

#[test]
fn somebody_elses_group_blocks_the_job() {
    let world = world_with(plugins(), wishful()).with(|world| world.pod_group = Slot::Foreign);
    let plan = plan(&world);
    assert!(plan.steps.is_empty());
    let name = WaitingOn::Name {
        kind: Kind::SchedulerPluginsPodGroup,
        name: "demo".to_owned(),
    };
    assert_eq!(plan.because, planner::Because::Waiting(name));
}

#[test]
fn a_refused_group_is_not_tried_again_at_once() {
    let world = world_with(volcano(), wishful());
    let refused = world.refusing(Kind::VolcanoPodGroup, "demo", 422, "no such queue");
    assert!(group_actions(&plan(&refused)).is_empty());
    let later = refused.with(|world| world.now += jiff::SignedDuration::from_mins(2));
    assert_eq!(group_actions(&plan(&later)).len(), 1);
}

#[test]
fn the_group_comes_before_any_pod() {
    let plan = plan(&world_with(volcano(), wishful()));
    let step = |kind: Kind| {
        plan.steps.iter().position(|step| {
            step.iter()
                .any(|action| matches!(action, Action::Create(o) if o.kind == kind))
        })
    };
    assert_eq!(step(Kind::VolcanoPodGroup), Some(0));
    assert!(step(Kind::Pod) > Some(0));
    assert!(step(Kind::Job) > Some(0));
}

#[test]
fn a_suspended_or_cleaned_job_loses_its_group() {
    let delete = |kind: Kind| Action::Delete {
        kind,
        name: "demo".to_owned(),
        uid: "uid-demo".to_owned(),
    };
    let running = |clean: CleanUp, scheduler: GangScheduler| {
        world_with(scheduler, job("demo").workers(1).clean(clean)).running()
    };
    let suspended =
        running(CleanUp::Nothing, volcano()).with(|world| world.job.policy.suspended = true);
    assert_eq!(
        group_actions(&plan(&suspended)),
        [&delete(Kind::VolcanoPodGroup)]
    );
    assert!(suspended.settled().pod_group.is_absent());

    for (clean, goes) in [
        (CleanUp::Nothing, false),
        (CleanUp::Running, true),
        (CleanUp::All, true),
    ] {
        let over = running(clean, plugins()).over(Verdict::Succeeded);
        let plan = plan(&over);
        let actions = group_actions(&plan);
        let wanted = delete(Kind::SchedulerPluginsPodGroup);
        assert_eq!(
            actions,
            if goes { vec![&wanted] } else { Vec::new() },
            "{clean:?}"
        );
    }
}

#[test]
fn a_running_group_stays_as_it_is() {
    let world = world_with(volcano(), wishful()).running();
    assert!(
        world
            .workers
            .iter()
            .all(|pod| pod.phase == PodPhase::Running)
    );
    assert!(group_actions(&plan(&world)).is_empty());
}

#[test]
fn without_a_gang_scheduler_there_is_no_group() {
    let world = world(wishful());
    assert!(group_actions(&plan(&world)).is_empty());
    let left_over = holding(world, json!({}));
    assert!(group_actions(&plan(&left_over)).is_empty());
    let suspended = left_over.with(|world| world.job.policy.suspended = true);
    assert!(group_actions(&plan(&suspended)).is_empty());
}

#[test]
fn a_launcher_that_waits_for_its_workers_is_not_in_their_gang() {
    for (waits, members) in [(false, 4), (true, 3)] {
        let job = job("demo").workers(3);
        let job = if waits { job.launcher_waits() } else { job };
        let world = world(job).with(|world| world.site.gang = Some(volcano()));
        let group = super::created_one(&plan(&world), Kind::VolcanoPodGroup, "demo");
        assert_eq!(group["spec"]["minMember"], members);
    }
}
