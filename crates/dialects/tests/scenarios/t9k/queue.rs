//! A job that waits in a queue of Kueue, which admits its pods and knows nothing of the job.

use planner::Kind;
use planner::observed::{PodPhase, Waiting};
use serde_json::{Value, json};

use super::seed::{pods, scenario, with};

const PREFIX: &str = "kueue.x-k8s.io/";

/// The manual's job with these labels.
fn labelled(labels: &Value) -> Value {
    with(|job| job["metadata"]["labels"] = labels.clone())
}

fn queued() -> Value {
    labelled(&json!({"kueue.x-k8s.io/queue-name": "jobs", "kueue.x-k8s.io/priority-class": "high"}))
}

/// What Kueue reads of the metadata of the job's pods, which is the same for each.
fn of_kueue(job: &Value) -> Value {
    let mut run = scenario(job.clone());
    run.reconcile();
    let of_pod = |pod: &Value| {
        let mut read = json!({});
        for part in ["labels", "annotations"] {
            let entries = pod["metadata"][part].as_object();
            let entries = entries.into_iter().flatten();
            for (name, value) in entries.filter(|(name, _)| name.starts_with(PREFIX)) {
                read[part][&name[PREFIX.len()..]] = value.clone();
            }
        }
        read
    };
    let pods = run.made(Kind::Pod);
    let first = of_pod(pods[0]);
    assert!(pods.iter().all(|pod| of_pod(pod) == first));
    first
}

#[test]
fn all_pods_of_a_job_are_one_group_of_its_queue() {
    let group = json!({
        "labels": {
            "queue-name": "jobs",
            "priority-class": "high",
            "managed": "true",
            "pod-group-name": "mpi-example",
        },
        "annotations": {
            "pod-group-total-count": "6",
            "pod-suspending-parent": "mpi-operator",
        },
    });
    assert_eq!(of_kueue(&queued()), group);
    assert_eq!(of_kueue(&labelled(&json!({"app": "x"}))), json!({}));
    assert_eq!(pods(&queued()).len(), 6);
}

/// Kueue admits a group when all of its pods are there.
#[test]
fn the_launcher_is_made_with_the_workers_and_waits_inside() {
    let mut run = scenario(queued());
    run.reconcile();
    let counts = (run.world.workers.len(), run.world.launcher_pods.len());
    assert_eq!(counts, (5, 1));
    let gate = &run.pod("mpi-example-launcher")["initContainers"];
    assert!(gate.to_string().contains("gate"), "{gate}");

    let mut run = scenario(queued());
    run.world.site.agent_image = None;
    run.reconcile();
    assert_eq!(run.status()["muster"]["reason"], "Invalid");
    let message = run.status()["muster"]["message"].to_string();
    assert!(message.contains("--agent-image"), "{message}");
    assert!(run.world.launcher_pods.is_empty());
}

#[test]
fn a_job_that_kueue_holds_says_so() {
    let mut run = scenario(queued());
    run.reconcile();
    for pod in &mut run.world.workers {
        pod.waiting = Some(Waiting {
            reason: "SchedulingGated".to_owned(),
            ..Waiting::default()
        });
    }
    run.at(1).reconcile();
    assert_eq!(run.status()["muster"]["reason"], "Queued");
}

/// A more important job takes the room: Kueue deletes the pods, and they fail as they end.
#[test]
fn pods_that_kueue_deletes_are_made_again() {
    let mut run = scenario(queued()).running();
    for pod in run
        .world
        .launcher_pods
        .iter_mut()
        .chain(&mut run.world.workers)
    {
        (pod.deleting, pod.phase) = (true, PodPhase::Failed);
    }
    run.at(9).reconcile();
    assert_eq!(run.world.launcher_pods.len(), 1, "its name is still taken");
    run.world.launcher_pods.clear();
    run.world.workers.clear();
    run.at(10).reconcile();
    let counts = (run.world.workers.len(), run.world.launcher_pods.len());
    assert_eq!(counts, (5, 1));
    assert_ne!(run.status()["phase"], "Failed");
}

/// It deletes them one after the other. A launcher that has lost a worker may fail before its turn comes, and
/// Kueue does not delete what is over.
#[test]
fn a_launcher_that_fails_while_kueue_takes_its_workers_starts_again() {
    let mut run = scenario(queued()).running();
    run.world.workers[3].deleting = true;
    run.launcher_is(PodPhase::Failed).at(9).reconcile();
    assert_eq!(run.world.launcher_pods.len(), 0);
    assert_eq!(run.status()["phase"], "Running");

    let mut run = scenario(queued()).running();
    run.launcher_is(PodPhase::Failed).at(9).reconcile();
    assert_eq!(run.status()["phase"], "Failed", "all workers are there");
}

#[test]
fn kueue_hears_once_that_no_pod_comes_any_more() {
    let told = |job: Value| {
        let mut run = scenario(job).running();
        run.launcher_is(PodPhase::Succeeded).at(9).reconcile();
        run.at(10);
        let plan = run.plan();
        let told = format!("{:?}", plan.steps).contains("retriable-in-group");
        run.reconcile();
        assert!(run.at(11).plan().steps.is_empty());
        told
    };
    assert!(told(queued()));
    assert!(!told(with(|_| ())));
}
