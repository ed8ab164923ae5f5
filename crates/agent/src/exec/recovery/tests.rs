//! Which attempts are followed by another, and what is said of them.

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn policy(restarts: u32, reset_secs: Option<u64>) -> Policy {
    Policy {
        restarts,
        on: vec![Reason::RankKilled, Reason::WorkerLost],
        reset_after: reset_secs.map(Duration::from_secs),
    }
}

fn killed() -> AgentReport {
    AgentReport::new(RunVerdict::RankFailed, 137, "rank 1 was killed".into())
}

/// How many attempts there are if each ends so, after so many seconds.
fn attempts(policy: Policy, lasted_secs: &[u64]) -> u32 {
    let mut attempts = Attempts::new(Some(policy));
    for secs in lasted_secs {
        let lasted = Duration::from_secs(*secs);
        match attempts.restart_after(&killed(), lasted) {
            Some(restart) => attempts.advance(restart),
            None => return attempts.number(),
        }
    }
    panic!("more attempts than {}", lasted_secs.len());
}

#[test]
fn a_command_is_started_again_as_often_as_the_job_allows() {
    for restarts in 0..4 {
        assert_eq!(attempts(policy(restarts, None), &[1000; 9]), restarts + 1);
    }
}

#[test]
fn a_good_attempt_gives_all_restarts_back() {
    let lasted = |secs: &[u64]| attempts(policy(2, Some(60)), secs);
    assert_eq!(lasted(&[1, 1, 1]), 3);
    assert_eq!(lasted(&[1, 59, 59]), 3, "none of them was good");
    assert_eq!(lasted(&[1, 1, 60, 1, 1]), 5, "the third was");
    assert_eq!(lasted(&[60, 60, 60, 60, 1, 1]), 6);
    assert_eq!(attempts(policy(0, Some(60)), &[60]), 1, "there are none");
}

#[test]
fn the_reason_must_be_one_of_those_that_the_job_names() {
    let attempts = Attempts::new(Some(policy(3, None)));
    let after = |verdict, exit| {
        let report = AgentReport::new(verdict, exit, String::new());
        let restart = attempts.restart_after(&report, SECOND);
        restart.map(|restart| restart.ended.reason)
    };
    let killed = Some(Reason::RankKilled);
    assert_eq!(after(RunVerdict::RankFailed, 137), killed);
    assert_eq!(after(RunVerdict::Failed, 139), killed);
    assert_eq!(after(RunVerdict::WorkerLost, 119), Some(Reason::WorkerLost));
    assert_eq!(after(RunVerdict::RankFailed, 3), None, "CommandFailed");
    assert_eq!(after(RunVerdict::WorkerUnreachable, 119), None);
    assert_eq!(after(RunVerdict::Succeeded, 0), None);
    assert_eq!(after(RunVerdict::Stopped, 143), None);
    assert_eq!(after(RunVerdict::RanksNotDistributed, 118), None);
}

#[test]
fn without_a_policy_nothing_is_started_again_nor_told() {
    let attempts = Attempts::new(None);
    assert_eq!(attempts.restart_after(&killed(), SECOND), None);
    assert_eq!(attempts.variables(), []);
    assert_eq!(attempts.told(killed()), killed());
}

#[test]
fn the_command_is_told_which_attempt_it_is_and_why() {
    let mut attempts = Attempts::new(Some(policy(3, None)));
    assert_eq!(attempts.variables(), [(env::ATTEMPT, "1".to_owned())]);
    let restart = attempts.restart_after(&killed(), SECOND).unwrap();
    assert_eq!(restart.most, 4);
    attempts.advance(restart);
    let both = [
        (env::ATTEMPT, "2".to_owned()),
        (env::RESTART_REASON, "RankKilled".to_owned()),
    ];
    assert_eq!(attempts.variables(), both);
}

#[test]
fn the_report_counts_all_attempts_and_names_the_last_ones() {
    let mut attempts = Attempts::new(Some(policy(9, None)));
    assert_eq!(attempts.told(killed()), killed(), "there was only one");
    let lost = AgentReport::new(RunVerdict::WorkerLost, 119, "w0 was lost".into());
    for (began_ms, report) in [(1_000, killed()), (9_500, lost)] {
        attempts.begins(Some(began_ms));
        attempts.heard_of_ranks(Some(began_ms + 250));
        let restart = attempts.restart_after(&report, 7 * SECOND).unwrap();
        attempts.advance(restart);
    }
    attempts.begins(Some(20_000));
    let success = attempts.told(AgentReport::new(RunVerdict::Succeeded, 0, String::new()));
    assert_eq!(success.attempts, 3);
    let first = EndedAttempt {
        number: 1,
        reason: Reason::RankKilled,
        seconds: 7,
        began_ms: Some(1_000),
    };
    assert_eq!(success.earlier[0], first);
    assert_eq!(success.began_ms, Some(20_000));
    assert_eq!(
        success.ranks_started_ms,
        Some(1_250),
        "the first ranks count"
    );
    assert_eq!(
        success.message,
        "attempt 3 succeeded; attempt 1 ended with RankKilled, attempt 2 with WorkerLost"
    );
    let blocked = attempts.blocked(killed(), "worker w1 has ended");
    assert_eq!(
        blocked.message,
        "attempt 4 could not begin: worker w1 has ended; rank 1 was killed; this was attempt 3; \
         attempt 1 ended with RankKilled, attempt 2 with WorkerLost"
    );
    for _ in 0..5 {
        let restart = attempts.restart_after(&killed(), SECOND).unwrap();
        attempts.advance(restart);
    }
    let report = attempts.told(killed());
    let numbers: Vec<_> = report.earlier.iter().map(|ended| ended.number).collect();
    assert_eq!((report.attempts, numbers), (8, vec![3, 4, 5, 6, 7]));
}

#[test]
fn the_operator_s_words_are_understood() {
    let read = |words: &[(&str, &str)]| {
        Policy::of(|name| {
            let word = words.iter().find(|(other, _)| *other == name);
            word.map(|(_, value)| (*value).to_owned())
        })
    };
    assert_eq!(read(&[]), None);
    assert_eq!(read(&[(env::RESTARTS, "many")]), None);
    let all = read(&[(env::RESTARTS, "2")]).unwrap();
    assert_eq!(all.on, RESTARTABLE);
    let some = [
        (env::RESTARTS, "2"),
        (env::RESTART_ON, "WorkerLost,RankKilled"),
        (env::RESTART_RESET, "60"),
    ];
    assert_eq!(read(&some), Some(policy(2, Some(60))));
}

#[test]
fn a_worker_that_leaves_costs_nothing_unless_it_leaves_again_at_once() {
    let left = AgentReport::new(RunVerdict::WorkerLeft, 119, String::new());
    let mut attempts = Attempts::new(Some(policy(1, None)));
    for secs in [1, 60, 3600] {
        let restart = attempts.restart_after(&left, Duration::from_secs(secs));
        attempts.advance(restart.expect("nothing is used up"));
        assert_eq!(attempts.spent, 0, "after {secs} s");
    }
    let restart = attempts.restart_after(&left, SECOND * 59);
    attempts.advance(restart.expect("one is left"));
    assert_eq!(attempts.spent, 1);
    assert_eq!(attempts.restart_after(&left, SECOND), None);
    let unwanted = Policy {
        on: vec![Reason::RankKilled],
        ..policy(1, None)
    };
    let attempts = Attempts::new(Some(unwanted));
    let after = attempts.restart_after(&left, SECOND * 60);
    assert_eq!(after, None, "nobody replaces the worker");
}
