//! Jobs of every dialect, put together from fields at random. Decides which fields and values are
//! drawn; every combination is valid. Must not know what happens to the jobs.

use std::fmt;

use dialects::{
    Dialect, RESOURCES, bdap_v1, kubeflow_v1, kubeflow_v2beta1, openmpi_v1alpha1, t9k_v1beta1,
};
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

use crate::scripts::at_path;

/// A job as it is stored, and how it can be changed.
#[derive(Clone)]
pub(crate) struct Generated {
    pub(crate) dialect: &'static Dialect,
    pub(crate) stored: Value,
    /// The field with the number of workers.
    pub(crate) count: &'static str,
}

impl fmt::Debug for Generated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.dialect.name, self.stored["spec"])
    }
}

/// What jobs of one dialect are made of.
struct Recipe {
    dialect: &'static Dialect,
    count: &'static str,
    spec: fn() -> Value,
    /// Fields, each with the values that it may have, as JSON. Any of them may be left out.
    fields: &'static [(&'static str, &'static [&'static str])],
}

pub(crate) const RECIPE_COUNT: usize = RECIPES.len();

const RECIPES: &[Recipe] = &[
    Recipe {
        dialect: &kubeflow_v2beta1::DIALECT,
        count: KUBEFLOW_COUNT,
        spec: kubeflow,
        fields: &[
            ("spec.slotsPerWorker", &["3"]),
            ("spec.mpiImplementation", &[r#""Intel""#, r#""MPICH""#]),
            ("spec.launcherCreationPolicy", &[r#""WaitForWorkersReady""#]),
            ("spec.runLauncherAsWorker", &["true"]),
            ("spec.runPolicy.cleanPodPolicy", CLEAN),
            ("spec.runPolicy.suspend", &["true"]),
            ("spec.runPolicy.ttlSecondsAfterFinished", &["0", "60"]),
            ("spec.runPolicy.activeDeadlineSeconds", &["0", "60"]),
            ("spec.runPolicy.backoffLimit", &["0", "2"]),
            ("spec.runPolicy.schedulingPolicy", GANG),
            (LAUNCHER_RESTART, &[r#""Never""#, r#""OnFailure""#]),
            (WORKER_RESTART, &[r#""Never""#, r#""OnFailure""#]),
            (KUBEFLOW_COUNT, &["1", "3"]),
            ("spec.muster.elastic", &["true", "false"]),
            ("spec.muster.gate", OFF),
            ("spec.muster.census", OFF),
            ("spec.muster.startupTimeoutSeconds", &["1", "30"]),
            ("spec.muster.transport", TRANSPORTS),
        ],
    },
    // A launcher alone, which v2beta1 allows.
    Recipe {
        dialect: &kubeflow_v2beta1::DIALECT,
        count: "",
        spec: || json!({"mpiReplicaSpecs": {"Launcher": kubeflow()["mpiReplicaSpecs"]["Launcher"]}}),
        fields: &[
            ("spec.runLauncherAsWorker", &["true"]),
            ("spec.runPolicy.suspend", &["true"]),
            ("spec.runPolicy.cleanPodPolicy", CLEAN),
            ("spec.muster.transport", TRANSPORTS),
        ],
    },
    Recipe {
        dialect: &kubeflow_v1::DIALECT,
        count: KUBEFLOW_COUNT,
        spec: kubeflow,
        fields: &[
            ("spec.slotsPerWorker", &["3"]),
            ("spec.mpiImplementation", &[r#""Intel""#, r#""MPICH""#]),
            ("spec.launcherCreationPolicy", &[r#""WaitForWorkersReady""#]),
            ("spec.runLauncherAsWorker", &["true"]),
            ("spec.runPolicy.cleanPodPolicy", CLEAN),
            ("spec.runPolicy.suspend", &["true"]),
            ("spec.runPolicy.ttlSecondsAfterFinished", &["0", "60"]),
            ("spec.runPolicy.activeDeadlineSeconds", &["0", "60"]),
            ("spec.runPolicy.backoffLimit", &["0", "2"]),
            ("spec.runPolicy.schedulingPolicy", GANG),
            (LAUNCHER_RESTART, RESTARTS),
            (WORKER_RESTART, RESTARTS),
            (KUBEFLOW_COUNT, &["1", "3"]),
            ("spec.muster.elastic", &["true", "false"]),
            ("spec.muster.gate", OFF),
            ("spec.muster.census", OFF),
            ("spec.muster.startupTimeoutSeconds", &["1", "30"]),
            ("spec.muster.transport", TRANSPORTS),
        ],
    },
    Recipe {
        dialect: &bdap_v1::DIALECT,
        count: "spec.numWorkers",
        spec: || {
            json!({
                "numWorkers": 2,
                "launcherTemplate": template("launcher"), "workerTemplate": template("worker"),
            })
        },
        fields: &[
            ("spec.numWorkers", &["1", "3"]),
            ("spec.muster.cleanPodPolicy", CLEAN),
            (
                "spec.launcherTemplate.spec.serviceAccountName",
                &[r#""mine""#],
            ),
            (
                "spec.launcherTemplate.spec.restartPolicy",
                &[r#""Never""#, r#""OnFailure""#, r#""Always""#],
            ),
        ],
    },
    Recipe {
        dialect: &t9k_v1beta1::DIALECT,
        count: "spec.worker.replicas",
        spec: || json!({"worker": {"cmd": ["walk"], "template": template("mpi-worker")}}),
        fields: &[
            ("spec.worker.replicas", &["2", "3"]),
            ("spec.worker.processesPerWorker", &["3"]),
            ("spec.runPolicy.cleanUpWorkers", &["true"]),
            (
                "spec.scheduler.t9kScheduler",
                &[r#"{"queue": "q"}"#, r#"{"queue": "q", "priority": 5}"#],
            ),
            ("spec.runMode.pause.enabled", &["true"]),
            ("spec.runMode.debug.enabled", &["true"]),
            ("spec.muster.gate", OFF),
            ("spec.muster.census", OFF),
            ("spec.muster.startupTimeoutSeconds", &["1", "30"]),
            ("spec.muster.transport", TRANSPORTS),
        ],
    },
    Recipe {
        dialect: &openmpi_v1alpha1::DIALECT,
        count: "spec.workers",
        spec: || json!({"image": "i", "secret": "s", "workers": 2}),
        fields: &[
            ("spec.workers", &["0", "1", "3"]),
            ("spec.exec", &[r#""date""#]),
            ("spec.gpu", &["2"]),
            ("spec.serviceAccountName", &[r#""mine""#]),
            ("spec.controllerImage", &[r#""mine:1""#]),
            ("spec.initTimeout", &["0", "60"]),
            ("spec.schedulerName", &[r#""other""#]),
        ],
    },
];

const KUBEFLOW_COUNT: &str = "spec.mpiReplicaSpecs.Worker.replicas";
const LAUNCHER_RESTART: &str = "spec.mpiReplicaSpecs.Launcher.restartPolicy";
const WORKER_RESTART: &str = "spec.mpiReplicaSpecs.Worker.restartPolicy";
const CLEAN: &[&str] = &[r#""None""#, r#""Running""#, r#""All""#];
const RESTARTS: &[&str] = &[
    r#""Never""#,
    r#""OnFailure""#,
    r#""Always""#,
    r#""ExitCode""#,
];
const OFF: &[&str] = &[r#""Off""#];
const TRANSPORTS: &[&str] = &[r#""SSH""#, r#""Agent""#];
const GANG: &[&str] = &[
    r#"{"minAvailable": 2}"#,
    r#"{"queue": "q", "scheduleTimeoutSeconds": 9}"#,
];

fn template(container: &str) -> Value {
    json!({"spec": {"containers": [{"name": container, "image": "i", "command": ["run"]}]}})
}

fn kubeflow() -> Value {
    json!({"mpiReplicaSpecs": {
        "Launcher": {"replicas": 1, "template": template("mpi")},
        "Worker": {"replicas": 2, "template": template("mpi")},
    }})
}

/// Jobs of every dialect.
pub(crate) fn jobs() -> impl Strategy<Value = Generated> {
    let most = RECIPES.iter().map(|recipe| recipe.fields.len()).max();
    // Few fields at a time: a job that is suspended, or has a second to start in, sees little of life.
    let choice = prop::option::weighted(0.25, any::<Index>());
    let choices = prop::collection::vec(choice, most.unwrap_or(0));
    (0..RECIPES.len(), choices).prop_map(|(recipe, choices)| RECIPES[recipe].made(&choices))
}

impl Recipe {
    fn made(&self, choices: &[Option<Index>]) -> Generated {
        let mut spec = (self.spec)();
        for ((path, values), choice) in self.fields.iter().zip(choices) {
            if let Some(choice) = choice {
                let value = values[choice.index(values.len())];
                *at_path(&mut spec, path) = serde_json::from_str(value).expect("JSON");
            }
        }
        let metadata = json!({"name": "demo", "namespace": "team-a", "uid": "u", "generation": 1});
        Generated {
            dialect: self.dialect,
            stored: json!({"metadata": metadata, "spec": spec}),
            count: self.count,
        }
    }
}

#[test]
fn every_dialect_has_a_recipe() {
    for dialect in RESOURCES.iter().flat_map(|resource| resource.dialects) {
        let mut recipes = RECIPES.iter();
        let known = recipes.any(|recipe| recipe.dialect.name == dialect.name);
        assert!(known, "no jobs of {} are generated", dialect.name);
    }
}
