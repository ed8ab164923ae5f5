//! What looks like an end and proves none: programs that were stopped, Jobs that are gone, starts that are
//! long over, kubelets in trouble.

use planner::fixtures::{job, noon_and, world};
use planner::job::{CleanUp, Job, LauncherKind};
use planner::observed::{LauncherEnd, LauncherJob, Pod, PodPhase, Slot, Waiting};
use planner::{Observed, Phase, Verdict, WaitingOn, plan};

use super::{created_one, deeds};

fn launcher_job(world: &mut Observed) -> &mut LauncherJob {
    match &mut world.launcher {
        Slot::Ours(launcher) => launcher,
        Slot::Absent | Slot::Foreign => panic!("the launcher's Job exists"),
    }
}

fn outcome(world: &Observed) -> Option<Verdict> {
    plan(world).status.outcome.map(|outcome| outcome.verdict)
}

/// A job that runs, and is told to stop.
fn suspended(job: Job) -> Observed {
    let world = world(job).running();
    world.with(|world| world.job.lifecycle.suspended = true)
}

/// The launcher's pod was told to end and exited with 0.
fn yields(world: &mut Observed) {
    for pod in &mut world.launcher_pods {
        (pod.deleting, pod.stopped, pod.phase) = (true, true, PodPhase::Succeeded);
    }
}

fn ends() -> [LauncherEnd; 2] {
    let at = Some(noon_and(1));
    let (reason, message) = ("BackoffLimitExceeded".to_owned(), String::new());
    [
        LauncherEnd::Complete { at },
        LauncherEnd::Failed { reason, message },
    ]
}

#[test]
fn c15_a_program_that_was_stopped_has_not_succeeded() {
    let of_pods = job("demo").workers(2).of_pods();
    for job in [job("demo").workers(2), of_pods] {
        let stopped = suspended(job).with(yields);
        assert_eq!(outcome(&stopped), None);
        assert_eq!(plan(&stopped).status.phase, Phase::Suspended);
        let ended_before = stopped.with(|world| world.launcher_pods[0].stopped = false);
        assert_eq!(outcome(&ended_before), Some(Verdict::Succeeded));
    }
}

#[test]
fn c15_the_end_of_a_job_that_was_stopped_is_no_verdict() {
    for end in ends() {
        let mut world = suspended(job("demo").workers(2)).settled().with(|world| {
            world.launcher_pods.clear();
            launcher_job(world).held = true;
        });
        world = world.launcher_ended(end.clone()).recorded();
        let plan_now = plan(&world);
        assert_eq!(plan_now.status.outcome, None, "{end:?}");
        assert_eq!(deeds(&plan_now), ["delete Job demo-launcher"], "{end:?}");
        world.carry_out(&plan_now);
        let another = created_one(&plan(&world), planner::Kind::Job, "demo-launcher");
        assert_eq!(another["spec"]["suspend"], true);

        // The same before the user resumed it, and nobody saw it.
        let resumed = suspended(job("demo").workers(2))
            .settled()
            .with(|world| {
                world.launcher_pods.clear();
                (world.job.lifecycle.suspended, launcher_job(world).held) = (false, true);
            })
            .launcher_ended(end);
        assert_eq!(outcome(&resumed), None);
        let settled = resumed.settled();
        let launcher = settled.launcher.ours().expect("there is another");
        assert!(launcher.end.is_none() && !launcher.suspended);
    }
}

#[test]
fn c15_a_job_is_resumed_when_the_pods_that_it_stopped_have_ended() {
    let stopping = suspended(job("demo").workers(1)).settled().with(|world| {
        world.launcher_pods[0].deleting = true;
        world.job.lifecycle.suspended = false;
    });
    let waits = deeds(&plan(&stopping));
    assert_eq!(waits, ["create Pod demo-worker-0"]);
    let ended = stopping.with(|world| world.launcher_pods.clear());
    let starts = deeds(&plan(&ended));
    assert_eq!(
        starts,
        ["create Pod demo-worker-0", "patch Job demo-launcher"]
    );
}

#[test]
fn c15_success_counts_without_the_job_that_made_the_pod() {
    let gone = world(job("demo").workers(2)).running().with(|world| {
        world.launcher = Slot::Absent;
        world.launcher_pods[0].phase = PodPhase::Succeeded;
    });
    let plan = plan(&gone);
    assert_eq!(deeds(&plan), [""; 0], "no second launcher");
    let outcome = plan.status.outcome.expect("it is over");
    assert_eq!(outcome.verdict, Verdict::Succeeded);
}

#[test]
fn c15_a_launcher_that_outlives_its_job_is_stopped_with_the_mpi_job() {
    let orphan = world(job("demo").workers(1).clean(CleanUp::Running))
        .running()
        .with(|world| world.launcher = Slot::Absent);
    assert_eq!(deeds(&plan(&orphan)), [""; 0], "it goes on");
    assert_eq!(plan(&orphan).because, WaitingOn::Program);

    let held = orphan
        .clone()
        .with(|world| world.job.lifecycle.suspended = true);
    assert!(deeds(&plan(&held)).contains(&"delete Pod l-0".to_owned()));
    let rest = held.settled();
    assert!(rest.launcher_pods.is_empty() && rest.launcher.ours().is_some());

    let leaves = orphan.clone().with(|world| world.job.owner.deleting = true);
    assert!(deeds(&plan(&leaves)).contains(&"delete Pod l-0".to_owned()));

    let lost = Verdict::Failed {
        reason: "MPIJobEvicted".to_owned(),
        message: String::new(),
    };
    let over = orphan.over(lost);
    assert_eq!(deeds(&plan(&over)), ["delete Pod l-0"]);
}

