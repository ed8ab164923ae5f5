//! The launcher: its gate, and never two of them.

use planner::fixtures::{job, world};
use planner::observed::{PodPhase, Slot};
use planner::{Phase, Reason, plan};

use super::deeds;

#[test]
fn a_waiting_launcher_comes_only_when_all_workers_are_ready() {
    let running = world(job("demo").workers(2).launcher_waits())
        .settled()
        .workers_are(PodPhase::Running);
    let waiting = plan(&running);
    assert!(waiting.steps.is_empty(), "running is not ready");
    assert_eq!(
        waiting.status.launcher, None,
        "there is no launcher to count"
    );
    assert_eq!(waiting.status.workers.active, 2);
    assert_eq!(waiting.status.reason, Some(Reason::WaitingForWorkers));

    let half = running.clone().with(|world| world.workers[0].ready = true);
    assert!(plan(&half).steps.is_empty());

    assert_eq!(
        deeds(&plan(&running.workers_ready())),
        ["create Job demo-launcher"]
    );
}

#[test]
fn a_ready_worker_that_is_leaving_does_not_open_the_gate() {
    let leaving = world(job("demo").workers(2).launcher_waits())
        .settled()
        .workers_ready()
        .with(|world| world.workers[0].deleting = true);
    assert!(plan(&leaving).steps.is_empty());
}

#[test]
fn a_launcher_that_waits_for_all_workers_does_not_wait_for_one_that_ended() {
    for phase in [PodPhase::Failed, PodPhase::Succeeded] {
        let ended = world(job("demo").workers(2).launcher_waits())
            .settled()
            .workers_ready()
            .with(|world| world.workers[1].phase = phase);
        // The node is gone, and a deletion follows at once.
        let orphaned = phase == PodPhase::Failed;
        let status = plan(&ended).status;
        assert_eq!(status.outcome.is_none(), orphaned, "{phase:?}");
        let ended = ended.with(|world| world.workers[1].reason = "OutOfcpu".to_owned());
        let status = plan(&ended).status;
        assert_eq!(status.reason, Some(Reason::WorkerLost), "{phase:?}");
        let message = &status.message;
        assert!(
            message.contains("worker demo-worker-1 ended before"),
            "{message}"
        );

        let leaving = ended.clone().with(|world| world.workers[1].deleting = true);
        assert_eq!(plan(&leaving).status.outcome, None, "another one comes");
        let suspended = ended
            .clone()
            .with(|world| world.job.lifecycle.suspended = true);
        assert_eq!(plan(&suspended).status.outcome, None, "all of them go");
        let taken = ended.clone().with(|world| world.launcher = Slot::Foreign);
        assert_eq!(
            plan(&taken).status.outcome,
            None,
            "the name may be free soon"
        );
        let begun = ended.launcher_pod("l-0", PodPhase::Running);
        assert_eq!(plan(&begun).status.outcome, None, "its program decides");
    }
}

#[test]
fn a_launcher_that_stands_still_does_not_wait_for_a_worker_that_ended() {
    let resumed = world(job("demo").workers(2).launcher_waits())
        .running()
        .with(|world| {
            world.launcher_pods.clear();
            let Slot::Ours(launcher) = &mut world.launcher else {
                unreachable!("it is running");
            };
            launcher.suspended = true;
            world.workers[0].phase = PodPhase::Failed;
            world.workers[0].reason = "OutOfcpu".to_owned();
        });
    assert_eq!(plan(&resumed).status.reason, Some(Reason::WorkerLost));
    let begun = resumed.with(|world| {
        let Slot::Ours(launcher) = &mut world.launcher else {
            unreachable!("it is running");
        };
        launcher.suspended = false;
    });
    assert_eq!(plan(&begun).status.outcome, None, "its Job makes a pod");
}

#[test]
fn a_pod_without_a_worker_name_does_not_open_the_gate() {
    let odd = world(job("demo").workers(1).launcher_waits())
        .settled()
        .with(|world| {
            let stray = planner::fixtures::pod("demo-stray");
            world.workers.push(planner::observed::Pod {
                ready: true,
                ..stray
            });
        });
    assert!(plan(&odd).steps.is_empty());
}

#[test]
fn workers_that_run_before_there_is_a_launcher_get_one() {
    let headless = world(job("demo").workers(16))
        .settled()
        .workers_ready()
        .with(|world| world.launcher = Slot::Absent);
    let plan = plan(&headless);
    assert_eq!(deeds(&plan), ["create Job demo-launcher"]);
    assert_eq!(plan.status.workers.active, 16);
}

#[test]
fn a_job_without_workers_has_no_gate() {
    let alone = plan(&world(job("demo").launcher_waits()));
    assert!(deeds(&alone).contains(&"create Job demo-launcher".to_owned()));
}

#[test]
fn a_deleted_launcher_is_made_again_but_never_beside_a_live_one() {
    let gone = world(job("demo").workers(1))
        .running()
        .with(|world| world.launcher = Slot::Absent);
    assert!(plan(&gone).steps.is_empty(), "its pod still runs");
    let dead = gone.with(|world| world.launcher_pods.clear());
    assert_eq!(deeds(&plan(&dead)), ["create Job demo-launcher"]);
}

#[test]
fn a_launcher_that_somebody_suspended_is_resumed() {
    let held = world(job("demo").workers(1)).running().with(|world| {
        let Slot::Ours(launcher) = &mut world.launcher else {
            panic!("it runs")
        };
        launcher.suspended = true;
    });
    assert_eq!(deeds(&plan(&held)), ["patch Job demo-launcher"]);
}

#[test]
fn a_failed_try_is_counted_and_left_to_the_job_controller() {
    let retried = world(job("demo").workers(2)).running().with(|world| {
        let Slot::Ours(launcher) = &mut world.launcher else {
            panic!("it runs")
        };
        launcher.failed_pods = 1;
        world.launcher_pods[0].phase = PodPhase::Failed;
    });
    let plan = plan(&retried);
    assert!(plan.steps.is_empty());
    assert_eq!(plan.status.outcome, None);
    assert_eq!(plan.status.launcher.expect("there is a launcher").failed, 1);
    assert_eq!(plan.status.workers.active, 2);
    assert_eq!(plan.status.phase, Phase::Launching);
}
