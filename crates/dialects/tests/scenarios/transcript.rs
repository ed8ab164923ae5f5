//! What happened in a scenario, as text: actions, phase, what the plan waits for, status changes and
//! events of each reconcile. Decides how they are written, so that a change of behaviour is a change of
//! few lines. Must not know what is expected.

use std::collections::BTreeMap;
use std::fmt::{self, Display};

use dialects::{Event, FieldError};
use jiff::Timestamp;
use planner::observed::Refusal;
use planner::{Action, Plan};
use serde_json::Value;

#[derive(Clone, Debug, Default)]
pub(crate) struct Transcript(String);

impl Display for Transcript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Transcript {
    /// A line of a script.
    pub(crate) fn command(&mut self, line: &str) {
        self.0.push_str(&format!("> {line}\n"));
    }

    /// Where the transcript is now.
    pub(crate) fn mark(&self) -> usize {
        self.0.len()
    }

    /// A reconcile since the mark changed nothing: what is left of it is where the job stands.
    pub(crate) fn at_rest(&mut self, mark: usize) {
        let repeated = self.0.split_off(mark);
        let stands = repeated
            .lines()
            .map(str::trim)
            .find(|line| line.starts_with("phase "));
        self.line(&format!(
            "at rest in {}",
            stands.unwrap_or("an invalid job")
        ));
    }

    pub(crate) fn time(&mut self, began: Timestamp, now: Timestamp) {
        self.0.push_str(&format!("{}\n", after(began, now)));
    }

    pub(crate) fn invalid(&mut self, errors: &[FieldError]) {
        for error in errors {
            self.line(&format!("invalid: {error}"));
        }
    }

    /// One line for each verb and kind of a step.
    pub(crate) fn steps(&mut self, steps: &[Vec<Action>]) {
        for step in steps {
            let mut lines: Vec<(String, Vec<&str>)> = Vec::new();
            for action in step {
                let (what, names) = deed(action);
                match lines.iter_mut().find(|(known, _)| *known == what) {
                    Some((_, all)) => all.extend(names),
                    None => lines.push((what, names)),
                }
            }
            for (what, names) in lines {
                self.line(format!("{what} {}", names.join(" ")).trim_end());
            }
        }
    }

    pub(crate) fn refusal(&mut self, refusal: &Refusal) {
        let Refusal {
            kind, name, code, ..
        } = refusal;
        self.line(&format!("refused with {code}: {} {name}", kind.as_str()));
    }

    pub(crate) fn plan(&mut self, began: Timestamp, plan: &Plan) {
        let mut line = format!(
            "phase {}, waiting on {:?}",
            plan.status.phase.as_str(),
            plan.because
        );
        if let Some(wake) = plan.wake {
            line.push_str(&format!(", next look {}", after(began, wake)));
        }
        self.line(&line);
    }

    /// What differs between two statuses. Lists other than conditions and the past are left out: they repeat
    /// what the observation has.
    pub(crate) fn status(&mut self, old: &Value, new: &Value) {
        let (mut before, mut now) = (BTreeMap::new(), BTreeMap::new());
        flatten("", old, &mut before);
        flatten("", new, &mut now);
        for (field, value) in &now {
            if before.get(field) != Some(value) {
                self.line(&format!("status {field}: {value}"));
            }
        }
        for field in before.keys().filter(|field| !now.contains_key(*field)) {
            self.line(&format!("status {field}: removed"));
        }
    }

    pub(crate) fn events(&mut self, events: &[Event]) {
        for event in events {
            let class = if event.warning { "Warning" } else { "Normal" };
            self.line(&format!(
                "event {class} {}: {}",
                event.reason, event.message
            ));
        }
    }

    fn line(&mut self, text: &str) {
        self.0
            .push_str(&format!("    {}\n", text.replace('\n', "⏎")));
    }
}

fn after(began: Timestamp, time: Timestamp) -> String {
    format!("+{}s", time.duration_since(began).as_secs())
}

fn deed(action: &Action) -> (String, Vec<&str>) {
    match action {
        Action::CreateWorkers(_) => unreachable!("the plan is spelled out"),
        Action::Create(object) => (
            format!("create {}", object.kind.as_str()),
            vec![&object.name],
        ),
        Action::CreateKey { secret, .. } => {
            ("create keys in Secret".to_owned(), vec![&secret.name])
        }
        Action::Patch {
            kind, name, merge, ..
        } => {
            let parts = merge.as_object().into_iter().flatten();
            let parts: Vec<&str> = parts.map(|(part, _)| part.as_str()).collect();
            let what = format!("patch {} of {}", parts.join(" and "), kind.as_str());
            (what, vec![name])
        }
        Action::Delete { kind, name, .. } => (format!("delete {}", kind.as_str()), vec![name]),
        Action::ForgetPod { name, .. } => ("forget Pod".to_owned(), vec![name]),
        Action::DeleteKey { name } => ("delete Secret".to_owned(), vec![name]),
        Action::DeleteWorkers { names, .. } => {
            let names = names.iter().map(String::as_str).collect();
            ("delete workers".to_owned(), names)
        }
        Action::DeleteJob { .. } => ("delete the job".to_owned(), Vec::new()),
    }
}

/// Scalars by their path, and conditions by their type.
fn flatten(path: &str, value: &Value, all: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let dot = if path.is_empty() { "" } else { "." };
                flatten(&format!("{path}{dot}{name}"), value, all);
            }
        }
        Value::Array(items) if path.starts_with("muster.") && !path.ends_with("conditions") => {
            for (index, item) in items.iter().enumerate() {
                all.insert(format!("{path}[{index}]"), item.to_string());
            }
        }
        Value::Array(items) => {
            for item in items.iter().filter(|item| item["status"].is_string()) {
                let text = |field: &str| item[field].as_str().unwrap_or_default();
                let name = format!("{path}[{}]", text("type"));
                let (status, reason) = (text("status"), text("reason"));
                all.insert(name, format!("{status} {reason}: {}", text("message")));
            }
        }
        Value::Null => {}
        Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            all.insert(path.to_owned(), value.to_string());
        }
    }
}
