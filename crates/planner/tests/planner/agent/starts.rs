//! How a start goes: what the launcher is told, whom it waits for, how long keys live.

use planner::fixtures::{job, noon_and, world};
use planner::job::RestartPolicy;
use planner::observed::{Observed, PodPhase, Slot, Waiting};
use planner::site::Transport;
use planner::{Action, Fingerprint, Keys, Kind, Phase, Reason, Verdict, plan};
use serde_json::json;

use super::{by_agent, by_ssh, launcher, variable, waiting};
use crate::{created_one, deeds};

#[test]
fn a_launcher_is_told_once_where_all_its_workers_are() {
    let world = waiting(by_agent(job("demo").workers(2)));
    let early = world.clone().with(|world| world.workers[1].address.clear());
    assert_eq!(deeds(&plan(&early)), Vec::<String>::new());
    assert_eq!(deeds(&plan(&world)), ["patch Pod l-0"]);
    let told = world.settled();
    assert_eq!(
        told.launcher_pods[0].hosts,
        Fingerprint::of("# workers 2\ndemo-worker-0 10.0.0.0\ndemo-worker-1 10.0.0.1\n")
    );
    let moved = told.with(|world| world.workers[0].address = "10.0.0.9".to_owned());
    assert_eq!(deeds(&plan(&moved)), ["patch Pod l-0"]);
}

#[test]
fn v02_a_launcher_that_runs_is_told_which_worker_has_ended() {
    for by in [by_agent, by_ssh] {
        let world = waiting(by(job("demo").workers(2)))
            .settled()
            .with(|world| world.launcher_pods[0].phase = PodPhase::Running);
        assert_eq!(deeds(&plan(&world)), Vec::<String>::new());
        for phase in [PodPhase::Failed, PodPhase::Succeeded] {
            let lost = world.clone().with(|world| world.workers[1].phase = phase);
            assert_eq!(deeds(&plan(&lost)), ["patch Pod l-0"]);
            let told = lost.settled();
            assert_eq!(
                told.launcher_pods[0].hosts,
                Fingerprint::of("# workers 2\ndemo-worker-0 10.0.0.0\ndemo-worker-1 ended\n")
            );
            assert_eq!(deeds(&plan(&told)), Vec::<String>::new());
        }
        // One that will be replaced has not ended for good.
        let replaced = world.with(|world| {
            world.job.worker_pods().restart = RestartPolicy::ExitCode;
            world.workers[1].phase = PodPhase::Failed;
        });
        let deeds = deeds(&plan(&replaced));
        assert!(!deeds.contains(&"patch Pod l-0".to_owned()), "{deeds:?}");
    }
}

#[test]
fn keys_are_made_for_one_start_and_go_with_it() {
    let world = by_agent(job("demo").workers(1));
    let (secret, keys) = made_keys(&world);
    let wanted = Keys::Agent {
        worker: "demo-worker".to_owned(),
        workers: 256,
        valid_secs: 365 * 24 * 3600,
    };
    assert_eq!((secret.as_str(), keys), ("demo-agent-n0nce", wanted));

    let running = world.running();
    assert!(running.key.ours().is_some());
    let over = running.clone().over(Verdict::Succeeded).settled();
    assert_eq!(over.key, Slot::Absent);
    assert_eq!(plan(&over).status.phase, Phase::Finished);

    let held = running
        .with(|world| world.job.lifecycle.suspended = true)
        .settled();
    assert_eq!(held.key, Slot::Absent);
    let resumed = held
        .recorded()
        .with(|world| world.job.lifecycle.suspended = false);
    assert!(deeds(&plan(&resumed)).contains(&"create Secret demo-agent-n0nce".to_owned()));
}

/// The Secret with keys that the next plan makes.
fn made_keys(world: &Observed) -> (String, Keys) {
    let mut actions = plan(world).steps.into_iter().flatten();
    let made = actions.find_map(|action| match action {
        Action::CreateKey { secret, keys } => Some((secret.name, keys)),
        _ => None,
    });
    made.expect("the plan makes keys")
}

