//! What a status tells of the past of its job.

use contract::milestone::{Milestone, StartPhase};
use jiff::Timestamp;
use planner::fixtures::{job, noon_and, pod, world};
use planner::job::{CleanUp, PlannedStop, Recovery};
use planner::observed::{LauncherEnd, Observed, Pod, PodPhase};
use planner::{
    History, LateWorker, LauncherAttempt, LauncherRun, PodStart, Reason, RunEnd, check, plan,
    read_agent_report,
};

/// A pod that got its node, its network and its images, began, and was Ready, at these seconds; made at the first
/// of them.
fn started(name: &str, at: [i64; 5]) -> Pod {
    let [made, scheduled, sandbox, begun, ready] = at.map(noon_and);
    Pod {
        phase: PodPhase::Running,
        ready: true,
        begun: true,
        node: format!("node-of-{name}"),
        created_at: made,
        start: PodStart {
            scheduled_at: Some(scheduled),
            sandbox_at: Some(sandbox),
            first_begun_at: Some(begun),
            initialized_at: Some(scheduled),
            begun_at: Some(begun),
            ready_at: Some(ready),
        },
        ..pod(name)
    }
}

fn launcher(name: &str, begun: i64, end: Option<RunEnd>) -> Pod {
    let mut pod = started(name, [begun - 1, begun - 1, begun, begun, begun]);
    pod.runs = vec![LauncherRun {
        began_at: noon_and(begun),
        runs_before: 0,
        end: end.map(Box::new),
    }];
    pod
}

/// Four workers, the third of which had to pull its image, and a launcher.
fn ran() -> Observed {
    let mut world = world(job("demo").workers(4)).settled();
    world.site.agent_image = Some("muster-agent:1".to_owned());
    world.workers = vec![
        started("demo-worker-0", [1, 2, 3, 4, 5]),
        started("demo-worker-1", [1, 2, 3, 4, 6]),
        started("demo-worker-2", [1, 2, 3, 90, 92]),
        started("demo-worker-3", [2, 3, 4, 5, 6]),
    ];
    let mut launcher = launcher("demo-launcher-x", 95, None);
    launcher.start.initialized_at = Some(noon_and(94));
    world.launcher_pods = vec![launcher];
    at(world, 100)
}

fn at(mut world: Observed, secs: i64) -> Observed {
    world.now = noon_and(secs);
    world
}

/// The past as the plan tells it, which obeys the laws.
fn past(world: &Observed) -> History {
    let plan = plan(world);
    assert_eq!(check::violations(world, &plan), [""; 0]);
    plan.status.history
}

fn seconds(history: &History) -> Vec<(Milestone, i64)> {
    let since_noon = |at: &Timestamp| at.duration_since(noon_and(0)).as_secs();
    let milestones = history.milestones.iter();
    milestones
        .map(|(name, at)| (*name, since_noon(at)))
        .collect()
}

fn late(worker: &str, phase: StartPhase, seconds: u32) -> LateWorker {
    LateWorker {
        worker: worker.to_owned(),
        node: format!("node-of-{worker}"),
        phase,
        seconds,
    }
}

#[test]
fn milestones_are_when_it_was_true_of_the_last_worker() {
    let past = past(&ran());
    assert_eq!(
        seconds(&past),
        [
            (Milestone::Admitted, 1),
            (Milestone::PodsCreated, 2),
            (Milestone::Scheduled, 3),
            (Milestone::ImagesReady, 90),
            (Milestone::WorkersReady, 92),
            (Milestone::GatePassed, 94),
        ]
    );
    assert_eq!(
        past.slowest,
        [late("demo-worker-2", StartPhase::Pulling, 87)]
    );
    assert_eq!(past.attempts, [], "there was one, and none is expected");
}

#[test]
fn what_is_not_true_of_one_worker_has_not_happened() {
    let mut world = ran();
    world.workers.pop();
    assert_eq!(
        seconds(&past(&world)),
        [(Milestone::Admitted, 1), (Milestone::GatePassed, 94)]
    );
    let mut world = ran();
    world.workers[2].start.begun_at = None;
    world.workers[2].start.ready_at = None;
    world.launcher_pods.clear();
    let past = past(&at(world, 50));
    assert_eq!(past.milestones.len(), 3);
    // It pulls since second 3.
    assert_eq!(
        past.slowest,
        [late("demo-worker-2", StartPhase::Pulling, 47)]
    );
}

