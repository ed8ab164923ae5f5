//! From nothing to running.

use planner::fixtures::{job, noon, pod, world};
use planner::job::{LauncherHost, Mpi};
use planner::observed::{PodPhase, Slot, Waiting};
use planner::{Action, Count, Observed, Phase, Reason, WaitingOn, check, plan};

use super::deeds;

#[test]
fn everything_is_created_keys_before_pods_and_workers_before_the_launcher() {
    for mpi in Mpi::ALL {
        let world = world(job("demo").workers(2).with(|job| job.mpi = mpi));
        let plan = plan(&world).spelled_out();
        let expected = [
            "create Service demo",
            "create ConfigMap demo-config",
            "create Secret demo-ssh",
            "create Pod demo-worker-0",
            "create Pod demo-worker-1",
            "create Job demo-launcher",
        ];
        assert_eq!(deeds(&plan), expected);
        assert_eq!(
            plan.steps.iter().map(Vec::len).collect::<Vec<_>>(),
            [3, 2, 1]
        );
        assert!(!plan.steps.is_empty());
    }
}

#[test]
fn a_settled_start_waits_for_its_workers_and_says_so() {
    let plan = plan(&world(job("demo").workers(2)).settled());
    assert_eq!(
        plan.because,
        WaitingOn::Workers {
            running: 0,
            wanted: 2
        }
    );
    assert_eq!(plan.status.phase, Phase::Gathering);
    assert_eq!(plan.status.reason, Some(Reason::WaitingForWorkers));
    assert_eq!(plan.status.message, "0 of 2 workers run");
    assert_eq!(plan.status.launcher, Some(Count::default()));
    assert_eq!(plan.status.workers, Count::default());
    assert_eq!(plan.status.started_at, Some(noon()));
    assert!(!plan.status.running);
}

#[test]
fn a_launcher_beside_pending_workers_is_counted_but_does_not_make_the_job_run() {
    let early = world(job("demo").workers(8))
        .settled()
        .launcher_pod("l-0", PodPhase::Running);
    let status = plan(&early).status;
    assert_eq!(
        status.launcher,
        Some(Count {
            active: 1,
            ..Count::default()
        })
    );
    assert_eq!(status.workers, Count::default());
    assert!(!status.running);
}

#[test]
fn launcher_and_all_workers_running_make_the_job_run() {
    let plan = plan(&world(job("demo").workers(8)).running());
    assert!(plan.status.running);
    assert_eq!(plan.status.phase, Phase::Running);
    assert_eq!(
        plan.status.launcher,
        Some(Count {
            active: 1,
            ..Count::default()
        })
    );
    assert_eq!(
        plan.status.workers,
        Count {
            active: 8,
            ..Count::default()
        }
    );
    assert_eq!(plan.status.ready, 8);
    assert_eq!(plan.because, WaitingOn::Program);
}

#[test]
fn a_job_without_workers_runs_with_its_launcher() {
    let plan = plan(&world(job("demo")).running());
    assert!(plan.status.running);
    assert_eq!(plan.status.workers, Count::default());
}

#[test]
fn a_worker_whose_pod_is_gone_is_made_again_under_its_name() {
    let lost = world(job("demo").workers(3)).running().with(|world| {
        world.workers.remove(1);
    });
    assert_eq!(deeds(&plan(&lost)), ["create Pod demo-worker-1"]);
}

#[test]
fn a_worker_that_is_being_deleted_is_waited_for() {
    let leaving = world(job("demo").workers(1))
        .settled()
        .with(|world| world.workers[0].deleting = true);
    assert!(plan(&leaving).steps.is_empty());
}

#[test]
fn a_worker_that_failed_or_ended_is_kept_as_evidence() {
    for phase in [PodPhase::Failed, PodPhase::Succeeded] {
        let ended = world(job("demo").workers(2)).running().workers_are(phase);
        let plan = plan(&ended);
        assert!(plan.steps.is_empty());
        assert_eq!(
            plan.status.workers.failed + plan.status.workers.succeeded,
            2
        );
        assert!(
            plan.status.message.contains("demo-worker-0 ended early"),
            "{}",
            plan.status.message
        );
    }
}

#[test]
fn scaling_up_adds_workers_and_hosts() {
    let more = world(job("demo").workers(1)).running().with(|world| {
        world.job.worker_pods().count = 3;
    });
    let expected = [
        "patch ConfigMap demo-config",
        "create Pod demo-worker-1",
        "create Pod demo-worker-2",
    ];
    assert_eq!(deeds(&plan(&more)), expected);
}

#[test]
fn scaling_down_takes_the_highest_workers_only() {
    for host in [None, Some(LauncherHost::Indexed)] {
        let fewer = world(job("demo").workers(3).with(|job| job.launcher.host = host))
            .running()
            .with(|world| world.job.worker_pods().count = 1);
        let expected = [
            "patch ConfigMap demo-config",
            "delete workers demo-worker-1 demo-worker-2",
        ];
        assert_eq!(deeds(&plan(&fewer)), expected);
    }
}

/// Eight workers, of which five shall go.
fn fewer() -> Observed {
    world(job("demo").workers(8))
        .running()
        .with(|world| world.job.worker_pods().count = 3)
}

