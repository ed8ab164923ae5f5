//! Drives one job of any dialect. A test says what users, pods and time do; [`Scenario::reconcile`] does
//! what the operator does: lower, plan, carry out until nothing is left to do, report. Must not know what
//! a test expects; asserts what must be true of every job at every reconcile.

use std::collections::BTreeMap;

use dialects::{Dialect, FieldError, Finding, Report, Urgency};
use jiff::{SignedDuration, Timestamp};
use planner::fixtures::{noon, pod, world};
use planner::observed::{Exit, LauncherEnd, Pod, PodPhase, Refusal, Slot};
use planner::{Action, Job, Kind, Object, Observed, Plan};
use serde_json::Value;

use crate::start_times::{is_ready, launcher_begins, launcher_ends};
use crate::transcript::Transcript;

/// Plans that a reconcile may carry out before it must be at rest. The operator plans as often before it
/// gives other jobs a turn.
const ROUNDS_MAX: usize = 4;
/// Reconciles after which a status must have settled. The outcome is recorded by the first, the clean-up
/// by the second, and the third finds nothing to do.
const RECONCILES_MAX: usize = 4;

/// The job that a stored object asks for.
pub(crate) fn lowered(dialect: &Dialect, stored: &Value) -> Job {
    (dialect.lower)(stored).unwrap_or_else(|errors| panic!("{errors:?}"))
}

/// What is wrong with a stored object.
pub(crate) fn refused(dialect: &Dialect, stored: &Value) -> String {
    dialects::aggregate(&(dialect.lower)(stored).expect_err("the job is refused"))
}

/// A job as it is stored, and the cluster that it lives in.
pub(crate) struct Scenario {
    pub(crate) dialect: &'static Dialect,
    pub(crate) stored: Value,
    pub(crate) world: Observed,
    /// Every object that a plan created, in order.
    pub(crate) created: Vec<Object>,
    pub(crate) transcript: Transcript,
    began: Timestamp,
    /// Actions that were carried out or refused so far.
    actions: usize,
    /// What the API server refuses to create.
    refusals: Vec<Refusal>,
    /// How many pods had this name so far.
    incarnations: BTreeMap<String, u32>,
}

impl Scenario {
    pub(crate) fn of(dialect: &'static Dialect, stored: Value) -> Self {
        Self::beginning(dialect, stored, noon())
    }

    pub(crate) fn beginning(dialect: &'static Dialect, stored: Value, began: Timestamp) -> Self {
        let mut world = world(lowered(dialect, &stored));
        world.now = began;
        world.site.agent_image = Some("muster-agent:1".to_owned());
        Self {
            dialect,
            stored,
            world,
            created: Vec::new(),
            transcript: Transcript::default(),
            began,
            actions: 0,
            refusals: Vec::new(),
            incarnations: BTreeMap::new(),
        }
    }

    /// Seconds since the beginning.
    pub(crate) fn at(&mut self, secs: i64) -> &mut Self {
        self.world.now = self.began + SignedDuration::from_secs(secs);
        self
    }

    /// One pass of the operator.
    pub(crate) fn reconcile(&mut self) -> Report {
        self.transcript.time(self.began, self.world.now);
        if let Err(errors) = self.observe() {
            self.transcript.invalid(&errors);
            return self.report(&Finding::Invalid(&errors));
        }
        let plan = self.come_to_rest();
        self.transcript.plan(self.began, &plan);
        let report = self.report_plan(&plan);
        // What was recorded lets the same pass go on.
        if plan.status.keys != self.world.recorded.keys && !self.world.job.owner.deleting {
            return self.reconcile();
        }
        report
    }

    /// Takes over what is stored.
    fn observe(&mut self) -> Result<(), Vec<FieldError>> {
        self.world.job = (self.dialect.lower)(&self.stored)?;
        self.world.recorded = (self.dialect.recorded)(&self.stored);
        Ok(())
    }

    /// What the operator would do now.
    pub(crate) fn plan(&mut self) -> Plan {
        let observed = self.observe();
        observed.unwrap_or_else(|errors| panic!("{errors:?}"));
        self.lawful_plan()
    }

    /// Half a pass: the operator stops after its first plan, without a report.
    pub(crate) fn carry_out_one_plan(&mut self) {
        let plan = self.plan();
        self.try_out(plan);
    }

    /// The other half: a report of what is true now.
    pub(crate) fn record(&mut self) {
        let plan = self.plan();
        self.report_plan(&plan);
    }

