//! Stored objects as the API server writes them, and what is read of them.

use planner::observed::{LauncherEnd, PodPhase};
use serde_json::{Value, json};

use super::*;

fn read(kind: &Kind, object: &Value) -> Child {
    child(kind, &object.to_string()).expect("the object can be read")
}

fn metadata(more: &Value) -> Value {
    let mut metadata = json!({
        "name": "ring-worker-0", "namespace": "team-a", "uid": "u1", "resourceVersion": "42",
        "creationTimestamp": "2026-01-02T03:04:05Z",
        "managedFields": [{"manager": "x", "fieldsV1": {"f:metadata": {}}}],
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "Other", "name": "o", "uid": "o1"},
            {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "name": "ring", "uid": "job-1",
             "controller": true, "blockOwnerDeletion": true},
        ],
    });
    for (key, value) in more.as_object().expect("more metadata is an object") {
        metadata[key] = value.clone();
    }
    metadata
}

fn pod(more: &Value, status: &Value) -> (Child, observed::Pod) {
    let object = json!({"kind": "Pod", "metadata": metadata(more),
        "spec": {"nodeName": "n1", "containers": [{"name": "main"}]}, "status": status});
    let child = read(&Kind::Pod, &object);
    let pod = child
        .facts
        .pod()
        .expect("a pod is a pod")
        .pod(&child, false);
    (child, pod)
}

#[test]
fn a_child_is_known_by_its_controller_and_its_label() {
    let labels = json!({"labels": {
        "muster.dev/job-uid": "job-1",
        "training.kubeflow.org/job-role": "worker",
        "training.kubeflow.org/replica-index": "7",
        "training.kubeflow.org/operator-name": "mpi-operator",
    }});
    let (child, pod) = pod(&labels, &json!({"phase": "Running"}));
    assert_eq!(child.key, ObjectKey::new("team-a", "ring-worker-0"));
    assert_eq!(child.version, 42);
    assert!(child.is_owned_by("job-1") && !child.is_owned_by("o1"));
    assert_eq!(child.job(), Some(ObjectKey::new("team-a", "ring")));
    assert!(child.has_watch_label && pod.labelled);
    assert_eq!(pod.replica_index, Some(7));
    assert_eq!(
        child.facts.pod().map(|facts| facts.role),
        Some(Role::Worker)
    );
    assert_eq!(pod.created_at.to_string(), "2026-01-02T03:04:05Z");
    assert_eq!(
        (pod.phase, pod.node.as_str(), pod.deleting),
        (PodPhase::Running, "n1", false)
    );

    let (stranger, pod) = self::pod(&json!({"ownerReferences": []}), &json!({}));
    assert_eq!(stranger.job(), None);
    assert!(!stranger.has_watch_label && !pod.labelled);
    assert_eq!(pod.phase, PodPhase::Pending);
}

#[test]
fn a_launcher_pod_belongs_to_the_job_of_its_job() {
    let owner = json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "whatever", "uid": "j1",
        "controller": true}]);
    let labels = json!({"training.kubeflow.org/job-name": "ring"});
    let ours = json!({"ownerReferences": owner, "labels": labels});
    assert_eq!(
        pod(&ours, &json!({})).0.job(),
        Some(ObjectKey::new("team-a", "ring"))
    );
    let other = json!({"ownerReferences": owner});
    assert_eq!(pod(&other, &json!({})).0.job(), None);
}