#[test]
fn c03_scaling_down_takes_one_request() {
    let plan = plan(&fewer());
    let Some(Action::DeleteWorkers { selection, names }) = plan.steps[1].first() else {
        panic!("not a collection: {:?}", deeds(&plan))
    };
    assert_eq!(
        selection.labels(),
        "training.kubeflow.org/operator-name=mpi-operator,muster.dev/job-uid=uid-demo,\
         training.kubeflow.org/job-role=worker,training.kubeflow.org/replica-index>2"
    );
    assert_eq!((selection.fields(), names.len()), ("", 5));
}

#[test]
fn a_collection_that_reaches_a_worker_that_stays_breaks_a_law() {
    let collection = plan(&fewer());
    assert_eq!(check::violations(&fewer(), &collection), [""; 0]);
    let relabelled = fewer().with(|world| world.workers[0].replica_index = Some(7));
    let broken = check::violations(&relabelled, &collection);
    let law = "pod demo-worker-0 is in a collection that does not mean it";
    assert_eq!(broken, [law]);
}

#[test]
fn scaling_down_names_each_worker_where_a_selection_would_reach_others() {
    let indices = |indices: &[(usize, Option<i64>)]| {
        let mut world = fewer();
        for (at, index) in indices {
            world.workers[*at].replica_index = *index;
        }
        world
    };
    for (what, odd) in [
        (
            "a worker that stays has the index of another",
            indices(&[(0, Some(7))]),
        ),
        (
            "one that goes has the index of one that stays",
            indices(&[(7, Some(0))]),
        ),
        ("one that goes has none", indices(&[(5, None)])),
        (
            "a stranger has the labels",
            fewer().with(|world| world.foreign_in_selection = true),
        ),
    ] {
        let plan = plan(&odd);
        let named = plan.steps[1]
            .iter()
            .filter(|action| matches!(action, Action::Delete { .. }));
        assert_eq!(named.count(), 5, "{what}: {:?}", deeds(&plan));
    }
    let leaving = indices(&[(0, Some(7))]).with(|world| world.workers[0].deleting = true);
    let plan = plan(&leaving);
    assert!(
        matches!(plan.steps[1][..], [Action::DeleteWorkers { .. }]),
        "one that goes anyhow may be reached: {:?}",
        deeds(&plan)
    );
}

#[test]
fn removing_the_worker_entry_removes_the_workers() {
    let none = world(job("demo").workers(2))
        .running()
        .with(|world| world.job.worker_pods().count = 0);
    let deeds = deeds(&plan(&none));
    assert_eq!(deeds[1..], ["delete workers demo-worker-0 demo-worker-1"]);
}

#[test]
fn a_drifted_service_or_host_list_is_put_right() {
    let drifted = world(job("demo").workers(1)).running().with(|world| {
        if let Slot::Ours(service) = &mut world.service {
            service.selector.insert("stray".to_owned(), "x".to_owned());
        }
        if let Slot::Ours(config) = &mut world.config {
            config.add("stray", "nonsense");
        }
    });
    let plan = plan(&drifted);
    assert_eq!(
        deeds(&plan),
        ["patch Service demo", "patch ConfigMap demo-config"]
    );
    let planner::Action::Patch { merge, .. } = &plan.steps[0][0] else {
        panic!("a patch")
    };
    assert_eq!(merge["spec"]["selector"]["stray"], serde_json::Value::Null);
    let planner::Action::Patch { merge, .. } = &plan.steps[0][1] else {
        panic!("a patch")
    };
    let files = merge["data"].as_object().expect("files");
    assert_eq!(files.get("stray"), Some(&serde_json::Value::Null));
    assert!(files["hostfile"].is_string(), "{files:?}");
}

#[test]
fn waiting_names_the_pod_that_holds_things_up() {
    let held = |reason: &str, message: &str| {
        world(job("demo").workers(2)).settled().with(|world| {
            let (reason, message) = (reason.to_owned(), message.to_owned());
            let since = world.now;
            world.workers[1].waiting = Some(Waiting {
                reason,
                message,
                since,
                ..Waiting::default()
            });
        })
    };
    let status = plan(&held("ImagePullBackOff", "no such image")).status;
    assert_eq!(status.reason, Some(Reason::PullingImage));
    let expected = "0 of 2 workers run; demo-worker-1: ImagePullBackOff no such image";
    assert_eq!(status.message, expected);
    let status = plan(&held("Unschedulable", "0/3 nodes are available")).status;
    assert_eq!(status.reason, Some(Reason::Unschedulable));
    let status = plan(&held("CreateContainerConfigError", "")).status;
    assert_eq!(status.reason, Some(Reason::WaitingForWorkers));
}

#[test]
fn names_that_only_look_like_workers_are_not() {
    let job = job("demo");
    for name in [
        "demo-worker-",
        "demo-worker-01",
        "demo-worker--1",
        "demo-worker-+1",
        "other-worker-1",
    ] {
        assert_eq!(job.worker_index(name), None, "{name}");
    }
    assert_eq!(job.worker_index("demo-worker-10"), Some(10));
    let odd = world(job.workers(1))
        .settled()
        .with(|world| world.workers.push(pod("demo-worker-x")));
    assert!(
        plan(&odd).steps.is_empty(),
        "a pod of ours with an odd name is left alone"
    );
}
