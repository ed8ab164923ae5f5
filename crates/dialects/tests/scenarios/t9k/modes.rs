//! Schedulers, debugging and pauses: lines 17 to 24 of the list.

use planner::fixtures::world;
use planner::observed::PodPhase;
use planner::site::GangApi;
use planner::{Action, Kind};
use serde_json::{Value, json};

use super::seed::{aggregate, lowered, pod, pods, refused, scenario, seed, with};
use crate::driver::Scenario;

#[test]
fn a17_without_a_scheduler_there_is_none() {
    assert_eq!(
        pod(&seed(), "mpi-example-worker-0").get("schedulerName"),
        None
    );
}

fn scheduled(scheduler: Value) -> Value {
    with(|job| job["spec"]["scheduler"] = json!({"t9kScheduler": scheduler}))
}

#[test]
fn a18_pods_wait_in_the_queue_that_the_job_names() {
    let job = scheduled(json!({"queue": "default", "priority": 50}));
    let plan = planner::plan(&world(lowered(&job)));
    let made: Vec<&Value> = plan
        .steps
        .iter()
        .flatten()
        .filter_map(|action| match action {
            Action::Create(object) if object.kind == Kind::PodGroup(GangApi::T9k) => {
                Some(&object.body)
            }
            _ => None,
        })
        .collect();
    assert_eq!(made.len(), 1, "{made:?}");
    assert_eq!(made[0]["apiVersion"], "scheduler.tensorstack.dev/v1beta1");
    assert_eq!(made[0]["metadata"]["name"], "mpi-example");
    // Without the launcher: it comes when all workers are Ready.
    let spec = json!({"minMember": 5, "queue": "default", "priority": 50});
    assert_eq!(made[0]["spec"], spec);
    for (name, pod) in pods(&job) {
        assert_eq!(pod["spec"]["schedulerName"], "t9k-scheduler", "{name}");
        let label =
            |key: &str| &pod["metadata"]["labels"][format!("scheduler.tensorstack.dev/{key}")];
        assert_eq!(label("group-name"), "mpi-example", "{name}");
        assert_eq!(label("queue"), "default", "{name}");
    }
}

#[test]
fn a19_priorities_are_between_0_and_100() {
    for priority in [-1, 101] {
        let said = refused(&scheduled(json!({"queue": "q", "priority": priority})));
        assert!(
            said.starts_with("spec.scheduler.t9kScheduler.priority: "),
            "{said}"
        );
    }
    let said = refused(&scheduled(json!({"priority": 1})));
    assert!(
        said.starts_with("spec.scheduler.t9kScheduler.queue: "),
        "{said}"
    );
    lowered(&scheduled(json!({"queue": "q", "priority": 100})));
}

#[test]
fn a20_a21_debugging_starts_nothing_and_may_skip_init_containers() {
    let plain = with(|job| job["spec"]["runMode"] = json!({"debug": {"enabled": true}}));
    let launcher = pod(&plain, "mpi-example-launcher");
    assert_eq!(
        launcher["containers"][0]["command"],
        json!(["sleep", "inf"])
    );
    let worker = pod(&plain, "mpi-example-worker-0");
    assert_eq!(
        worker["containers"][0]["command"],
        json!(["/usr/sbin/sshd", "-D"])
    );
    assert_eq!(worker["initContainers"][0]["name"], "fetch");

    let given = json!([{"type": "worker", "skipInitContainer": true, "command": ["sleep", "inf"]}]);
    let given = with(|job| {
        job["spec"]["runMode"] = json!({"debug": {"enabled": true, "replicaSpecs": given}});
    });
    let worker = pod(&given, "mpi-example-worker-0");
    assert_eq!(worker["containers"][0]["command"], json!(["sleep", "inf"]));
    assert_eq!(worker.get("initContainers"), None);
    let launcher = pod(&given, "mpi-example-launcher");
    assert_eq!(launcher["initContainers"][0]["name"], "fetch");

    let unsaid = with(|job| {
        job["spec"]["runMode"] = json!({"debug": {"enabled": true}});
        job["spec"]["ssh"] = json!({});
    });
    let worker = pod(&unsaid, "mpi-example-worker-0");
    assert_eq!(
        worker["containers"][0]["command"],
        json!(["/usr/bin/sshd", "-D"]),
        "T1"
    );
}

#[test]
fn a22_a_job_that_is_paused_from_the_start_never_has_pods() {
    let mut run = scenario(with(|job| {
        job["spec"]["runMode"] = json!({"pause": {"enabled": true}})
    }));
    run.reconcile();
    assert_eq!(run.world.workers.len() + run.world.launcher_pods.len(), 0);
    assert_eq!(run.status()["phase"], "Paused");
    assert_eq!(run.holds("Paused"), Some(true));
    assert_eq!(
        (aggregate(&run, "creating"), aggregate(&run, "deleted")),
        (0, 0)
    );
}

#[test]
fn a23_a24_a_pause_takes_the_pods_and_what_follows_it_starts_as_said() {
    let resume =
        json!([{"type": "worker", "skipInitContainer": true, "command": ["/usr/bin/sshd"]}]);
    let mut run = scenario(with(|job| {
        job["spec"]["runMode"] = json!({"pause": {"enabled": false, "resumeSpecs": resume}});
    }))
    .running();
    let command = |run: &Scenario| {
        run.world.job.workers.role().template["spec"]["containers"][0]["command"].clone()
    };
    assert_eq!(command(&run), json!(["/usr/sbin/sshd", "-De"]));
    run.edit(|spec| spec["runMode"]["pause"]["enabled"] = true.into())
        .at(5)
        .reconcile();
    assert_eq!(run.world.workers.len() + run.world.launcher_pods.len(), 0);
    assert_eq!(
        (run.status()["phase"].as_str(), aggregate(&run, "deleted")),
        (Some("Paused"), 6)
    );

    run.edit(|spec| spec["runMode"]["pause"]["enabled"] = false.into())
        .at(9)
        .reconcile();
    assert_eq!(run.status()["phase"], "Resuming");
    assert_eq!(command(&run), json!(["/usr/bin/sshd"]), "T5, T8");
    run.workers_run().at(10).reconcile();
    run.launcher_is(PodPhase::Running).at(11).reconcile();
    assert_eq!(run.status()["phase"], "Running");
    assert_eq!(run.holds("Paused"), Some(false));
}