#[test]
fn without_a_gate_nobody_passed_it() {
    let mut world = ran();
    world.job.login_mut().gate = false;
    assert!(!past(&world).milestones.contains_key(&Milestone::GatePassed));
}

#[test]
fn a_launcher_without_workers_is_its_own_host() {
    let mut world = world(job("demo")).settled();
    world.launcher_pods = vec![launcher("demo-launcher-x", 95, None)];
    let past = past(&at(world, 100));
    assert_eq!(
        seconds(&past),
        [
            (Milestone::Admitted, 94),
            (Milestone::PodsCreated, 94),
            (Milestone::Scheduled, 94),
            (Milestone::ImagesReady, 95),
        ]
    );
}

#[test]
fn each_phase_of_a_start_can_make_a_worker_late() {
    for (times, phase, secs) in [
        ([1, 60, 61, 62, 63], StartPhase::Scheduling, 59),
        ([1, 2, 60, 61, 62], StartPhase::Starting, 58),
        ([1, 2, 3, 60, 61], StartPhase::Pulling, 57),
        ([1, 2, 3, 4, 60], StartPhase::Waiting, 56),
    ] {
        let mut world = ran();
        world.workers[2] = started("demo-worker-2", times);
        assert_eq!(past(&world).slowest, [late("demo-worker-2", phase, secs)]);
    }
    // An init container that takes its time.
    let mut world = ran();
    let slow = &mut world.workers[2].start;
    slow.first_begun_at = Some(noon_and(4));
    slow.initialized_at = Some(noon_and(89));
    assert_eq!(
        past(&world).slowest,
        [late("demo-worker-2", StartPhase::Starting, 86)]
    );
}

#[test]
fn a_worker_is_late_if_it_took_half_as_long_again_as_the_median_and_five_seconds() {
    let all = |ready: [i64; 4]| {
        let mut world = ran();
        for (pod, ready) in world.workers.iter_mut().zip(ready) {
            *pod = started(&pod.name, [1, 2, 3, 4, ready]);
        }
        let slowest = past(&world).slowest;
        slowest
            .into_iter()
            .map(|late| late.worker)
            .collect::<Vec<_>>()
    };
    assert_eq!(all([5, 5, 5, 9]), [""; 0]);
    assert_eq!(all([5, 5, 5, 10]), ["demo-worker-3"]);
    assert_eq!(all([41, 41, 41, 60]), [""; 0]);
    assert_eq!(all([41, 41, 41, 61]), ["demo-worker-3"]);
    // Half of them: the faster half is the measure.
    assert_eq!(all([5, 30, 5, 40]), ["demo-worker-3", "demo-worker-1"]);
}

#[test]
fn three_late_workers_are_enough() {
    let mut world = world(job("demo").workers(20)).settled();
    for (secs, pod) in (0..).zip(&mut world.workers) {
        let ready = if secs < 12 { 5 } else { 30 + secs };
        *pod = started(&pod.name, [1, 2, 3, 4, ready]);
    }
    let slowest = past(&at(world, 100)).slowest;
    let names: Vec<&str> = slowest.iter().map(|late| late.worker.as_str()).collect();
    assert_eq!(
        names,
        ["demo-worker-19", "demo-worker-18", "demo-worker-17"]
    );
}

/// Pods come and go after the start, and tell of other times then.
#[test]
fn what_is_recorded_outlives_the_pods() {
    let told = past(&ran());
    let mut world = ran().recorded();
    world.workers[1] = started("demo-worker-1", [110, 111, 112, 150, 160]);
    assert_eq!(past(&at(world.clone(), 170)), told);
    world.workers.clear();
    world.launcher_pods.clear();
    assert_eq!(past(&at(world, 200)), told);
}

#[test]
fn the_end_is_told_with_the_outcome_and_the_clean_up_when_it_is_done() {
    let job = job("demo").workers(4).clean(CleanUp::All);
    let mut world = ran().with(|world| world.job = job);
    world = at(world.recorded(), 200).launcher_ended(LauncherEnd::Complete {
        at: Some(noon_and(190)),
    });
    assert_eq!(
        past(&world).milestones.get(&Milestone::Ended),
        Some(&noon_and(190))
    );
    let world = at(world.recorded().settled(), 300);
    let told = past(&world);
    assert_eq!(
        told.milestones.get(&Milestone::CleanedUp),
        Some(&noon_and(300))
    );
    assert_eq!(told.milestones.len(), 8);
    let kept = world.with(|world| world.job.lifecycle.clean_up = CleanUp::Nothing);
    assert!(!past(&kept).milestones.contains_key(&Milestone::CleanedUp));
}

