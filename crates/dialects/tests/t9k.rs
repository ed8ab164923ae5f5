//! T9k's acceptance list, as far as it consists of facts about a job, its pods and its status. The
//! numbers are those of the list.

use dialects::t9k_v1beta1::DIALECT;
use dialects::{Finding, Report, Urgency};
use jiff::{SignedDuration, Timestamp};
use planner::fixtures::world;
use planner::observed::{Exit, PodPhase};
use planner::{Action, Job, Kind, Observed};
use serde_json::{Value, json};

fn clock(secs: i64) -> Timestamp {
    let noon: Timestamp = "2026-11-15T12:00:00Z".parse().expect("a time");
    noon + SignedDuration::from_secs(secs)
}

/// The manual's first example.
fn seed() -> Value {
    json!({
        "metadata": {"name": "mpi-example", "namespace": "team-a", "uid": "u", "generation": 1},
        "spec": {
            "worker": {
                "replicas": 5,
                "extraMPIArgs": ["-N", "3", "--enable-recovery", "--max-restarts", "100",
                    "--allow-run-as-root", "-bind-to", "none"],
                "cmd": ["./random_walk", "20", "40", "2"],
                "template": {"spec": {
                    "initContainers": [{"name": "fetch", "image": "f"}],
                    "containers": [{
                        "name": "mpi-worker", "image": "t9kpublic/mpi-tutorial:2021022-2",
                        "resources": {"limits": {"cpu": "100m"}, "requests": {"cpu": "50m"}},
                        "workingDir": "/usr/local/code",
                    }],
                }},
            },
            "mca": {"btl": "^openib"},
            "runPolicy": {"cleanUpWorkers": true},
            "ssh": {"sshdPath": "/usr/sbin/sshd"},
            "mpiHome": "/usr/local",
        },
    })
}

fn with(change: impl FnOnce(&mut Value)) -> Value {
    let mut job = seed();
    change(&mut job);
    job
}

fn lowered(job: &Value) -> Job {
    (DIALECT.lower)(job).unwrap_or_else(|errors| panic!("{errors:?}"))
}

fn refused(job: &Value) -> String {
    dialects::aggregate(&(DIALECT.lower)(job).expect_err("it is refused"))
}

/// A job, its world, and its status as stored.
struct Life {
    stored: Value,
    world: Observed,
}

impl Life {
    fn of(stored: Value) -> Self {
        let mut world = world(lowered(&stored));
        world.now = clock(0);
        Self { stored, world }
    }

    fn at(&mut self, secs: i64) -> &mut Self {
        self.world.now = clock(secs);
        self
    }

    fn edit(&mut self, change: impl FnOnce(&mut Value)) -> &mut Self {
        change(&mut self.stored["spec"]);
        self
    }

    fn workers_run(&mut self) -> &mut Self {
        for pod in &mut self.world.workers {
            (pod.phase, pod.ready) = (PodPhase::Running, true);
        }
        self
    }

    fn launcher_is(&mut self, phase: PodPhase) -> &mut Self {
        self.world.launcher_pods[0].phase = phase;
        self
    }

    fn pass(&mut self) -> Report {
        self.world.job = lowered(&self.stored);
        self.world.recorded = (DIALECT.recorded)(&self.stored);
        let mut plan = planner::plan(&self.world);
        for _ in 0..8 {
            assert_eq!(planner::check::violations(&self.world, &plan), [""; 0]);
            self.world.carry_out(&plan);
            plan = planner::plan(&self.world);
        }
        let report = (DIALECT.report)(
            &self.stored,
            &Finding::Planned(&plan.status),
            self.world.now,
        );
        self.stored["status"] = report.status.clone();
        let later = self.world.now + SignedDuration::from_secs(60);
        let again = (DIALECT.report)(&self.stored, &Finding::Planned(&plan.status), later);
        assert_eq!(
            again.urgency,
            Urgency::Unchanged,
            "it repeats itself: {again:?}"
        );
        report
    }

