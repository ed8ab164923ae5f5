//! The quickstart's job of the openmpi component, and how tests ask about it. Must not know what is
//! expected.

use dialects::openmpi_v1alpha1::DIALECT;
use planner::Job;
use serde_json::{Value, json};

use crate::driver::Scenario;

const HELLO: &str = "mpiexec -n 4 --hostfile /kubeflow/openmpi/assets/hostfile --allow-run-as-root \
                     --display-map --tag-output --timestamp-output sh -c 'echo hello world'";

/// The values of the quickstart.
pub(crate) fn quickstart() -> Value {
    json!({
        "metadata": {"name": "openmpi", "namespace": "kubeflow", "uid": "u", "generation": 1},
        "spec": {"image": "YOUR_IMAGE_HERE", "secret": "openmpi-secret", "workers": 4, "gpu": 0,
            "exec": HELLO},
    })
}

pub(crate) fn with(parameters: Value) -> Value {
    let mut job = quickstart();
    for (name, value) in parameters.as_object().expect("parameters by name") {
        job["spec"][name] = value.clone();
    }
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

/// A job whose objects exist.
pub(crate) fn created(stored: Value) -> Scenario {
    let mut scenario = scenario(stored);
    scenario.reconcile();
    scenario
}

/// Ends the master, and lets the operator record that and clean up.
pub(crate) fn master_exits(scenario: &mut Scenario, code: i32, words: &str) {
    scenario.at(2).launcher_exits(code, words).settle();
}
