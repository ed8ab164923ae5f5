//! When a PodGroup comes and goes, and what holds it up.

use contract::Reason;
use planner::fixtures::{job, world};
use planner::job::CleanUp;
use planner::observed::{PodPhase, Slot};
use planner::site::{GangApi, GangScheduler};
use planner::{Action, Kind, Verdict, WaitingOn, plan};
use serde_json::json;

use super::{group_actions, holding, plugins, volcano, wishful, world_with};

#[test]
fn a_group_on_its_way_out_is_left_alone() {
    let world = world_with(volcano(), wishful());
    let world = holding(world, json!({})).with(|world| {
        if let Slot::Ours(group) = &mut world.pod_group {
            group.deleting = true;
        }
    });
    assert!(group_actions(&plan(&world)).is_empty());
    let suspended = world.with(|world| world.job.lifecycle.suspended = true);
    assert!(group_actions(&plan(&suspended)).is_empty());
}

#[test]
fn somebody_elses_group_blocks_the_job() {
    let world = world_with(plugins(), wishful()).with(|world| world.pod_group = Slot::Foreign);
    let plan = plan(&world);
    assert!(plan.steps.is_empty());
    let name = WaitingOn::Name {
        kind: Kind::PodGroup(GangApi::SchedulerPlugins),
        name: "demo".to_owned(),
    };
    assert_eq!(plan.because, name);
}

#[test]
fn a_refused_group_is_not_tried_again_at_once() {
    let world = world_with(volcano(), wishful());
    let refused = world.refusing(
        Kind::PodGroup(GangApi::Volcano),
        "demo",
        422,
        "no such queue",
    );
    assert!(group_actions(&plan(&refused)).is_empty());
    let later = refused.with(|world| world.now += jiff::SignedDuration::from_mins(2));
    assert_eq!(group_actions(&plan(&later)).len(), 1);
}

#[test]
fn a_job_whose_gang_api_is_missing_waits_for_it() {
    let kind = Kind::PodGroup(GangApi::Volcano);
    let said = "the cluster does not serve podgroups.scheduling.volcano.sh v1beta1";
    let refused = world_with(volcano(), wishful()).refusing(kind, "demo", 404, said);
    let plan = plan(&refused);
    assert_eq!(plan.status.reason, Some(Reason::WaitingForGang));
    assert_eq!(plan.status.message, said);
    let objects = plan.steps.iter().flatten().flat_map(Action::objects);
    assert!(objects.into_iter().all(|object| object.kind != Kind::Pod));
}

#[test]
fn the_group_comes_before_any_pod() {
    let plan = plan(&world_with(volcano(), wishful()));
    let step = |kind: Kind| {
        plan.steps.iter().position(|step| {
            let mut objects = step.iter().flat_map(Action::objects);
            objects.any(|object| object.kind == kind)
        })
    };
    assert_eq!(step(Kind::PodGroup(GangApi::Volcano)), Some(0));
    assert!(step(Kind::Pod) > Some(0));
    assert!(step(Kind::Job) > Some(0));
}

#[test]
fn a_suspended_or_cleaned_job_loses_its_group() {
    let delete = |kind: Kind| Action::Delete {
        kind,
        name: "demo".to_owned(),
        uid: "uid-demo".to_owned(),
    };
    let running = |clean: CleanUp, scheduler: GangScheduler| {
        world_with(scheduler, job("demo").workers(1).clean(clean)).running()
    };
    let suspended =
        running(CleanUp::Nothing, volcano()).with(|world| world.job.lifecycle.suspended = true);
    assert_eq!(
        group_actions(&plan(&suspended)),
        [&delete(Kind::PodGroup(GangApi::Volcano))]
    );
    assert!(suspended.settled().pod_group.is_absent());

    for (clean, goes) in [
        (CleanUp::Nothing, false),
        (CleanUp::Running, true),
        (CleanUp::All, true),
    ] {
        let over = running(clean, plugins()).over(Verdict::Succeeded);
        let plan = plan(&over);
        let actions = group_actions(&plan);
        let wanted = delete(Kind::PodGroup(GangApi::SchedulerPlugins));
        assert_eq!(
            actions,
            if goes { vec![&wanted] } else { Vec::new() },
            "{clean:?}"
        );
    }
}

#[test]
fn a_running_group_stays_as_it_is() {
    let world = world_with(volcano(), wishful()).running();
    assert!(
        world
            .workers
            .iter()
            .all(|pod| pod.phase == PodPhase::Running)
    );
    assert!(group_actions(&plan(&world)).is_empty());
}

#[test]
fn without_a_gang_scheduler_there_is_no_group() {
    let world = world(wishful());
    assert!(group_actions(&plan(&world)).is_empty());
    let left_over = holding(world, json!({}));
    assert!(group_actions(&plan(&left_over)).is_empty());
    let suspended = left_over.with(|world| world.job.lifecycle.suspended = true);
    assert!(group_actions(&plan(&suspended)).is_empty());
}

#[test]
fn a_launcher_that_waits_for_its_workers_is_not_in_their_gang() {
    for (waits, members) in [(false, 4), (true, 3)] {
        let job = job("demo").workers(3);
        let job = if waits { job.launcher_waits() } else { job };
        let world = world(job).with(|world| world.site.gang = Some(volcano()));
        let group = crate::created_one(&plan(&world), Kind::PodGroup(GangApi::Volcano), "demo");
        assert_eq!(group["spec"]["minMember"], members);
    }
}

/// The scheduler in the template of a Job never changes, and without its gang the launcher would wait for
/// ever, or run beside it.
#[test]
fn a_launcher_that_is_resumed_into_another_gang_is_made_anew() {
    let held = world_with(volcano(), wishful()).running().with(|world| {
        world.job.lifecycle.suspended = true;
    });
    let held = held
        .recorded()
        .settled()
        .with(|world| world.launcher_pods.clear());
    let resumed = |now: Option<GangScheduler>| {
        held.clone().with(|world| {
            world.job.lifecycle.suspended = false;
            world.site.gang = now;
        })
    };
    let same = resumed(Some(volcano())).settled();
    let gang = |world: &planner::Observed| world.launcher.ours().expect("a launcher").gang.clone();
    assert_eq!(gang(&same), "Volcano");
    let delete = "delete Job demo-launcher".to_owned();
    assert!(!crate::deeds(&plan(&resumed(Some(volcano())))).contains(&delete));
    for (now, name) in [
        (None, ""),
        (Some(plugins()), "gang-scheduler"),
        (Some(GangScheduler::Native), "Native"),
    ] {
        let other = resumed(now);
        assert!(crate::deeds(&plan(&other)).contains(&delete), "{name}");
        assert_eq!(planner::check::violations(&other, &plan(&other)), [""; 0]);
        let settled = other.settled();
        assert_eq!(gang(&settled), name);
        assert!(!settled.launcher.ours().expect("a launcher").suspended);
    }
}
