//! Properties that hold for every job and every history.

use planner::fixtures::{job, pod, world};
use planner::job::{CleanUp, LauncherAs, LauncherStart, Mpi, RestartPolicy, WorkersAs};
use planner::observed::{LauncherEnd, Pod, PodPhase, Slot, Waiting};
use planner::site::{GangScheduler, Transport};
use planner::{Job, Kind, Observed, Phase, check, plan};
use proptest::prelude::*;

fn jobs() -> impl Strategy<Value = Job> {
    let mpi = prop_oneof![Just(Mpi::OpenMpi), Just(Mpi::Intel), Just(Mpi::Mpich)];
    let clean = prop_oneof![
        Just(CleanUp::Nothing),
        Just(CleanUp::Running),
        Just(CleanUp::All)
    ];
    let start = prop_oneof![
        Just(LauncherStart::AtOnce),
        Just(LauncherStart::WhenWorkersReady)
    ];
    (
        mpi,
        clean,
        start,
        0..4_u32,
        any::<[bool; 7]>(),
        prop::option::of(0..90_u32),
    )
        .prop_map(
            |(
                mpi,
                clean,
                start,
                workers,
                [as_host, elastic, suspended, pods, again, account, set],
                secs,
            )| {
                let job = if workers == 0 {
                    job("demo")
                } else {
                    job("demo").workers(workers)
                };
                let job = if pods { job.of_pods() } else { job };
                let job = if account { job.with_account() } else { job };
                let job = if set && workers > 0 {
                    job.of_a_set()
                } else {
                    job
                };
                job.with(|job| {
                    if pods && again {
                        job.launcher.restart = RestartPolicy::ExitCode;
                        if let Some(workers) = &mut job.workers {
                            workers.role.restart = RestartPolicy::ExitCode;
                        }
                        (job.policy.backoff_limit, job.policy.expires_secs) = (Some(1), secs);
                    }
                    (job.mpi, job.policy.clean, job.launcher_start) = (mpi, clean, start);
                    (job.launcher_is_host, job.elastic) = (as_host, elastic);
                    job.policy.suspended = suspended;
                    (job.policy.ttl_secs, job.policy.deadline_secs) = (secs, secs.map(u64::from));
                })
            },
        )
}

/// One thing that may happen to a job from outside.
#[derive(Clone, Debug)]
enum Happening {
    Plan,
    Record,
    Seconds(u8),
    WorkerPhase(u8, PodPhase, bool),
    WorkerGone(u8),
    WorkerDeleting(u8),
    WorkerEvicted(u8),
    WorkerStuck(u8),
    LauncherPod(PodPhase),
    Leave,
    LauncherComplete,
    LauncherFailed,
    LauncherGone,
    ServiceGone,
    ServiceForeign,
    RightsEdited,
    RightsForeign,
    SetRolling(bool),
    SetForeign,
    ConfigEdited,
    StrayPod,
    ForeignWorker(u8),
    Refused(Kind, u8),
    Suspend(bool),
    Scale(u32),
}

fn happenings() -> impl Strategy<Value = Happening> {
    let phase = prop_oneof![
        Just(PodPhase::Pending),
        Just(PodPhase::Running),
        Just(PodPhase::Succeeded),
        Just(PodPhase::Failed),
        Just(PodPhase::Unknown),
    ];
    prop_oneof![
        6 => Just(Happening::Plan),
        4 => Just(Happening::Record),
        2 => any::<u8>().prop_map(Happening::Seconds),
        6 => (any::<u8>(), phase.clone(), any::<bool>())
            .prop_map(|(i, phase, ready)| Happening::WorkerPhase(i, phase, ready)),
        1 => any::<u8>().prop_map(Happening::WorkerGone),
        1 => any::<u8>().prop_map(Happening::WorkerDeleting),
        1 => any::<u8>().prop_map(Happening::WorkerEvicted),
        1 => any::<u8>().prop_map(Happening::WorkerStuck),
        3 => phase.prop_map(Happening::LauncherPod),
        1 => Just(Happening::Leave),
        1 => Just(Happening::LauncherComplete),
        1 => Just(Happening::LauncherFailed),
        1 => Just(Happening::LauncherGone),
        1 => Just(Happening::ServiceGone),
        1 => Just(Happening::ServiceForeign),
        1 => Just(Happening::RightsEdited),
        1 => Just(Happening::RightsForeign),
        1 => any::<bool>().prop_map(Happening::SetRolling),
        1 => Just(Happening::SetForeign),
        1 => Just(Happening::ConfigEdited),
        1 => Just(Happening::StrayPod),
        1 => any::<u8>().prop_map(Happening::ForeignWorker),
        2 => (kinds(), any::<u8>()).prop_map(|(kind, i)| Happening::Refused(kind, i)),
        1 => any::<bool>().prop_map(Happening::Suspend),
        1 => (1..4_u32).prop_map(Happening::Scale),
    ]
}

