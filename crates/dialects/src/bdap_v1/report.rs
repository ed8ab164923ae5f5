//! Hub to wire for bdap, whose own controller never wrote a status: how many workers are Ready, where
//! the launcher is, and conditions as Kubeflow's clients know them. A launcher that comes again takes
//! back what was said of the one before. Decides nothing about the job.

use jiff::Timestamp;
use planner::observed::PodPhase;
use planner::{Count, Recorded, Status, Verdict};
use serde_json::{Map, Value, json};

use super::DIALECT;
use crate::conditions::{Condition, Conditions};
use crate::field_error::aggregate;
use crate::muster_status::{self, StatusContext};
use crate::{Event, Finding, Report, report_urgency, time};

/// They may wait.
const COUNTERS: [&str; 2] = ["replicaStatuses", "readyWorkers"];
const CREATED: &str = "Created";
const RUNNING: &str = "Running";
const SUCCEEDED: &str = "Succeeded";
const FAILED: &str = "Failed";

/// What clients of this API say of a launcher that is not there yet.
const WAITING_WORKERS: &str = "WaitingWorkers";

/// What the job's status says already. No end is recorded: the next launcher may be on its way.
pub fn recorded(job: &Value) -> Recorded {
    let status = job.get("status").unwrap_or(&Value::Null);
    let started = status.get("startTime").and_then(Value::as_str);
    Recorded {
        seen: !Conditions::of(status).is_empty(),
        started_at: started.and_then(time::read),
        ..Recorded::default()
    }
}

/// What the job's status should say, and what to announce.
pub fn report(job: &Value, finding: &Finding<'_>, now: Timestamp) -> Report {
    let stored = match job.get("status") {
        Some(Value::Object(status)) => status.clone(),
        _ => Map::new(),
    };
    let generation = job.pointer("/metadata/generation").and_then(Value::as_i64);
    let generation = generation.unwrap_or_default();
    let muster = stored.get("muster").cloned().unwrap_or_default();
    let written = time::written(now);
    let context = StatusContext {
        stored: &muster,
        dialect: DIALECT.name,
        generation,
        now: &written,
    };
    let mut status = stored.clone();
    status.insert("observedGeneration".to_owned(), generation.into());
    let mut draft = Draft {
        job,
        now: &written,
        conditions: Conditions::of(&Value::Object(stored.clone())),
        status: &mut status,
        events: Vec::new(),
    };
    let said = match finding {
        Finding::Invalid(errors) => context.invalid(&aggregate(errors)),
        Finding::Planned(planned) => {
            draft.project(planned);
            context.planned(planned)
        }
    };
    if let Some((reason, message)) = muster_status::new_obstacle(&muster, &said) {
        draft.tell(true, reason, message);
    }
    draft.status.insert("muster".to_owned(), said);
    let events = draft.events;
    report_urgency::report(&stored, status, events, &COUNTERS)
}

/// The dialect's own part of a status in the making.
struct Draft<'a> {
    job: &'a Value,
    now: &'a str,
    conditions: Conditions,
    status: &'a mut Map<String, Value>,
    events: Vec<Event>,
}

