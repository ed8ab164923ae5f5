//! The manual's first job, the pods that it gets, and its life as its status tells it. Must not know
//! what is expected of any of them.

use dialects::t9k_v1beta1::DIALECT;
use dialects::{Finding, Report, Urgency};
use jiff::{SignedDuration, Timestamp};
use planner::fixtures::world;
use planner::observed::PodPhase;
use planner::{Action, Job, Kind, Observed};
use serde_json::{Value, json};

pub(crate) fn clock(secs: i64) -> Timestamp {
    let noon: Timestamp = "2026-11-15T12:00:00Z".parse().expect("a time");
    noon + SignedDuration::from_secs(secs)
}

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
    (DIALECT.lower)(job).unwrap_or_else(|errors| panic!("{errors:?}"))
}

pub(crate) fn refused(job: &Value) -> String {
    dialects::aggregate(&(DIALECT.lower)(job).expect_err("it is refused"))
}

/// A job, its world, and its status as stored.
pub(crate) struct Life {
    pub(crate) stored: Value,
    pub(crate) world: Observed,
}

impl Life {
    pub(crate) fn of(stored: Value) -> Self {
        let mut world = world(lowered(&stored));
        world.now = clock(0);
        Self { stored, world }
    }

    pub(crate) fn at(&mut self, secs: i64) -> &mut Self {
        self.world.now = clock(secs);
        self
    }

    pub(crate) fn edit(&mut self, change: impl FnOnce(&mut Value)) -> &mut Self {
        change(&mut self.stored["spec"]);
        self
    }

    pub(crate) fn workers_run(&mut self) -> &mut Self {
        for pod in &mut self.world.workers {
            (pod.phase, pod.ready) = (PodPhase::Running, true);
        }
        self
    }

    pub(crate) fn launcher_is(&mut self, phase: PodPhase) -> &mut Self {
        self.world.launcher_pods[0].phase = phase;
        self
    }

    pub(crate) fn pass(&mut self) -> Report {
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
    pub(crate) fn running(mut self) -> Self {
        self.pass();
        self.at(1).workers_run().pass();
        self.launcher_is(PodPhase::Running).at(2).pass();
        self
    }

    pub(crate) fn status(&self) -> &Value {
        &self.stored["status"]
    }

    pub(crate) fn condition(&self, name: &str) -> Option<&Value> {
        let conditions = self.status()["conditions"].as_array()?;
        conditions
            .iter()
            .find(|condition| condition["type"] == name)
    }

    pub(crate) fn holds(&self, name: &str) -> Option<bool> {
        Some(self.condition(name)?["status"] == "True")
    }

    pub(crate) fn aggregate(&self, counter: &str) -> u64 {
        self.status()["aggregate"][counter]
            .as_u64()
            .expect("a counter")
    }
}

/// The pods that a world gets when its workers come up.
pub(crate) fn pods(job: &Value) -> Vec<(String, Value)> {
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

pub(crate) fn pod(job: &Value, name: &str) -> Value {
    let found = pods(job).into_iter().find(|(pod, _)| pod == name);
    found.unwrap_or_else(|| panic!("no pod {name}")).1["spec"].clone()
}
