//! Where hosts go: what the scheduler is told of it, beside what the templates say.

use contract::labels::{JOB_ROLE_LABEL, JOB_UID_LABEL, WORKER_ROLE};
use planner::fixtures::{job, world};
use planner::job::{LauncherHost, Placement, Workers};
use planner::{Action, Job, Kind, Observed, plan};
use serde_json::{Value, json};

const NODE: &str = "kubernetes.io/hostname";

fn placed(placement: Placement) -> Job {
    let job = job("demo").workers(2);
    job.with(|job| job.placement = placement)
}

/// The specs of the workers, and of the launcher.
fn specs(world: &Observed) -> (Vec<Value>, Vec<Value>) {
    let plan = plan(world);
    let objects = plan.steps.iter().flatten().flat_map(Action::objects);
    let (mut workers, mut launchers) = (Vec::new(), Vec::new());
    for object in objects {
        match object.kind {
            Kind::Pod => workers.push(object.body["spec"].clone()),
            Kind::Job => launchers.push(object.body["spec"]["template"]["spec"].clone()),
            _ => {}
        }
    }
    assert_eq!((workers.len(), launchers.len()), (2, 1));
    (workers, launchers)
}

fn workers_of_the_job() -> Value {
    json!({"matchLabels": {(JOB_UID_LABEL): "uid-demo", (JOB_ROLE_LABEL): WORKER_ROLE}})
}

#[test]
fn no_two_workers_share_a_node() {
    let (workers, launchers) = specs(&world(placed(Placement::OnePerNode)));
    let term = json!({"topologyKey": NODE, "labelSelector": workers_of_the_job()});
    let wanted = json!({"podAntiAffinity":
        {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
    for worker in workers {
        assert_eq!(worker["affinity"], wanted);
    }
    assert!(launchers[0]["affinity"].is_null(), "{}", launchers[0]);
}

#[test]
fn a_launcher_with_ranks_has_a_node_of_its_own_too() {
    let job = placed(Placement::OnePerNode);
    let job = job.with(|job| job.launcher.host = Some(LauncherHost::Indexed));
    let (workers, launchers) = specs(&world(job));
    let all = json!({"matchLabels": {(JOB_UID_LABEL): "uid-demo"}});
    for pod in workers.iter().chain(&launchers) {
        let terms = "/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution/0";
        let term = pod.pointer(terms).expect("a term");
        assert_eq!(term["labelSelector"], all);
    }
}

#[test]
fn wishes_are_wishes() {
    let (workers, _) = specs(&world(placed(Placement::Pack)));
    let term = json!({"topologyKey": NODE, "labelSelector": workers_of_the_job()});
    let wish = json!({"weight": 100, "podAffinityTerm": term});
    let wanted = json!({"podAffinity":
        {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}});
    assert_eq!(workers[0]["affinity"], wanted);
    // The scheduler's own spreading is off.
    let nobody = &workers[0]["topologySpreadConstraints"][0];
    assert!(nobody.is_object() && nobody["labelSelector"].is_null());

    let (workers, _) = specs(&world(placed(Placement::Spread)));
    let wanted = json!([{"topologyKey": NODE, "labelSelector": workers_of_the_job(),
        "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}]);
    assert_eq!(workers[0]["topologySpreadConstraints"], wanted);
    assert!(workers[0]["affinity"].is_null());
}

#[test]
fn what_the_template_says_stays() {
    let theirs = json!({"topologyKey": "rack", "maxSkew": 2});
    let affinity = json!({"nodeAffinity": {"theirs": true}, "podAntiAffinity": {"theirs": true}});
    let with = |placement: Placement| {
        placed(placement).with(|job| {
            let Workers::Pods(workers) = &mut job.workers else {
                unreachable!("the fixture's workers are pods");
            };
            let spec = &mut workers.role.template["spec"];
            spec["affinity"] = affinity.clone();
            spec["topologySpreadConstraints"] = json!([theirs]);
        })
    };
    let (workers, _) = specs(&world(with(Placement::OnePerNode)));
    assert_eq!(
        workers[0]["affinity"]["nodeAffinity"],
        affinity["nodeAffinity"]
    );
    assert_eq!(workers[0]["affinity"]["podAntiAffinity"]["theirs"], true);
    let (workers, _) = specs(&world(with(Placement::Pack)));
    assert_eq!(workers[0]["topologySpreadConstraints"], json!([theirs]));
    let (workers, _) = specs(&world(with(Placement::Spread)));
    assert_eq!(workers[0]["topologySpreadConstraints"][0], theirs);
    assert_eq!(workers[0]["topologySpreadConstraints"][1]["maxSkew"], 1);
}

/// Kubernetes refuses a pod with two constraints of the same key and strictness.
#[test]
fn a_template_that_spreads_its_pods_over_nodes_is_left_to_do_so() {
    let theirs = json!({"topologyKey": NODE, "maxSkew": 2, "whenUnsatisfiable": "ScheduleAnyway"});
    let job = placed(Placement::Spread).with(|job| {
        let spec = &mut job.worker_role().template["spec"];
        spec["topologySpreadConstraints"] = json!([theirs]);
    });
    let (workers, _) = specs(&world(job));
    assert_eq!(workers[0]["topologySpreadConstraints"], json!([theirs]));
}

#[test]
fn one_machine_takes_every_pod() {
    let laptop = world(placed(Placement::OnePerNode));
    let laptop = laptop.with(|world| world.site.machine_cores = Some(2));
    let (workers, _) = specs(&laptop);
    assert!(workers[0]["affinity"].is_null());
}