impl Draft<'_> {
    fn project(&mut self, planned: &Status) {
        if self.conditions.is_empty() {
            self.create();
        }
        if let Some(at) = planned.started_at {
            let stored = self.status.get("startTime").and_then(Value::as_str);
            let written = time::kept_or_written(stored, at);
            self.status.insert("startTime".to_owned(), written.into());
        }
        self.conclude(planned);
        if planned.running {
            let said = self.sentence("is running.");
            if self.set(RUNNING, true, "MPIJobRunning", &said) {
                self.tell(false, "MPIJobRunning", &said);
            }
        } else if self.conditions.holds(RUNNING) && planned.outcome.is_none() {
            self.set(
                RUNNING,
                false,
                "MPIJobWaiting",
                "launcher and workers do not all run",
            );
        }
        let conditions = self.conditions.clone().into_value();
        self.status.insert("conditions".to_owned(), conditions);
        self.count(planned);
    }

    fn create(&mut self) {
        let said = self.sentence("is created.");
        self.set(CREATED, true, "MPIJobCreated", &said);
        self.tell(false, "MPIJobCreated", &said);
        let policy = |template: &str| {
            let path = format!("/spec/{template}/spec/restartPolicy");
            let policy = self.job.pointer(&path).and_then(Value::as_str);
            policy.unwrap_or_default().to_owned()
        };
        let (launcher, worker) = (policy("launcherTemplate"), policy("workerTemplate"));
        if ["", "Always"].contains(&launcher.as_str()) {
            self.tell(
                true,
                "LauncherNeverEnds",
                "spec.launcherTemplate.spec.restartPolicy: with Always, also if not set, the launcher \
                 is started again for ever; write Never or OnFailure for a program that ends",
            );
        }
        if !["", "Always"].contains(&worker.as_str()) {
            let said = format!(
                "spec.workerTemplate.spec.restartPolicy: {worker} is ignored: workers are always \
                 started again"
            );
            self.tell(true, "SetPodTemplateRestartPolicy", &said);
        }
    }

    /// What the launcher's end says, or takes back when there is another launcher.
    fn conclude(&mut self, planned: &Status) {
        let Some(outcome) = &planned.outcome else {
            self.conditions.withdraw(SUCCEEDED);
            self.conditions.withdraw(FAILED);
            self.status.remove("completionTime");
            return;
        };
        let news = match &outcome.verdict {
            Verdict::Succeeded => {
                let said = self.sentence("successfully completed.");
                self.conditions.withdraw(RUNNING);
                self.conditions.withdraw(FAILED);
                let news = self.set(SUCCEEDED, true, "MPIJobSucceeded", &said);
                if news {
                    self.tell(false, "MPIJobSucceeded", &said);
                }
                news
            }
            Verdict::Failed { reason, message } => {
                self.conditions.withdraw(RUNNING);
                self.conditions.withdraw(SUCCEEDED);
                let news = self.set(FAILED, true, reason, message);
                if news {
                    self.tell(true, reason, message);
                }
                news
            }
        };
        if news || !self.status.contains_key("completionTime") {
            let written = time::written(outcome.at);
            self.status
                .insert("completionTime".to_owned(), written.into());
        }
    }

    fn count(&mut self, planned: &Status) {
        let mut replicas = Map::new();
        if let Some(launcher) = planned.launcher {
            replicas.insert("Launcher".to_owned(), counters(launcher));
        }
        replicas.insert("Worker".to_owned(), counters(planned.workers));
        let (ready, wanted) = (planned.ready, planned.wanted);
        let facts = [
            ("replicaStatuses", replicas.into()),
            ("readyWorkers", ready.into()),
            ("workers", wanted.into()),
            ("launcher", self.launcher(planned).into()),
        ];
        for (name, value) in facts {
            self.status.insert(name.to_owned(), value);
        }
    }

    /// The phase of the launcher's pod, which its clients otherwise read from the pod itself.
    fn launcher(&self, planned: &Status) -> &'static str {
        let name = format!("{}-launcher", self.text("/metadata/name"));
        let launcher = planned.pods.iter().find(|pod| pod.name == name);
        match launcher.map(|pod| pod.phase) {
            None => WAITING_WORKERS,
            Some(PodPhase::Pending) => "Pending",
            Some(PodPhase::Running) => "Running",
            Some(PodPhase::Succeeded) => "Succeeded",
            Some(PodPhase::Failed) => "Failed",
            Some(PodPhase::Unknown) => "Unknown",
        }
    }

    fn set(&mut self, name: &str, holds: bool, reason: &str, message: &str) -> bool {
        let condition = Condition {
            name,
            holds,
            reason,
            message,
        };
        self.conditions.set(condition, self.now)
    }

    /// `MPIJob <namespace>/<name> …`
    fn sentence(&self, end: &str) -> String {
        let (namespace, name) = (
            self.text("/metadata/namespace"),
            self.text("/metadata/name"),
        );
        format!("MPIJob {namespace}/{name} {end}")
    }

    fn text(&self, path: &str) -> &str {
        let text = self.job.pointer(path).and_then(Value::as_str);
        text.unwrap_or_default()
    }

    fn tell(&mut self, warning: bool, reason: &str, message: &str) {
        let (reason, message) = (reason.to_owned(), message.to_owned());
        self.events.push(Event {
            warning,
            reason,
            message,
        });
    }
}

/// Zeros are left out, as in Kubeflow's statuses.
fn counters(count: Count) -> Value {
    let mut said = json!({});
    for (name, number) in [
        ("active", count.active),
        ("succeeded", count.succeeded),
        ("failed", count.failed),
    ] {
        if number > 0 {
            said[name] = number.into();
        }
    }
    said
}
