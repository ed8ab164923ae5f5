//! What Flyte needs of a v1 job, F1 to F15 as far as they are facts of a status or of a plan, and
//! how its phase reader, in every version that is about, reads what we write.

use dialects::kubeflow_v1::DIALECT;
use dialects::{Finding, Report, Urgency};
use jiff::{SignedDuration, Timestamp};
use planner::fixtures::world;
use planner::observed::{Exit, PodPhase};
use planner::{Action, Kind, Observed, Plan, Verdict};
use serde_json::{Value, json};

fn clock(secs: i64) -> Timestamp {
    let noon: Timestamp = "2026-11-15T12:00:00.4Z".parse().expect("a time");
    noon + SignedDuration::from_secs(secs)
}

/// As Flyte's plugin writes it.
fn task() -> Value {
    let container = json!({
        "name": "mpi", "image": "flyte",
        "args": ["mpirun", "-np", "2", "python", "entrypoint.py"],
        "env": [{"name": "FLYTE_INTERNAL_NAME", "value": "t"}],
    });
    let template = json!({
        "metadata": {"labels": {"execution-id": "x"}, "annotations": {"a": "b"}},
        "spec": {"containers": [container], "restartPolicy": "Never"},
    });
    let replica =
        |count: u32| json!({"replicas": count, "restartPolicy": "Never", "template": template});
    json!({
        "apiVersion": "kubeflow.org/v1", "kind": "MPIJob",
        "metadata": {"name": "f1a2.n0-0", "namespace": "flyte", "uid": "u1", "generation": 1},
        "spec": {
            "slotsPerWorker": 1,
            "runPolicy": {"cleanPodPolicy": "None"},
            "mpiReplicaSpecs": {"Launcher": replica(1), "Worker": replica(2)},
        },
    })
}

/// A job, its world, and its status as stored.
struct Life {
    stored: Value,
    world: Observed,
}

impl Life {
    fn of(stored: Value) -> Self {
        let job = (DIALECT.lower)(&stored).expect("the job is valid");
        let mut world = world(job);
        world.site.agent_image = Some("muster-agent".to_owned());
        world.now = clock(0);
        Self { stored, world }
    }

    fn at(&mut self, secs: i64) -> &mut Self {
        self.world.now = clock(secs);
        self
    }

    fn suspend(&mut self, suspended: bool) -> &mut Self {
        self.stored["spec"]["runPolicy"]["suspend"] = suspended.into();
        self.world.job = (DIALECT.lower)(&self.stored).expect("the job is valid");
        self
    }

    fn pods_run(&mut self) -> &mut Self {
        let pods = self
            .world
            .workers
            .iter_mut()
            .chain(&mut self.world.launcher_pods);
        for pod in pods {
            (pod.phase, pod.ready) = (PodPhase::Running, true);
        }
        self
    }

    fn launcher_is(&mut self, phase: PodPhase) -> &mut Self {
        self.world.launcher_pods[0].phase = phase;
        self
    }

