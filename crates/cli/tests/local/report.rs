//! `muster report` of jobs that ran here and of runs that were saved, looked at in a real browser.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::browser::Browser;
use crate::ui::Served;
use crate::world::{World, hello};

/// What the names and messages of other people's pods may hold.
const HOSTILE: &str = "</pre></td></svg><script>document.title='pwned'</script><img src=x onerror=\"document.title='pwned'\">\u{202e}\u{1b}[2J";

/// The widths of a telephone and of a large screen.
const WIDTHS: [u32; 2] = [360, 1_920];

/// What is wrong with the bars of a page.
const BARS: &str = include_str!("bars.js");

fn seen(browser: &mut Browser, page: &Path) {
    browser.open(&format!("file://{}", page.display()));
    for width in WIDTHS {
        browser.width(width);
        let faults = browser.value(BARS);
        assert_eq!(faults, json!([]), "{} at {width} px", page.display());
    }
    for scheme in ["light", "dark"] {
        browser.colours(scheme);
        assert_eq!(browser.faults(), [""; 0], "{} in {scheme}", page.display());
    }
    let loaded = browser.requests();
    assert!(
        loaded
            .iter()
            .all(|address| address.starts_with("file:") || address.starts_with("data:")),
        "{loaded:?}"
    );
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn reports_of_a_good_and_a_failed_job_open_from_a_file_without_a_network() {
    let world = World::new("report");
    let mut browser = Browser::start(&world.directory);
    browser.go_offline();
    for (name, script, code, words) in [
        ("good", "echo hello; sleep 2", 0, "hello succeeded in"),
        (
            "failed",
            "sleep 2; [ $OMPI_COMM_WORLD_RANK != 3 ] || exit 66",
            66,
            "hello failed: rank 3 on worker hello-worker-1",
        ),
    ] {
        let file = world.file("job.yaml", &hello(2, 2, script));
        let page = world.directory.join(format!("{name}.html"));
        let run = world.run(&["run", &file, "--report", page.to_str().unwrap()]);
        assert_eq!(run.code, code, "{run:?}");
        seen(&mut browser, &page);
        let text = browser.text("document.body.innerText");
        assert!(text.contains(words), "{text}");
        let rows = browser.value("document.querySelectorAll('.timeline tbody tr').length");
        assert_eq!(rows, 3, "{text}");
        assert_eq!(
            browser.value("document.querySelectorAll('tr.failed').length"),
            json!(i32::from(code != 0))
        );
        // The same as data, from the saved run.
        let data = world.run(&["report", "@last", "-o", "json"]);
        let data: Value = serde_json::from_str(&data.stdout).unwrap();
        assert_eq!(data["verdict"]["exitCode"], code, "{data:#}");
        assert_eq!(data["census"]["ranks"], 4, "{data:#}");
        let spans = data["timeline"]["rows"].as_array().unwrap().iter();
        let spans = spans.flat_map(|row| row["phases"].as_array().unwrap());
        let spans = spans.filter(|span| span["seconds"] != 0).count();
        assert_eq!(
            browser.value("document.querySelectorAll('.timeline rect').length"),
            json!(spans)
        );
    }
}

/// Makes a saved run of these objects, with one log.
fn saved(world: &World, jobs: &Value, pods: &[Value], events: &[Value], log: &[u8]) {
    let state = world.directory.join("state");
    let run = state.join("runs/01763500000000-1");
    let launcher = run.join("logs/lab_big-launcher-x_big-launcher-x/main");
    fs::create_dir_all(&launcher).unwrap();
    fs::write(state.join(".muster-state"), "").unwrap();
    fs::write(run.join("lock"), "").unwrap();
    let record = json!({"jobs": jobs, "pods": pods, "events": events});
    fs::write(run.join("record.json"), record.to_string()).unwrap();
    fs::write(launcher.join("1.log"), log).unwrap();
}

fn job(workers: u32, message: &str) -> Value {
    let containers = json!([{"name": "main", "image": "x", "command": ["mpirun", "train"]}]);
    let role = |replicas: u32| json!({"replicas": replicas, "template": {"spec": {"containers": containers}}});
    json!({
        "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob",
        "metadata": {"name": "big", "namespace": "lab", "uid": "big", "creationTimestamp": "2026-11-18T20:00:00Z"},
        "spec": {"mpiReplicaSpecs": {"Launcher": role(1), "Worker": role(workers)}},
        "status": {"startTime": "2026-11-18T20:00:00Z", "completionTime": "2026-11-18T20:10:00Z",
            "muster": {"phase": "Failed", "reason": "RankKilled", "finished": true, "ready": format!("{workers}/{workers}"),
                "message": message}},
    })
}

/// A pod of it: created after two seconds, on its node a second later, started at this second.
fn pod(name: &str, role: &str, index: u32, began: u32) -> Value {
    let time = |second: u32| format!("2026-11-18T20:{:02}:{:02}Z", second / 60, second % 60);
    let state = match role {
        "launcher" => {
            json!({"terminated": {"startedAt": time(began), "finishedAt": time(599), "exitCode": 137}})
        }
        _ => json!({"running": {"startedAt": time(began)}}),
    };
    json!({
        "metadata": {"name": name, "namespace": "lab", "uid": name, "creationTimestamp": time(2), "labels": {
            "training.kubeflow.org/job-role": role, "training.kubeflow.org/replica-index": index.to_string(),
            "muster.dev/job-uid": "big"}},
        "spec": {"nodeName": format!("node-{}", index % 40), "containers": [{"name": "main"}]},
        "status": {"phase": if role == "launcher" { "Failed" } else { "Running" },
            "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": time(3)}],
            "containerStatuses": [{"name": "main", "state": state}]},
    })
}

