//! Starts that never come, and what the agent's word decides at the end.

use planner::fixtures::{job, noon, noon_and};
use planner::job::CleanUp;
use planner::observed::{Exit, LauncherEnd, Observed, PodPhase, Waiting};
use planner::{Phase, Reason, Verdict, plan};

use super::{by_agent, by_ssh, waiting};
use crate::deeds;

fn stuck(reason: &str, since: i64) -> Observed {
    waiting(by_agent(job("demo").workers(2))).with(|world| {
        world.workers[1].phase = PodPhase::Pending;
        world.workers[1].waiting = Some(Waiting {
            reason: reason.to_owned(),
            message: "key K not found".to_owned(),
            since: noon_and(since),
            ..Waiting::default()
        });
    })
}

#[test]
fn a_worker_that_can_never_start_ends_the_job_with_its_name() {
    let hope = stuck("CreateContainerConfigError", -11);
    assert_eq!(plan(&hope).status.outcome, None);
    assert_eq!(plan(&hope).wake, Some(noon_and(1)));
    let status = plan(&stuck("CreateContainerConfigError", -12)).status;
    assert_eq!(status.reason, Some(Reason::WorkerCannotStart));
    assert_eq!(
        status.message,
        "worker demo-worker-1 cannot start: CreateContainerConfigError: key K not found"
    );
    for (reason, patience) in [("ErrImageNeverPull", 5), ("ImagePullBackOff", 20)] {
        let hope = stuck(reason, 1 - patience);
        assert_eq!(plan(&hope).status.outcome, None, "{reason}");
        let status = plan(&stuck(reason, -patience)).status;
        assert_eq!(status.reason, Some(Reason::WorkerCannotStart), "{reason}");
    }
    assert_eq!(plan(&stuck("Unschedulable", -9999)).status.outcome, None);
}

#[test]
fn a_launcher_that_can_never_start_ends_the_job_too() {
    let world = waiting(by_agent(job("demo").workers(1))).with(|world| {
        world.launcher_pods[0].waiting = Some(Waiting {
            reason: "ErrImageNeverPull".to_owned(),
            message: String::new(),
            since: noon_and(-60),
            ..Waiting::default()
        });
    });
    let status = plan(&world).status;
    assert_eq!(status.reason, Some(Reason::LauncherCannotStart));
    assert_eq!(
        status.message,
        "launcher l-0 cannot start: ErrImageNeverPull"
    );
}

#[test]
fn a_start_that_takes_too_long_is_a_failure() {
    let limited = |secs| {
        let job = job("demo")
            .workers(2)
            .limited(|limits| limits.startup_secs = Some(secs));
        waiting(by_agent(job)).with(|world| world.recorded.started_at = Some(noon_and(-10)))
    };
    assert_eq!(plan(&limited(11)).wake, Some(noon_and(1)));
    let status = plan(&limited(10)).status;
    assert_eq!(status.reason, Some(Reason::DeadlineExceeded));
    assert!(status.message.contains("within 10 s"), "{}", status.message);
    let begun = limited(10).with(|world| world.launcher_pods[0].phase = PodPhase::Running);
    assert_eq!(plan(&begun).status.outcome, None);
}

/// A job whose launcher pod left these last words.
fn testified(phase: PodPhase, words: &str) -> Observed {
    let job = job("demo").workers(3).clean(CleanUp::Running);
    by_agent(job).running().with(|world| {
        world.launcher_pods[0].phase = phase;
        world.launcher_pods[0].finished_at = Some(noon());
        world.launcher_pods[0].exit = Some(Exit {
            container: "main".to_owned(),
            code: 118,
            reason: "Error".to_owned(),
            message: words.to_owned(),
        });
    })
}

#[test]
fn ranks_that_were_not_distributed_fail_the_job_at_once() {
    let words = r#"{"muster":1,"verdict":"RanksNotDistributed","exit":118,"hosts":0,"asked":3,"message":"0 of 3"}"#;
    for phase in [PodPhase::Running, PodPhase::Failed] {
        let status = plan(&testified(phase, words)).status;
        assert_eq!(status.reason, Some(Reason::RanksNotDistributed));
        assert_eq!(status.message, "0 of 3");
    }
}

