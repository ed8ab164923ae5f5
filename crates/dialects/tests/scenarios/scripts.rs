//! Scenarios as text. Each line of `scripts/*.txt` is something that users, pods, time or the API server
//! do, or a `reconcile`; the `.out` file beside it is the transcript (`MUSTER_UPDATE_GOLDEN=1` writes
//! those). Must not know what is expected. The lines:
//!
//! ```text
//! job FILE                          the job, by its path in the repository; comes first
//! without agent | gang volcano      settings of the operator
//! at SECS                           the time, since the beginning
//! reconcile                         the operator works until the status stays as it is
//! workers EVENT | worker N EVENT    to all workers, or to the one with this index
//! launcher EVENT                    to the launcher's pod
//! launcher yields                   it exits with 0 because it is stopped; its Job counts that as success
//!   EVENT: pulls (its images) | starts (not Ready) | runs (Ready) | exits CODE "last words" | evicted "message"
//!          | waits REASON "message" | terminating | deleted | replaced (by its StatefulSet)
//! launcher job fails REASON "message"
//! edit FIELD VALUE | remove FIELD   a field of the spec; the value is JSON, or else text
//! suspend | resume | delete job
//! refuse KIND NAME CODE "message"   the API server refuses to create this object, until `refuse nothing`
//! taken KIND                        somebody else's object holds the name
//! ```

use std::path::{Path, PathBuf};

use dialects::{Dialect, RESOURCES};
use jiff::Timestamp;
use planner::observed::{LauncherEnd, Pod, PodPhase, Slot, Waiting};
use planner::site::GangScheduler;
use planner::{Kind, Observed};
use serde_json::Value;

use crate::driver::{Scenario, run};
use crate::start_times;

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn text(path: &Path) -> String {
    let text = std::fs::read_to_string(path);
    text.unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn scripts() -> Vec<PathBuf> {
    let folder = here("tests/scenarios/scripts");
    let entries = std::fs::read_dir(folder).expect("there are scripts");
    let paths = entries.map(|entry| entry.expect("the folder can be read").path());
    let mut paths: Vec<PathBuf> = paths.collect();
    paths.sort();
    paths
}

#[test]
fn every_script_has_its_transcript() {
    let update = std::env::var("MUSTER_UPDATE_GOLDEN").is_ok();
    let (scripts, transcripts): (Vec<_>, Vec<_>) = scripts()
        .into_iter()
        .partition(|path| path.extension().is_some_and(|end| end == "txt"));
    for script in &scripts {
        let transcript = play(script);
        let golden = script.with_extension("out");
        if update {
            std::fs::write(&golden, &transcript).expect("the transcript can be written");
        }
        assert_same(&transcript, &text(&golden), &golden);
    }
    for transcript in transcripts {
        let script = transcript.with_extension("txt");
        assert!(
            scripts.contains(&script),
            "{} has no script",
            transcript.display()
        );
    }
}

/// Names the first line that differs: a transcript is too long to be read twice.
fn assert_same(transcript: &str, golden: &str, path: &Path) {
    let mut pairs = transcript.lines().zip(golden.lines()).enumerate();
    if let Some((index, (now, before))) = pairs.find(|(_, (now, before))| now != before) {
        let place = format!("{}:{}", path.display(), index + 1);
        panic!("{place}: was\n{before}\nand is now\n{now}\nin\n{transcript}");
    }
    assert_eq!(
        transcript.len(),
        golden.len(),
        "{}: one is longer",
        path.display()
    );
}

/// A new dialect comes with scripts.
#[test]
fn every_dialect_has_a_script_for_each_kind_of_life() {
    let names: Vec<String> = scripts()
        .iter()
        .filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()))
        .collect();
    for dialect in RESOURCES.iter().flat_map(|resource| resource.dialects) {
        let kinds = ["succeeds", "fails", "worker-lost", "invalid", "scale"];
        let suspends = dialect.suspend_field.map(|_| "suspend");
        for kind in kinds.into_iter().chain(suspends) {
            let name = format!("{}-{kind}.txt", dialect.name);
            assert!(names.contains(&name), "there is no scripts/{name}");
        }
    }
}