    /// Reconciles as the operator does when its own writes wake it: until the status stays as it is.
    pub(crate) fn settle(&mut self) {
        for _ in 0..RECONCILES_MAX {
            let (actions, mark) = (self.actions, self.transcript.mark());
            let report = self.reconcile();
            if report.urgency == Urgency::Unchanged && self.actions == actions {
                assert_eq!(report.events, [], "\n{}", self.transcript);
                self.transcript.at_rest(mark);
                return;
            }
        }
        panic!(
            "still changing after {RECONCILES_MAX} reconciles:\n{}",
            self.transcript
        );
    }

    fn come_to_rest(&mut self) -> Plan {
        for _ in 0..=ROUNDS_MAX {
            let plan = self.lawful_plan();
            if plan.steps.is_empty() {
                return plan;
            }
            self.try_out(plan);
        }
        let plan = planner::plan(&self.world);
        panic!(
            "not at rest after {ROUNDS_MAX} rounds, still to do: {:?}\n{}",
            plan.steps, self.transcript
        );
    }

    fn lawful_plan(&self) -> Plan {
        let plan = planner::plan(&self.world);
        let broken = planner::check::violations(&self.world, &plan);
        assert_eq!(broken, [""; 0], "\n{}", self.transcript);
        plan.spelled_out()
    }

    fn try_out(&mut self, plan: Plan) {
        let (plan, refused) = self.judge(plan);
        self.carry_out(&plan);
        if let Some(refusal) = refused {
            self.actions += 1;
            self.transcript.refusal(&refusal);
            let same = |old: &Refusal| is_of(old, &refusal.kind, &refusal.name);
            self.world.refused.retain(|old| !same(old));
            self.world.refused.push(refusal);
        }
    }

    /// What the API server lets the operator do of a plan: a refusal ends it after the step.
    fn judge(&self, mut plan: Plan) -> (Plan, Option<Refusal>) {
        let refused = |action: &Action| {
            let Action::Create(object) = action else {
                return None;
            };
            let mut refusals = self.refusals.iter();
            refusals.find(|refusal| is_of(refusal, &object.kind, &object.name))
        };
        let first = plan
            .steps
            .iter()
            .position(|step| step.iter().any(|one| refused(one).is_some()));
        let Some(first) = first else {
            return (plan, None);
        };
        let refusal = plan.steps[first].iter().find_map(refused).cloned();
        let retry_at = self.world.now + SignedDuration::from_mins(1);
        let refusal = refusal.map(|refusal| Refusal {
            retry_at,
            ..refusal
        });
        plan.steps[first].retain(|action| refused(action).is_none());
        plan.steps.truncate(first + 1);
        plan.steps.retain(|step| !step.is_empty());
        (plan, refusal)
    }

    fn carry_out(&mut self, plan: &Plan) {
        for action in plan.steps.iter().flatten() {
            self.actions += 1;
            match action {
                Action::Create(object) | Action::CreateKey { secret: object, .. } => {
                    self.created.push(object.clone());
                }
                Action::DeleteJob { .. } => self.delete_job(),
                Action::CreateWorkers(_)
                | Action::Patch { .. }
                | Action::Delete { .. }
                | Action::ForgetPod { .. }
                | Action::DeleteKey { .. }
                | Action::DeleteWorkers { .. } => {}
            }
        }
        self.transcript.steps(&plan.steps);
        let before = self.world.clone();
        self.world.carry_out(plan);
        let now = self.world.now;
        let pods = self.world.workers.iter_mut();
        for pod in pods.chain(&mut self.world.launcher_pods) {
            let mut known = before.workers.iter().chain(&before.launcher_pods);
            if !known.any(|known| known.name == pod.name) {
                incarnate(&mut self.incarnations, pod, now);
            }
        }
    }

    /// The operator writes no status into a job that is being deleted.
    fn report_plan(&mut self, plan: &Plan) -> Report {
        if self.world.job.owner.deleting {
            return Report {
                status: self.stored["status"].clone(),
                urgency: Urgency::Unchanged,
                events: Vec::new(),
            };
        }
        self.report(&Finding::Planned(&plan.status))
    }

    /// Writes the status. A minute later there must be nothing to add.
    fn report(&mut self, finding: &Finding<'_>) -> Report {
        let report = (self.dialect.report)(&self.stored, finding, self.world.now);
        if report.urgency != Urgency::Unchanged {
            self.transcript
                .status(&self.stored["status"], &report.status);
            self.stored["status"] = report.status.clone();
        }
        self.transcript.events(&report.events);
        let later = self.world.now + SignedDuration::from_mins(1);
        let again = (self.dialect.report)(&self.stored, finding, later);
        assert_eq!(
            (again.urgency, again.events.as_slice()),
            (Urgency::Unchanged, [].as_slice()),
            "the report repeats itself: {:#}\n{}",
            again.status,
            self.transcript
        );
        report
    }
}