fn kinds() -> impl Strategy<Value = Kind> {
    prop_oneof![Just(Kind::Pod), Just(Kind::Job), Just(Kind::ConfigMap)]
}

fn sites() -> impl Strategy<Value = Option<GangScheduler>> {
    let plugins = GangScheduler::SchedulerPlugins("gangs".to_owned());
    prop_oneof![
        Just(None),
        Just(Some(GangScheduler::Volcano)),
        Just(Some(plugins))
    ]
}

/// With and without the agent's image; a job may want the agent where there is none.
fn agents() -> impl Strategy<Value = (Option<String>, Option<Transport>)> {
    let image = prop::option::of(Just("muster-agent:1".to_owned()));
    (image, prop::option::of(Just(Transport::Agent)))
}

/// Workers of a StatefulSet are reached in one way only.
fn arm(world: &mut Observed, (image, transport): (Option<String>, Option<Transport>)) {
    world.site.agent_image = image;
    if world.job.workers_as == WorkersAs::Pods {
        world.job.transport = transport;
    }
}

fn worker(world: &mut Observed, index: u8) -> Option<&mut Pod> {
    let count = world.workers.len();
    (count > 0).then(|| &mut world.workers[usize::from(index) % count])
}

fn happen(world: &mut Observed, happening: Happening) {
    match happening {
        Happening::Plan => {
            let plan = plan(world);
            world.carry_out(&plan);
        }
        Happening::Record => *world = world.clone().recorded(),
        Happening::Seconds(secs) => {
            world.now += jiff::SignedDuration::from_secs(i64::from(secs));
        }
        Happening::WorkerPhase(index, phase, ready) => enter(world, index, phase, ready),
        Happening::WorkerGone(index) => {
            let count = world.workers.len();
            if count > 0 {
                world.workers.remove(usize::from(index) % count);
            }
        }
        Happening::WorkerDeleting(index) => {
            worker(world, index)
                .into_iter()
                .for_each(|pod| pod.deleting = true);
        }
        Happening::WorkerEvicted(index) => {
            if let Some(pod) = worker(world, index) {
                (pod.phase, pod.reason) = (PodPhase::Failed, "Evicted".to_owned());
            }
        }
        Happening::WorkerStuck(index) => get_stuck(world, index),
        Happening::LauncherPod(phase) => {
            let name = match world.job.launcher_as {
                LauncherAs::Job => "l-0".to_owned(),
                LauncherAs::Pod => world.job.launcher_name(),
            };
            world.launcher_pods = vec![Pod {
                phase,
                ..pod(&name)
            }];
        }
        Happening::Leave => world.job.owner.deleting = true,
        Happening::LauncherComplete => end(world, LauncherEnd::Complete { at: None }),
        Happening::LauncherFailed => {
            let (reason, message) = (String::new(), String::new());
            end(world, LauncherEnd::Failed { reason, message });
        }
        Happening::LauncherGone => {
            world.launcher = Slot::Absent;
            world.launcher_pods.clear();
        }
        Happening::ServiceGone
        | Happening::ServiceForeign
        | Happening::RightsEdited
        | Happening::RightsForeign
        | Happening::SetRolling(_)
        | Happening::SetForeign
        | Happening::ConfigEdited => meddle(world, &happening),
        Happening::StrayPod => world.workers.push(pod("demo-worker-77")),
        Happening::ForeignWorker(index) => lose_name(world, index),
        Happening::Refused(kind, index) => {
            let name = match kind {
                Kind::Job => world.job.launcher_name(),
                _ => world.job.worker_name(u32::from(index % 4)),
            };
            *world = world.clone().refusing(kind, &name, 403, "no");
        }
        Happening::Suspend(suspended) => world.job.policy.suspended = suspended,
        Happening::Scale(count) => scale(world, count),
    }
}

