//! Programs that are started again in their pods: what the launcher is told of it, what the status says
//! of a program that succeeded in the end, and which workers are replaced meanwhile.

use contract::env;
use jiff::SignedDuration;
use planner::fixtures::{job, noon};
use planner::job::{GangChoice, PlannedStop, Recovery};
use planner::observed::{Observed, PodGroup, PodPhase, Slot};
use planner::site::GangScheduler;
use planner::{Action, Job, Kind, Object, Plan, Reason, check, plan};
use serde_json::Value;

use crate::agent::{by_agent, command, launcher};
use crate::deeds;

fn recovering(reset_secs: Option<u64>) -> Job {
    job("demo").workers(2).with(|job| {
        command(job, &["mpirun", "solve"]);
        job.recovery = Some(Recovery {
            restarts: 3,
            on: vec![Reason::RankKilled, Reason::WorkerLost],
            reset_secs,
            stop: PlannedStop::USUAL,
        });
    })
}

/// What the main container and the gate are given, as `NAME=VALUE`.
fn variables(world: &Observed) -> Vec<String> {
    let launcher = launcher(world);
    let containers = ["containers", "initContainers"].map(|list| launcher[list].clone());
    let containers = containers.iter().filter_map(Value::as_array).flatten();
    let variables = containers.filter_map(|container| container["env"].as_array());
    let pair = |variable: &Value| {
        let part = |key: &str| variable[key].as_str().unwrap_or_default().to_owned();
        format!("{}={}", part("name"), part("value"))
    };
    variables.flatten().map(pair).collect()
}

#[test]
fn the_launcher_is_told_how_often_and_why() {
    let plain = variables(&by_agent(recovering(None).with(|job| job.recovery = None)));
    let told = |reset| {
        let mut variables = variables(&by_agent(recovering(reset)));
        variables.retain(|variable| !plain.contains(variable));
        variables
    };
    let restarts = [
        "MUSTER_RESTARTS=3",
        "MUSTER_RESTART_ON=RankKilled,WorkerLost",
    ];
    let stop = ["MUSTER_STOP_SIGNAL=15", "MUSTER_STOP_GRACE=30"];
    assert_eq!(told(None), [restarts, stop].concat());
    let reset = ["MUSTER_RESTART_RESET=60"];
    assert_eq!(told(Some(60)), [&restarts[..], &reset, &stop].concat());
    let ours = [env::RESTARTS, env::RESTART_ON, env::RESTART_RESET];
    let is_ours = |variable: &String| ours.iter().any(|name| variable.starts_with(name));
    assert!(!plain.iter().any(is_ours), "{plain:?}");
}

#[test]
fn a_success_that_took_several_attempts_says_so() {
    let ended = |recovered: Option<&str>| {
        let world = by_agent(recovering(None)).running().with(|world| {
            world.launcher_pods[0].phase = PodPhase::Succeeded;
            world.launcher_pods[0].finished_at = Some(noon());
            world.launcher_pods[0].recovered = recovered.map(str::to_owned);
        });
        plan(&world).status.message
    };
    assert_eq!(ended(None), "the launcher ended with 0");
    assert_eq!(
        ended(Some("attempt 2 succeeded")),
        "the launcher ended with 0: attempt 2 succeeded"
    );
}

fn secs(secs: i64) -> SignedDuration {
    SignedDuration::from_secs(secs)
}

/// A job of two that has run for a minute.
fn running(job: Job) -> Observed {
    by_agent(job).running().with(|world| world.now += secs(60))
}

fn evicted(world: &mut Observed) {
    let worker = &mut world.workers[1];
    (worker.phase, worker.ready) = (PodPhase::Failed, false);
    (worker.reason, worker.node) = ("Evicted".to_owned(), "n1".to_owned());
}

#[test]
fn a_lost_worker_is_counted_and_then_replaced_alone() {
    let lost = running(recovering(None)).with(evicted);
    let first = plan(&lost);
    assert_eq!((&first.status.outcome, deeds(&first)), (&None, vec![]));
    assert_eq!(first.status.replacements.lost_workers, 1);
    assert_eq!(
        first.status.message,
        "1 of 2 workers run; demo-worker-1 ended early on n1 and is replaced"
    );

    let mut world = lost.recorded();
    for expected in ["delete Pod demo-worker-1", "create Pod demo-worker-1"] {
        let next = plan(&world);
        assert_eq!(deeds(&next), [expected]);
        assert_eq!(check::violations(&world, &next), [""; 0]);
        assert_eq!(next.status.replacements.lost_workers, 1);
        world.carry_out(&next);
    }
    let again = world.with(evicted).with(|world| {
        world.workers[1].uid = "another".to_owned();
        world.workers[1].created_at = world.now;
    });
    assert_eq!(plan(&again).status.replacements.lost_workers, 2);
}