#[test]
fn a_job_that_is_resumed_begins_anew() {
    let world = ran()
        .recorded()
        .with(|world| world.job.lifecycle.suspended = true);
    let told = past(&world);
    assert_eq!(
        told.milestones.len(),
        6,
        "as long as it is suspended, its last start is told"
    );
    let mut world = at(world.recorded(), 500);
    world.workers.clear();
    world.launcher_pods.clear();
    world.job.lifecycle.suspended = false;
    let told = past(&world);
    assert_eq!(seconds(&told), [(Milestone::Admitted, 500)]);
    assert_eq!(told.slowest, []);
    // A launcher that failed before the suspension may still be there.
    let failed = RunEnd::new(Some(noon_and(99)), 1, "Error", None);
    world.launcher_pods = vec![launcher("demo-launcher-x", 95, Some(failed))];
    world.job.recovery = recovery();
    assert_eq!(past(&world).attempts, []);
}

fn recovery() -> Option<Recovery> {
    Some(Recovery {
        restarts: 3,
        on: vec![Reason::RankKilled],
        reset_secs: None,
        stop: PlannedStop::USUAL,
    })
}

fn attempt(number: u32, from: i64, to: Option<i64>, reason: Option<Reason>) -> LauncherAttempt {
    LauncherAttempt {
        number,
        started_at: Some(noon_and(from)),
        ended_at: to.map(noon_and),
        reason,
    }
}

/// How a run ended, as its agent says.
fn said(secs: i64, report: &str) -> RunEnd {
    let report = read_agent_report(report).expect("this is a report");
    let code = i32::from(report.exit);
    RunEnd::new(Some(noon_and(secs)), code, "", Some(&report))
}

#[test]
fn a_launcher_that_is_tried_again_has_several_attempts() {
    let failed = RunEnd::new(Some(noon_and(97)), 3, "Error", None);
    let mut world = ran().with(|world| {
        world.launcher_pods = vec![launcher("demo-launcher-x", 95, Some(failed))];
    });
    assert_eq!(
        past(&world).attempts,
        [],
        "one attempt, and no other is expected"
    );
    world
        .launcher_pods
        .push(launcher("demo-launcher-y", 99, None));
    let first = attempt(1, 95, Some(97), Some(Reason::CommandFailed));
    let both = [first, attempt(2, 99, None, None)];
    assert_eq!(past(&world).attempts, both);
    // The first pod goes; the second ends.
    let mut world = world.recorded();
    let killed = RunEnd::new(Some(noon_and(120)), 137, "OOMKilled", None);
    world.launcher_pods = vec![launcher("demo-launcher-y", 99, Some(killed))];
    let [first, _] = both;
    let second = attempt(2, 99, Some(120), Some(Reason::OutOfMemory));
    assert_eq!(past(&at(world, 130)).attempts, [first, second]);
}

#[test]
fn a_container_that_is_started_again_in_its_pod_counts_too() {
    let mut world = ran();
    let runs = &mut world.launcher_pods[0].runs;
    runs[0].runs_before = 6;
    let failed = RunEnd::new(Some(noon_and(94)), 127, "Error", None);
    runs.insert(
        0,
        LauncherRun {
            began_at: noon_and(93),
            runs_before: 5,
            end: Some(Box::new(failed)),
        },
    );
    let seen = [
        attempt(6, 93, Some(94), Some(Reason::CommandNotFound)),
        attempt(7, 95, None, None),
    ];
    assert_eq!(past(&world).attempts, seen);
    assert_eq!(past(&world.recorded()).attempts, seen);
}