/// Somebody else touches an object of the job that is no pod.
fn meddle(world: &mut Observed, happening: &Happening) {
    match happening {
        Happening::ServiceGone => world.service = Slot::Absent,
        Happening::ServiceForeign => world.service = Slot::Foreign,
        Happening::RightsEdited => {
            if let Slot::Ours(role) = &mut world.account.role {
                role.rules = serde_json::json!([]);
            }
        }
        Happening::RightsForeign => world.account.binding = Slot::Foreign,
        Happening::SetRolling(rolled_out) => {
            if let Slot::Ours(set) = &mut world.worker_set {
                set.rolled_out = *rolled_out;
            }
        }
        Happening::SetForeign if world.job.workers_as == WorkersAs::StatefulSet => {
            world.worker_set = Slot::Foreign;
        }
        Happening::SetForeign => {}
        _ => {
            if let Slot::Ours(config) = &mut world.config {
                config.data.clear();
            }
        }
    }
}

fn scale(world: &mut Observed, count: u32) {
    if let Some(workers) = &mut world.job.workers {
        workers.count = count;
    }
    if world.job.account.is_some() {
        world.job = world.job.clone().with_account();
    }
}

fn enter(world: &mut Observed, index: u8, phase: PodPhase, ready: bool) {
    if let Some(pod) = worker(world, index) {
        (pod.phase, pod.ready) = (phase, ready);
        pod.address = format!("10.0.0.{index}");
    }
}

fn lose_name(world: &mut Observed, index: u8) {
    let name = world.job.worker_name(u32::from(index % 4));
    world.workers.retain(|pod| pod.name != name);
    world.foreign_pods = vec![name];
}

fn get_stuck(world: &mut Observed, index: u8) {
    let since = world.now;
    if let Some(pod) = worker(world, index) {
        let (reason, message) = ("ImagePullBackOff".to_owned(), String::new());
        pod.waiting = Some(Waiting {
            reason,
            message,
            since,
        });
    }
}

fn end(world: &mut Observed, end: LauncherEnd) {
    if let Slot::Ours(launcher) = &mut world.launcher
        && launcher.end.is_none()
    {
        launcher.end = Some(end);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(800))]

    /// Whatever happened before, each plan obeys the laws, and planning twice is planning once.
    #[test]
    fn every_plan_of_every_history_obeys_the_laws(
        job in jobs(),
        gang in sites(),
        agent in agents(),
        history in prop::collection::vec(happenings(), 0..40),
    ) {
        let mut world = world(job).with(|world| world.site.gang = gang);
        arm(&mut world, agent);
        let mut outcome = None;
        for happening in history {
            happen(&mut world, happening);
            let first = plan(&world);
            prop_assert_eq!(&first, &plan(&world));
            let broken = check::violations(&world, &first);
            prop_assert!(broken.is_empty(), "{:?} in {:?}", broken, world);
            if let Some(before) = &outcome {
                prop_assert_eq!(Some(before), world.recorded.outcome.as_ref(), "it changed");
            }
            outcome.clone_from(&world.recorded.outcome);
        }
    }

    /// Once nothing happens from outside any more, plans come to rest.
    #[test]
    fn plans_come_to_rest(
        job in jobs(),
        gang in sites(),
        agent in agents(),
        history in prop::collection::vec(happenings(), 0..20),
    ) {
        let mut world = world(job).with(|world| world.site.gang = gang);
        arm(&mut world, agent);
        for happening in history {
            happen(&mut world, happening);
        }
        // In a calm without refusals: while there are any, there is work left.
        world.refused.clear();
        let mut settled = world.settled().recorded().settled();
        if settled.recorded.outcome.is_some() {
            // A program that was told to end keeps its workers for a while.
            settled.now += jiff::SignedDuration::from_mins(2);
            settled = settled.settled();
        }
        let rest = plan(&settled);
        prop_assert!(rest.steps.is_empty());
        if settled.job.owner.deleting {
            prop_assert_eq!(rest.status.phase, Phase::Deleting);
        } else if settled.recorded.outcome.is_some() {
            prop_assert_eq!(rest.status.phase, Phase::Finished);
        }
    }
}