/// The keys' time begins before the workers are there. They may take as long as the job has, and the Job of
/// the launcher then has as long again.
#[test]
fn s11_keys_are_valid_a_little_longer_than_the_job_may_run() {
    let limited = job("demo").workers(1).launcher_waits();
    let limited = limited.limited(|limits| limits.deadline_secs = Some(600));
    let world = by_agent(limited);
    let (_, keys) = made_keys(&world);
    let Keys::Agent { valid_secs, .. } = keys else {
        panic!("{keys:?}");
    };
    let late = world.settled().recorded().workers_ready();
    let late = late.with(|world| world.now = noon_and(599));
    let launcher = created_one(&plan(&late), Kind::Job, "demo-launcher");
    let runs_secs = launcher["spec"]["activeDeadlineSeconds"].as_u64();
    let ends = 599 + runs_secs.expect("the job has a deadline");
    assert!(
        (ends + 3600..ends + 3700).contains(&valid_secs),
        "{valid_secs} s"
    );
}

#[test]
fn s08_a_job_has_keys_for_more_workers_than_it_has_now() {
    for (now, keys_for) in [(0, 256), (65, 260), (3000, 10_000), (10_000, 10_000)] {
        let (_, keys) = made_keys(&by_agent(job("demo").workers(now)));
        let Keys::Agent { workers, .. } = keys else {
            panic!("{keys:?}");
        };
        assert_eq!(workers, keys_for, "{now}");
    }
}

#[test]
fn without_an_image_transport_agent_says_what_is_missing() {
    let world = world(job("demo").workers(1).by_agent());
    let plan = plan(&world);
    assert_eq!(plan.steps, Vec::<Vec<Action>>::new());
    assert_eq!(plan.status.reason, Some(Reason::Invalid));
    assert!(
        plan.status.message.contains("--agent-image"),
        "{}",
        plan.status.message
    );
}

#[test]
fn the_site_decides_for_a_job_that_does_not_say() {
    let world = by_ssh(job("demo").workers(1));
    let world = world.with(|world| world.site.transport = Transport::Agent);
    let world = world.keys_recorded();
    assert!(deeds(&plan(&world)).contains(&"create Secret demo-agent-n0nce".to_owned()));
}

#[test]
fn a_launcher_does_not_wait_for_a_worker_that_has_ended() {
    let world = waiting(by_agent(job("demo").workers(2))).with(|world| {
        world.workers[1].phase = PodPhase::Failed;
        world.workers[1].reason = "OutOfcpu".to_owned();
    });
    let status = plan(&world).status;
    assert_eq!(status.reason, Some(Reason::WorkerLost));
    assert!(
        status.message.contains("demo-worker-1"),
        "{}",
        status.message
    );
    let running = world.with(|world| world.launcher_pods[0].phase = PodPhase::Running);
    assert_eq!(plan(&running).status.outcome, None, "its program decides");
}

#[test]
fn an_elastic_program_begins_with_the_workers_that_are_there() {
    let elastic = job("demo").workers(3).with(|job| job.elastic = true);
    let spec = launcher(&by_agent(elastic.clone()));
    let install = json!(["/muster-agent", "install", "/muster/bin"]);
    assert_eq!(spec["initContainers"][0]["command"], install, "no gate");
    let main = &spec["containers"][0];
    assert_eq!(variable(main, "MUSTER_CENSUS"), Some(&json!("Off")));

    let world = waiting(by_agent(elastic)).with(|world| {
        world.workers[1].phase = PodPhase::Failed;
        world.workers[2].address.clear();
        world.workers[2].phase = PodPhase::Pending;
        world.workers[2].waiting = Some(Waiting {
            reason: "ErrImageNeverPull".to_owned(),
            message: String::new(),
            since: noon_and(-999),
            ..Waiting::default()
        });
    });
    assert_eq!(plan(&world).status.outcome, None);
    let told = world.settled().launcher_pods[0].hosts;
    let list = "# workers 3\ndemo-worker-0 10.0.0.0\n";
    assert_eq!(told, Fingerprint::of(list));
}

#[test]
fn over_ssh_a_worker_counts_once_its_containers_run() {
    let world = waiting(by_ssh(job("demo").workers(1)));
    let preparing = world
        .clone()
        .with(|world| world.workers[0].phase = PodPhase::Pending);
    assert_eq!(deeds(&plan(&preparing)), Vec::<String>::new());
    assert_eq!(deeds(&plan(&world)), ["patch Pod l-0"]);
}

#[test]
fn another_try_is_not_a_start() {
    let job = job("demo")
        .workers(1)
        .limited(|limits| limits.startup_secs = Some(10));
    let world = waiting(by_agent(job)).with(|world| {
        world.recorded.started_at = Some(noon_and(-7200));
        let Slot::Ours(launcher) = &mut world.launcher else {
            panic!("there is a launcher");
        };
        launcher.failed_pods = 1;
    });
    assert_eq!(plan(&world).status.outcome, None);
}