fn incarnate(incarnations: &mut BTreeMap<String, u32>, pod: &mut Pod, now: Timestamp) {
    let count = incarnations.entry(pod.name.clone()).or_default();
    *count += 1;
    pod.created_at = now;
    if *count > 1 {
        pod.uid = format!("uid-{}-{count}", pod.name);
    }
}

fn is_of(refusal: &Refusal, kind: &Kind, name: &str) -> bool {
    refusal.kind == *kind && refusal.name == name
}

/// What users and the API server do.
impl Scenario {
    /// Changes the spec, as an update through the API server does.
    pub(crate) fn edit(&mut self, change: impl FnOnce(&mut Value)) -> &mut Self {
        change(&mut self.stored["spec"]);
        let generation = self.stored["metadata"]["generation"].as_i64().unwrap_or(1);
        self.stored["metadata"]["generation"] = (generation + 1).into();
        self
    }

    pub(crate) fn suspend(&mut self, suspended: bool) -> &mut Self {
        let field = self.dialect.suspend_field;
        let field = field.expect("jobs of this dialect can be suspended");
        let path = field.strip_prefix("spec.").expect("a field of the spec");
        self.edit(|spec| {
            let parts = path.split('.');
            let field = parts.fold(spec, |value, part| &mut value[part]);
            *field = suspended.into();
        })
    }

    /// From now on, the API server refuses to create this object. The operator tries again after a minute.
    pub(crate) fn refuse(&mut self, kind: Kind, name: &str, code: u16, message: &str) {
        self.refusals.push(Refusal {
            kind,
            name: name.to_owned(),
            code,
            message: message.to_owned(),
            retry_at: self.world.now,
        });
    }

    /// From now on, the API server refuses nothing.
    pub(crate) fn refuse_nothing(&mut self) {
        self.refusals.clear();
    }

    pub(crate) fn delete_job(&mut self) {
        self.stored["metadata"]["deletionTimestamp"] = self.world.now.to_string().into();
    }
}

/// What pods do.
impl Scenario {
    pub(crate) fn workers_run(&mut self) -> &mut Self {
        let now = self.world.now;
        let workers = self.world.workers.iter_mut();
        workers.for_each(|pod| run(pod, now));
        self
    }

    pub(crate) fn pods_run(&mut self) -> &mut Self {
        self.workers_run().launcher_runs()
    }

    /// The launcher's pod, if there is one. The pod of a launcher that is a Job is made here, as its
    /// controller does.
    pub(crate) fn launcher_runs(&mut self) -> &mut Self {
        let may_start = self.world.launcher.ours().is_some_and(|job| !job.suspended);
        if may_start && self.world.launcher_pods.is_empty() {
            self.job_controller_starts_launcher();
        }
        let now = self.world.now;
        for pod in &mut self.world.launcher_pods {
            run(pod, now);
            launcher_begins(pod, now);
        }
        self
    }

    fn job_controller_starts_launcher(&mut self) {
        let now = self.world.now;
        let Slot::Ours(launcher) = &mut self.world.launcher else {
            panic!("there is no launcher's Job");
        };
        launcher.started_at = Some(now);
        let job = &self.made(Kind::Job)[0]["metadata"]["name"];
        let name = format!("{}-abcde", job.as_str().expect("a Job has a name"));
        let mut launcher = pod(&name);
        incarnate(&mut self.incarnations, &mut launcher, now);
        self.world.launcher_pods.push(launcher);
    }

    pub(crate) fn launcher_is(&mut self, phase: PodPhase) -> &mut Self {
        let now = self.world.now;
        let launcher = &mut self.world.launcher_pods[0];
        (launcher.phase, launcher.begun) = (phase, true);
        launcher.finished_at = phase.is_over().then_some(now);
        self
    }

    /// The launcher's program ends, and leaves these words as its termination message.
    pub(crate) fn launcher_exits(&mut self, code: i32, words: &str) -> &mut Self {
        let now = self.world.now;
        let exit = self.exit(&self.world.launcher_pods[0].name, code, words);
        launcher_ends(&mut self.world.launcher_pods[0], code, words, now);
        end(&mut self.world.launcher_pods[0], exit, now);
        if let Slot::Ours(launcher) = &mut self.world.launcher {
            if code == 0 {
                launcher.end = Some(LauncherEnd::Complete { at: Some(now) });
            } else {
                launcher.failed_pods += 1;
            }
        }
        self
    }

