//! What remains once the outcome is recorded.

use planner::fixtures::{job, noon_and, world};
use planner::job::{CleanUp, JobRestart, LauncherKind};
use planner::observed::{LauncherEnd, PodPhase, Slot};
use planner::{Action, Kind, Observed, Phase, Verdict, WaitingOn, plan};
use serde_json::json;

use super::{deeds, patch};

fn over(clean: CleanUp) -> Observed {
    world(job("demo").workers(8).clean(clean))
        .running()
        .launcher_ended(LauncherEnd::Complete { at: None })
        .recorded()
}

#[test]
fn nothing_means_nothing() {
    let plan = plan(&over(CleanUp::Nothing));
    assert!(plan.steps.is_empty());
    assert_eq!(plan.status.phase, Phase::Finished);
}

#[test]
fn all_takes_every_worker_in_one_request() {
    let plan = plan(&over(CleanUp::All));
    assert_eq!(plan.steps.concat().len(), 1);
    let Action::DeleteWorkers { selection, names } = &plan.steps[0][0] else {
        panic!("not a collection: {:?}", deeds(&plan))
    };
    assert_eq!(
        selection.labels(),
        "training.kubeflow.org/operator-name=mpi-operator,muster.dev/job-uid=uid-demo,\
         training.kubeflow.org/job-role=worker"
    );
    assert_eq!(selection.fields(), "");
    assert_eq!(names.len(), 8);
}

#[test]
fn running_leaves_workers_that_ended() {
    let mixed = over(CleanUp::Running).with(|world| {
        world.workers[0].phase = PodPhase::Failed;
        world.workers[1].phase = PodPhase::Succeeded;
        world.workers[2].phase = PodPhase::Pending;
    });
    let plan = plan(&mixed);
    let Action::DeleteWorkers { selection, names } = &plan.steps[0][0] else {
        panic!("not a collection: {:?}", deeds(&plan))
    };
    let fields = selection.fields();
    assert_eq!(fields, "status.phase!=Succeeded,status.phase!=Failed");
    assert_eq!(names.len(), 6);
    assert!(!names.contains(&"demo-worker-0".to_owned()));
}

#[test]
fn pods_on_their_way_out_are_not_deleted_again() {
    let leaving = over(CleanUp::All)
        .with(|world| world.workers.iter_mut().for_each(|pod| pod.deleting = true));
    let plan = plan(&leaving);
    assert!(plan.steps.is_empty());
    assert_eq!(plan.because, WaitingOn::Nothing);
}

#[test]
fn workers_above_the_current_count_go_too() {
    let scaled = over(CleanUp::All).with(|world| world.job.worker_pods().count = 1);
    let Action::DeleteWorkers { names, .. } = &plan(&scaled).steps[0][0] else {
        panic!("one")
    };
    assert_eq!(names.len(), 8);
}

#[test]
fn where_a_selection_would_reach_others_each_worker_is_named() {
    let crowded = over(CleanUp::All).with(|world| world.foreign_in_selection = true);
    assert_eq!(deeds(&plan(&crowded)).len(), 8);
    let unlabelled = over(CleanUp::All).with(|world| world.workers[3].labelled = false);
    let plan = plan(&unlabelled);
    assert!(
        plan.steps[0]
            .iter()
            .all(|action| matches!(action, Action::Delete { .. }))
    );
}

#[test]
fn the_time_to_live_is_handed_to_the_job_once_the_outcome_is_recorded() {
    let done = over(CleanUp::Nothing).with(|world| {
        let restart = JobRestart::OnFailure;
        let ttl_secs = Some(0);
        world.job.launcher.kind = LauncherKind::Job { restart, ttl_secs };
    });
    assert_eq!(
        patch(&plan(&done)),
        json!({"spec": {"ttlSecondsAfterFinished": 0}})
    );
    let before = done.clone().with(|world| world.recorded.outcome = None);
    assert!(plan(&before).steps.is_empty(), "not before");
    let after = done.settled();
    assert_eq!(plan(&after).status.phase, Phase::Finished);
    let collected = after.with(|world| world.launcher = Slot::Absent);
    assert!(
        plan(&collected).steps.is_empty(),
        "a collected Job is not recreated"
    );
}

#[test]
fn a_finished_job_ignores_suspension_and_scaling() {
    let changed = world(job("demo").workers(1))
        .over(Verdict::Succeeded)
        .with(|world| {
            world.job.lifecycle.suspended = true;
            world.job.worker_pods().count = 5;
        });
    assert!(plan(&changed).steps.is_empty());
}

#[test]
fn a_refused_clean_up_is_not_repeated_before_its_time() {
    let dirty = over(CleanUp::All);
    let Action::DeleteWorkers { selection, .. } = &plan(&dirty).steps[0][0] else {
        panic!("one")
    };
    let refused = dirty
        .clone()
        .refusing(Kind::Pod, &selection.labels(), 403, "no deletes here");
    let early = plan(&refused);
    assert!(early.steps.is_empty(), "{:?}", deeds(&early));
    assert_eq!(early.wake, Some(noon_and(60)));
    assert!(matches!(early.because, WaitingOn::Acceptance { .. }));
    let later = refused.with(|world| world.now = noon_and(60));
    assert_eq!(deeds(&plan(&later)).len(), 1);
}

#[test]
fn a_refused_suspension_is_not_repeated_before_its_time() {
    let held = world(job("demo").workers(1))
        .running()
        .with(|world| world.job.lifecycle.suspended = true)
        .refusing(Kind::Job, "demo-launcher", 403, "no");
    let plan = plan(&held);
    assert_eq!(deeds(&plan), ["delete workers demo-worker-0"]);
    assert_eq!(plan.wake, Some(noon_and(60)));
}
