//! Every field of every dialect is set, changed and unset. Whatever a job was before its pods were made, it becomes
//! what it would be if it had been written so at once; a spec that is refused can be taken back; and no two values
//! of a field mean the same unless that is listed here.

use std::collections::{BTreeMap, BTreeSet};

use dialects::definition::definition;
use dialects::field::{Field, Handling};
use dialects::{Dialect, RESOURCES, Resource};
use planner::{Action, Kind};
use serde_json::{Value, json};

use crate::driver::Scenario;
use crate::jobs::{base, set};

/// Values of a field that are tried with each other.
const VALUES_MAX: usize = 4;
/// The API server refuses to change these: rules of the definition that bind the old object.
const NEVER_CHANGED: [&str; 4] = [
    "spec.runPolicy.managedBy",
    "spec.muster.transport",
    "spec.runMode.pause.resumeSpecs",
    "spec.muster.dialect",
];

/// The launcher's Job of v2beta1 is there while the job is suspended, as Kubeflow's operator makes it, and keeps what
/// it was made with. Only what schedules it follows the job.
const KEPT_BY_THE_LAUNCHER: [&str; 19] = [
    "v2beta1 spec.mpiImplementation",
    "v2beta1 spec.mpiReplicaSpecs[Launcher].restartPolicy",
    "v2beta1 spec.mpiReplicaSpecs[Launcher].template",
    "v2beta1 spec.mpiReplicaSpecs[Worker].replicas",
    "v2beta1 spec.muster.elastic",
    "v2beta1 spec.muster.gang",
    "v2beta1 spec.muster.gate",
    "v2beta1 spec.muster.recovery.graceSeconds",
    "v2beta1 spec.muster.recovery.reasons",
    "v2beta1 spec.muster.recovery.resetAfterSeconds",
    "v2beta1 spec.muster.recovery.restarts",
    "v2beta1 spec.muster.recovery.signal",
    "v2beta1 spec.muster.slotsPerWorker",
    "v2beta1 spec.muster.sshPort",
    "v2beta1 spec.runLauncherAsWorker",
    "v2beta1 spec.runPolicy.activeDeadlineSeconds",
    "v2beta1 spec.runPolicy.backoffLimit",
    "v2beta1 spec.slotsPerWorker",
    "v2beta1 spec.sshAuthMountPath",
];
/// Any value of this parameter is true or false.
const ALIKE: [&str; 1] = [r#"openmpi spec.useHostNetwork: "TRUE" -7"#];

/// One field of one dialect, with its schema.
struct Place {
    dialect: &'static Dialect,
    field: &'static Field,
    schema: Value,
}

impl Place {
    fn all() -> Vec<Self> {
        let mut places = Vec::new();
        for resource in RESOURCES {
            let definition = definition(resource, &json!({}));
            for dialect in resource.dialects {
                let fields = dialect.fields.iter().copied().flatten();
                let fields = fields.filter(|field| {
                    field
                        .handling
                        .is_some_and(|handling| handling != Handling::Routes)
                });
                places.extend(fields.map(|field| Self {
                    dialect,
                    field,
                    schema: schema_of(resource, dialect, &definition, field.path),
                }));
            }
        }
        places
    }

    fn base(&self) -> Value {
        let mut base = base(self.dialect, self.field.path);
        base["metadata"]["generation"] = 1.into();
        base
    }

    fn path(&self) -> &'static str {
        self.field.path
    }

    /// Values of the field that the schema allows, its sample first; and some that it does not.
    fn values(&self) -> Vec<Value> {
        let sample: Value = serde_json::from_str(self.field.sample).expect("a sample is JSON");
        let mut values = vec![sample.clone()];
        values.extend(
            self.schema["enum"]
                .as_array()
                .into_iter()
                .flatten()
                .cloned(),
        );
        values.extend(self.schema.get("default").cloned());
        match &sample {
            Value::Bool(_) => values.extend([true.into(), false.into()]),
            Value::Number(number) => {
                let number = number.as_i64().unwrap_or(1);
                values.extend([(number + 1).into(), (number + 7).into()]);
                values.extend(self.schema.get("minimum").cloned());
            }
            Value::String(text) if self.schema.get("enum").is_none() => {
                values.extend([format!("{text}x").into(), format!("{text}y").into()]);
            }
            other => {
                let text = other.to_string();
                let names = [
                    ("\"b\"", "\"c\""),
                    ("\"worker\"", "\"launcher\""),
                    ("\"1\"", "\"2\""),
                ];
                let changed = names.into_iter().filter(|(from, _)| text.contains(from));
                let changed = changed.map(|(from, to)| text.replacen(from, to, 1));
                values.extend(changed.filter_map(|text| serde_json::from_str(&text).ok()));
            }
        }
        values.extend([
            json!(-7),
            json!("no such word"),
            json!({"no": ["such"]}),
            json!([[]]),
        ]);
        let mut different: Vec<Value> = Vec::new();
        for value in values {
            if !different.contains(&value) {
                different.push(value);
            }
        }
        different
    }

    fn with(&self, value: Option<&Value>) -> Value {
        let mut job = self.base();
        write(&mut job, self.path(), value);
        job
    }

    /// Values with which the job is accepted, none of them for a field that is left out; and those with which it
    /// is refused.
    fn judged(&self) -> (Vec<Option<Value>>, Vec<Value>) {
        let is_accepted = |value: Option<&Value>| (self.dialect.lower)(&self.with(value)).is_ok();
        let (mut accepted, refused): (Vec<_>, Vec<_>) = self
            .values()
            .into_iter()
            .partition(|value| is_accepted(Some(value)));
        accepted.truncate(VALUES_MAX - 1);
        let mut states: Vec<_> = accepted.into_iter().map(Some).collect();
        if is_accepted(None) {
            states.push(None);
        }
        (states, refused)
    }

    fn may_change(&self) -> bool {
        let is_state = self.dialect.suspend_field == Some(self.path());
        let never = NEVER_CHANGED
            .iter()
            .any(|path| self.path().starts_with(path));
        !is_state && !never && !self.field.shape.is_immutable
    }
}