    /// One pass of the operator: act until there is nothing to do, then say so.
    fn pass(&mut self) -> Report {
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

    fn status(&self) -> &Value {
        &self.stored["status"]
    }

    fn conditions(&self) -> Vec<&Value> {
        let conditions = self.status()["conditions"].as_array();
        conditions.expect("there are conditions").iter().collect()
    }

    fn condition(&self, name: &str) -> &Value {
        let found = self.conditions().into_iter().find(|c| c["type"] == name);
        found.unwrap_or_else(|| panic!("no {name} in {}", self.status()))
    }

    fn reads(&self) -> String {
        flyte(self.status()).unwrap_or_else(|error| panic!("{error}: {}", self.status()))
    }
}

/// The current condition as Flyte's plugin finds it: of those that hold, the one with the newest
/// transition time; among equals, the first.
fn flyte(status: &Value) -> Result<String, String> {
    let Some(conditions) = status.get("conditions").filter(|list| !list.is_null()) else {
        return Ok("Created".to_owned());
    };
    let conditions = conditions.as_array().expect("a list");
    let time = |condition: &Value| -> Timestamp {
        let text = condition["lastTransitionTime"]
            .as_str()
            .unwrap_or("0001-01-01T00:00:00Z");
        text.parse().expect("a time")
    };
    let mut sorted: Vec<&Value> = conditions.iter().collect();
    sorted.sort_by_key(|condition| std::cmp::Reverse(time(condition)));
    let current = sorted
        .into_iter()
        .find(|condition| condition["status"] == "True");
    let current = current.ok_or("found no current condition")?;
    Ok(current["type"].as_str().expect("a type").to_owned())
}

fn created(plan: &Plan, name: &str) -> Value {
    let actions = plan.steps.iter().flatten();
    let mut objects = actions.filter_map(|action| match action {
        Action::Create(object) if object.kind == Kind::Pod => Some(object),
        _ => None,
    });
    let found = objects.find(|object| object.name == name);
    found
        .unwrap_or_else(|| panic!("no pod {name}"))
        .body
        .clone()
}

#[test]
fn the_reader_reads_as_flytes_does() {
    let condition = |name: &str, second: u32| {
        json!({"type": name, "status": "True",
        "lastTransitionTime": format!("2026-11-15T12:00:{second:02}Z")})
    };
    let reads = |conditions: Value| flyte(&json!({"conditions": conditions}));
    assert_eq!(reads(Value::Null).as_deref(), Ok("Created"));
    assert!(reads(json!([])).is_err());
    let same = [condition("Created", 1), condition("Succeeded", 1)];
    assert_eq!(reads(json!(same)).as_deref(), Ok("Created"));
    let later = [condition("Created", 1), condition("Succeeded", 2)];
    assert_eq!(reads(json!(later)).as_deref(), Ok("Succeeded"));
}

#[test]
fn f01_start_time_is_set_on_first_sight_also_while_suspended() {
    let mut life = Life::of(task());
    life.pass();
    assert_eq!(life.status()["startTime"], "2026-11-15T12:00:00Z");

    let mut held = Life::of(task());
    held.suspend(true).pass();
    assert_eq!(held.status()["startTime"], "2026-11-15T12:00:00Z");
    held.suspend(false).at(500).pass();
    assert_eq!(held.status()["startTime"], "2026-11-15T12:08:20Z");
}

#[test]
fn f02_conditions_are_never_an_empty_list() {
    let mut life = Life::of(task());
    assert_eq!(
        life.pass().status["conditions"].as_array().map(Vec::len),
        Some(1)
    );
    let unread = (DIALECT.report)(&json!({}), &Finding::Invalid(&[]), clock(0));
    assert!(
        unread.status["conditions"]
            .as_array()
            .is_none_or(|list| !list.is_empty())
    );
}

#[test]
fn f03_created_stays_true_and_first() {
    let mut life = Life::of(task());
    life.pass();
    life.at(1).pods_run().pass();
    life.at(2).launcher_is(PodPhase::Succeeded).pass();
    let first = life.conditions()[0];
    assert_eq!(
        (&first["type"], &first["status"]),
        (&json!("Created"), &json!("True"))
    );
    assert_eq!(first["lastTransitionTime"], "2026-11-15T12:00:00Z");
}

#[test]
fn f04_each_condition_is_later_than_all_others_that_hold() {
    let mut life = Life::of(task());
    life.pass();
    assert_eq!(life.reads(), "Created");
    life.pods_run().pass();
    assert_eq!(life.reads(), "Running");
    life.launcher_is(PodPhase::Succeeded).pass();
    assert_eq!(life.reads(), "Succeeded");
    let since = |name: &str| life.condition(name)["lastTransitionTime"].clone();
    assert_eq!(since("Running"), "2026-11-15T12:00:01Z");
    assert_eq!(since("Succeeded"), "2026-11-15T12:00:01Z");
    assert_eq!(
        life.condition("Succeeded")["lastUpdateTime"],
        "2026-11-15T12:00:00Z"
    );
}

#[test]
fn f05_a_suspension_is_no_newer_than_the_creation() {
    let mut life = Life::of(task());
    life.pass();
    life.at(1).pods_run().pass();
    life.suspend(true).at(9).pass();
    assert_eq!(life.reads(), "Created");
    let held = life.condition("Suspended");
    assert_eq!(held["status"], "True");
    assert_eq!(held["lastTransitionTime"], "2026-11-15T12:00:00Z");
    assert_eq!(held["lastUpdateTime"], "2026-11-15T12:00:09Z");
    assert_eq!(life.condition("Running")["status"], "False");
}

#[test]
fn f06_resuming_takes_the_suspension_back() {
    let mut life = Life::of(task());
    life.suspend(true).pass();
    life.suspend(false).at(5).pass();
    let held = life.condition("Suspended");
    assert_eq!(
        (&held["status"], &held["reason"]),
        (&json!("False"), &json!("MPIJobResumed"))
    );
    life.at(6).pods_run().pass();
    assert_eq!(life.reads(), "Running");
}

#[test]
fn f07_nothing_runs_after_the_end() {
    let mut life = Life::of(task());
    life.pass();
    life.at(1).pods_run().pass();
    let since = life.condition("Running")["lastTransitionTime"].clone();
    life.at(2).launcher_is(PodPhase::Succeeded).pass();
    let running = life.condition("Running");
    assert_eq!(
        (&running["status"], &running["lastTransitionTime"]),
        (&json!("False"), &since)
    );
}

#[test]
fn f08_there_is_one_terminal_condition_and_it_holds() {
    let mut life = Life::of(task());
    life.stored["status"] = json!({"conditions": [
        {"type": "Failed", "status": "False", "lastTransitionTime": "2026-11-15T11:00:00Z"},
    ]});
    life.pass();
    life.at(1).pods_run().pass();
    life.launcher_is(PodPhase::Succeeded).pass();
    let terminal = |c: &&&Value| {
        ["Succeeded", "Failed"]
            .map(Value::from)
            .contains(&c["type"])
    };
    let conditions = life.conditions();
    let found: Vec<_> = conditions.iter().filter(terminal).collect();
    assert_eq!(found.len(), 1);
    assert_eq!(
        (&found[0]["type"], &found[0]["status"]),
        (&json!("Succeeded"), &json!("True"))
    );
}

#[test]
fn f09_a_failure_says_what_happened_to_whom() {
    let mut life = Life::of(task());
    life.pass();
    life.at(1).pods_run().pass();
    life.world.launcher_pods[0].exit = Some(Exit {
        container: "mpi".to_owned(),
        code: 3,
        reason: "Error".to_owned(),
        message: "ValueError: no data".to_owned(),
    });
    life.at(2).launcher_is(PodPhase::Failed).pass();
    let failed = life.condition("Failed");
    assert_eq!(failed["reason"], "CommandFailed");
    assert_eq!(
        failed["message"],
        "launcher f1a2.n0-0-launcher failed: container mpi exited with 3 (Error): \
         ValueError: no data"
    );
    assert_eq!(life.reads(), "Failed");
}

#[test]
fn f10_the_completion_time_comes_with_the_terminal_condition() {
    let mut life = Life::of(task());
    life.pass();
    life.at(1).pods_run().pass();
    assert_eq!(life.status().get("completionTime"), None);
    let report = life.at(30).launcher_is(PodPhase::Succeeded).pass();
    assert_eq!(report.status["completionTime"], "2026-11-15T12:00:30Z");
    assert_eq!(report.urgency, Urgency::Now);
    assert!((DIALECT.recorded)(&life.stored).outcome.is_some());
}

#[test]
fn f11_pods_have_the_names_labels_and_container_that_clients_look_for() {
    let life = Life::of(task());
    let plan = planner::plan(&life.world);
    let launcher = created(&plan, "f1a2.n0-0-launcher");
    let labels = &launcher["metadata"]["labels"];
    for (name, value) in [
        ("training.kubeflow.org/job-name", "f1a2.n0-0"),
        ("training.kubeflow.org/job-role", "master"),
        ("training.kubeflow.org/replica-type", "launcher"),
        ("training.kubeflow.org/operator-name", "mpi-operator"),
        ("execution-id", "x"),
    ] {
        assert_eq!(labels[name], value, "{name}");
    }
    assert_eq!(launcher["metadata"]["annotations"]["a"], "b");
    assert_eq!(launcher["spec"]["containers"][0]["name"], "mpi");
    let owner = &launcher["metadata"]["ownerReferences"][0];
    assert_eq!(owner["apiVersion"], "kubeflow.org/v2beta1");

    let worker = created(&plan, "f1a2.n0-0-worker-1");
    let labels = &worker["metadata"]["labels"];
    assert_eq!(labels["training.kubeflow.org/replica-type"], "worker");
    assert_eq!(labels["training.kubeflow.org/replica-index"], "1");
    let container = &worker["spec"]["containers"][0];
    assert_eq!(
        container["command"],
        json!(["/muster/bin/muster-agent", "serve"])
    );
    assert_eq!(container.get("args"), None, "every worker would run mpirun");
    assert_eq!(container["env"][0]["name"], "FLYTE_INTERNAL_NAME");
}

#[test]
fn f12_a_job_that_is_being_deleted_gets_no_pods() {
    let mut job = task();
    job["metadata"]["deletionTimestamp"] = "2026-11-15T12:00:00Z".into();
    job["metadata"]["finalizers"] = json!(["flyte.org/finalizer-k8s"]);
    let life = Life::of(job);
    assert!(planner::plan(&life.world).steps.is_empty());
}

#[test]
fn f13_a_job_that_is_not_valid_has_failed_and_is_over() {
    let mut job = task();
    job["spec"]["mpiReplicaSpecs"]["Launcher"]["replicas"] = 2.into();
    let errors = (DIALECT.lower)(&job).expect_err("it is not valid");
    let report = (DIALECT.report)(&job, &Finding::Invalid(&errors), clock(0));
    assert_eq!(flyte(&report.status).as_deref(), Ok("Failed"));
    assert_eq!(report.status["startTime"], "2026-11-15T12:00:00Z");
    assert_eq!(report.status["completionTime"], "2026-11-15T12:00:00Z");
    job["status"] = report.status;
    let outcome = (DIALECT.recorded)(&job).outcome.expect("it is over");
    let Verdict::Failed { reason, message } = outcome.verdict else {
        panic!("it succeeded");
    };
    assert_eq!(reason, "MPIJobFailedValidation");
    assert!(
        message.contains("spec.mpiReplicaSpecs[Launcher].replicas"),
        "{message}"
    );
    let again = (DIALECT.report)(&job, &Finding::Invalid(&errors), clock(60));
    assert_eq!(again.urgency, Urgency::Unchanged);
}

#[test]
fn f14_a_job_stays_unless_it_was_given_a_time_to_live() {
    let life = Life::of(task());
    assert_eq!(life.world.job.policy.expires_secs, None);
    let mut job = task();
    job["spec"]["runPolicy"]["ttlSecondsAfterFinished"] = 0.into();
    assert_eq!(Life::of(job).world.job.policy.expires_secs, Some(0));
}

#[test]
fn f15_names_may_have_dots_and_begin_with_a_digit() {
    let mut job = task();
    job["metadata"]["name"] = "1.a.b-c".into();
    let plan = planner::plan(&Life::of(job).world);
    let launcher = created(&plan, "1.a.b-c-launcher");
    assert_eq!(launcher["spec"]["hostname"], "1-a-b-c-launcher");
    assert_eq!(launcher["spec"].get("subdomain"), None);
}

#[test]
fn a_restart_is_told_and_running_again_takes_it_back() {
    let mut job = task();
    job["spec"]["mpiReplicaSpecs"]["Launcher"]["restartPolicy"] = "ExitCode".into();
    let mut life = Life::of(job);
    life.pass();
    life.at(1).pods_run().pass();
    life.world.launcher_pods[0].exit = Some(Exit {
        container: "mpi".to_owned(),
        code: 137,
        reason: "Error".to_owned(),
        message: String::new(),
    });
    life.at(9).launcher_is(PodPhase::Failed).pass();
    assert_eq!(life.reads(), "Restarting");
    assert_eq!(life.status()["muster"]["restarts"], 1);
    assert!(life.conditions().iter().all(|c| c["type"] != "Running"));
    life.at(10).pass();
    life.at(11).pods_run().pass();
    assert_eq!(life.reads(), "Running");
    assert!(life.conditions().iter().all(|c| c["type"] != "Restarting"));
}
