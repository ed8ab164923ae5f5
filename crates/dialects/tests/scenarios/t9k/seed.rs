//! The manual's first job, the pods that it gets, and how tests ask about them. Must not know what is
//! expected of any of them.

use dialects::t9k_v1beta1::DIALECT;
use planner::{Job, Kind};
use serde_json::{Value, json};

use crate::driver::Scenario;

/// The manual's first example.
pub(crate) fn seed() -> Value {
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

pub(crate) fn with(change: impl FnOnce(&mut Value)) -> Value {
    let mut job = seed();
    change(&mut job);
    job
}

pub(crate) fn lowered(job: &Value) -> Job {
    crate::driver::lowered(&DIALECT, job)
}

pub(crate) fn refused(job: &Value) -> String {
    crate::driver::refused(&DIALECT, job)
}

pub(crate) fn scenario(stored: Value) -> Scenario {
    Scenario::of(&DIALECT, stored)
}

pub(crate) fn aggregate(scenario: &Scenario, counter: &str) -> u64 {
    let count = scenario.status()["aggregate"][counter].as_u64();
    count.expect("a counter")
}

/// The pods that a job has when it runs, by name.
pub(crate) fn pods(job: &Value) -> Vec<(String, Value)> {
    let scenario = scenario(job.clone()).running();
    let pods = scenario.created.into_iter();
    let pods = pods.filter(|object| object.kind == Kind::Pod);
    let mut pods: Vec<_> = pods.map(|object| (object.name, object.body)).collect();
    pods.sort_by(|left, right| left.0.cmp(&right.0));
    pods
}

pub(crate) fn pod(job: &Value, name: &str) -> Value {
    let found = pods(job).into_iter().find(|(pod, _)| pod == name);
    found.unwrap_or_else(|| panic!("no pod {name}")).1["spec"].clone()
}