/// What a definition says of a field.
fn schema_of(resource: &Resource, dialect: &Dialect, definition: &Value, path: &str) -> Value {
    let versions = definition["spec"]["versions"]
        .as_array()
        .expect("it has versions");
    let version = versions
        .iter()
        .find(|version| version["name"] == dialect.version);
    let version = version.unwrap_or_else(|| panic!("{} has no {}", resource.kind, dialect.version));
    let mut schema = &version["schema"]["openAPIV3Schema"];
    for part in path
        .replace("[]", ".[]")
        .replace("[L", ".[L")
        .replace("[W", ".[W")
        .split('.')
    {
        schema = match part {
            "[]" => &schema["items"],
            part if part.starts_with('[') => &schema["additionalProperties"],
            part => &schema["properties"][part],
        };
    }
    schema.clone()
}

/// Sets or removes a field of a job.
fn write(job: &mut Value, path: &str, value: Option<&Value>) {
    if let Some(value) = value {
        return set(job, path, value.clone());
    }
    let path = path.replace("[]", ".0").replace('[', ".").replace(']', "");
    let pointer = format!("/{}", path.replace('.', "/"));
    let mut place = pointer.as_str();
    // An object that holds nothing else goes too.
    while let Some((parent, name)) = place.rsplit_once('/') {
        match job.pointer_mut(parent) {
            Some(Value::Object(entries)) => {
                entries.remove(name);
                if !entries.is_empty() || parent == "/spec" {
                    return;
                }
            }
            _ => return,
        }
        place = parent;
    }
}

/// A job of which nothing may be made: it is suspended, or the API server refuses what it needs.
fn held(dialect: &'static Dialect, mut stored: Value) -> Scenario {
    if let Some(field) = dialect.suspend_field {
        set(&mut stored, field, true.into());
    }
    Scenario::of(dialect, stored)
}