#[test]
fn attempts_within_a_container_are_as_its_agent_says() {
    let mut world = ran().with(|world| world.job.recovery = recovery());
    assert_eq!(past(&world).attempts, [attempt(1, 95, None, None)]);
    world = world.recorded();
    let noon_ms = noon_and(0).as_millisecond();
    let report = format!(
        r#"{{"muster":1,"verdict":"Succeeded","exit":0,"hosts":4,"attempts":3,"beganMs":{},
            "ranksStartedMs":{},"earlier":[
            {{"attempt":1,"reason":"RankKilled","seconds":10,"beganMs":{}}},
            {{"attempt":2,"reason":"WorkerLost","seconds":20}}],"message":""}}"#,
        noon_ms + 140_000,
        noon_ms + 96_250,
        noon_ms + 95_000,
    );
    let end = said(180, &report.replace('\n', " "));
    world.launcher_pods = vec![launcher("demo-launcher-x", 95, Some(end))];
    let told = past(&at(world, 200));
    let unknown = LauncherAttempt {
        number: 2,
        started_at: None,
        ended_at: None,
        reason: Some(Reason::WorkerLost),
    };
    assert_eq!(
        told.attempts,
        [
            attempt(1, 95, Some(105), Some(Reason::RankKilled)),
            unknown,
            attempt(3, 140, Some(180), None),
        ]
    );
    let ranks = told.milestones[&Milestone::RanksStarted];
    assert_eq!(ranks.as_millisecond(), noon_ms + 96_250);
}

#[test]
fn the_last_ten_attempts_are_told() {
    let mut world = ran().with(|world| world.job.recovery = recovery());
    world.launcher_pods.clear();
    for number in 0..14 {
        let end = RunEnd::new(Some(noon_and(101 + number)), 1, "", None);
        let name = format!("demo-launcher-{number}");
        world
            .launcher_pods
            .push(launcher(&name, 100 + number, Some(end)));
    }
    let told = past(&at(world, 200)).attempts;
    let numbers: Vec<u32> = told.iter().map(|attempt| attempt.number).collect();
    assert_eq!(numbers, (5..=14).collect::<Vec<_>>());
}

/// Anybody who may write pods may write their status, and the agent's report is the user's own text.
#[test]
fn hostile_times_and_numbers_are_not_believed() {
    let far = "9999-01-01T00:00:00Z".parse().expect("a time");
    let long_ago = "-001000-01-01T00:00:00Z".parse().expect("a time");
    for time in [far, long_ago] {
        let mut world = ran();
        for pod in world.workers.iter_mut().chain(&mut world.launcher_pods) {
            pod.start = PodStart {
                scheduled_at: Some(time),
                sandbox_at: Some(time),
                first_begun_at: Some(time),
                initialized_at: Some(time),
                begun_at: Some(time),
                ready_at: Some(time),
            };
            for run in &mut pod.runs {
                run.began_at = time;
            }
        }
        world.job.recovery = recovery();
        let told = past(&world);
        assert_eq!(told.attempts, []);
        let known: Vec<Milestone> = told.milestones.keys().copied().collect();
        assert_eq!(
            known,
            [Milestone::Admitted, Milestone::PodsCreated],
            "{time}"
        );
    }
    let mut world = ran();
    let report = r#"{"muster":1,"verdict":"Failed","exit":1,"attempts":4294967295,"beganMs":18446744073709551615,
        "ranksStartedMs":1,"earlier":[{"attempt":4294967295,"reason":"RankKilled","seconds":18446744073709551615,
        "beganMs":9223372036854775807}],"message":""}"#;
    let end = said(99, &report.replace('\n', " "));
    world.launcher_pods = vec![launcher("demo-launcher-x", 95, Some(end))];
    world.launcher_pods[0].phase = PodPhase::Succeeded;
    world.launcher_pods[0].finished_at = Some(far);
    let told = past(&world);
    assert_eq!(told.milestones.get(&Milestone::Ended), Some(&noon_and(100)));
    assert!(
        told.attempts
            .iter()
            .all(|attempt| attempt.number <= 1 << 20)
    );
    assert!(!told.milestones.contains_key(&Milestone::RanksStarted));
    assert!(
        told.attempts
            .iter()
            .all(|attempt| attempt.started_at.is_none_or(|at| at < noon_and(200)))
    );
}

/// A status that somebody wrote does not stop the job, and times that are not possible go.
#[test]
fn a_hostile_record_breaks_no_law() {
    let mut world = ran();
    let far = "9999-01-01T00:00:00Z".parse().expect("a time");
    for milestone in Milestone::ALL {
        world.recorded.history.milestones.insert(milestone, far);
    }
    world.recorded.history.attempts = vec![attempt(u32::MAX, 0, None, None); 30];
    let told = past(&world);
    assert_eq!(told.milestones, past(&ran()).milestones);
    assert!(told.attempts.len() <= 10);
}
