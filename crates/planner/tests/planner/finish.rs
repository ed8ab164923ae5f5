//! Verdicts, and what is said of them.

use planner::fixtures::{job, noon, noon_and, world};
use planner::job::CleanUp;
use planner::observed::{Exit, LauncherEnd, PodPhase, Slot};
use planner::{Count, Observed, Outcome, Phase, Reason, Verdict, WaitingOn, plan};

use super::deeds;

fn complete(secs: i64) -> LauncherEnd {
    LauncherEnd::Complete {
        at: Some(noon_and(secs)),
    }
}

fn failed(reason: &str, message: &str) -> LauncherEnd {
    LauncherEnd::Failed {
        reason: reason.to_owned(),
        message: message.to_owned(),
    }
}

fn verdict(observed: &Observed) -> Verdict {
    plan(observed)
        .status
        .outcome
        .expect("there is an outcome")
        .verdict
}

fn failure(observed: &Observed) -> (String, String) {
    match verdict(observed) {
        Verdict::Failed { reason, message } => (reason, message),
        Verdict::Succeeded => panic!("it succeeded"),
    }
}

#[test]
fn a_job_that_is_first_seen_after_its_end_did_not_start_after_it() {
    let mut done = world(job("demo")).running().launcher_ended(complete(-20));
    done.recorded.started_at = None;
    assert_eq!(plan(&done).status.started_at, Some(noon_and(-20)));
}

#[test]
fn a_complete_launcher_job_is_success_at_its_own_time() {
    let done = world(job("demo").workers(64))
        .running()
        .launcher_ended(complete(30));
    let plan = plan(&done);
    let outcome = Outcome {
        verdict: Verdict::Succeeded,
        at: noon_and(30),
    };
    assert_eq!(plan.status.outcome, Some(outcome));
    assert_eq!(
        plan.status.launcher,
        Some(Count {
            succeeded: 1,
            ..Count::default()
        })
    );
    assert_eq!(
        plan.status.workers,
        Count::default(),
        "whatever their pods say"
    );
    assert!(!plan.status.running);
    assert_eq!(plan.status.phase, Phase::Finishing);
    assert!(
        plan.steps.is_empty(),
        "nothing is removed before the outcome is recorded"
    );
    assert_eq!(plan.because, WaitingOn::Record);
}

#[test]
fn a_launcher_pod_that_succeeded_is_success_before_its_job_says_so() {
    let done = world(job("demo").workers(1)).running().with(|world| {
        world.launcher_pods[0].phase = PodPhase::Succeeded;
        world.launcher_pods[0].finished_at = Some(noon_and(7));
    });
    let outcome = plan(&done).status.outcome.expect("there is an outcome");
    assert_eq!(
        outcome,
        Outcome {
            verdict: Verdict::Succeeded,
            at: noon_and(7)
        }
    );
}

#[test]
fn a_launcher_pod_still_running_in_a_stale_view_does_not_undo_success() {
    let done = world(job("demo").workers(1))
        .running()
        .launcher_ended(complete(5));
    assert_eq!(done.launcher_pods[0].phase, PodPhase::Running);
    assert_eq!(verdict(&done), Verdict::Succeeded);
    assert_eq!(plan(&done).status.launcher.expect("it exists").active, 0);
}

fn two_failures() -> Observed {
    world(job("demo").workers(1))
        .settled()
        .launcher_pod("l-0", PodPhase::Failed)
        .launcher_pod("l-1", PodPhase::Failed)
        .with(|world| {
            world.launcher_pods[0].message = "first message".to_owned();
            world.launcher_pods[0].reason = "FailedReason1".to_owned();
            world.launcher_pods[1].message = "second message".to_owned();
            world.launcher_pods[1].reason = "FailedReason2".to_owned();
            world.launcher_pods[1].created_at = noon_and(1);
            let Slot::Ours(launcher) = &mut world.launcher else {
                panic!("it exists")
            };
            launcher.failed_pods = 2;
        })
}

#[test]
fn a_failure_after_retries_tells_of_the_last_pod() {
    let message = "Job has reached the specified backoff limit";
    let done = two_failures().launcher_ended(failed("BackoffLimitExceeded", message));
    let (reason, said) = failure(&done);
    assert_eq!(reason, "BackoffLimitExceeded/FailedReason2");
    assert_eq!(
        said,
        "Job has reached the specified backoff limit: second message"
    );
    assert_eq!(plan(&done).status.launcher.expect("it exists").failed, 2);
    assert_eq!(plan(&done).status.outcome.expect("it failed").at, noon());
}