    /// The Job controller makes no further launcher pod.
    pub(crate) fn launcher_job_fails(&mut self, reason: &str, message: &str) -> &mut Self {
        let Slot::Ours(launcher) = &mut self.world.launcher else {
            panic!("there is no launcher's Job");
        };
        launcher.end = Some(LauncherEnd::Failed {
            reason: reason.to_owned(),
            message: message.to_owned(),
        });
        self
    }

    pub(crate) fn worker_exits(&mut self, index: usize, code: i32, words: &str) -> &mut Self {
        let now = self.world.now;
        let exit = self.exit(&self.world.workers[index].name, code, words);
        end(&mut self.world.workers[index], exit, now);
        self
    }

    /// The controller of the workers' StatefulSet makes a lost pod again.
    pub(crate) fn worker_is_replaced(&mut self, index: usize) -> &mut Self {
        let mut fresh = pod(&self.world.workers[index].name);
        // The pod that it replaces was the first of its name.
        let count = self.incarnations.entry(fresh.name.clone()).or_default();
        *count = (*count).max(1);
        incarnate(&mut self.incarnations, &mut fresh, self.world.now);
        self.world.workers[index] = fresh;
        self
    }

    /// The exit of a pod's first container.
    fn exit(&self, pod: &str, code: i32, words: &str) -> Exit {
        let of_pod = |object: &&Object| object.kind == Kind::Pod && object.name == pod;
        let maker = |object: &&Object| {
            let makes_pods = matches!(object.kind, Kind::Job | Kind::StatefulSet);
            makes_pods && pod.starts_with(&object.name)
        };
        let own = self.created.iter().rfind(of_pod).map(|object| &object.body);
        let made = self.created.iter().rfind(maker);
        let body = own.or(made.map(|object| &object.body["spec"]["template"]));
        // A pod that no plan asked for has a container as well.
        let container = body.and_then(|body| body["spec"]["containers"][0]["name"].as_str());
        Exit {
            container: container.unwrap_or("main").to_owned(),
            code,
            reason: if code == 0 { "Completed" } else { "Error" }.to_owned(),
            message: words.to_owned(),
        }
    }
}

pub(crate) fn run(pod: &mut Pod, now: Timestamp) {
    is_ready(pod, now);
    (pod.phase, pod.ready, pod.begun) = (PodPhase::Running, true, true);
    pod.waiting = None;
    "node-a".clone_into(&mut pod.node);
}

fn end(pod: &mut Pod, exit: Exit, now: Timestamp) {
    (pod.ready, pod.finished_at) = (false, Some(now));
    if exit.code == 0 {
        pod.phase = PodPhase::Succeeded;
    } else {
        (pod.phase, pod.exit) = (PodPhase::Failed, Some(exit));
    }
}

/// What tests ask.
impl Scenario {
    /// Until the launcher runs.
    pub(crate) fn running(mut self) -> Self {
        self.reconcile();
        self.at(1).pods_run().reconcile();
        self.at(2).pods_run().reconcile();
        self
    }

    pub(crate) fn status(&self) -> &Value {
        &self.stored["status"]
    }

    pub(crate) fn condition(&self, name: &str) -> Option<&Value> {
        let conditions = self.status()["conditions"].as_array()?;
        conditions.iter().find(|one| one["type"] == name)
    }

    /// Whether a condition is True; none if there is no such condition.
    pub(crate) fn holds(&self, name: &str) -> Option<bool> {
        Some(self.condition(name)?["status"] == "True")
    }

    /// Everything of this kind that was created.
    pub(crate) fn made(&self, kind: Kind) -> Vec<&Value> {
        let made = self.created.iter().filter(|object| object.kind == kind);
        made.map(|object| &object.body).collect()
    }

    /// What was created last under this name.
    pub(crate) fn object(&self, kind: Kind, name: &str) -> &Value {
        let wanted = |object: &&Object| object.kind == kind && object.name == name;
        let found = self.created.iter().rfind(wanted);
        let found = found.unwrap_or_else(|| panic!("no {} {name}", kind.as_str()));
        &found.body
    }

    /// The spec of the pod that was created last under this name.
    pub(crate) fn pod(&self, name: &str) -> &Value {
        &self.object(Kind::Pod, name)["spec"]
    }
}
