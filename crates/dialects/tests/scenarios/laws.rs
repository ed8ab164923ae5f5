//! Properties of every job of every dialect and of every history: each plan obeys the laws, an outcome
//! that was recorded stays, and once nothing happens from outside any more, plans and reports come to
//! rest.

use std::cell::RefCell;
use std::collections::BTreeSet;

use dialects::RESOURCES;
use planner::fixtures::pod;
use planner::observed::{LauncherEnd, Pod, PodPhase, Slot, Waiting};
use planner::site::GangScheduler;
use planner::{Action, Phase};
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestCaseResult, TestRng, TestRunner};

use crate::driver::Scenario;
use crate::generated::{Generated, RECIPE_COUNT, jobs};
use crate::scripts::at_path;

/// Histories that each property is tried on, for each recipe: another dialect takes none from the others.
const CASES_OF_RECIPE: usize = 48;
/// Times of waking up after which a job must wait for events only.
const WAKES_MAX: usize = 8;

/// One thing that may happen to a job from outside, or half a pass of the operator.
#[derive(Clone, Debug)]
enum Happening {
    Plan,
    Record,
    Reconcile,
    Seconds(u8),
    AllRun,
    WorkerPhase(u8, PodPhase, bool),
    WorkerGone(u8),
    WorkerTerminates(u8),
    WorkerExits(u8, u8),
    WorkerEvicted(u8),
    WorkerWaits(u8, &'static str),
    LauncherPhase(PodPhase),
    LauncherExits(u8, &'static str),
    LauncherGone,
    LauncherTerminates,
    LauncherJobFails,
    LauncherJobGone,
    ServiceGone,
    ServiceForeign,
    RoleEdited,
    BindingForeign,
    SetRolls(bool),
    SetForeign,
    ConfigEdited,
    PodGroupGone,
    StrayPod,
    ForeignWorker(u8),
    NamesFree,
    Refused(u8),
    NothingRefused,
    Suspend(bool),
    Scale(u32),
    Delete,
}

fn happenings() -> impl Strategy<Value = Happening> {
    prop_oneof![
        12 => operator(),
        12 => pods(),
        4 => users(),
        4 => others(),
    ]
}

fn operator() -> impl Strategy<Value = Happening> {
    prop_oneof![
        3 => Just(Happening::Plan),
        2 => Just(Happening::Record),
        2 => Just(Happening::Reconcile),
        2 => any::<u8>().prop_map(Happening::Seconds),
    ]
}

fn phases() -> impl Strategy<Value = PodPhase> {
    prop_oneof![
        1 => Just(PodPhase::Pending),
        3 => Just(PodPhase::Running),
        1 => Just(PodPhase::Succeeded),
        1 => Just(PodPhase::Failed),
        1 => Just(PodPhase::Unknown),
    ]
}

fn pods() -> impl Strategy<Value = Happening> {
    let reasons = prop_oneof![
        Just("ImagePullBackOff"),
        Just("CrashLoopBackOff"),
        Just("Unschedulable")
    ];
    let words = prop_oneof![Just(""), Just("initialisation: no worker answered")];
    prop_oneof![
        6 => Just(Happening::AllRun),
        6 => (any::<u8>(), phases(), any::<bool>())
            .prop_map(|(index, phase, ready)| Happening::WorkerPhase(index, phase, ready)),
        1 => any::<u8>().prop_map(Happening::WorkerGone),
        1 => any::<u8>().prop_map(Happening::WorkerTerminates),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(index, code)| Happening::WorkerExits(index, code)),
        1 => any::<u8>().prop_map(Happening::WorkerEvicted),
        1 => (any::<u8>(), reasons).prop_map(|(index, why)| Happening::WorkerWaits(index, why)),
        3 => phases().prop_map(Happening::LauncherPhase),
        2 => (any::<u8>(), words).prop_map(|(code, words)| Happening::LauncherExits(code, words)),
        1 => Just(Happening::LauncherGone),
        1 => Just(Happening::LauncherTerminates),
        1 => Just(Happening::LauncherJobFails),
    ]
}

fn users() -> impl Strategy<Value = Happening> {
    prop_oneof![
        3 => prop::bool::weighted(0.3).prop_map(Happening::Suspend),
        3 => (1..4_u32).prop_map(Happening::Scale),
        1 => Just(Happening::Delete),
        1 => Just(Happening::LauncherJobGone),
        1 => Just(Happening::ServiceGone),
        1 => Just(Happening::RoleEdited),
        1 => Just(Happening::ConfigEdited),
        1 => Just(Happening::PodGroupGone),
    ]
}

fn others() -> impl Strategy<Value = Happening> {
    prop_oneof![
        1 => Just(Happening::ServiceForeign),
        1 => Just(Happening::BindingForeign),
        2 => any::<bool>().prop_map(Happening::SetRolls),
        1 => Just(Happening::SetForeign),
        1 => Just(Happening::StrayPod),
        1 => any::<u8>().prop_map(Happening::ForeignWorker),
        5 => Just(Happening::NamesFree),
        3 => any::<u8>().prop_map(Happening::Refused),
        3 => Just(Happening::NothingRefused),
    ]
}

/// With and without a gang scheduler, and with and without the agent's image; a job may want the agent
/// where there is none.
fn scenarios() -> impl Strategy<Value = (Generated, Option<GangScheduler>, bool)> {
    let plugins = GangScheduler::SchedulerPlugins("gangs".to_owned());
    let gang = prop_oneof![
        Just(None),
        Just(Some(GangScheduler::Volcano)),
        Just(Some(plugins))
    ];
    (jobs(), gang, prop::bool::weighted(0.8))
}

fn begin((job, gang, agent): &(Generated, Option<GangScheduler>, bool)) -> Scenario {
    let mut scenario = Scenario::of(job.dialect, job.stored.clone());
    scenario.world.site.gang.clone_from(gang);
    if !agent {
        scenario.world.site.agent_image = None;
    }
    scenario
}

fn happen(scenario: &mut Scenario, job: &Generated, happening: &Happening) {
    match *happening {
        Happening::Plan => scenario.carry_out_one_plan(),
        Happening::Record => scenario.record(),
        Happening::Reconcile => drop(scenario.reconcile()),
        Happening::Seconds(secs) => {
            scenario.world.now += jiff::SignedDuration::from_secs(i64::from(secs));
        }
        Happening::AllRun => {
            scenario.pods_run();
        }
        Happening::WorkerPhase(..)
        | Happening::WorkerGone(_)
        | Happening::WorkerTerminates(_)
        | Happening::WorkerExits(..)
        | Happening::WorkerEvicted(_)
        | Happening::WorkerWaits(..) => befall_worker(scenario, happening),
        Happening::LauncherPhase(_)
        | Happening::LauncherExits(..)
        | Happening::LauncherGone
        | Happening::LauncherTerminates
        | Happening::LauncherJobFails
        | Happening::LauncherJobGone => befall_launcher(scenario, happening),
        Happening::ForeignWorker(index) => {
            let name = scenario.world.job.worker_name(u32::from(index % 4));
            scenario.world.workers.retain(|pod| pod.name != name);
            scenario.world.foreign_pods = vec![name];
        }
        Happening::Refused(index) => refuse_one(scenario, index),
        Happening::NothingRefused => scenario.refuse_nothing(),
        Happening::Suspend(suspended) => {
            if job.dialect.suspend_field.is_some() {
                scenario.suspend(suspended);
            }
        }
        Happening::Scale(count) => {
            if !job.count.is_empty() {
                scenario.edit(|spec| *at_path(spec, job.count) = count.into());
            }
        }
        Happening::Delete => scenario.delete_job(),
        Happening::ServiceGone
        | Happening::ServiceForeign
        | Happening::RoleEdited
        | Happening::BindingForeign
        | Happening::SetRolls(_)
        | Happening::SetForeign
        | Happening::ConfigEdited
        | Happening::PodGroupGone
        | Happening::NamesFree
        | Happening::StrayPod => meddle(scenario, happening),
    }
}

/// The API server refuses one of the objects that the operator is about to create.
fn refuse_one(scenario: &mut Scenario, index: u8) {
    let plan = scenario.plan();
    let creates = plan
        .steps
        .iter()
        .flatten()
        .filter_map(|action| match action {
            Action::Create(object) => Some(object),
            _ => None,
        });
    let creates: Vec<_> = creates.collect();
    if !creates.is_empty() {
        let object = creates[usize::from(index) % creates.len()];
        scenario.refuse(object.kind.clone(), &object.name, 403, "no");
    }
}

fn befall_worker(scenario: &mut Scenario, happening: &Happening) {
    let (count, now) = (scenario.world.workers.len(), scenario.world.now);
    if count == 0 {
        return;
    }
    let worker = |index: u8| usize::from(index) % count;
    let workers = &mut scenario.world.workers;
    match *happening {
        Happening::WorkerPhase(index, phase, ready) => {
            let pod = &mut workers[worker(index)];
            (pod.phase, pod.ready) = (phase, ready);
            pod.address = format!("10.0.0.{index}");
        }
        Happening::WorkerGone(index) => drop(workers.remove(worker(index))),
        Happening::WorkerTerminates(index) => workers[worker(index)].deleting = true,
        Happening::WorkerExits(index, code) => {
            scenario.worker_exits(worker(index), i32::from(code), "");
        }
        Happening::WorkerEvicted(index) => {
            let pod = &mut workers[worker(index)];
            (pod.phase, pod.reason) = (PodPhase::Failed, "Evicted".to_owned());
        }
        Happening::WorkerWaits(index, reason) => {
            workers[worker(index)].waiting = Some(Waiting {
                reason: reason.to_owned(),
                message: String::new(),
                since: now,
                ..Waiting::default()
            });
        }
        _ => unreachable!("not about a worker"),
    }
}

fn befall_launcher(scenario: &mut Scenario, happening: &Happening) {
    let exists = !scenario.world.launcher_pods.is_empty();
    match *happening {
        Happening::LauncherPhase(phase) => {
            scenario.launcher_runs();
            if let Some(pod) = scenario.world.launcher_pods.first_mut() {
                pod.phase = phase;
            }
        }
        Happening::LauncherExits(code, words) if exists => {
            scenario.launcher_exits(i32::from(code), words);
        }
        Happening::LauncherGone => scenario.world.launcher_pods.clear(),
        Happening::LauncherTerminates if exists => {
            scenario.world.launcher_pods[0].deleting = true;
        }
        Happening::LauncherJobGone => scenario.world.launcher = Slot::Absent,
        Happening::LauncherJobFails => {
            if let Slot::Ours(launcher) = &mut scenario.world.launcher
                && launcher.end.is_none()
            {
                let (reason, message) = (String::new(), String::new());
                launcher.end = Some(LauncherEnd::Failed { reason, message });
            }
        }
        _ => {}
    }
}

/// Somebody touches an object of the job that is not a pod of it.
fn meddle(scenario: &mut Scenario, happening: &Happening) {
    let world = &mut scenario.world;
    match *happening {
        Happening::ServiceGone => world.service = Slot::Absent,
        Happening::ServiceForeign => world.service = Slot::Foreign,
        Happening::RoleEdited => {
            if let Slot::Ours(role) = &mut world.account.role {
                role.rules = serde_json::json!([]);
            }
        }
        Happening::BindingForeign => world.account.binding = Slot::Foreign,
        Happening::SetRolls(rolled_out) => {
            if let Slot::Ours(set) = &mut world.worker_set {
                set.rolled_out = rolled_out;
            }
        }
        Happening::SetForeign => {
            if world.worker_set.ours().is_some() {
                world.worker_set = Slot::Foreign;
            }
        }
        Happening::ConfigEdited => {
            if let Slot::Ours(config) = &mut world.config {
                config.data = planner::Fingerprint::default();
            }
        }
        Happening::PodGroupGone => world.pod_group = Slot::Absent,
        Happening::NamesFree => {
            free(&mut world.service);
            free(&mut world.account.binding);
            free(&mut world.worker_set);
            world.foreign_pods.clear();
        }
        Happening::StrayPod => {
            let stray: Pod = pod(&world.job.worker_name(77));
            world.workers.push(stray);
        }
        _ => unreachable!("not about an object"),
    }
}

fn free<T>(slot: &mut Slot<T>) {
    if slot.is_foreign() {
        *slot = Slot::Absent;
    }
}

/// Whatever happened before, each plan obeys the laws, and planning twice is planning once. The
/// histories must reach the phases that matter, or this says nothing.
#[test]
fn every_plan_of_every_history_obeys_the_laws() {
    let reached = RefCell::new(BTreeSet::new());
    let histories = prop::collection::vec(happenings(), 0..40);
    check(&(scenarios(), histories), |(given, history)| {
        let (mut scenario, dialect) = (begin(&given), given.0.dialect);
        let mut outcome = None;
        for happening in history {
            happen(&mut scenario, &given.0, &happening);
            let first = scenario.plan();
            let second = planner::plan(&scenario.world).spelled_out();
            prop_assert_eq!(&first, &second);
            let phase = first.status.phase;
            reached.borrow_mut().insert((dialect.name, phase));
            let recorded = (dialect.recorded)(&scenario.stored).outcome;
            if outcome.is_some() {
                prop_assert_eq!(&outcome, &recorded, "a recorded outcome changed");
            }
            outcome = recorded;
        }
        Ok(())
    });
    for dialect in RESOURCES.iter().flat_map(|resource| resource.dialects) {
        let phases = [
            Phase::Deleting,
            Phase::Blocked,
            Phase::Preparing,
            Phase::Gathering,
            Phase::Launching,
            Phase::Running,
        ];
        for phase in phases {
            let (reached, name) = (reached.borrow(), dialect.name);
            assert!(
                reached.contains(&(name, phase)),
                "no {name} job was ever {phase:?}"
            );
        }
    }
}

/// Once nothing happens from outside any more, the job comes to rest; and when time alone goes on, it
/// comes to wait for events only.
#[test]
fn plans_come_to_rest() {
    let histories = prop::collection::vec(happenings(), 0..20);
    check(&(scenarios(), histories), |(given, history)| {
        let mut scenario = begin(&given);
        for happening in history {
            happen(&mut scenario, &given.0, &happening);
        }
        scenario.refuse_nothing();
        scenario.settle();
        let mut wakes = 0;
        while let Some(wake) = scenario.plan().wake {
            wakes += 1;
            prop_assert!(
                wakes <= WAKES_MAX,
                "it never stops waking:\n{}",
                scenario.transcript
            );
            scenario.world.now = wake;
            scenario.settle();
        }
        let rest = scenario.plan();
        prop_assert!(rest.steps.is_empty());
        if scenario.world.job.owner.deleting {
            prop_assert_eq!(rest.status.phase, Phase::Deleting);
        } else if scenario.world.recorded.outcome.is_some() {
            prop_assert_eq!(rest.status.phase, Phase::Finished);
        }
        Ok(())
    });
}

/// The same cases in every run: whether a phase is reached must not depend on luck.
fn check<S: Strategy>(inputs: &S, property: impl Fn(S::Value) -> TestCaseResult) {
    let config = ProptestConfig {
        cases: u32::try_from(CASES_OF_RECIPE * RECIPE_COUNT).expect("there are few recipes"),
        ..ProptestConfig::default()
    };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    if let Err(failure) = TestRunner::new_with_rng(config, rng).run(inputs, property) {
        panic!("{failure}");
    }
}