fn play(script: &Path) -> String {
    let text = text(script);
    let mut scenario = None;
    for (number, line) in text.lines().enumerate() {
        let words = words(line);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let place = format!("{}:{}: {line}", script.display(), number + 1);
        match (words.as_slice(), &mut scenario) {
            ([], _) => {}
            (["job", file], None) => scenario = Some(begin(file)),
            (_, None) => panic!("{place}: the job comes first"),
            (words, Some(scenario)) => {
                scenario.transcript.command(line);
                assert!(happen(scenario, words), "{place}: what does this mean?");
            }
        }
    }
    let scenario = scenario.unwrap_or_else(|| panic!("{}: no job", script.display()));
    scenario.transcript.to_string()
}

/// The words of a line; quotes keep several together. A comment has none.
fn words(line: &str) -> Vec<String> {
    if line.starts_with('#') {
        return Vec::new();
    }
    let parts = line.split('"').enumerate();
    let words = parts.flat_map(|(index, part)| {
        let quoted = (index % 2 == 1).then(|| part.to_owned());
        let bare = part.split_whitespace().filter(|_| index % 2 == 0);
        let bare: Vec<String> = bare.map(str::to_owned).collect();
        quoted.into_iter().chain(bare)
    });
    words.collect()
}

fn begin(file: &str) -> Scenario {
    let source = text(&here("../..").join(file));
    let mut stored: Value = serde_saphyr::from_str(&source).expect("the job is YAML");
    let dialect = dialect(&stored);
    let created = ("creationTimestamp", "2026-11-15T12:00:00Z");
    for (field, value) in [("namespace", "team-a"), ("uid", "u"), created] {
        if stored["metadata"][field].is_null() {
            stored["metadata"][field] = value.into();
        }
    }
    stored["metadata"]["generation"] = 1.into();
    Scenario::of(dialect, stored)
}

fn dialect(stored: &Value) -> &'static Dialect {
    let written = stored["apiVersion"].as_str().unwrap_or_default();
    let kind = &stored["kind"];
    let mut rows = RESOURCES.iter().flat_map(|resource| {
        let rows = resource.dialects.iter();
        rows.filter(move |row| {
            *kind == resource.kind && written == format!("{}/{}", resource.group, row.version)
        })
    });
    let row = rows.next();
    row.unwrap_or_else(|| panic!("no dialect of {written} {kind}"))
}

/// Does what a line says; false if it says nothing.
fn happen(scenario: &mut Scenario, words: &[&str]) -> bool {
    match words {
        ["without", "agent"] => scenario.world.site.agent_image = None,
        ["gang", "volcano"] => scenario.world.site.gang = Some(GangScheduler::Volcano),
        ["at", secs] => {
            scenario.at(secs.parse().expect("seconds"));
        }
        ["reconcile"] => scenario.settle(),
        ["workers", event @ ..] => {
            // From the last to the first, so that pods that go do not move those that are to follow.
            let count = scenario.world.workers.len();
            return count > 0 && (0..count).rev().all(|i| befall_worker(scenario, i, event));
        }
        ["worker", index, event @ ..] => {
            return befall_worker(scenario, index.parse().expect("an index"), event);
        }
        ["launcher", "job", "fails", reason, message] => {
            scenario.launcher_job_fails(reason, message);
        }
        ["launcher", event @ ..] => return befall_launcher(scenario, event),
        ["edit", field, value] => {
            let value = serde_json::from_str(value).unwrap_or_else(|_| (*value).into());
            scenario.edit(|spec| *at_path(spec, field) = value);
        }
        ["remove", field] => {
            let (parent, name) = field.rsplit_once('.').expect("a field of the spec");
            scenario.edit(|spec| {
                let parent = at_path(spec, parent).as_object_mut();
                let removed = parent.and_then(|parent| parent.remove(name));
                removed.expect("the field is there");
            });
        }
        ["suspend"] => {
            scenario.suspend(true);
        }
        ["resume"] => {
            scenario.suspend(false);
        }
        ["delete", "job"] => scenario.delete_job(),
        ["refuse", kind, name, code, message] => {
            let code = code.parse().expect("a status code");
            scenario.refuse(kind_named(kind), name, code, message);
        }
        ["refuse", "nothing"] => scenario.refuse_nothing(),
        ["taken", kind] => take(&mut scenario.world, kind),
        _ => return false,
    }
    true
}

