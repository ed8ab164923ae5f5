//! Reports of jobs of every kind, and the page of the fields.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::*;
use crate::report::page;

fn now() -> Timestamp {
    "2026-11-18T21:00:00Z".parse().unwrap()
}

/// Hostile as the names and messages of a job's pods, events and logs may be.
const HOSTILE: &str = "</pre></td><script>document.title='pwned'</script><img src=x onerror=alert(1)>\u{202e}\u{1b}[2J";

fn job(phase: &str, reason: &str, message: &str) -> Value {
    json!({
        "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob",
        "metadata": {"name": "hvd", "namespace": "lab", "uid": "u1",
            "creationTimestamp": "2026-11-18T20:00:00Z"},
        "spec": {"slotsPerWorker": 2, "mpiReplicaSpecs": {
            "Launcher": {"replicas": 1, "template": {"spec": {"containers": [
                {"name": "mpi", "image": "x", "command": ["mpirun", "--api-token", "hunter2", "train"],
                 "env": [{"name": "HF_TOKEN", "value": "hunter2"}]}]}}},
            "Worker": {"replicas": 2, "template": {"spec": {"containers": [{"name": "mpi", "image": "x"}]}}}}},
        "status": {"startTime": "2026-11-18T20:00:01Z", "completionTime": "2026-11-18T20:02:00Z",
            "muster": {"phase": phase, "reason": reason, "message": message, "ready": "2/2",
                "finished": matches!(phase, "Failed" | "Succeeded")}},
    })
}

fn pod(name: &str, role: &str, state: Value, phase: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "lab", "uid": name, "creationTimestamp": "2026-11-18T20:00:02Z",
            "labels": {"training.kubeflow.org/job-role": role, "muster.dev/job-uid": "u1",
                "training.kubeflow.org/replica-index": "0"}},
        "spec": {"nodeName": "node-a", "containers": [{"name": "mpi"}]},
        "status": {"phase": phase,
            "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-18T20:00:03Z"}],
            "containerStatuses": [{"name": "mpi", "state": state}]},
    })
}

/// A job in which everything has happened.
fn full() -> Facts {
    let words = json!({"muster": 1, "verdict": "RankFailed", "exit": 66, "hosts": 2, "asked": 2, "attempts": 2,
        "lost": ["hvd-worker-1"], "ranksPerHost": {"hvd-worker-0": 2, "hvd-worker-1.hvd": 1},
        "earlier": [{"attempt": 1, "reason": "RankKilled", "seconds": 12}], "message": "rank 3 failed"});
    let mut job = job(
        "Failed",
        "CommandFailed",
        "rank 3 on worker hvd-worker-1 exited with code 66",
    );
    job["status"]["muster"]["milestones"] = json!({"created": "2026-11-18T20:00:00Z",
        "ranksStarted": "2026-11-18T20:00:30Z", "ended": "2026-11-18T20:02:00Z"});
    job["status"]["muster"]["slowest"] =
        json!([{"worker": "hvd-worker-1", "node": "node-b", "phase": "Pulling", "seconds": 21}]);
    job["status"]["muster"]["attempts"] = json!([{"number": 1, "startedAt": "2026-11-18T20:00:10Z",
        "endedAt": "2026-11-18T20:00:22Z", "reason": "RankKilled"}]);
    let ended = json!({"terminated": {"startedAt": "2026-11-18T20:00:30Z", "finishedAt": "2026-11-18T20:02:00Z",
        "exitCode": 66, "message": words.to_string()}});
    let began = json!({"running": {"startedAt": "2026-11-18T20:00:01Z"}});
    let about = json!({"kind": "Pod", "name": HOSTILE, "uid": "hvd-worker-0"});
    Facts {
        job,
        pods: vec![
            pod("hvd-launcher-x", "launcher", ended, "Failed"),
            pod("hvd-worker-0", "worker", began, "Running"),
        ],
        events: vec![
            json!({"involvedObject": about, "type": "Warning", "reason": "BackOff", "count": 3,
            "message": HOSTILE, "lastTimestamp": "2026-11-18T20:00:05Z"}),
        ],
        logs: vec![LogTail {
            title: "Launcher".to_owned(),
            pod: "hvd-launcher-x".to_owned(),
            container: "mpi".to_owned(),
            lines: vec![HOSTILE.to_owned(), "bye".to_owned()],
        }],
        missing: vec!["The moon is missing here".to_owned()],
        address: "hvd -n lab".to_owned(),
    }
}

/// Paths of all fields of a value; what is below `[]` is in a list.
fn paths(value: &Value, at: &str, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            for (key, below) in map {
                let path = if at.is_empty() {
                    key.clone()
                } else {
                    format!("{at}.{key}")
                };
                paths(below, &path, into);
                into.insert(path);
            }
        }
        Value::Array(items) => items
            .iter()
            .for_each(|item| paths(item, &format!("{at}[]"), into)),
        _ => {}
    }
}

#[test]
fn the_page_of_the_fields_names_every_field() {
    let report = serde_json::to_value(full().report(now())).unwrap();
    let mut fields = BTreeSet::new();
    paths(&report, "", &mut fields);
    let page = include_str!("../../../../../docs/reference/report.md");
    let rows = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let documented: BTreeSet<String> = rows.map(|(name, _)| name.to_owned()).collect();
    assert_eq!(documented, fields);
}