#[test]
fn a_failure_without_words_gets_ours() {
    let (reason, message) = failure(&two_failures().launcher_ended(failed("", "")));
    assert_eq!(reason, "MPIJobFailed");
    assert_eq!(message, "MPIJob team-a/demo has failed");
}

#[test]
fn other_reasons_stay_as_kubernetes_gives_them() {
    let done = two_failures().launcher_ended(failed("DeadlineExceeded", "too long"));
    assert_eq!(
        failure(&done),
        ("DeadlineExceeded".to_owned(), "too long".to_owned())
    );
    assert_eq!(plan(&done).status.reason, Some(Reason::DeadlineExceeded));
}

#[test]
fn long_messages_are_cut_at_a_character() {
    let long = two_failures()
        .with(|world| world.launcher_pods[1].message = "ü".repeat(2000))
        .launcher_ended(failed("BackoffLimitExceeded", "m"));
    let (_, message) = failure(&long);
    assert!(
        message.len() <= 1024 && message.len() > 1000,
        "{}",
        message.len()
    );
    assert!(message.ends_with("..."));
}

#[test]
fn the_reason_says_what_became_of_the_container() {
    for (code, word, reason) in [
        (137, "OOMKilled", Reason::OutOfMemory),
        (127, "Error", Reason::CommandNotFound),
        (3, "Error", Reason::CommandFailed),
    ] {
        let done = two_failures()
            .with(|world| {
                let (container, reason) = ("main".to_owned(), word.to_owned());
                world.launcher_pods[1].exit = Some(Exit {
                    container,
                    code,
                    reason,
                    message: String::new(),
                });
            })
            .launcher_ended(failed("BackoffLimitExceeded", "m"));
        assert_eq!(plan(&done).status.reason, Some(reason));
    }
}

fn evicted() -> Observed {
    world(job("demo").workers(4).clean(CleanUp::Running))
        .running()
        .with(|world| {
            for pod in &mut world.workers[..2] {
                (pod.phase, pod.reason) = (PodPhase::Failed, "Evicted".to_owned());
            }
        })
}

#[test]
fn an_evicted_worker_ends_the_job_for_good() {
    let (reason, message) = failure(&evicted());
    assert_eq!(reason, "MPIJobEvicted");
    assert_eq!(message, "2/4 workers are evicted");
    let recorded = evicted().recorded();
    assert_eq!(plan(&recorded).status.phase, Phase::Finishing);
    let late_success = recorded.launcher_ended(complete(9));
    assert_eq!(
        failure(&late_success).0,
        "MPIJobEvicted",
        "terminal is terminal"
    );
}

#[test]
fn a_job_that_lost_a_worker_stops_its_launcher_and_cleans_up() {
    let mut world = evicted().recorded();
    let stop = plan(&world);
    assert_eq!(deeds(&stop), ["patch Job demo-launcher"]);
    world.carry_out(&stop);
    world.launcher_pods.clear();
    let rest = ["delete workers demo-worker-2 demo-worker-3"];
    assert_eq!(deeds(&plan(&world)), rest);
}

#[test]
fn success_seen_first_is_not_undone_by_an_eviction() {
    assert_eq!(
        verdict(&evicted().launcher_ended(complete(1))),
        Verdict::Succeeded
    );
}

#[test]
fn a_worker_that_failed_by_itself_does_not_end_the_job() {
    let failed = evicted().with(|world| {
        world.workers.iter_mut().for_each(|pod| pod.reason.clear());
    });
    assert_eq!(plan(&failed).status.outcome, None);
    assert_eq!(plan(&failed).status.workers.failed, 2);
}

#[test]
fn a_recorded_outcome_outlives_everything_it_was_read_from() {
    let gone = world(job("demo").workers(2)).over(Verdict::Succeeded);
    let plan = plan(&gone);
    assert!(
        plan.steps.is_empty(),
        "nothing is recreated: {:?}",
        deeds(&plan)
    );
    assert_eq!(plan.status.phase, Phase::Finished);
    assert_eq!(plan.because, WaitingOn::Nothing);
}

#[test]
fn a_program_that_succeeded_is_not_undone_by_its_jobs_deadline() {
    let late = world(job("demo").workers(1))
        .running()
        .with(|world| {
            world.launcher_pods[0].phase = PodPhase::Succeeded;
            world.launcher_pods[0].finished_at = Some(noon_and(7));
        })
        .launcher_ended(failed("DeadlineExceeded", "too long"));
    assert_eq!(verdict(&late), Verdict::Succeeded);
}