    /// Until the launcher runs.
    fn running(mut self) -> Self {
        self.pass();
        self.at(1).workers_run().pass();
        self.launcher_is(PodPhase::Running).at(2).pass();
        self
    }

    fn status(&self) -> &Value {
        &self.stored["status"]
    }

    fn condition(&self, name: &str) -> Option<&Value> {
        let conditions = self.status()["conditions"].as_array()?;
        conditions
            .iter()
            .find(|condition| condition["type"] == name)
    }

    fn holds(&self, name: &str) -> Option<bool> {
        Some(self.condition(name)?["status"] == "True")
    }

    fn aggregate(&self, counter: &str) -> u64 {
        self.status()["aggregate"][counter]
            .as_u64()
            .expect("a counter")
    }
}

/// The pods that a world gets when its workers come up.
fn pods(job: &Value) -> Vec<(String, Value)> {
    let mut world = world(lowered(job));
    let mut pods = Vec::new();
    for _ in 0..4 {
        let plan = planner::plan(&world);
        for action in plan.steps.iter().flatten() {
            if let Action::Create(object) = action
                && object.kind == Kind::Pod
            {
                pods.push((object.name.clone(), object.body.clone()));
            }
        }
        world.carry_out(&plan);
        world = world.workers_ready();
    }
    pods.sort_by(|left, right| left.0.cmp(&right.0));
    pods
}

fn pod(job: &Value, name: &str) -> Value {
    let found = pods(job).into_iter().find(|(pod, _)| pod == name);
    found.unwrap_or_else(|| panic!("no pod {name}")).1["spec"].clone()
}

#[test]
fn a01_a02_the_first_manifest_gets_its_pods_by_name() {
    let names: Vec<String> = pods(&seed()).into_iter().map(|(name, _)| name).collect();
    let workers = (0..5).map(|index| format!("mpi-example-worker-{index}"));
    let all: Vec<String> = std::iter::once("mpi-example-launcher".to_owned())
        .chain(workers)
        .collect();
    assert_eq!(names, all);
}

#[test]
fn a03_a_template_without_the_container_is_refused_by_its_name() {
    let job =
        with(|job| job["spec"]["worker"]["template"]["spec"]["containers"][0]["name"] = "w".into());
    assert!(refused(&job).contains("\"mpi-worker\""));
}

#[test]
fn a04_workers_run_sshd_whatever_their_template_says() {
    let job = with(|job| {
        let container = &mut job["spec"]["worker"]["template"]["spec"]["containers"][0];
        (container["command"], container["args"]) = (json!(["sleep"]), json!(["9"]));
    });
    let container = pod(&job, "mpi-example-worker-0")["containers"][0].clone();
    assert_eq!(container["command"], json!(["/usr/sbin/sshd", "-De"]));
    assert_eq!(container.get("args"), None);
}

#[test]
fn a05_the_launcher_comes_when_all_workers_are_ready() {
    let mut life = Life::of(seed());
    life.pass();
    assert_eq!(
        (life.world.workers.len(), life.world.launcher_pods.len()),
        (5, 0)
    );
    life.workers_run();
    life.world.workers[4].ready = false;
    life.at(1).pass();
    assert_eq!(life.world.launcher_pods.len(), 0);
    life.workers_run().at(2).pass();
    assert_eq!(life.world.launcher_pods.len(), 1);
}

#[test]
fn a06_to_a09_mpirun_is_made_of_the_fields_in_order() {
    let container = pod(&seed(), "mpi-example-launcher")["containers"][0].clone();
    let line = "/usr/local/bin/mpirun --mca btl ^openib -N 3 --enable-recovery --max-restarts 100 \
                --allow-run-as-root -bind-to none ./random_walk 20 40 2";
    let words: Vec<&str> = line.split(' ').collect();
    assert_eq!(container["command"], json!(words));
    assert_eq!(container["workingDir"], "/usr/local/code");
    assert_eq!(container.get("resources"), None);
    assert_eq!(lowered(&seed()).slots, 3);
}