fn pods(workers: u32) -> (Vec<Value>, Vec<Value>) {
    let name = |index: u32| format!("big-worker-{index}");
    // The clock of one node is ahead.
    let began = |index: u32| if index == 7 { 1 } else { 9 + index % 90 };
    let mut pods: Vec<Value> = (0..workers)
        .map(|index| pod(&name(index), "worker", index, began(index)))
        .collect();
    pods.push(pod("big-launcher-x", "launcher", 0, 120));
    let events = (0..workers)
        .filter(|index| index % 3 == 0)
        .flat_map(|index| {
            let event = |reason: &str, second: u32| {
                json!({"involvedObject": {"kind": "Pod", "name": name(index), "uid": name(index)},
            "type": "Normal", "reason": reason, "message": "image x",
            "lastTimestamp": format!("2026-11-18T20:00:{second:02}Z")})
            };
            [event("Pulling", 4), event("Pulled", 8)]
        });
    let events = events.collect();
    (pods, events)
}

#[test]
fn a_thousand_workers_are_one_small_page() {
    let world = World::new("report-size");
    let (pods, events) = pods(1_000);
    saved(
        &world,
        &json!([job(1_000, "rank 3 on worker big-worker-3 was killed")]),
        &pods,
        &events,
        b"",
    );
    let since = std::time::Instant::now();
    let made = world.run(&["report", "@last", "-o", "big.html"]);
    let making = since.elapsed();
    assert_eq!(made.code, 0, "{made:?}");
    let page = world.directory.join("big.html");
    let size = fs::metadata(&page).unwrap().len();
    assert!(size <= 1_000_000, "{size} bytes");
    let mut browser = Browser::start(&world.directory);
    browser.go_offline();
    let opening = browser.open(&format!("file://{}", page.display()));
    assert_eq!(
        browser.value("document.querySelectorAll('.timeline tbody tr').length"),
        1_001
    );
    println!("1,000 workers: made in {making:?}, opened in {opening:?}, {size} bytes");
    browser.width(WIDTHS[0]);
    assert_eq!(browser.value(BARS), json!([]));
    let text = browser.text("document.body.innerText");
    assert!(text.contains("The clocks of node-7 disagree"), "{text}");
}

#[test]
fn ten_thousand_workers_are_the_thousand_that_tell_most() {
    let world = World::new("report-most");
    let (pods, events) = pods(10_000);
    saved(
        &world,
        &json!([job(10_000, "rank 3 on worker big-worker-3 was killed")]),
        &pods,
        &events,
        b"",
    );
    let made = world.run(&["report", "@last", "-o", "json"]);
    let data: Value = serde_json::from_str(&made.stdout).unwrap();
    assert_eq!(data["timeline"]["pods"], 10_001);
    assert_eq!(data["timeline"]["rows"].as_array().unwrap().len(), 1_001);
    assert_eq!(data["hosts"].as_array().unwrap().len(), 10_000);
}

#[test]
fn nothing_hostile_runs_and_nothing_is_cut_short_by_it() {
    let world = World::new("report-hostile");
    let (mut pods, mut events) = pods(2);
    pods[0]["metadata"]["name"] = HOSTILE.into();
    pods[0]["spec"]["nodeName"] = HOSTILE.into();
    events[0]["message"] = HOSTILE.into();
    events[0]["reason"] = HOSTILE.into();
    let mut log = Vec::new();
    for line in [
        HOSTILE.as_bytes(),
        b"caf\xe9 \xff\xfe",
        &vec![b'y'; 1 << 20],
        b"the last line",
    ] {
        log.extend_from_slice(b"2026-11-18T20:05:00.000000000Z stdout F ");
        log.extend_from_slice(line);
        log.push(b'\n');
    }
    saved(&world, &json!([job(2, HOSTILE)]), &pods, &events, &log);
    let made = world.run(&["report", "@last", "-o", "big.html"]);
    assert_eq!(made.code, 0, "{made:?}");
    let page = world.directory.join("big.html");
    assert!(fs::metadata(&page).unwrap().len() < 200_000);
    let mut browser = Browser::start(&world.directory);
    seen(&mut browser, &page);
    assert_eq!(browser.text("document.title"), "big: Failed");
    assert_eq!(
        browser.value("document.querySelectorAll('script, img').length"),
        0
    );
    let text = browser.text("document.body.innerText");
    for words in [
        "<script>",
        "caf\u{fffd}",
        "(a line of 1048576 bytes)",
        "the last line",
    ] {
        assert!(text.contains(words), "{words} is not in {text}");
    }
    assert!(!text.contains(['\u{202e}', '\u{1b}']));
}

