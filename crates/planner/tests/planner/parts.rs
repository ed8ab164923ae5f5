//! Every combination of parts that the hub can spell is a job that plans come to rest for, whatever
//! dialect would lower to it.

use planner::fixtures::{job, pod, world};
use planner::job::{
    CleanUp, End, GangChoice, HostNames, JobRestart, LauncherHost, LauncherKind, LauncherStart,
    Lifecycle, Limits, Mpi, RestartPolicy, Workers,
};
use planner::observed::{Pod, PodPhase};
use planner::site::{GangScheduler, Transport};
use planner::{Job, Observed, Phase, plan};
use proptest::prelude::*;
use proptest::sample::select;

/// Every combination of parts that can be written down.
fn jobs() -> impl Strategy<Value = Job> {
    let mpi = select(Mpi::ALL.to_vec());
    let host = select(vec![
        None,
        Some(LauncherHost::Indexed),
        Some(LauncherHost::Unindexed),
    ]);
    let start = select(vec![LauncherStart::AtOnce, LauncherStart::WhenWorkersReady]);
    let gang = [GangScheduler::T9k, GangScheduler::Native].map(GangChoice::Scheduler);
    let gang = [GangChoice::Nobody]
        .into_iter()
        .chain(gang)
        .collect::<Vec<_>>();
    let gang = prop_oneof![7 => Just(GangChoice::Site), 3 => select(gang)];
    let parts = (launchers(), accesses(), lifecycles());
    let workers = (0..4_u32, restarts());
    (mpi, host, start, gang, parts, workers, any::<[bool; 2]>()).prop_map(
        |(mpi, host, start, gang, (kind, access, lifecycle), (workers, restart), flags)| {
            let job = access(job("demo").workers(workers));
            job.with(|job| {
                (job.mpi, job.gang.scheduler) = (mpi, gang);
                [job.elastic, job.isolated] = flags;
                (job.launcher.kind, job.launcher.start) = (kind, start);
                (job.launcher.host, job.lifecycle) = (host, lifecycle);
                if let Workers::Pods(workers) = &mut job.workers {
                    workers.restart = restart;
                }
            })
        },
    )
}

fn launchers() -> impl Strategy<Value = LauncherKind> {
    let in_job = select(vec![JobRestart::Never, JobRestart::OnFailure]);
    let in_job = (in_job, prop::option::of(0..90_u32))
        .prop_map(|(restart, ttl_secs)| LauncherKind::Job { restart, ttl_secs });
    let pod = (restarts(), any::<bool>()).prop_map(|(restart, is_cleaned_up)| LauncherKind::Pod {
        restart,
        is_cleaned_up,
    });
    prop_oneof![in_job, pod]
}

fn restarts() -> impl Strategy<Value = RestartPolicy> {
    select(vec![
        RestartPolicy::Never,
        RestartPolicy::OnFailure,
        RestartPolicy::Always,
        RestartPolicy::ExitCode,
    ])
}

/// Makes the workers of a job reachable.
fn accesses() -> impl Strategy<Value = fn(Job) -> Job> {
    let ways: Vec<fn(Job) -> Job> = vec![
        |job| job,
        |job| job.begun_with(Transport::Ssh, HostNames::Service),
        Job::by_agent,
        Job::of_pods,
        Job::provided,
        |job| job.provided().with_account(),
        Job::of_a_set,
    ];
    select(ways)
}

fn lifecycles() -> impl Strategy<Value = Lifecycle> {
    let clean_up = select(vec![
        CleanUp::Nothing,
        CleanUp::Running,
        CleanUp::All,
        CleanUp::Notify,
    ]);
    let secs = || prop::option::of(0..90_u32);
    let limits = (
        secs(),
        secs(),
        secs(),
        prop::option::of(0..3_u32),
        any::<[bool; 2]>(),
    );
    let limits =
        limits.prop_map(
            |(deadline, startup, expires_secs, backoff_limit, fatal)| Limits {
                deadline_secs: deadline.map(u64::from),
                startup_secs: startup.map(u64::from),
                backoff_limit,
                expires_secs,
                failed_worker_is_fatal: fatal[0],
                deleted_launcher_is_fatal: fatal[1],
            },
        );
    let end = prop_oneof![3 => limits.prop_map(End::WithLauncher), 1 => Just(End::OnDeletion)];
    (any::<bool>(), clean_up, end).prop_map(|(suspended, clean_up, end)| Lifecycle {
        suspended,
        clean_up,
        end,
    })
}

/// With and without the agent's image, by ssh and by agent.
fn agents() -> impl Strategy<Value = (Option<String>, Transport)> {
    let image = prop::option::weighted(0.8, Just("muster-agent:1".to_owned()));
    (image, select(vec![Transport::Ssh, Transport::Agent]))
}

fn phases() -> impl Strategy<Value = PodPhase> {
    select(vec![
        PodPhase::Pending,
        PodPhase::Running,
        PodPhase::Succeeded,
        PodPhase::Failed,
        PodPhase::Unknown,
    ])
}

/// With a launcher in this phase, where one may exist.
fn launched(world: Observed, phase: PodPhase) -> Observed {
    world.with(|world| {
        if world.launcher.ours().is_some() && !world.job.lifecycle.suspended {
            world.launcher_pods = vec![pod("l-0")];
        }
        for launcher in &mut world.launcher_pods {
            *launcher = Pod {
                phase,
                ..pod(&launcher.name)
            };
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn plans_for_every_combination_obey_the_laws_and_come_to_rest(
        job in jobs(),
        (image, transport) in agents(),
        phases in prop::collection::vec((phases(), phases()), 0..4),
        suspensions in any::<[bool; 2]>(),
    ) {
        let mut world = world(job).with(|world| {
            (world.site.agent_image, world.site.transport) = (image, transport);
        });
        // `settled` checks every plan against the laws, and that they come to rest.
        for (workers, launcher) in phases {
            world = world.settled().workers_are(workers);
            for pod in &mut world.workers {
                pod.ready = pod.phase == PodPhase::Running;
            }
            world = launched(world.settled(), launcher).settled().recorded().settled();
            world.now += jiff::SignedDuration::from_secs(40);
        }
        for suspended in suspensions {
            world.job.lifecycle.suspended = suspended;
            world = world.settled().recorded().settled();
        }
        for _ in 0..2 {
            // A deadline may end the job, and then its program has a while to end.
            world.now += jiff::SignedDuration::from_mins(2);
            world = world.settled().recorded().settled();
        }
        let rest = plan(&world);
        prop_assert!(rest.steps.is_empty());
        if rest.status.outcome.is_some() && !world.job.outlives_launcher() {
            let over = [Phase::Finished, Phase::Deleting];
            prop_assert!(over.contains(&rest.status.phase), "{:?}", rest.status);
        }
    }
}
