//! Deadlines before the launcher runs, and waking.

use planner::fixtures::{job, noon_and, world};
use planner::observed::Slot;
use planner::{Job, Observed, Reason, Verdict, plan};

fn bounded() -> Job {
    job("demo")
        .workers(2)
        .launcher_waits()
        .limited(|limits| limits.deadline_secs = Some(30))
}

fn at(observed: &Observed, secs: i64) -> planner::Plan {
    plan(&observed.clone().with(|world| world.now = noon_and(secs)))
}

#[test]
fn a_job_whose_workers_never_come_ends_at_its_deadline() {
    let waiting = world(bounded()).settled().recorded();
    assert_eq!(at(&waiting, 29).status.outcome, None);
    assert_eq!(at(&waiting, 29).wake, Some(noon_and(30)));
    let over = at(&waiting, 30);
    assert_eq!(over.status.reason, Some(Reason::DeadlineExceeded));
    let verdict = over.status.outcome.expect("it is over").verdict;
    assert!(matches!(verdict, Verdict::Failed { reason, .. } if reason == "DeadlineExceeded"));
}

#[test]
fn once_the_launcher_runs_its_job_watches_the_deadline() {
    let running = world(bounded()).running();
    assert_eq!(at(&running, 600).status.outcome, None);
    assert_eq!(at(&running, 600).wake, None);
}

#[test]
fn a_suspended_job_has_no_deadline_and_a_resumed_one_a_new_one() {
    let held = world(bounded().suspended()).settled().recorded();
    assert_eq!(at(&held, 600).status.outcome, None);
    let resumed = held.with(|world| world.job.lifecycle.suspended = false);
    assert_eq!(
        at(&resumed, 600).status.outcome,
        None,
        "its clock starts now"
    );
}

#[test]
fn a_launcher_held_back_after_a_resume_is_bound_too() {
    let resumed = world(bounded().suspended())
        .settled()
        .recorded()
        .with(|world| world.job.lifecycle.suspended = false)
        .settled()
        .recorded();
    let Slot::Ours(launcher) = &resumed.launcher else {
        panic!("it exists")
    };
    assert!(launcher.suspended);
    assert!(at(&resumed, 31).status.outcome.is_some());
}

#[test]
fn an_absurd_deadline_never_comes() {
    let endless = world(bounded().limited(|limits| limits.deadline_secs = Some(u64::MAX)));
    assert_eq!(at(&endless.settled().recorded(), 600).wake, None);
}