/// The field with this path, which begins with `spec`.
pub(crate) fn at_path<'a>(spec: &'a mut Value, path: &str) -> &'a mut Value {
    let mut parts = path.split('.');
    assert_eq!(parts.next(), Some("spec"), "{path}");
    parts.fold(spec, |value, part| match part.parse::<usize>() {
        Ok(index) => &mut value[index],
        Err(_) => &mut value[part],
    })
}

fn kind_named(name: &str) -> Kind {
    let kinds = [
        Kind::Service,
        Kind::ConfigMap,
        Kind::Secret,
        Kind::Pod,
        Kind::Job,
        Kind::StatefulSet,
        Kind::Role,
    ];
    let kind = kinds.into_iter().find(|kind| kind.as_str() == name);
    kind.unwrap_or_else(|| panic!("no plan creates a {name}"))
}

fn take(world: &mut Observed, kind: &str) {
    match kind {
        "Service" => world.service = Slot::Foreign,
        "ConfigMap" => world.config = Slot::Foreign,
        "StatefulSet" => world.worker_set = Slot::Foreign,
        other => panic!("no scenario takes the name of a {other}"),
    }
}

fn befall_worker(scenario: &mut Scenario, index: usize, event: &[&str]) -> bool {
    match event {
        ["exits", code, rest @ ..] => {
            let words = rest.first().copied().unwrap_or_default();
            scenario.worker_exits(index, code.parse().expect("an exit code"), words);
        }
        ["replaced"] => {
            scenario.worker_is_replaced(index);
        }
        event => {
            let now = scenario.world.now;
            return befall(&mut scenario.world.workers, index, now, event);
        }
    }
    true
}

fn befall_launcher(scenario: &mut Scenario, event: &[&str]) -> bool {
    match event {
        ["runs"] => {
            scenario.launcher_runs();
        }
        ["exits", code, rest @ ..] => {
            let words = rest.first().copied().unwrap_or_default();
            scenario.launcher_exits(code.parse().expect("an exit code"), words);
        }
        ["yields"] => yield_launcher(&mut scenario.world),
        event => {
            let now = scenario.world.now;
            return befall(&mut scenario.world.launcher_pods, 0, now, event);
        }
    }
    true
}

fn yield_launcher(world: &mut Observed) {
    let at = Some(world.now);
    let pod = &mut world.launcher_pods[0];
    (pod.deleting, pod.stopped, pod.ready) = (true, true, false);
    (pod.phase, pod.finished_at) = (PodPhase::Succeeded, at);
    if let Slot::Ours(launcher) = &mut world.launcher {
        (launcher.held, launcher.end) = (true, Some(LauncherEnd::Complete { at }));
    }
}

/// What can happen to any pod.
fn befall(pods: &mut Vec<Pod>, index: usize, now: Timestamp, event: &[&str]) -> bool {
    let pod = &mut pods[index];
    match event {
        ["pulls"] => {
            "node-a".clone_into(&mut pod.node);
            start_times::pulls(pod, now);
        }
        ["starts"] => {
            (pod.phase, pod.begun) = (PodPhase::Running, true);
            start_times::begins(pod, now);
        }
        ["runs"] => run(pod, now),
        ["evicted", message] => {
            (pod.phase, pod.ready) = (PodPhase::Failed, false);
            (pod.reason, pod.message) = ("Evicted".to_owned(), (*message).to_owned());
        }
        ["waits", reason, message] => {
            pod.waiting = Some(Waiting {
                reason: (*reason).to_owned(),
                message: (*message).to_owned(),
                since: now,
                ..Waiting::default()
            });
        }
        ["terminating"] => pod.deleting = true,
        ["deleted"] => drop(pods.remove(index)),
        _ => return false,
    }
    true
}