#[test]
fn the_agents_word_names_the_cause() {
    let failed = |phase: PodPhase, words: &str| {
        let end = LauncherEnd::Failed {
            reason: "BackoffLimitExceeded".to_owned(),
            message: "limit".to_owned(),
        };
        plan(&testified(phase, words).launcher_ended(end)).status
    };
    for (verdict, exit, reason) in [
        ("WorkerLost", 119, Reason::WorkerLost),
        ("WorkerUnreachable", 119, Reason::Unreachable),
        ("RankFailed", 3, Reason::CommandFailed),
        ("RankFailed", 137, Reason::RankKilled),
        ("Failed", 1, Reason::CommandFailed),
        ("Failed", 127, Reason::CommandNotFound),
    ] {
        let words = format!(
            r#"{{"muster":1,"verdict":"{verdict}","exit":{exit},"hosts":3,"message":"this"}}"#
        );
        // A pod whose container was started again is not Failed; it is removed, still running.
        for phase in [PodPhase::Failed, PodPhase::Running, PodPhase::Pending] {
            let status = failed(phase, &words);
            assert_eq!(status.reason, Some(reason), "{verdict}");
            assert_eq!(status.message, "this: limit");
        }
    }
    for strange in [
        "",
        "{",
        r#"{"muster":2,"verdict":"WorkerLost","exit":1}"#,
        "{}\n",
    ] {
        let status = failed(PodPhase::Failed, strange);
        assert_eq!(status.reason, Some(Reason::CommandFailed), "{strange}");
    }
}

/// Whether a worker whose pull failed like this for so many seconds ends the job.
fn pull_ends_job(reason: &str, message: &str, cause: &str, secs: i64) -> bool {
    let stuck = stuck(reason, -secs).with(|world| {
        let waiting = world.workers[1].waiting.as_mut().unwrap();
        (waiting.message, waiting.cause) = (message.to_owned(), cause.to_owned());
    });
    plan(&stuck).status.outcome.is_some()
}

#[test]
fn c04_one_pull_that_may_succeed_next_time_is_no_outcome() {
    for message in [
        "pull QPS exceeded",
        "failed to pull image \"reg/denied\": EOF",
        "rpc error: code = Unavailable desc = error reading from server",
        "dial tcp: lookup reg.example: host not found",
        "failed to authorize: unexpected status from GET request: 403 Forbidden",
        "unauthorized: your authorization token has expired",
        "429 Too Many Requests",
    ] {
        for reason in ["ErrImagePull", "ImagePullBackOff"] {
            assert!(!pull_ends_job(reason, message, "", 13), "{message}");
            assert!(!pull_ends_job(reason, message, "", 1799), "{message}");
            assert!(pull_ends_job(reason, message, "", 1800), "{message}");
        }
    }
}

#[test]
fn c04_a_back_off_without_a_cause_proves_nothing() {
    let bare = "Back-off pulling image \"x\"";
    assert!(!pull_ends_job("ImagePullBackOff", bare, "", 20));
    assert!(!pull_ends_job("ImagePullBackOff", bare, "i/o timeout", 20));
    assert!(pull_ends_job("ImagePullBackOff", bare, "x: not found", 20));
}

#[test]
fn c04_an_image_that_is_not_there_ends_the_job_after_two_tries() {
    for message in [
        "failed to resolve reference \"docker.io/library/typo:1\": docker.io/library/typo:1: not found",
        "pull access denied, repository does not exist or may require authorization",
        "reading manifest 1 in docker.io/library/typo: manifest unknown",
        "unauthorized: authentication required",
        "Head \"https://reg/v2/typo\": http: server gave HTTP response to HTTPS client",
        "Back-off pulling image \"typo\": ErrImagePull: docker.io/library/typo: not found",
    ] {
        assert!(!pull_ends_job("ErrImagePull", message, "", 19), "{message}");
        assert!(pull_ends_job("ErrImagePull", message, "", 20), "{message}");
    }
}

#[test]
fn c04_the_status_names_the_cause_that_the_kubelet_no_longer_repeats() {
    let stuck = stuck("ImagePullBackOff", -20).with(|world| {
        let waiting = world.workers[1].waiting.as_mut().unwrap();
        "Back-off pulling image \"x\"".clone_into(&mut waiting.message);
        "x: not found".clone_into(&mut waiting.cause);
    });
    assert_eq!(
        plan(&stuck).status.message,
        "worker demo-worker-1 cannot start: ImagePullBackOff: Back-off pulling image \"x\" (earlier: \
         x: not found)"
    );
}

#[test]
fn a_program_that_was_told_to_end_keeps_its_workers_for_a_while() {
    let job = job("demo").workers(2).clean(CleanUp::Running);
    let verdict = Verdict::Failed {
        reason: "DeadlineExceeded".to_owned(),
        message: String::new(),
    };
    let ended = LauncherEnd::Failed {
        reason: "DeadlineExceeded".to_owned(),
        message: String::new(),
    };
    let leaving = by_ssh(job).running().launcher_ended(ended).over(verdict);
    assert_eq!(deeds(&plan(&leaving)), Vec::<String>::new());
    assert_eq!(plan(&leaving).status.phase, Phase::Finishing);
    assert_eq!(plan(&leaving).wake, Some(noon_and(60)));
    let patient = leaving.clone().with(|world| world.now = noon_and(60));
    assert_eq!(
        deeds(&plan(&patient)),
        ["delete workers demo-worker-0 demo-worker-1"]
    );
    let left = leaving.with(|world| world.launcher_pods[0].phase = PodPhase::Failed);
    assert_eq!(
        deeds(&plan(&left)),
        ["delete workers demo-worker-0 demo-worker-1"]
    );
}
