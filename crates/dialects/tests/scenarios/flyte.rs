//! What Flyte needs of a v1 job, F1 to F15 as far as they are facts of a status or of a plan, and
//! how its phase reader, in every version that is about, reads what we write.

use dialects::kubeflow_v1::DIALECT;
use dialects::{Finding, Urgency};
use jiff::{SignedDuration, Timestamp};
use planner::observed::PodPhase;
use planner::{Action, Kind, Plan, Verdict};
use serde_json::{Value, json};

use crate::driver::Scenario;

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

/// Not at a full second: what is stored has no fractions of one.
fn scenario(stored: Value) -> Scenario {
    Scenario::beginning(&DIALECT, stored, clock(0))
}

fn conditions(scenario: &Scenario) -> Vec<&Value> {
    let conditions = scenario.status()["conditions"].as_array();
    conditions.expect("there are conditions").iter().collect()
}

fn condition<'a>(scenario: &'a Scenario, name: &str) -> &'a Value {
    let found = scenario.condition(name);
    found.unwrap_or_else(|| panic!("no {name} in {}", scenario.status()))
}

fn reads(scenario: &Scenario) -> String {
    let status = scenario.status();
    flyte(status).unwrap_or_else(|error| panic!("{error}: {status}"))
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
    let mut objects = actions.flat_map(Action::objects);
    let found = objects.find(|object| object.kind == Kind::Pod && object.name == name);
    found.unwrap_or_else(|| panic!("no pod {name}")).body
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
    let mut run = scenario(task());
    run.reconcile();
    assert_eq!(run.status()["startTime"], "2026-11-15T12:00:00Z");

    let mut held = scenario(task());
    held.suspend(true).reconcile();
    assert_eq!(held.status()["startTime"], "2026-11-15T12:00:00Z");
    held.suspend(false).at(500).reconcile();
    assert_eq!(held.status()["startTime"], "2026-11-15T12:08:20Z");
}