/// So that a scheduler may put it on another node, beside the others, and a queue counts nothing twice.
#[test]
fn a_replacement_joins_the_group_of_the_others() {
    let schedulers = [
        GangScheduler::Native,
        GangScheduler::Volcano,
        GangScheduler::SchedulerPlugins("gang-scheduler".to_owned()),
    ];
    for scheduler in schedulers {
        let fresh = by_agent(recovering(None)).with(|world| {
            world.job.gang.scheduler = GangChoice::Scheduler(scheduler.clone());
        });
        let first = plan(&fresh);
        let of_group = |kind: &Kind| matches!(kind, Kind::PodGroup(_));
        let created = |plan: &Plan, is_meant: &dyn Fn(&Object) -> bool| {
            let actions = plan.steps.iter().flatten();
            let mut objects = actions.flat_map(Action::objects);
            objects
                .find(|object| is_meant(object))
                .map(|object| object.body)
        };
        let group = created(&first, &|object| of_group(&object.kind)).expect("a group");
        let is_worker = |object: &Object| object.name == "demo-worker-1";
        let before = created(&first, &is_worker).expect("a worker");

        let group = PodGroup {
            uid: "uid-group".to_owned(),
            spec: group["spec"].clone(),
            deleting: false,
        };
        let running = fresh.running().with(|world| {
            world.now += secs(60);
            world.pod_group = Slot::Ours(group);
        });
        let mut world = running.with(evicted).recorded();
        let delete = plan(&world);
        assert_eq!(
            deeds(&delete),
            ["delete Pod demo-worker-1"],
            "{scheduler:?}"
        );
        world.carry_out(&delete);
        let next = plan(&world);
        assert_eq!(deeds(&next), ["create Pod demo-worker-1"], "{scheduler:?}");
        let after = created(&next, &is_worker).expect("a worker");
        for part in ["/metadata/labels", "/metadata/annotations", "/spec"] {
            assert_eq!(after.pointer(part), before.pointer(part), "{scheduler:?}");
        }
        assert!(before.to_string().contains("\"demo\""), "{before}");
    }
}

#[test]
fn a_worker_that_ended_at_once_is_not_replaced_at_once() {
    let early = running(recovering(None)).with(evicted).with(|world| {
        world.workers[1].created_at = world.now - secs(4);
    });
    let early = early.recorded();
    let waits = plan(&early);
    assert_eq!(deeds(&waits), [""; 0]);
    assert_eq!(waits.wake, Some(early.now + secs(6)));
    let later = early.with(|world| world.now += secs(6));
    assert_eq!(deeds(&plan(&later)), ["delete Pod demo-worker-1"]);
}

#[test]
fn the_launcher_is_not_told_that_a_lost_worker_has_ended() {
    let located = running(recovering(None)).with(|world| {
        for (index, worker) in world.workers.iter_mut().enumerate() {
            worker.address = format!("10.0.0.{index}");
        }
    });
    assert_eq!(deeds(&plan(&located)), ["patch Pod l-0"]);
    assert_eq!(deeds(&plan(&located.clone().with(evicted))), [""; 0]);
    let without = located
        .with(evicted)
        .with(|world| world.job.recovery = None);
    let ended = plan(&without).status.outcome;
    assert!(ended.is_some(), "a job that does not recover is over");
}

#[test]
fn a_worker_is_replaced_only_for_a_reason_that_the_job_names() {
    let world = running(recovering(None)).with(evicted).with(|world| {
        let recovery = world.job.recovery.as_mut().unwrap();
        recovery.on = vec![Reason::RankKilled];
    });
    let plan = plan(&world);
    assert!(plan.status.outcome.is_some());
    assert_eq!(plan.status.replacements.lost_workers, 0);
}

#[test]
fn a_lost_worker_uses_up_no_retry() {
    let limited = recovering(None).of_pods();
    let limited = limited.limited(|limits| limits.backoff_limit = Some(0));
    let world = by_agent(limited).settled().workers_ready().settled();
    let world = world.with(|world| {
        world.launcher_pods[0].phase = PodPhase::Running;
        world.now += secs(60);
    });
    let world = world.recorded().with(evicted).recorded();
    assert_eq!(world.recorded.replacements.lost_workers, 1);
    assert_eq!(plan(&world).status.outcome, None);
    assert_eq!(deeds(&plan(&world)), ["delete Pod demo-worker-1"]);
}

/// A worker whose node does not answer, so that nobody confirms the end of its containers.
fn on_lost_node(world: &mut Observed) {
    let worker = &mut world.workers[1];
    (worker.deleting, worker.ready) = (true, false);
    worker.ends_by = Some(world.now);
}

#[test]
fn a_worker_on_a_node_that_is_gone_is_forgotten_and_made_again() {
    let lost = running(recovering(None)).with(on_lost_node);
    let waits = plan(&lost);
    assert_eq!(deeds(&waits), [""; 0]);
    assert_eq!(waits.wake, Some(lost.now + secs(60)));

    let gone = lost.with(|world| world.now += secs(60));
    let mut world = gone.clone();
    for expected in ["forget Pod demo-worker-1", "create Pod demo-worker-1"] {
        let next = plan(&world);
        assert_eq!(deeds(&next), [expected]);
        assert_eq!(check::violations(&world, &next), [""; 0]);
        world.carry_out(&next);
    }

    let answers = gone.clone().with(|world| world.workers[1].ready = true);
    assert_eq!(deeds(&plan(&answers)), [""; 0]);
    let off = gone.clone().with(|world| world.job.recovery = None);
    assert_eq!(deeds(&plan(&off)), [""; 0]);
    let forgets = plan(&gone);
    for world in [answers, off] {
        assert_ne!(check::violations(&world, &forgets), [""; 0]);
    }
}

/// A launcher in its gate has no budget: it would wait for a worker that ends at once without end.
#[test]
fn a_worker_that_ends_before_the_program_began_ends_the_job() {
    let world = running(recovering(None)).with(evicted).with(|world| {
        world.launcher_pods[0].phase = PodPhase::Pending;
    });
    let plan = plan(&world);
    assert!(plan.status.outcome.is_some());
    assert_eq!(deeds(&plan), [""; 0]);
}

#[test]
fn a_job_that_is_over_counts_nobody() {
    let over = running(recovering(None)).with(|world| {
        world.launcher_pods[0].phase = PodPhase::Succeeded;
        world.launcher_pods[0].finished_at = Some(noon());
    });
    for world in [over.clone().with(evicted), over.recorded().with(evicted)] {
        assert_eq!(plan(&world).status.replacements.lost_workers, 0);
    }
}