#[test]
fn slots_follow_mpiruns_own_words() {
    let slots =
        |words: Value| lowered(&with(|job| job["spec"]["worker"]["extraMPIArgs"] = words)).slots;
    assert_eq!(slots(json!([])), 1);
    assert_eq!(slots(json!(["--npernode", "4"])), 4);
    assert_eq!(slots(json!(["--map-by", "ppr:2:node"])), 2);
    assert_eq!(slots(json!(["-np", "12"])), 3);
}

#[test]
fn a10_one_worker_is_the_default() {
    let job = with(|job| {
        drop(
            job["spec"]["worker"]
                .as_object_mut()
                .unwrap()
                .remove("replicas"),
        )
    });
    assert_eq!(lowered(&job).worker_count(), 1);
}

#[test]
fn a11_clean_up_takes_the_workers_and_leaves_the_launcher() {
    let mut life = Life::of(seed()).running();
    life.launcher_is(PodPhase::Succeeded).at(9).pass();
    assert_eq!(
        life.world.workers.len(),
        5,
        "nothing goes before the end is on record"
    );
    life.at(10).pass();
    assert_eq!(
        (life.world.workers.len(), life.world.launcher_pods.len()),
        (0, 1)
    );
    assert_eq!(
        (life.aggregate("deleted"), life.aggregate("succeeded")),
        (5, 1)
    );

    let mut kept = Life::of(with(|job| job["spec"]["runPolicy"] = json!({}))).running();
    kept.launcher_is(PodPhase::Succeeded).at(9).pass();
    kept.at(10).pass();
    assert_eq!(kept.world.workers.len(), 5);
}

#[test]
fn a12_keys_are_where_the_job_wants_them() {
    assert_eq!(lowered(&seed()).ssh_mount_path, "/root/.ssh");
    let job = with(|job| job["spec"]["ssh"]["sshAuthMountPath"] = "/keys".into());
    assert_eq!(lowered(&job).ssh_mount_path, "/keys");
}

