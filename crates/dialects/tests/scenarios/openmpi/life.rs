//! An OpenMPI job from its values to its end, as planner and report see it. Must not know what is
//! expected.

use dialects::openmpi_v1alpha1::DIALECT;
use dialects::{Finding, Report, Urgency};
use jiff::{SignedDuration, Timestamp};
use planner::fixtures::world;
use planner::observed::{Exit, PodPhase};
use planner::{Action, Job, Kind, Observed};
use serde_json::{Value, json};

const HELLO: &str = "mpiexec -n 4 --hostfile /kubeflow/openmpi/assets/hostfile --allow-run-as-root \
                     --display-map --tag-output --timestamp-output sh -c 'echo hello world'";

pub(crate) fn clock(secs: i64) -> Timestamp {
    let noon: Timestamp = "2026-11-15T12:00:00Z".parse().expect("a time");
    noon + SignedDuration::from_secs(secs)
}

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
    (DIALECT.lower)(job).unwrap_or_else(|errors| panic!("{errors:?}"))
}

pub(crate) fn refused(job: &Value) -> String {
    dialects::aggregate(&(DIALECT.lower)(job).expect_err("it is refused"))
}

/// A job, its world, its status as stored, and every object that was created for it.
pub(crate) struct Life {
    pub(crate) stored: Value,
    pub(crate) world: Observed,
    pub(crate) created: Vec<(Kind, String, Value)>,
}

impl Life {
    pub(crate) fn of(stored: Value) -> Self {
        let mut world = world(lowered(&stored));
        world.now = clock(0);
        world.site.agent_image = Some("muster-agent:1".to_owned());
        Self {
            stored,
            world,
            created: Vec::new(),
        }
    }

    pub(crate) fn pass(&mut self) -> Report {
        self.world.recorded = (DIALECT.recorded)(&self.stored);
        let mut plan = planner::plan(&self.world);
        for _ in 0..8 {
            assert_eq!(planner::check::violations(&self.world, &plan), [""; 0]);
            for action in plan.steps.iter().flatten() {
                if let Action::Create(object) = action {
                    let (kind, name) = (object.kind.clone(), object.name.clone());
                    self.created.push((kind, name, object.body.clone()));
                }
                assert!(
                    !matches!(action, Action::CreateKey { .. }),
                    "it makes a key"
                );
            }
            self.world.carry_out(&plan);
            plan = planner::plan(&self.world);
        }
        let found = Finding::Planned(&plan.status);
        let report = (DIALECT.report)(&self.stored, &found, self.world.now);
        self.stored["status"] = report.status.clone();
        let later = self.world.now + SignedDuration::from_secs(60);
        let again = (DIALECT.report)(&self.stored, &found, later);
        assert_eq!(
            again.urgency,
            Urgency::Unchanged,
            "it repeats itself: {again:?}"
        );
        report
    }

    pub(crate) fn running(mut self) -> Self {
        self.pass();
        self.world.now = clock(1);
        for pod in self
            .world
            .workers
            .iter_mut()
            .chain(&mut self.world.launcher_pods)
        {
            (pod.phase, pod.ready, pod.begun) = (PodPhase::Running, true, true);
        }
        self.pass();
        self
    }

    pub(crate) fn master_exits(&mut self, code: i32, words: &str) -> &mut Self {
        self.world.now = clock(2);
        let master = &mut self.world.launcher_pods[0];
        master.phase = if code == 0 {
            PodPhase::Succeeded
        } else {
            PodPhase::Failed
        };
        master.exit = (code != 0).then(|| Exit {
            container: "openmpi-job".to_owned(),
            code,
            reason: "Error".to_owned(),
            message: words.to_owned(),
        });
        self.pass();
        self.pass();
        self
    }

    pub(crate) fn object(&self, kind: &Kind, name: &str) -> &Value {
        let mut created = self.created.iter();
        let found = created.find(|(of, called, _)| of == kind && called == name);
        &found
            .unwrap_or_else(|| panic!("no {} {name}", kind.as_str()))
            .2
    }

    pub(crate) fn pod(&self, name: &str) -> &Value {
        &self.object(&Kind::Pod, name)["spec"]
    }

    pub(crate) fn condition(&self, name: &str) -> Option<&Value> {
        let conditions = self.stored["status"]["conditions"].as_array()?;
        conditions
            .iter()
            .find(|condition| condition["type"] == name)
    }
}

pub(crate) fn created(job: Value) -> Life {
    let mut life = Life::of(job);
    life.pass();
    life
}