#[test]
fn a_pod_tells_why_it_is_not_further() {
    let unplaced = json!({"phase": "Pending", "conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}]});
    let (_, pod) = pod(&json!({}), &unplaced);
    assert_eq!(
        pod.waiting.map(|waiting| waiting.reason),
        Some("Unschedulable".to_owned())
    );

    for (reason, told) in [
        ("ContainerCreating", None),
        ("PodInitializing", None),
        ("ImagePullBackOff", Some("ImagePullBackOff".to_owned())),
    ] {
        let status = json!({"phase": "Pending", "containerStatuses": [
            {"name": "main", "state": {"waiting": {"reason": reason}}}]});
        let (_, pod) = self::pod(&json!({}), &status);
        assert_eq!(pod.waiting.map(|waiting| waiting.reason), told);
    }
}

#[test]
fn the_first_failure_in_time_is_the_exit_and_the_last_end_is_the_end() {
    let watch_deleted = |name: &str, code: i32, at: &str| {
        json!({"name": name, "state": {"terminated": {"exitCode": code, "reason": "Error",
            "finishedAt": format!("2026-01-01T00:00:{at}Z")}}})
    };
    let status = json!({"phase": "Failed", "reason": "Evicted", "message": "disk",
        "initContainerStatuses": [watch_deleted("init", 0, "01")],
        "containerStatuses": [watch_deleted("echo", 1, "09"), watch_deleted("cause", 137, "05"), watch_deleted("fine", 0, "07")]});
    let (_, pod) = pod(
        &json!({"deletionTimestamp": "2026-01-01T00:00:10Z"}),
        &status,
    );
    let exit = pod.exit.expect("two containers failed");
    assert_eq!((exit.container.as_str(), exit.code), ("cause", 137));
    assert_eq!(
        pod.finished_at.map(|at| at.to_string()),
        Some("2026-01-01T00:00:09Z".to_owned())
    );
    assert_eq!(
        (pod.reason.as_str(), pod.message.as_str()),
        ("Evicted", "disk")
    );
    assert!(pod.deleting);
}

#[test]
fn of_a_success_only_that_it_took_several_attempts_is_kept() {
    let recovered = |code: u8, report: &str| {
        let end = json!({"exitCode": code, "message": report});
        let status = json!({"containerStatuses": [{"name": "m", "state": {"terminated": end}}]});
        pod(&json!({}), &status).1.recovered
    };
    let report = |attempts: u32| {
        let report = json!({"muster": 1, "verdict": "Succeeded", "exit": 0, "attempts": attempts,
            "message": "attempt 2 succeeded"});
        format!("{report}\n")
    };
    let words = Some("attempt 2 succeeded".to_owned());
    assert_eq!(recovered(0, &report(2)), words);
    assert_eq!(recovered(0, &report(1)), None);
    assert_eq!(recovered(0, "done"), None);
    assert_eq!(recovered(3, &report(2)), None);
}

#[test]
fn c15_a_pod_that_ended_after_it_was_told_to_was_stopped() {
    let status = |at: &str| {
        let end = json!({"exitCode": 0, "finishedAt": format!("2026-01-01T00:00:{at}Z")});
        json!({"phase": "Succeeded", "containerStatuses": [{"name": "m", "state": {"terminated": end}}]})
    };
    // Asked for at second 10, with a grace period of 30 s.
    let leaves =
        json!({"deletionTimestamp": "2026-01-01T00:00:40Z", "deletionGracePeriodSeconds": 30});
    let stopped = |metadata: &Value, status: &Value| pod(metadata, status).1.stopped;
    assert!(!stopped(&leaves, &status("09")));
    assert!(stopped(&leaves, &status("10")), "the same second");
    assert!(stopped(&leaves, &status("11")));
    assert!(!stopped(&json!({}), &status("11")), "nobody deletes it");
    assert!(stopped(&leaves, &json!({"phase": "Succeeded"})), "no time");
}

#[test]
fn c15_a_job_tells_that_its_pods_were_stopped() {
    let held = |status: &str| {
        let condition = json!({"type": "Suspended", "status": status});
        job(&json!({}), &json!({"conditions": [condition]})).held
    };
    assert!(held("True") && !held("False"));
}

fn job(spec: &Value, status: &Value) -> observed::LauncherJob {
    let made_for = json!({"annotations": {"muster.dev/gang": "Volcano"}});
    let object = json!({"metadata": metadata(&made_for), "spec": spec, "status": status});
    read(&Kind::Job, &object)
        .facts
        .launcher()
        .expect("a Job is a Job")
}

#[test]
fn a_job_tells_how_it_ended_and_what_may_still_change() {
    let template = json!({"metadata": {"labels": {"a": "1"}}, "spec": {
        "nodeSelector": {"n": "1"},
        "affinity": {"nodeAffinity": {"x": 1}, "podAffinity": {}}}});
    let spec = json!({"suspend": true, "ttlSecondsAfterFinished": 60, "template": template});
    let status = json!({"startTime": "2026-01-01T00:00:00Z", "failed": 2, "conditions": [
        {"type": "Suspended", "status": "True"},
        {"type": "Complete", "status": "False"},
        {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "m"}]});
    let launcher = job(&spec, &status);
    assert!(launcher.suspended && launcher.started_at.is_some());
    assert_eq!((launcher.failed_pods, launcher.ttl_secs), (2, Some(60)));
    assert_eq!(launcher.gang, "Volcano");
    assert_eq!(
        launcher.end,
        Some(LauncherEnd::Failed {
            reason: "BackoffLimitExceeded".to_owned(),
            message: "m".to_owned()
        })
    );
    assert_eq!(launcher.directives.node_affinity, json!({"x": 1}));
    assert_eq!(launcher.directives.labels["a"], "1");

    let delete_requested = json!({"failed": 1, "uncountedTerminatedPods": {"failed": ["uid"]}, "conditions": [
        {"type": "FailureTarget", "status": "True", "reason": "BackoffLimitExceeded", "message": "m"}]});
    let delete_requested = job(&spec, &delete_requested);
    assert_eq!(
        (&delete_requested.end, delete_requested.failed_pods),
        (&launcher.end, 2)
    );

    let fresh = job(&json!({}), &json!({}));
    assert!(fresh.end.is_none() && !fresh.suspended && fresh.started_at.is_none());
}

#[test]
fn a_part_of_unknown_shape_hides_nothing_else() {
    let unreadable = |kind: &Kind, object: &Value| {
        let reading = super::read(kind, Encoded::Json(&object.to_string()));
        reading.expect("the object can be read").unreadable
    };
    let object = json!({"metadata": metadata(&json!({})), "spec": {"suspend": true}, "status": 7});
    assert!(unreadable(&Kind::Job, &object));
    let launcher = read(&Kind::Job, &object)
        .facts
        .launcher()
        .expect("a Job is a Job");
    assert!(launcher.suspended && launcher.end.is_none());

    for (data, expected) in [
        (json!([1]), true),
        (json!({"hostfile": 1}), true),
        (json!({"hostfile": "x"}), false),
        (Value::Null, false),
    ] {
        let map = json!({"metadata": metadata(&json!({})), "data": data});
        assert_eq!(unreadable(&Kind::ConfigMap, &map), expected, "{map}");
    }
}

#[test]
fn s01c_no_text_of_others_is_kept_beyond_its_bound() {
    let huge = "x".repeat(1 << 20);
    let map = |data: &Value| {
        let object =
            json!({"metadata": metadata(&json!({"annotations": {"a": huge}})), "data": data});
        read(&Kind::ConfigMap, &object)
    };
    let large = map(&json!({"hostfile": huge, "other": huge}));
    assert!(large.bytes() < 1024, "{}", large.bytes());
    assert_ne!(large.facts, map(&json!({"hostfile": huge})).facts);
    let wanted = observed::ConfigState::new("u1".to_owned(), [("hostfile", huge.as_str())]);
    assert_eq!(map(&json!({"hostfile": huge})).facts, Facts::Config(wanted));

    let more = json!({
        "annotations": {"muster.dev/hosts": huge, "muster.dev/discover-hosts": huge, "muster.dev/end": huge},
        "labels": {"muster.dev/job-uid": huge, "training.kubeflow.org/job-name": huge},
        "ownerReferences": [{"kind": huge, "name": huge, "uid": huge, "controller": true}],
    });
    let status = json!({"phase": "Failed", "reason": huge, "message": huge, "podIP": huge,
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": huge, "message": huge}],
        "containerStatuses": [{"name": huge, "state": {"terminated": {"exitCode": 1, "message": huge,
            "reason": huge}}}]});
    let (child, pod) = pod(&more, &status);
    assert!(child.bytes() < 16 << 10, "{}", child.bytes());
    let print = planner::Fingerprint::of(&huge);
    assert_eq!((pod.hosts, pod.discovery), (print, print));
    assert!(pod.told_end);
}

#[test]
fn c11_a_pod_that_was_restarted_less_than_never_can_be_read() {
    let counts = |count: i64| {
        let status = json!({"containerStatuses": [{"name": "main", "restartCount": count}]});
        pod(&json!({}), &status).1.restarts
    };
    assert_eq!(
        [counts(-1), counts(i64::from(i32::MIN)), counts(2)],
        [0, 0, 2]
    );
}