#[test]
fn f02_conditions_are_never_an_empty_list() {
    let mut run = scenario(task());
    assert_eq!(
        run.reconcile().status["conditions"]
            .as_array()
            .map(Vec::len),
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
    let mut run = scenario(task());
    run.reconcile();
    run.at(1).pods_run().reconcile();
    run.at(2).launcher_is(PodPhase::Succeeded).reconcile();
    let first = conditions(&run)[0];
    assert_eq!(
        (&first["type"], &first["status"]),
        (&json!("Created"), &json!("True"))
    );
    assert_eq!(first["lastTransitionTime"], "2026-11-15T12:00:00Z");
}

#[test]
fn f04_each_condition_is_later_than_all_others_that_hold() {
    let mut run = scenario(task());
    run.reconcile();
    assert_eq!(reads(&run), "Created");
    run.pods_run().reconcile();
    assert_eq!(reads(&run), "Running");
    run.launcher_is(PodPhase::Succeeded).reconcile();
    assert_eq!(reads(&run), "Succeeded");
    let since = |name: &str| condition(&run, name)["lastTransitionTime"].clone();
    assert_eq!(since("Running"), "2026-11-15T12:00:01Z");
    assert_eq!(since("Succeeded"), "2026-11-15T12:00:01Z");
    assert_eq!(
        condition(&run, "Succeeded")["lastUpdateTime"],
        "2026-11-15T12:00:00Z"
    );
}

#[test]
fn f05_a_suspension_is_no_newer_than_the_creation() {
    let mut run = scenario(task());
    run.reconcile();
    run.at(1).pods_run().reconcile();
    run.suspend(true).at(9).reconcile();
    assert_eq!(reads(&run), "Created");
    let held = condition(&run, "Suspended");
    assert_eq!(held["status"], "True");
    assert_eq!(held["lastTransitionTime"], "2026-11-15T12:00:00Z");
    assert_eq!(held["lastUpdateTime"], "2026-11-15T12:00:09Z");
    assert_eq!(condition(&run, "Running")["status"], "False");
}

#[test]
fn f06_resuming_takes_the_suspension_back() {
    let mut run = scenario(task());
    run.suspend(true).reconcile();
    run.suspend(false).at(5).reconcile();
    let held = condition(&run, "Suspended");
    assert_eq!(
        (&held["status"], &held["reason"]),
        (&json!("False"), &json!("MPIJobResumed"))
    );
    run.at(6).pods_run().reconcile();
    assert_eq!(reads(&run), "Running");
}

#[test]
fn f07_nothing_runs_after_the_end() {
    let mut run = scenario(task());
    run.reconcile();
    run.at(1).pods_run().reconcile();
    let since = condition(&run, "Running")["lastTransitionTime"].clone();
    run.at(2).launcher_is(PodPhase::Succeeded).reconcile();
    let running = condition(&run, "Running");
    assert_eq!(
        (&running["status"], &running["lastTransitionTime"]),
        (&json!("False"), &since)
    );
}

#[test]
fn f08_there_is_one_terminal_condition_and_it_holds() {
    let mut run = scenario(task());
    run.stored["status"] = json!({"conditions": [
        {"type": "Failed", "status": "False", "lastTransitionTime": "2026-11-15T11:00:00Z"},
    ]});
    run.reconcile();
    run.at(1).pods_run().reconcile();
    run.launcher_is(PodPhase::Succeeded).reconcile();
    let terminal = |c: &&&Value| {
        ["Succeeded", "Failed"]
            .map(Value::from)
            .contains(&c["type"])
    };
    let conditions = conditions(&run);
    let found: Vec<_> = conditions.iter().filter(terminal).collect();
    assert_eq!(found.len(), 1);
    assert_eq!(
        (&found[0]["type"], &found[0]["status"]),
        (&json!("Succeeded"), &json!("True"))
    );
}

#[test]
fn f09_a_failure_says_what_happened_to_whom() {
    let mut run = scenario(task());
    run.reconcile();
    run.at(1).pods_run().reconcile();
    run.at(2)
        .launcher_exits(3, "ValueError: no data")
        .reconcile();
    let failed = condition(&run, "Failed");
    assert_eq!(failed["reason"], "CommandFailed");
    assert_eq!(
        failed["message"],
        "launcher f1a2.n0-0-launcher on node-a failed: container mpi exited with 3 (Error): \
         ValueError: no data"
    );
    assert_eq!(reads(&run), "Failed");
}

#[test]
fn f10_the_completion_time_comes_with_the_terminal_condition() {
    let mut run = scenario(task());
    run.reconcile();
    run.at(1).pods_run().reconcile();
    assert_eq!(run.status().get("completionTime"), None);
    let report = run.at(30).launcher_is(PodPhase::Succeeded).reconcile();
    assert_eq!(report.status["completionTime"], "2026-11-15T12:00:30Z");
    assert_eq!(report.urgency, Urgency::Now);
    assert!((DIALECT.recorded)(&run.stored).outcome.is_some());
}

#[test]
fn f11_pods_have_the_names_labels_and_container_that_clients_look_for() {
    let run = scenario(task());
    let plan = planner::plan(&run.world);
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
    let run = scenario(job);
    assert!(planner::plan(&run.world).steps.is_empty());
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
fn c09_an_edit_that_is_not_valid_does_not_end_a_job_that_is_starting() {
    let mut run = scenario(task());
    run.reconcile();
    assert!(!run.world.workers.is_empty(), "its pods exist");
    run.stored["spec"]["mpiReplicaSpecs"]["Launcher"]["replicas"] = 2.into();
    let report = run.at(5).reconcile();
    assert_eq!(report.status.get("completionTime"), None);
    assert_eq!(report.status["muster"]["finished"], false);
    assert_eq!(report.status["muster"]["reason"], "Invalid");
    assert_ne!(flyte(&report.status).as_deref(), Ok("Failed"));
    run.stored["spec"]["mpiReplicaSpecs"]["Launcher"]["replicas"] = 1.into();
    run.at(6).reconcile();
    run.at(7).pods_run().reconcile();
    assert_eq!(reads(&run), "Running");
}

#[test]
fn f14_a_job_stays_unless_it_was_given_a_time_to_live() {
    let run = scenario(task());
    assert_eq!(run.world.job.limits().expires_secs, None);
    let mut job = task();
    job["spec"]["runPolicy"]["ttlSecondsAfterFinished"] = 0.into();
    assert_eq!(scenario(job).world.job.limits().expires_secs, Some(0));
}

#[test]
fn f15_names_may_have_dots_and_begin_with_a_digit() {
    let mut job = task();
    job["metadata"]["name"] = "1.a.b-c".into();
    let plan = planner::plan(&scenario(job).world);
    let launcher = created(&plan, "1.a.b-c-launcher");
    assert_eq!(launcher["spec"]["hostname"], "1-a-b-c-launcher");
    assert_eq!(launcher["spec"].get("subdomain"), None);
}

#[test]
fn a_restart_is_told_and_running_again_takes_it_back() {
    let mut job = task();
    job["spec"]["mpiReplicaSpecs"]["Launcher"]["restartPolicy"] = "ExitCode".into();
    let mut run = scenario(job);
    run.reconcile();
    run.at(1).pods_run().reconcile();
    run.at(9).launcher_exits(137, "").reconcile();
    assert_eq!(reads(&run), "Restarting");
    assert_eq!(run.status()["muster"]["restarts"], 1);
    assert!(conditions(&run).iter().all(|c| c["type"] != "Running"));
    run.at(10).reconcile();
    run.at(11).pods_run().reconcile();
    assert_eq!(reads(&run), "Running");
    assert!(conditions(&run).iter().all(|c| c["type"] != "Restarting"));
}
