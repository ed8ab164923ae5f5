//! Containers, kubelets, registries and admission webhooks write parts of our messages. Whatever they
//! write, no status tells a terminal what to do.

use contract::agent_report::{AgentReport, RunVerdict};
use jiff::SignedDuration;
use planner::fixtures::{job, noon, pod, world};
use planner::observed::{Exit, LauncherEnd, Pod, PodPhase, Refusal, Slot, Waiting};
use planner::{Job, Kind, Observed, Verdict, plan};
use proptest::prelude::*;
use proptest::sample::select;

/// Clears the screen, writes the clipboard, sets the title, and reverses what follows.
const ATTACK: &str =
    "a\u{1b}[2J\u{1b}]52;c;ZXZpbA==\u{7}\u{9b}2J\u{8}\r\u{7f}\u{0}\u{202e}b\u{2066}\n\tä";

/// Words that the planner looks for, so that each of its sentences is reached.
fn words() -> impl Strategy<Value = String> {
    let known = select(vec![
        "",
        "Evicted",
        "OOMKilled",
        "BackoffLimitExceeded",
        "ErrImagePull",
        "ImagePullBackOff",
        "CreateContainerConfigError",
        "Unschedulable",
        "not found: manifest unknown",
    ]);
    (known, any::<bool>(), any::<String>()).prop_map(|(known, attacks, more)| match attacks {
        true => format!("{known}{ATTACK}{more}"),
        false => known.to_owned(),
    })
}

fn reports() -> impl Strategy<Value = String> {
    let verdict = select(RunVerdict::ALL.to_vec());
    let report = (verdict, words(), any::<u8>()).prop_map(|(verdict, message, exit)| {
        let report = AgentReport {
            hosts: 1,
            asked: Some(2),
            ranks_per_host: [(ATTACK.to_owned(), 1)].into(),
            lost: vec![ATTACK.to_owned()],
            attempts: 1 + u32::from(exit % 2),
            ..AgentReport::new(verdict, exit, message)
        };
        report.to_json()
    });
    prop_oneof![words(), report]
}

fn pods(name: &'static str) -> impl Strategy<Value = Pod> {
    let phase = select(vec![
        PodPhase::Pending,
        PodPhase::Running,
        PodPhase::Succeeded,
        PodPhase::Failed,
    ]);
    let waiting = prop::option::of((words(), words(), words(), words()));
    let exit = prop::option::of((words(), words(), reports(), any::<u8>()));
    let said = (words(), words(), words(), prop::option::of(words()));
    (phase, waiting, exit, said, any::<bool>()).prop_map(
        move |(phase, waiting, exit, (reason, message, node, recovered), deleting)| Pod {
            phase,
            recovered,
            reason,
            message,
            node,
            deleting,
            waiting: waiting.map(|(container, reason, message, cause)| Waiting {
                container,
                reason,
                message,
                cause,
                since: noon(),
            }),
            exit: exit.map(|(container, reason, message, code)| Exit {
                container,
                code: code.into(),
                reason,
                message,
            }),
            ..pod(name)
        },
    )
}

fn refusals() -> impl Strategy<Value = Vec<Refusal>> {
    let kind = select(vec![Kind::Pod, Kind::Job, Kind::Service]);
    let code = select(vec![400, 403, 413, 422, 500]);
    let refusal = (kind, code, words()).prop_map(|(kind, code, message)| Refusal {
        kind,
        name: "demo-worker-0".to_owned(),
        code,
        message,
        retry_at: noon() + SignedDuration::from_hours(2),
    });
    prop::collection::vec(refusal, 0..2)
}

fn assert_shown(what: &str, text: &str) -> Result<(), TestCaseError> {
    let hostile = |char: char| {
        let is_direction =
            ('\u{202a}'..='\u{202e}').contains(&char) || ('\u{2066}'..='\u{2069}').contains(&char);
        is_direction || (char.is_control() && !"\n\t".contains(char))
    };
    prop_assert!(!text.contains(hostile), "{what}: {text:?}");
    Ok(())
}

fn observed(job: Job, secs: i64, hostile: impl FnOnce(&mut Observed)) -> Observed {
    world(job).settled().with(|world| {
        world.now = noon() + SignedDuration::from_secs(secs);
        hostile(world);
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn s07_no_status_tells_a_terminal_what_to_do(
        shape in select(vec![Job::by_agent as fn(Job) -> Job, Job::of_pods, Job::of_a_set, |job| job]),
        secs in 0..4000_i64,
        worker in pods("demo-worker-0"),
        launcher in pods("demo-launcher-0"),
        end in prop::option::of((words(), words())),
        refused in refusals(),
    ) {
        let observed = observed(shape(job("demo").workers(1)), secs, |world| {
            if world.job.launcher.kind.is_pod() {
                world.launcher_pods = vec![Pod { name: "demo-launcher".to_owned(), ..launcher }];
            } else {
                world.launcher_pods = vec![launcher];
            }
            if let Slot::Ours(job) = &mut world.launcher {
                job.end = end.map(|(reason, message)| LauncherEnd::Failed { reason, message });
            }
            world.workers = vec![worker];
            world.refused = refused;
        });
        let status = plan(&observed).status;
        assert_shown("message", &status.message)?;
        if let Some(Verdict::Failed { reason, message }) =
            status.outcome.as_ref().map(|outcome| &outcome.verdict)
        {
            assert_shown("reason of the outcome", reason)?;
            assert_shown("message of the outcome", message)?;
        }
    }
}