#[test]
fn of_a_job_whose_pods_have_gone_the_status_still_tells() {
    let world = World::new("report-gone");
    let mut gone = job(2, "rank 3 on worker big-worker-1 was killed by signal 9");
    gone["status"]["muster"]["milestones"] = json!({"podsCreated": "2026-11-18T20:00:02Z",
        "ranksStarted": "2026-11-18T20:02:09Z", "ended": "2026-11-18T20:10:00Z"});
    gone["status"]["muster"]["slowest"] =
        json!([{"worker": "big-worker-1", "node": "node-c2", "phase": "Pulling", "seconds": 127}]);
    saved(&world, &json!([gone]), &[], &[], b"");
    let made = world.run(&["report", "@last", "-o", "big.html"]);
    assert_eq!(made.code, 0, "{made:?}");
    let mut browser = Browser::start(&world.directory);
    let page = world.directory.join("big.html");
    seen(&mut browser, &page);
    let text = browser.text("document.body.innerText");
    for words in [
        "rank 3 on worker big-worker-1 was killed by signal 9",
        "big-worker-1 took 2m7s in phase Pulling on node-c2",
        "ranks started +2m9s",
        "ended +10m",
        "no pods now",
    ] {
        assert!(text.contains(words), "{words} is not in {text}");
    }
}

#[test]
fn a_file_that_cannot_be_written_is_an_error_and_no_job_is_one_too() {
    let world = World::new("report-errors");
    let none = world.run(&["report", "@last"]);
    assert!(
        none.code == 1 && none.stderr.contains("no job has been run"),
        "{none:?}"
    );
    saved(&world, &json!([job(1, "x")]), &[], &[], b"");
    let nowhere = world.run(&["report", "@last", "-o", "nowhere/x.html"]);
    assert!(
        nowhere.code == 1 && nowhere.stderr.contains("cannot write nowhere/x.html"),
        "{nowhere:?}"
    );
}

/// Pictures for the documentation: `cargo xtask pictures` says where they go.
#[test]
#[ignore = "draws pictures for the documentation; `cargo xtask pictures` runs it"]
fn pictures() {
    let place =
        std::env::var("MUSTER_PICTURES").expect("`cargo xtask pictures` says where pictures go");
    let world = World::new("pictures");
    let (mut pods, mut events) = pods(8);
    pods[5] = pod("big-worker-5", "worker", 5, 131);
    for (reason, time) in [("Pulling", "20:00:04"), ("Pulled", "20:02:10")] {
        events.push(json!({"involvedObject": {"kind": "Pod", "name": "big-worker-5", "uid": "big-worker-5"},
            "reason": reason, "message": "image train:24.08", "lastTimestamp": format!("2026-11-18T{time}Z")}));
    }
    pods[7] = pod("big-worker-7", "worker", 7, 8);
    pods[8] = pod("big-launcher-x", "launcher", 0, 135);
    pods[8]["status"]["initContainerStatuses"] =
        json!([{"name": "gate", "state": {"terminated": {"startedAt": "2026-11-18T20:00:06Z"}}}]);
    let words = "rank 3 was killed by signal 9; the launcher exited with 137";
    let mut job = job(8, words);
    job["status"]["muster"]["slowest"] =
        json!([{"worker": "big-worker-5", "node": "node-5", "phase": "Pulling", "seconds": 126}]);
    let log = b"2026-11-18T20:05:00.000000000Z stdout F step 180 of 500, loss 2.31\n";
    let other = |name: &str, phase: &str, words: &str| {
        let mut other = job.clone();
        (other["metadata"]["name"], other["metadata"]["uid"]) = (name.into(), name.into());
        other["status"]["muster"] =
            json!({"phase": phase, "message": words, "finished": true, "ready": "8/8"});
        other
    };
    let jobs = json!([
        job,
        other("pi", "Succeeded", ""),
        other(
            "walk",
            "Succeeded",
            "attempt 2 succeeded; attempt 1 ended with RankKilled"
        )
    ]);
    saved(&world, &jobs, &pods, &events, log);
    assert_eq!(world.run(&["report", "@last", "-o", "big.html"]).code, 0);
    let mut browser = Browser::start(&world.directory);
    browser.open(&format!(
        "file://{}",
        world.directory.join("big.html").display()
    ));
    browser.width(1_100);
    draw(&mut browser, Path::new(&place), "report");
    let served = Served::start(&world, &["ui", "--local"]);
    browser.open(&served.link);
    browser.until("document.querySelector('tr[data-text]')");
    draw(&mut browser, Path::new(&place), "ui");
}

/// What the browser shows, in both sets of colours.
fn draw(browser: &mut Browser, place: &Path, name: &str) {
    use base64::Engine as _;
    for scheme in ["light", "dark"] {
        browser.colours(scheme);
        let png = base64::prelude::BASE64_STANDARD.decode(browser.picture());
        fs::write(place.join(format!("{name}-{scheme}.png")), png.unwrap()).unwrap();
    }
}