#[test]
fn c15_a_stopped_launcher_goes_when_its_time_to_live_is_over() {
    let mut job = job("demo").workers(2);
    let LauncherKind::Job { ttl_secs, .. } = &mut job.launcher.kind else {
        panic!("the launcher is a Job");
    };
    *ttl_secs = Some(90);
    let evicted = world(job).running().with(|world| {
        let worker = &mut world.workers[0];
        worker.phase = PodPhase::Failed;
        "Evicted".clone_into(&mut worker.reason);
    });
    let stopped = evicted.recorded().settled().with(|world| {
        world.launcher_pods.clear();
        launcher_job(world).held = true;
    });
    let rest = stopped.settled();
    let launcher = rest.launcher.ours().expect("it stays for now");
    assert!(launcher.suspended && launcher.end.is_none());
    assert_eq!(plan(&rest).status.phase, Phase::Finished);
    assert_eq!(plan(&rest).wake, Some(noon_and(90)));
    let late = rest.with(|world| world.now = noon_and(90));
    assert_eq!(deeds(&plan(&late)), ["delete Job demo-launcher"]);
    let rest = late.settled();
    assert!(rest.launcher.is_absent());
    assert_eq!(plan(&rest).wake, None);
}

#[test]
fn the_law_keeps_a_launchers_job_that_is_evidence() {
    let stopped = suspended(job("demo").workers(1)).settled().with(|world| {
        world.launcher_pods.clear();
        launcher_job(world).held = true;
    });
    let [complete, _] = ends();
    let stopped = stopped.launcher_ended(complete);
    let deletion = plan(&stopped);
    assert_eq!(planner::check::violations(&stopped, &deletion), [""; 0]);
    let evidence = stopped.with(|world| launcher_job(world).held = false);
    let broken = planner::check::violations(&evidence, &deletion);
    let law = "the launcher's Job is deleted before the outcome is recorded";
    assert!(broken.contains(&law.to_owned()), "{broken:?}");
}

#[test]
fn c11_a_launcher_that_is_out_of_sight_is_not_lost() {
    let gone = world(job("demo").workers(2).provided())
        .with(|world| world.site.agent_image = Some("agent".to_owned()))
        .running()
        .with(|world| world.launcher_pods.clear());
    assert!(matches!(outcome(&gone), Some(Verdict::Failed { .. })));
    let hidden = gone.with(|world| {
        let name = world.job.names.launcher.clone();
        world.foreign_pods = vec![name];
    });
    assert_eq!(outcome(&hidden), None);
    assert_eq!(plan(&hidden).status.phase, Phase::Blocked);
}

#[test]
fn a_program_that_ran_did_start_in_time_although_its_pod_is_gone() {
    let limit = |job: Job| job.limited(|limits| limits.startup_secs = Some(60));
    for job in [
        limit(job("demo").workers(1)),
        limit(job("demo").workers(1).of_pods()),
    ] {
        let ran = world(job)
            .with(|world| world.site.agent_image = Some("agent".to_owned()))
            .running()
            .with(|world| {
                world.launcher_pods.clear();
                world.now = noon_and(60);
            });
        assert_eq!(outcome(&ran), None);
        let never = ran.with(|world| world.recorded.ran = false);
        assert!(outcome(&never).is_some());
        let again = never.with(|world| world.recorded.replacements.restarts = 1);
        assert_eq!(outcome(&again), None);
    }
}

#[test]
fn a_kubelet_that_cannot_make_a_container_now_ends_no_job() {
    let stuck = |reason: &str, message: &str, secs: i64| {
        let waiting = Waiting {
            reason: reason.to_owned(),
            message: message.to_owned(),
            since: noon_and(-secs),
            ..Waiting::default()
        };
        let world = world(job("demo").workers(1)).settled().with(|world| {
            let worker = &mut world.workers[0];
            *worker = Pod {
                waiting: Some(waiting),
                ..worker.clone()
            };
        });
        outcome(&world).is_some()
    };
    let missing = "configmap \"settings\" not found";
    for (reason, message) in [
        (
            "CreateContainerConfigError",
            "failed to sync secret cache: timed out waiting for the condition",
        ),
        ("CreateContainerError", "context deadline exceeded"),
        (
            "CreateContainerError",
            "the container name \"x\" is reserved for \"y\"",
        ),
        ("RunContainerError", "resource temporarily unavailable"),
    ] {
        assert!(stuck(reason, missing, 60), "{reason}");
        assert!(!stuck(reason, message, 1799), "{message}");
        assert!(stuck(reason, message, 1800), "{message}");
    }
}