#[test]
fn a13_a16_variables_of_the_container_reach_every_rank() {
    let job = with(|job| {
        job["spec"]["mca"]["pml"] = "ob1".into();
        job["spec"]["worker"]["template"]["spec"]["containers"][0]["env"] = json!([
            {"name": "NCCL_DEBUG", "value": "INFO"},
            {"name": "ENV_REFERENCED", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        ]);
    });
    let launcher = pod(&job, "mpi-example-launcher")["containers"][0].clone();
    let words = launcher["command"].as_array().expect("a command");
    let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
    let begin = [
        "/usr/local/bin/mpirun",
        "--mca",
        "btl",
        "^openib",
        "--mca",
        "pml",
        "ob1",
    ];
    assert_eq!(words[..7], begin);
    assert_eq!(words[7..11], ["-x", "NCCL_DEBUG", "-x", "ENV_REFERENCED"]);
    assert_eq!(launcher["env"][1]["valueFrom"]["secretKeyRef"]["name"], "s");
}

#[test]
fn a14_a15_resources_and_volumes_pass_through_to_workers() {
    let job = with(|job| {
        let spec = &mut job["spec"]["worker"]["template"]["spec"];
        spec["volumes"] =
            json!([{"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}]);
        spec["containers"][0]["volumeMounts"] = json!([{"name": "dshm", "mountPath": "/dev/shm"}]);
    });
    let worker = pod(&job, "mpi-example-worker-2");
    assert_eq!(
        worker["containers"][0]["resources"]["limits"]["cpu"],
        "100m"
    );
    assert_eq!(
        worker["containers"][0]["volumeMounts"][0]["mountPath"],
        "/dev/shm"
    );
    assert_eq!(worker["volumes"][0]["emptyDir"]["sizeLimit"], "1Gi");
}

#[test]
fn a17_without_a_scheduler_there_is_none() {
    assert_eq!(
        pod(&seed(), "mpi-example-worker-0").get("schedulerName"),
        None
    );
    let job = with(|job| job["spec"]["scheduler"] = json!({"t9kScheduler": {"queue": "q"}}));
    assert!(refused(&job).starts_with("spec.scheduler.t9kScheduler: "));
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
    let mut life = Life::of(with(|job| {
        job["spec"]["runMode"] = json!({"pause": {"enabled": true}})
    }));
    life.pass();
    assert_eq!(life.world.workers.len() + life.world.launcher_pods.len(), 0);
    assert_eq!(life.status()["phase"], "Paused");
    assert_eq!(life.holds("Paused"), Some(true));
    assert_eq!(
        (life.aggregate("creating"), life.aggregate("deleted")),
        (0, 0)
    );
}

#[test]
fn a23_a24_a_pause_takes_the_pods_and_what_follows_it_starts_as_said() {
    let resume =
        json!([{"type": "worker", "skipInitContainer": true, "command": ["/usr/bin/sshd"]}]);
    let mut life = Life::of(with(|job| {
        job["spec"]["runMode"] = json!({"pause": {"enabled": false, "resumeSpecs": resume}});
    }))
    .running();
    let command = |life: &Life| {
        let workers = life.world.job.workers.as_ref().expect("it has workers");
        workers.role.template["spec"]["containers"][0]["command"].clone()
    };
    assert_eq!(command(&life), json!(["/usr/sbin/sshd", "-De"]));
    life.edit(|spec| spec["runMode"]["pause"]["enabled"] = true.into())
        .at(5)
        .pass();
    assert_eq!(life.world.workers.len() + life.world.launcher_pods.len(), 0);
    assert_eq!(
        (life.status()["phase"].as_str(), life.aggregate("deleted")),
        (Some("Paused"), 6)
    );

    life.edit(|spec| spec["runMode"]["pause"]["enabled"] = false.into())
        .at(9)
        .pass();
    assert_eq!(life.status()["phase"], "Resuming");
    assert_eq!(command(&life), json!(["/usr/bin/sshd"]), "T5, T8");
    life.workers_run().at(10).pass();
    life.launcher_is(PodPhase::Running).at(11).pass();
    assert_eq!(life.status()["phase"], "Running");
    assert_eq!(life.holds("Paused"), Some(false));
}

#[test]
fn a26_to_a28_conditions_and_phases_are_those_of_the_manual() {
    let mut life = Life::of(seed());
    life.pass();
    assert_eq!(life.status()["phase"], "Pending");
    assert_eq!(life.holds("Initialized"), Some(true), "T3");
    let mut life = life.running();
    assert_eq!(life.status()["phase"], "Running");
    assert_eq!(
        (life.holds("Running"), life.holds("ReplicaFailure")),
        (Some(true), Some(false))
    );
    let since = life.condition("Running").expect("it runs")["lastTransitionTime"].clone();
    life.at(60).pass();
    assert_eq!(
        life.condition("Running").expect("it runs")["lastTransitionTime"],
        since
    );

    life.launcher_is(PodPhase::Succeeded).at(90).pass();
    assert_eq!(life.status()["phase"], "Succeeded");
    let ends = ["Completed", "Failed", "Running"].map(|name| life.holds(name));
    assert_eq!(ends, [Some(true), Some(false), Some(false)]);
    for condition in life.status()["conditions"].as_array().expect("conditions") {
        let keys: Vec<&String> = condition.as_object().expect("a condition").keys().collect();
        assert_eq!(
            keys,
            ["lastTransitionTime", "message", "reason", "status", "type"]
        );
    }
    assert!((DIALECT.recorded)(&life.stored).outcome.is_some());
}

#[test]
fn a27_a_launcher_that_fails_fails_the_job() {
    let mut life = Life::of(seed()).running();
    life.world.launcher_pods[0].exit = Some(Exit {
        container: "mpi-launcher".to_owned(),
        code: 3,
        reason: "Error".to_owned(),
        message: String::new(),
    });
    life.launcher_is(PodPhase::Failed).at(9).pass();
    assert_eq!(life.status()["phase"], "Failed");
    assert_eq!(
        (life.holds("Failed"), life.holds("Completed")),
        (Some(true), Some(true)),
        "T4"
    );
    let failed = life.condition("Failed").expect("it failed");
    assert_eq!(failed["reason"], "Failed");
    assert!(
        failed["message"]
            .as_str()
            .is_some_and(|said| said.contains("exited with 3"))
    );
    life.at(99).pass();
    assert_eq!(life.status()["phase"], "Failed");
}

#[test]
fn a29_a_worker_that_crashes_is_told_of_before_the_end() {
    let mut life = Life::of(seed()).running();
    life.world.workers[1].phase = PodPhase::Failed;
    life.at(5).pass();
    assert_eq!(life.holds("ReplicaFailure"), Some(true));
    let condition = life.condition("ReplicaFailure").expect("it is told of");
    assert_eq!(condition["reason"], "ErrorInPod");
    assert_eq!(condition["message"], "Pod mpi-example-worker-1 failed.");
    assert_eq!(life.status()["phase"], "Running");
}

#[test]
fn a30_a31_tasks_and_aggregate_tell_of_every_pod() {
    let mut life = Life::of(seed()).running();
    life.world.workers[2].restarts = 2;
    life.world.workers[3].restarts = 1;
    life.at(5).pass();
    let tasks = &life.status()["tasks"];
    assert_eq!(tasks[0]["type"], "launcher");
    assert_eq!(tasks[0]["status"][0]["name"], "mpi-example-launcher");
    assert_eq!(
        (&tasks[1]["type"], &tasks[1]["restartCount"]),
        (&json!("worker"), &json!(3))
    );
    let third = &tasks[1]["status"][2];
    let expected = json!({"phase": "Running", "name": "mpi-example-worker-2",
        "uid": "uid-mpi-example-worker-2", "containers": []});
    assert_eq!(*third, expected, "T6");
    let counted = |life: &Life| ["creating", "pending", "running"].map(|name| life.aggregate(name));
    assert_eq!(counted(&life), [0, 0, 6]);
    assert_eq!(
        life.status()["aggregate"]
            .as_object()
            .map(serde_json::Map::len),
        Some(7)
    );

    let mut fresh = Life::of(seed());
    fresh.pass();
    assert_eq!(counted(&fresh), [1, 5, 0]);
}

#[test]
fn a33_the_other_shapes_give_the_same_pods() {
    let first = with(|job| {
        let worker = job["spec"]["worker"].as_object_mut().expect("a worker");
        worker.remove("extraMPIArgs");
        worker.insert("processesPerWorker".to_owned(), 3.into());
    });
    let third = with(|job| {
        let mut worker = job["spec"]["worker"]["template"].take();
        worker["spec"]["containers"][0]["name"] = "worker".into();
        job["spec"] = json!({
            "mpiConfig": {"mca": {"btl": "^openib"}, "home": "/usr/local",
                "extraArgs": ["--allow-run-as-root", "-N", "3"],
                "script": ["./random_walk", "20", "40", "2"]},
            "replicaSpecs": [
                {"type": "worker", "replicas": 5, "template": worker},
                {"type": "launcher", "replicas": 1, "template": {}},
            ],
            "ssh": {"sshdPath": "/usr/sbin/sshd"},
        });
    });
    let names = |job: &Value| {
        pods(job)
            .into_iter()
            .map(|(name, _)| name)
            .collect::<Vec<_>>()
    };
    let line = |job: &Value| pod(job, "mpi-example-launcher")["containers"][0]["command"].clone();
    assert_eq!(names(&first), names(&seed()));
    assert_eq!(names(&third), names(&seed()));
    assert_eq!(line(&first), line(&third));
    assert_eq!((lowered(&first).slots, lowered(&third).slots), (3, 3));
    let mixed = with(|job| job["spec"]["mpiConfig"] = json!({"script": ["x"]}));
    assert!(refused(&mixed).contains("spec.worker: Forbidden"));
}
