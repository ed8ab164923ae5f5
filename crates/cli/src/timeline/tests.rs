//! Lives of pods as the API server, the scheduler and the kubelets record them.

use serde_json::json;

use super::*;

fn at(second: u32) -> String {
    format!("2026-11-18T20:{:02}:{:02}Z", second / 60, second % 60)
}

fn now(second: u32) -> Timestamp {
    at(second).parse().unwrap()
}

fn job(finished: Option<u32>) -> Value {
    let mut job = json!({
        "metadata": {"name": "resnet", "creationTimestamp": at(0)},
        "status": {"muster": {"phase": "Running", "finished": finished.is_some()}},
    });
    if let Some(end) = finished {
        job["status"]["completionTime"] = at(end).into();
    }
    job
}

/// Created, scheduled and begun at these seconds.
fn worker(index: u32, times: [Option<u32>; 3]) -> Value {
    let [created, scheduled, began] = times;
    let mut pod = json!({
        "metadata": {"name": format!("resnet-worker-{index}"), "uid": format!("w{index}"),
            "creationTimestamp": created.map(at), "labels": {
                "training.kubeflow.org/job-role": "worker",
                "training.kubeflow.org/replica-index": index.to_string()}},
        "spec": {"containers": [{"name": "main"}]},
        "status": {"phase": "Pending", "conditions": [], "containerStatuses": []},
    });
    if let Some(scheduled) = scheduled {
        pod["spec"]["nodeName"] = "node-a".into();
        pod["status"]["conditions"] = json!([{"type": "PodScheduled", "status": "True",
            "lastTransitionTime": at(scheduled)}]);
    }
    if let Some(began) = began {
        pod["status"]["phase"] = "Running".into();
        pod["status"]["containerStatuses"] =
            json!([{"name": "main", "state": {"running": {"startedAt": at(began)}}}]);
    }
    pod
}

#[test]
fn where_events_are_gone_conditions_tell_of_pulls_and_init_containers() {
    let condition = |kind: &str, second: u32| json!({"type": kind, "status": "True", "lastTransitionTime": at(second)});
    let mut pod = worker(0, [Some(1), Some(2), Some(90)]);
    pod["status"]["conditions"] = json!([
        condition("PodScheduled", 2),
        condition("PodReadyToStartContainers", 4),
        condition("Initialized", 50),
    ]);
    let init = json!({"terminated": {"startedAt": at(20), "finishedAt": at(50), "exitCode": 0}});
    pod["status"]["initContainerStatuses"] = json!([{"name": "data", "state": init}]);
    let timeline = Timeline::of(JobView(&job(None)), &[pod], &[], now(95)).unwrap();
    assert_eq!(
        phases(&timeline.rows[0]),
        [
            ("Queued", 1),
            ("Scheduling", 1),
            ("Starting", 2),
            ("Pulling", 16),
            ("Starting", 30),
            ("Pulling", 40),
            ("Waiting", 5)
        ]
    );
}

fn launcher_pod(began: u32, ended: Option<(u32, i64)>) -> Value {
    let mut pod = worker(0, [Some(1), Some(2), Some(began)]);
    pod["metadata"]["name"] = "resnet-launcher-x".into();
    pod["metadata"]["uid"] = "launcher".into();
    pod["metadata"]["labels"]["training.kubeflow.org/job-role"] = "launcher".into();
    if let Some((end, code)) = ended {
        pod["status"]["phase"] = if code == 0 { "Succeeded" } else { "Failed" }.into();
        pod["status"]["containerStatuses"][0]["state"] = json!({"terminated": {
            "startedAt": at(began), "finishedAt": at(end), "exitCode": code}});
    }
    pod
}

fn event(uid: &str, reason: &str, second: u32) -> Value {
    json!({"involvedObject": {"uid": uid}, "reason": reason, "lastTimestamp": at(second)})
}

fn phases(row: &Row) -> Vec<(&'static str, i64)> {
    let spans = row.phases.iter();
    spans
        .map(|span| (span.phase.as_str(), span.seconds))
        .collect()
}

#[test]
fn a_worker_is_late_because_its_node_pulled_the_image() {
    let pods = [
        worker(1, [Some(1), Some(3), Some(90)]),
        worker(0, [Some(1), Some(2), Some(5)]),
        launcher_pod(95, None),
    ];
    let events = [
        event("w1", "Pulling", 4),
        event("w1", "Pulled", 88),
        event("w0", "Pulled", 3),
    ];
    let timeline = Timeline::of(JobView(&job(None)), &pods, &events, now(100)).unwrap();
    let names: Vec<&str> = timeline.rows.iter().map(|row| row.pod.as_str()).collect();
    assert_eq!(
        names,
        ["resnet-launcher-x", "resnet-worker-0", "resnet-worker-1"]
    );
    assert_eq!(
        phases(&timeline.rows[1]),
        [
            ("Queued", 1),
            ("Scheduling", 1),
            ("Starting", 3),
            ("Waiting", 90),
            ("Running", 5)
        ]
    );
    assert_eq!(
        phases(&timeline.rows[2]),
        [
            ("Queued", 1),
            ("Scheduling", 2),
            ("Pulling", 85),
            ("Starting", 2),
            ("Waiting", 5),
            ("Running", 5)
        ]
    );
    assert_eq!(timeline.to, now(100));
}