/// The operator does what it can while the job is held.
fn rest(scenario: &mut Scenario) {
    if scenario.dialect.suspend_field.is_none()
        && (scenario.dialect.lower)(&scenario.stored).is_ok()
    {
        let plan = scenario.plan();
        for action in plan.steps.iter().flatten() {
            if let Action::Create(object) = action {
                scenario.refuse(object.kind.clone(), &object.name, 403, "exceeded quota");
            }
        }
    }
    scenario.settle();
}

/// The job is let go, runs and succeeds. Returns what it is while it runs, and in the end.
fn lived(scenario: &mut Scenario) -> [String; 2] {
    scenario.at(600).refuse_nothing();
    if scenario.dialect.suspend_field.is_some() {
        scenario.suspend(false);
    }
    scenario.settle();
    for secs in [601, 602, 603] {
        scenario.at(secs).pods_run().settle();
    }
    let running = essence(scenario);
    scenario.at(620);
    if !scenario.world.launcher_pods.is_empty() && scenario.world.launcher_pods[0].exit.is_none() {
        scenario.launcher_exits(0, "");
    }
    scenario.settle();
    [running, essence(scenario)]
}

/// All that exists for a job and all that its status says, but for when and how often it was edited.
fn essence(scenario: &Scenario) -> String {
    let world = &scenario.world;
    let objects = (
        (
            &world.service,
            &world.config,
            &world.account,
            &world.network_policy,
        ),
        (
            &world.key,
            &world.pod_group,
            &world.worker_set,
            &world.launcher,
        ),
        (&world.launcher_pods, &world.workers),
    );
    let pods = world.workers.iter().chain(&world.launcher_pods);
    let mut bodies = BTreeMap::new();
    for name in pods.map(|pod| pod.name.as_str()) {
        let made = scenario
            .created
            .iter()
            .rfind(|object| object.kind == Kind::Pod && object.name == name);
        bodies.extend(made.map(|object| (name, &object.body)));
    }
    let made = |kind: Kind| scenario.created.iter().rfind(|object| object.kind == kind);
    let controllers =
        [Kind::Job, Kind::StatefulSet].map(|kind| made(kind).map(|object| &object.body));
    let mut status = scenario.status().clone();
    forget_when(&mut status);
    format!(
        "{objects:#?}\n{bodies:#?}\n{controllers:#?}\n{status:#}\n{:?}",
        world.job.workers
    )
}

fn forget_when(status: &mut Value) {
    match status {
        Value::Object(entries) => {
            let is_when = |key: &str| key.ends_with("Time") || key == "milestones";
            entries.retain(|key, _| !is_when(key) && key != "observedGeneration");
            entries.values_mut().for_each(forget_when);
        }
        Value::Array(items) => items.iter_mut().for_each(forget_when),
        _ => {}
    }
}

/// Where they differ first; nothing if they are alike.
fn difference(one: &[String; 2], other: &[String; 2]) -> Option<String> {
    let whens = ["while it runs", "in the end"]
        .iter()
        .zip(one.iter().zip(other));
    let mut differing = whens.filter(|(_, (one, other))| one != other);
    let (when, (one, other)) = differing.next()?;
    let lines = one.lines().zip(other.lines());
    let first = lines.into_iter().find(|(one, other)| one != other);
    Some(format!("{when}: {first:?}"))
}

