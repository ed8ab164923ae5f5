//! `spec.muster.recovery`: what it becomes, and the jobs on which it is refused by name, because muster could
//! not do what it asks for.

use dialects::{Dialect, kubeflow_v1, kubeflow_v2beta1, t9k_v1beta1};
use planner::Reason;
use planner::job::{PlannedStop, RESTARTABLE, Recovery, StopSignal};
use serde_json::{Value, json};

const DIALECTS: [&Dialect; 3] = [
    &kubeflow_v2beta1::DIALECT,
    &kubeflow_v1::DIALECT,
    &t9k_v1beta1::DIALECT,
];

/// A job of any of these dialects that asks for a recovery.
fn job(dialect: &Dialect, muster: Value) -> Value {
    let template = |name: &str| {
        let container = json!({"name": name, "image": "a", "command": ["mpirun", "a"]});
        json!({"spec": {"containers": [container]}})
    };
    let spec = match dialect.name {
        "t9k" => {
            json!({"worker": {"replicas": 2, "cmd": ["a"], "template": template("mpi-worker")}})
        }
        _ => json!({"mpiReplicaSpecs": {
            "Launcher": {"template": template("launcher")},
            "Worker": {"replicas": 2, "template": template("worker")}}}),
    };
    let mut job = json!({"metadata": {"name": "a", "namespace": "n", "uid": "u"}, "spec": spec});
    job["spec"]["muster"] = muster;
    job
}

fn refusals(dialect: &Dialect, job: &Value) -> Vec<String> {
    let errors = (dialect.lower)(job).expect_err("the job is refused");
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn a_job_without_it_is_never_restarted() {
    for dialect in DIALECTS {
        for muster in [json!({}), json!({"recovery": null, "transport": "Agent"})] {
            let job = (dialect.lower)(&job(dialect, muster)).expect("the job is valid");
            assert_eq!(job.recovery, None, "{}", dialect.name);
        }
    }
}

#[test]
fn it_is_the_same_in_every_dialect() {
    for dialect in DIALECTS {
        let with = |recovery: Value| {
            let muster = json!({"transport": "Agent", "recovery": recovery});
            let job = (dialect.lower)(&job(dialect, muster)).expect("the job is valid");
            job.recovery.expect("the job may be restarted")
        };
        let all = Recovery {
            restarts: 3,
            on: RESTARTABLE.to_vec(),
            reset_secs: None,
            stop: PlannedStop::USUAL,
        };
        assert_eq!(with(json!({"restarts": 3})), all);
        assert_eq!(with(json!({"restarts": 3, "reasons": []})), all);
        let some = json!({"restarts": 0, "reasons": ["WorkerLost", "RankKilled", "WorkerLost"],
            "resetAfterSeconds": 60, "signal": "SIGUSR1", "graceSeconds": 120});
        let some_hub = Recovery {
            restarts: 0,
            on: vec![Reason::RankKilled, Reason::WorkerLost],
            reset_secs: Some(60),
            stop: PlannedStop {
                signal: StopSignal::ALL[4],
                grace_secs: 120,
            },
        };
        assert_eq!(with(some), some_hub);
    }
}

#[test]
fn every_wrong_value_is_named() {
    let recovery = json!({"restarts": -1, "reasons": ["RankKilled", "Evicted"], "resetAfterSeconds": 0,
            "signal": "USR1", "graceSeconds": 3601});
    for dialect in DIALECTS {
        let muster = json!({"transport": "Agent", "recovery": recovery});
        assert_eq!(
            refusals(dialect, &job(dialect, muster)),
            [
                "spec.muster.recovery.restarts: Invalid value: -1: must be greater than or equal to 0",
                "spec.muster.recovery.reasons[1]: Unsupported value: \"Evicted\": supported values: \
                 \"CommandFailed\", \"RankKilled\", \"WorkerLost\", \"Unreachable\"",
                "spec.muster.recovery.signal: Unsupported value: \"USR1\": supported values: \"SIGTERM\", \
                 \"SIGINT\", \"SIGQUIT\", \"SIGHUP\", \"SIGUSR1\", \"SIGUSR2\"",
                "spec.muster.recovery.graceSeconds: Invalid value: 3601: must be between 1 and 3600, \
                 inclusive",
                "spec.muster.recovery.resetAfterSeconds: Invalid value: 0: must be greater than or equal \
                 to 60",
            ]
        );
        let muster = json!({"transport": "Agent", "recovery": {"reasons": ["RankKilled"]}});
        assert_eq!(
            refusals(dialect, &job(dialect, muster)),
            [
                "spec.muster.recovery.restarts: Required value: must say how often the program may be \
              started again"
            ]
        );
    }
}

const NEEDS_AGENT: &str = "spec.muster.recovery.restarts: Invalid value: 2: needs spec.muster.transport: Agent, \
     because muster's agent starts the program again";
const NEEDS_COMMAND: &str = "spec.muster.recovery.restarts: Invalid value: 2: needs a command in the \
     launcher's template: muster's agent cannot start the entry point of the image again";

#[test]
fn without_the_agent_it_is_refused() {
    for dialect in DIALECTS {
        let ssh = json!({"transport": "SSH", "recovery": {"restarts": 2}});
        assert_eq!(refusals(dialect, &job(dialect, ssh)), [NEEDS_AGENT]);
        let unsaid = job(dialect, json!({"recovery": {"restarts": 2}}));
        if dialect.name == "v1" {
            let lowered = (dialect.lower)(&unsaid).expect("the agent is usual there");
            assert!(lowered.recovery.is_some());
        } else {
            assert_eq!(refusals(dialect, &unsaid), [NEEDS_AGENT]);
        }
    }
}

#[test]
fn without_a_command_of_the_launcher_it_is_refused() {
    for dialect in [&kubeflow_v2beta1::DIALECT, &kubeflow_v1::DIALECT] {
        for command in [json!(null), json!([])] {
            let muster = json!({"transport": "Agent", "recovery": {"restarts": 2}});
            let mut job = job(dialect, muster);
            let launcher = &mut job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"];
            let container = &mut launcher["spec"]["containers"][0];
            container["command"] = command;
            // The entry point of the image takes them.
            container["args"] = json!(["mpirun"]);
            assert_eq!(refusals(dialect, &job), [NEEDS_COMMAND]);
        }
    }
}