#[test]
fn a_phase_that_has_not_ended_lasts_until_now() {
    let pods = [
        worker(0, [Some(1), None, None]),
        worker(1, [Some(1), Some(2), None]),
        worker(2, [Some(1), Some(2), None]),
    ];
    let events = [event("w2", "Pulling", 2)];
    let timeline = Timeline::of(JobView(&job(None)), &pods, &events, now(60)).unwrap();
    let last = |row: &Row| *phases(row).last().unwrap();
    assert_eq!(last(&timeline.rows[0]), ("Scheduling", 59));
    assert_eq!(last(&timeline.rows[1]), ("Starting", 58));
    assert_eq!(last(&timeline.rows[2]), ("Pulling", 58));
}

#[test]
fn nothing_runs_on_after_the_end_of_its_job() {
    let pods = [
        worker(0, [Some(1), Some(2), Some(3)]),
        launcher_pod(4, Some((30, 66))),
    ];
    let timeline = Timeline::of(JobView(&job(Some(31))), &pods, &[], now(3000)).unwrap();
    assert_eq!(timeline.to, now(31));
    assert_eq!(*phases(&timeline.rows[1]).last().unwrap(), ("Running", 27));
    assert!(timeline.rows[0].has_failed());
    assert_eq!(*phases(&timeline.rows[0]).last().unwrap(), ("Running", 26));
}

#[test]
fn clocks_that_disagree_are_named_and_no_phase_runs_backwards() {
    // The node of worker 1 is forty seconds behind.
    let pods = [
        worker(0, [Some(10), Some(11), Some(13)]),
        worker(1, [Some(50), Some(51), Some(11)]),
    ];
    let timeline = Timeline::of(JobView(&job(None)), &pods, &[], now(60)).unwrap();
    assert_eq!(timeline.rows[0].clock_skew_seconds, None);
    assert_eq!(timeline.rows[1].clock_skew_seconds, Some(40));
    for row in &timeline.rows {
        for pair in row.phases.windows(2) {
            assert!(
                pair[0].to <= pair[1].from && pair[0].phase < pair[1].phase,
                "{row:?}"
            );
        }
        assert!(row.phases.iter().all(|span| span.to > span.from), "{row:?}");
    }
}

#[test]
fn the_milestone_of_the_ranks_ends_waiting() {
    let mut job = job(None);
    job["status"]["muster"]["milestones"] = json!({"ranksStarted": at(40)});
    let pods = [
        worker(0, [Some(1), Some(2), Some(3)]),
        launcher_pod(20, None),
    ];
    let timeline = Timeline::of(JobView(&job), &pods, &[], now(60)).unwrap();
    let row = &timeline.rows[1];
    assert_eq!(phases(row)[3..], [("Waiting", 37), ("Running", 20)]);
}

#[test]
fn of_ten_thousand_pods_those_stay_that_tell_most() {
    let mut pods: Vec<Value> = (0..10_000)
        .map(|index| worker(index, [Some(1), Some(2), Some(3)]))
        .collect();
    pods[7_777] = worker(7_777, [Some(1), Some(2), Some(99)]);
    pods[9_999]["status"]["phase"] = "Failed".into();
    pods.push(launcher_pod(100, None));
    let timeline = Timeline::of(JobView(&job(None)), &pods, &[], now(120)).unwrap();
    assert_eq!((timeline.pods, timeline.rows.len()), (10_001, ROWS_MAX + 1));
    let named = |name: &str| timeline.rows.iter().position(|row| row.pod == name);
    let places = [
        "resnet-launcher-x",
        "resnet-worker-0",
        "resnet-worker-7777",
        "resnet-worker-9999",
    ];
    let places = places.map(|name| named(name).unwrap());
    assert!(places.is_sorted(), "{places:?}");
}

#[test]
fn a_job_without_a_time_has_no_timeline_and_one_without_pods_no_rows() {
    assert!(Timeline::of(JobView(&json!({})), &[], &[], now(0)).is_none());
    let timeline = Timeline::of(JobView(&job(Some(9))), &[], &[], now(60)).unwrap();
    assert_eq!((timeline.rows.len(), timeline.to), (0, now(9)));
}

#[test]
fn a_launcher_waits_while_its_init_container_does() {
    let mut launcher = launcher_pod(40, None);
    launcher["status"]["initContainerStatuses"] = json!([
        {"name": "gate", "state": {"terminated": {"startedAt": at(5), "finishedAt": at(39)}}}]);
    let timeline = Timeline::of(JobView(&job(None)), &[launcher], &[], now(60)).unwrap();
    let phases = phases(&timeline.rows[0]);
    assert_eq!(
        phases[2..],
        [("Starting", 3), ("Waiting", 35), ("Running", 20)]
    );
}

#[test]
fn times_that_are_far_away_are_drawn_up_to_now() {
    let far = "9999-12-30T00:00:00Z";
    let mut job = job(Some(200));
    job["status"]["muster"]["milestones"] = json!({"ended": far});
    let pods = [worker(0, [Some(1), Some(2), Some(6)])];
    let timeline = Timeline::of(JobView(&job), &pods, &[], now(300)).unwrap();
    assert_eq!(timeline.to, now(300));

    let canvas = bars::Canvas {
        columns: 80,
        is_ascii: false,
        is_coloured: false,
    };
    let mut pod = worker(1, [Some(1), Some(2), Some(6)]);
    for began in [far, "0001-01-01T00:00:00Z"] {
        pod["status"]["containerStatuses"][0]["state"]["running"]["startedAt"] = began.into();
        job["metadata"]["creationTimestamp"] = "0001-01-02T00:00:00Z".into();
        for pods in [vec![pod.clone()], vec![pods[0].clone(), pod.clone()]] {
            let timeline = Timeline::of(JobView(&job), &pods, &[], now(300)).unwrap();
            let drawn = bars::text(&timeline, canvas);
            assert!(
                drawn.lines().all(|line| line.chars().count() <= 80),
                "{drawn}"
            );
        }
    }
}