/// Set, changed, unset: before its pods are made, a job can become any other.
#[test]
fn an_edited_job_is_what_it_would_be_if_it_were_new() {
    let (mut transitions, mut differing) = (0, BTreeSet::new());
    for place in Place::all().iter().filter(|place| place.may_change()) {
        let (states, _) = place.judged();
        for to in &states {
            let fresh = lived(&mut {
                let mut fresh = held(place.dialect, place.with(to.as_ref()));
                rest(&mut fresh);
                fresh
            });
            for from in states.iter().filter(|from| *from != to) {
                let mut edited = held(place.dialect, place.base());
                rest(&mut edited);
                for (secs, state) in [(100, from), (200, to)] {
                    edited.at(secs);
                    edited.edit(|spec| edit(spec, place.path(), state.as_ref()));
                    rest(&mut edited);
                    transitions += 1;
                }
                let after = lived(&mut edited);
                if let Some(how) = difference(&after, &fresh) {
                    println!(
                        "{} {}: {from:?} to {to:?} {how}",
                        place.dialect.name,
                        place.path()
                    );
                    differing.insert(format!("{} {}", place.dialect.name, place.path()));
                }
            }
        }
    }
    println!("{transitions} transitions");
    assert_eq!(
        differing.into_iter().collect::<Vec<_>>(),
        KEPT_BY_THE_LAUNCHER
    );
    assert!(transitions >= 2_000, "{transitions} transitions");
}

fn edit(spec: &mut Value, path: &str, value: Option<&Value>) {
    let mut job = json!({"spec": spec.take()});
    write(&mut job, path, value);
    *spec = job["spec"].take();
}

/// A job may be refused before it runs, or while it runs: its user takes the mistake back, and it is as if there had
/// been none.
#[test]
fn a_bad_spec_can_be_taken_back() {
    let mut refusals = 0;
    for place in &Place::all() {
        let (_, refused) = place.judged();
        let what = |value: &Value| format!("{} of {}: {value}", place.path(), place.dialect.name);
        for value in &refused {
            refusals += 1;
            let mut fresh = held(place.dialect, place.base());
            rest(&mut fresh);
            let fresh = lived(&mut fresh);
            let mut wrong = held(place.dialect, place.base());
            let good = wrong.stored["spec"].clone();
            edit(&mut wrong.stored["spec"], place.path(), Some(value));
            rest(&mut wrong);
            if wrong.status()["muster"]["finished"] == true {
                assert_eq!(place.dialect.name, "v1", "{}", what(value));
                continue;
            }
            wrong.at(100).edit(|spec| *spec = good.clone());
            rest(&mut wrong);
            let after = lived(&mut wrong);
            assert_eq!(
                difference(&after, &fresh),
                None,
                "{}\n{}",
                what(value),
                wrong.transcript
            );

            let mut undisturbed = Scenario::of(place.dialect, place.base()).running();
            let mut disturbed = Scenario::of(place.dialect, place.base()).running();
            let good = disturbed.stored["spec"].clone();
            disturbed
                .at(30)
                .edit(|spec| edit(spec, place.path(), Some(value)))
                .settle();
            disturbed.at(40).edit(|spec| *spec = good).settle();
            for scenario in [&mut undisturbed, &mut disturbed] {
                scenario.at(50).settle();
            }
            let (one, other) = (essence(&disturbed), essence(&undisturbed));
            let pair = |text: String| [text, String::new()];
            let how = difference(&pair(one), &pair(other));
            assert_eq!(how, None, "{}\n{}", what(value), disturbed.transcript);
        }
    }
    println!("{refusals} refusals");
    assert!(refusals >= 200, "{refusals} refusals");
}

/// A value that is accepted and means nothing is a trap. A field that is left out may mean the same as one value,
/// and so may an empty one.
#[test]
fn no_two_values_of_a_field_mean_the_same_unless_they_are_listed() {
    let mut alike = Vec::new();
    for place in &Place::all() {
        let (states, _) = place.judged();
        let written = states.iter().flatten();
        let written =
            written.filter(|value| !["", "null"].contains(&value.as_str().unwrap_or("-")));
        let lowered: Vec<_> = written
            .map(|value| (value, (place.dialect.lower)(&place.with(Some(value)))))
            .collect();
        for (index, (value, one)) in lowered.iter().enumerate() {
            let others = lowered[index + 1..]
                .iter()
                .filter(|(_, other)| one == other);
            let (dialect, path) = (place.dialect.name, place.path());
            alike.extend(others.map(|(other, _)| format!("{dialect} {path}: {value} {other}")));
        }
    }
    assert_eq!(alike, ALIKE);
}