#[test]
fn a_report_tells_what_happened_and_to_which_worker() {
    let report = full().report(now());
    assert_eq!(
        report.verdict.sentence,
        "hvd failed: rank 3 on worker hvd-worker-1 exited with code 66"
    );
    assert_eq!(
        report.verdict.command,
        "muster logs hvd -n lab --launcher --tail 200"
    );
    let census = report.census.unwrap();
    assert_eq!((census.hosts, census.ranks, census.attempts), (2, 3, 2));
    let hosts: Vec<_> = report
        .hosts
        .iter()
        .map(|host| {
            (
                host.host.as_str(),
                host.first_rank,
                host.last_rank,
                host.counted,
            )
        })
        .collect();
    assert_eq!(
        hosts,
        [
            ("hvd-worker-0", 0, 1, Some(2)),
            ("hvd-worker-1", 2, 3, Some(1))
        ]
    );
    assert_eq!(report.timeline.unwrap().rows.len(), 2);
}

#[test]
fn a_job_alone_tells_when_it_was_slow_and_how_it_ended() {
    // Pods, events and logs have gone.
    let facts = Facts {
        job: full().job,
        ..Facts::default()
    };
    let report = facts.report(now());
    let page = page::file(&report);
    for words in [
        "hvd failed: rank 3 on worker hvd-worker-1 exited with code 66",
        "hvd-worker-1 took 21s in phase Pulling on node-b",
        "ranks started</span> <strong>+30s",
        "ended</span> <strong>+2m",
        "<td>RankKilled</td><td>12s</td>",
        "<th scope=\"row\">hvd-worker-1</th><td>2–3</td>",
        "no pods now",
    ] {
        assert!(page.contains(words), "{words} is not in {page}");
    }
}

#[test]
fn nothing_hostile_becomes_markup_and_nothing_secret_is_written() {
    let mut facts = full();
    facts.pods[1]["metadata"]["name"] = HOSTILE.into();
    facts.pods[1]["spec"]["nodeName"] = HOSTILE.into();
    facts.job["status"]["muster"]["message"] = HOSTILE.into();
    facts.job["status"]["muster"]["reason"] = HOSTILE.into();
    facts.job["status"]["muster"]["phase"] = HOSTILE.into();
    let page = page::file(&facts.report(now()));
    assert!(page.contains("&lt;script&gt;"), "{page}");
    for markup in ["<script", "<img", "\u{202e}", "\u{1b}", "hunter2"] {
        assert!(!page.contains(markup), "{markup:?} is in the page");
    }
    let data = serde_json::to_string(&full().report(now())).unwrap();
    assert!(!data.contains("hunter2"), "{data}");
}

#[test]
fn every_phase_has_a_sentence_and_a_page() {
    for (phase, words) in [
        ("Succeeded", "hvd succeeded in 119s"),
        ("Running", "hvd has been running for"),
        ("Waiting", "hvd has been waiting for 60m: why"),
        ("Suspended", "hvd is suspended"),
        ("", "no operator has reconciled it yet"),
    ] {
        let facts = Facts {
            job: job(phase, "", "why"),
            ..Facts::default()
        };
        let report = facts.report(now());
        assert!(
            report.verdict.sentence.contains(words),
            "{}",
            report.verdict.sentence
        );
        assert!(page::file(&report).contains(words), "{phase}");
    }
}

#[test]
fn a_thousand_workers_fit_into_a_megabyte() {
    let mut facts = full();
    facts.job["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] = 1_000.into();
    let began = json!({"running": {"startedAt": "2026-11-18T20:00:31Z"}});
    facts.pods.truncate(1);
    for index in 0..1_000 {
        let name = format!("a-job-with-a-rather-long-name-worker-{index}");
        let mut pod = pod(&name, "worker", began.clone(), "Running");
        pod["metadata"]["labels"]["training.kubeflow.org/replica-index"] = index.to_string().into();
        let event = |reason: &str, second: u32| {
            json!({"involvedObject": {"kind": "Pod", "name": name, "uid": name}, "reason": reason,
                "message": "image x", "lastTimestamp": format!("2026-11-18T20:00:{second:02}Z")})
        };
        facts
            .events
            .extend([event("Pulling", 4), event("Pulled", 20)]);
        facts.pods.push(pod);
    }
    let report = facts.report(now());
    assert_eq!(report.timeline.as_ref().unwrap().rows.len(), 1_001);
    let page = page::file(&report);
    assert!(page.len() < 1_000_000, "{} bytes", page.len());
}

#[test]
fn a_job_that_nobody_has_seen_has_the_same_word_everywhere() {
    let mut facts = full();
    facts.job["status"] = json!({});
    let report = facts.report(now());
    assert_eq!(report.verdict.phase, "Submitted");
    let page = crate::report::page::file(&report);
    assert!(page.contains("<title>hvd: Submitted"), "{page}");
    assert!(page.contains("data-phase=\"Submitted\""), "{page}");
}
