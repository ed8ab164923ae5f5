//! Groups of Kubernetes' own scheduler, which are not like those of the others.

use planner::fixtures::{job, pod, world};
use planner::job::{GangChoice, LauncherStart};
use planner::observed::{Observed, Pod, PodPhase, Slot};
use planner::site::GangScheduler;
use planner::{Action, Job, Kind, plan};
use serde_json::{Value, json};

use super::{classes, created, created_spec, holding, patched, plugins, volcano, wishful};

fn native(job: Job) -> Observed {
    world(job.with(|job| job.gang.scheduler = GangChoice::Scheduler(GangScheduler::Native)))
}

fn pod_specs(world: &Observed) -> Vec<Value> {
    let plan = plan(world);
    let objects = plan.steps.iter().flatten().flat_map(Action::objects);
    let specs = objects.filter_map(|object| match object.kind {
        Kind::Pod => Some(object.body["spec"].clone()),
        Kind::Job => Some(object.body["spec"]["template"]["spec"].clone()),
        _ => None,
    });
    specs.collect()
}

#[test]
fn the_group_counts_pods_and_is_disrupted_as_a_whole() {
    let group = created(&native(job("demo").workers(6)));
    assert_eq!(group["apiVersion"], "scheduling.k8s.io/v1beta1");
    let policy = json!({"gang": {"minCount": 7}});
    let spec = json!({"schedulingPolicy": policy, "disruptionMode": {"all": {}}});
    assert_eq!(group["spec"], spec);

    let elastic = job("demo").workers(6).with(|job| job.elastic = true);
    let spec = created_spec(&native(elastic));
    assert_eq!(spec, json!({"schedulingPolicy": policy}));
}

#[test]
fn it_gets_the_wishes_it_knows() {
    let spec = created_spec(&native(wishful()));
    assert_eq!(spec["schedulingPolicy"], json!({"gang": {"minCount": 2}}));
    assert_eq!(spec["priorityClassName"], "urgent");
    for foreign in [
        "minMember",
        "minResources",
        "queue",
        "scheduleTimeoutSeconds",
    ] {
        assert_eq!(spec.get(foreign), None);
    }
    // The API refuses a group of none.
    let none = wishful().with(|job| job.gang.min_members = Some(0));
    let spec = created_spec(&native(none));
    assert_eq!(spec["schedulingPolicy"]["gang"]["minCount"], 1);
}

/// The launcher comes when the workers are Ready, so they must not wait for it.
#[test]
fn a_launcher_that_waits_is_not_counted() {
    let waits = job("demo")
        .workers(6)
        .with(|job| job.launcher.start = LauncherStart::WhenWorkersReady);
    let spec = created_spec(&native(waits));
    assert_eq!(spec["schedulingPolicy"]["gang"]["minCount"], 6);
}

#[test]
fn pods_name_the_group_and_keep_their_scheduler() {
    let demo = job("demo").workers(1).with(|job| {
        job.launcher.role.template["spec"]["schedulerName"] = "the-users".into();
    });
    let specs = pod_specs(&native(demo));
    assert_eq!(specs.len(), 2, "a worker and a launcher");
    for spec in &specs {
        assert_eq!(spec["schedulingGroup"], json!({"podGroupName": "demo"}));
    }
    assert_eq!(specs[0].get("schedulerName"), None);
    assert_eq!(specs[1]["schedulerName"], "the-users");
}

/// The scheduler places no group with pods of another priority than its own.
#[test]
fn a_pod_without_a_priority_class_gets_that_of_the_group() {
    let demo = classes(job("demo").workers(1), "", "low");
    let world = native(demo);
    assert_eq!(created_spec(&world)["priorityClassName"], "low");
    for spec in pod_specs(&world) {
        assert_eq!(spec["priorityClassName"], "low");
    }
    // What the template says stays.
    let demo = classes(job("demo").workers(1), "high", "low");
    let specs = pod_specs(&native(demo));
    let said: Vec<_> = specs
        .iter()
        .map(|spec| &spec["priorityClassName"])
        .collect();
    assert_eq!(said, ["low", "high"]);
}

#[test]
fn only_the_count_follows_the_job() {
    let held = json!({
        "schedulingPolicy": {"gang": {"minCount": 3}},
        "disruptionMode": {"single": {}},
        "priorityClassName": "another", "priority": 7,
    });
    let world = native(job("demo").workers(4));
    assert_eq!(
        patched(&holding(world, held.clone())),
        Some(json!({"schedulingPolicy": {"gang": {"minCount": 5}}}))
    );
    assert_eq!(
        patched(&holding(native(job("demo").workers(2)), held)),
        None
    );
}

/// Kubernetes keeps a group until its last pod has ended: pods of the next run would join the old one.
#[test]
fn pods_wait_until_the_group_of_the_last_run_has_gone() {
    let leaving = |world: Observed| {
        holding(world, json!({})).with(|world| {
            if let Slot::Ours(group) = &mut world.pod_group {
                group.deleting = true;
            }
        })
    };
    let world = native(job("demo").workers(2));
    assert!(pod_specs(&leaving(world.clone())).is_empty());
    let settled = leaving(world.clone()).settled();
    let said = plan(&settled).status.message;
    assert!(said.contains("PodGroup of the last run"), "{said}");
    assert!(!pod_specs(&world).is_empty());
    // Pods of this run hold the group anyway.
    let lives = Pod {
        phase: PodPhase::Running,
        ..pod("demo-worker-0")
    };
    let world = leaving(world).with(|world| world.workers.push(lives));
    assert!(!pod_specs(&world).is_empty());
}

#[test]
fn what_is_found_counts_only_for_jobs_that_take_it() {
    let scheduler = |choice: GangChoice, auto: bool, found: Option<GangScheduler>| {
        let demo = job("demo").workers(1);
        let demo = demo.with(|job| job.gang.scheduler = choice);
        let world = world(demo).with(|world| {
            world.site.gang_is_auto = auto;
            world.site.found_gang = found;
        });
        world.job.gang_scheduler(&world.site).cloned()
    };
    let found = || Some(volcano());
    assert_eq!(scheduler(GangChoice::Found, false, found()), found());
    assert_eq!(scheduler(GangChoice::Found, false, None), None);
    assert_eq!(scheduler(GangChoice::Site, true, found()), found());
    assert_eq!(scheduler(GangChoice::Site, false, found()), None);
    assert_eq!(scheduler(GangChoice::Nobody, true, found()), None);
    let native = || GangScheduler::Native;
    let chosen = GangChoice::Scheduler(native());
    assert_eq!(scheduler(chosen, true, found()), Some(native()));
    let laptop = world(job("demo").workers(1)).with(|world| {
        world.site.machine_cores = Some(2);
        world.site.gang_is_auto = true;
        world.site.found_gang = found();
    });
    assert_eq!(laptop.job.gang_scheduler(&laptop.site), None);
}

#[test]
fn the_job_has_the_last_word() {
    let site = |choice: GangChoice, of_site: Option<GangScheduler>| {
        let demo = job("demo").workers(1);
        let demo = demo.with(|job| job.gang.scheduler = choice);
        let world = world(demo).with(|world| world.site.gang = of_site);
        world.job.gang_scheduler(&world.site).cloned()
    };
    let chosen = |scheduler| GangChoice::Scheduler(scheduler);
    let usual = || GangScheduler::SchedulerPlugins("the-usual-name".to_owned());
    assert_eq!(site(GangChoice::Site, None), None);
    assert_eq!(site(GangChoice::Site, Some(volcano())), Some(volcano()));
    assert_eq!(site(GangChoice::Nobody, Some(volcano())), None);
    assert_eq!(
        site(chosen(GangScheduler::Native), Some(volcano())),
        Some(GangScheduler::Native)
    );
    assert_eq!(site(chosen(usual()), None), Some(usual()));
    // The site knows what its scheduler is called.
    assert_eq!(site(chosen(usual()), Some(plugins())), Some(plugins()));
    let laptop = native(job("demo")).with(|world| world.site.machine_cores = Some(2));
    assert_eq!(laptop.job.gang_scheduler(&laptop.site), None);
}
