//! Runs as they were seen, and what is to be said of them.

use super::trouble::VANISHED_PATIENCE;
use super::*;
use crate::session_record::Failed;

fn record(host: &str, state: State) -> SessionRecord {
    SessionRecord {
        host: host.into(),
        shim: 1,
        caller: None,
        caller_seen: 0,
        daemon: Some("prted".into()),
        state,
        is_leaving: false,
        rank_count: Some(1),
        ranks: [(0, RankState::Ended(Ending::Code(0)))].into(),
        failed: Vec::new(),
        reports: 0,
        news_bytes: 0,
    }
}

fn census(records: Vec<SessionRecord>) -> Census {
    Census {
        records,
        callers: Callers::default(),
        asked: Some(2),
        counts_hosts: true,
        watches_ranks: true,
        kills_at_once: false,
    }
}

fn ended(host: &str) -> SessionRecord {
    record(host, State::Ended(Ending::Code(0)))
}

fn judge(census: &Census, code: u8, shim_lives: bool) -> (RunVerdict, u8) {
    let report = census.report(code, None, None, |_| shim_lives);
    (report.verdict, report.exit)
}

#[test]
fn zero_is_believed_when_all_took_part_and_ended_well() {
    let good = census(vec![ended("w0"), ended("w1")]);
    assert_eq!(judge(&good, 0, true), (RunVerdict::Succeeded, 0));
    assert_eq!(judge(&good, 3, true), (RunVerdict::Failed, 3));
    let report = good.report(0, None, None, |_| true);
    assert_eq!(
        report.ranks_per_host,
        [("w0".into(), 1), ("w1".into(), 1)].into()
    );
}

#[test]
fn v05_ranks_are_counted_only_where_that_is_certain() {
    let with = |host: &str, rank_count, started| SessionRecord {
        rank_count,
        caller: Some(Caller { started, number: 7 }),
        ..ended(host)
    };
    let none = SessionRecord {
        ranks: [].into(),
        ..with("w2", None, 20)
    };
    let records = vec![
        with("w0", Some(2), 20),
        with("w0", Some(3), 20),
        with("w1", Some(2), 20),
        with("w1", None, 20),
        none,
        // Of a launcher that had ended before.
        with("w3", Some(2), 10),
    ];
    let mut run = census(records);
    run.callers
        .look(&run.records, 30, |caller| caller.started == 20);
    let report = run.report(0, None, None, |_| true);
    assert_eq!(report.ranks_per_host, [("w0".into(), 5)].into());
}

#[test]
fn zero_is_not_believed_on_too_few_hosts() {
    let mut few = census(vec![ended("w0"), ended("w0")]);
    assert_eq!(judge(&few, 0, true), (RunVerdict::RanksNotDistributed, 118));
    let message = few.report(0, None, None, |_| true).message;
    assert!(message.contains("only 1 of 2 workers"), "{message}");
    few.counts_hosts = false;
    assert_eq!(judge(&few, 0, true), (RunVerdict::Succeeded, 0));
    assert_eq!(
        judge(&census(vec![]), 0, true),
        (RunVerdict::RanksNotDistributed, 118)
    );
}

#[test]
fn zero_is_not_believed_when_a_worker_was_lost() {
    let states = [
        State::Lost("nothing was heard".into()),
        State::Ended(Ending::Signal(9)),
        State::Ended(Ending::Code(1)),
        State::Started,
    ];
    for state in states {
        let census = census(vec![ended("w0"), record("w1", state.clone())]);
        assert_eq!(
            judge(&census, 0, false),
            (RunVerdict::WorkerLost, 119),
            "{state:?}"
        );
        let report = census.report(0, None, None, |_| false);
        assert_eq!(report.lost, ["w1"], "{state:?}");
    }
    let stopped = census(vec![ended("w0"), record("w1", State::Stopped)]);
    assert_eq!(judge(&stopped, 0, false), (RunVerdict::Succeeded, 0));
}

#[test]
fn other_commands_do_not_contradict_the_launcher() {
    let test = SessionRecord {
        daemon: None,
        ..record("w1", State::Lost("x".into()))
    };
    let census = census(vec![ended("w0"), ended("w1"), test]);
    assert_eq!(judge(&census, 0, true), (RunVerdict::Succeeded, 0));
}

#[test]
fn the_rank_that_failed_first_is_named() {
    let mut first = record("w0", State::Started);
    first.ranks = [
        (0, RankState::Ended(Ending::Signal(9))),
        (1, RankState::Ended(Ending::Code(3))),
    ]
    .into();
    let census = census(vec![first, ended("w1")]);
    let (trouble, _) = census.trouble(|_| true).unwrap();
    assert_eq!(trouble.sentence(), "rank 1 on worker w0 exited with code 3");
    let report = census.report(143, None, Some(trouble), |_| true);
    assert_eq!((report.verdict, report.exit), (RunVerdict::RankFailed, 3));
    assert_eq!(judge(&census, 255, true), (RunVerdict::RankFailed, 255));
}

#[test]
fn ranks_that_the_launcher_ended_are_not_blamed() {
    let mut first = record("w0", State::Started);
    first.ranks = [(0, RankState::Ended(Ending::Signal(15)))].into();
    let mut second = record("w1", State::Started);
    second.ranks = [(1, RankState::Ended(Ending::Signal(9)))].into();
    let census = census(vec![first, second]);
    let message = |code| census.report(code, None, None, |_| true).message;
    assert!(
        message(137).starts_with("rank 1 on worker w1"),
        "{}",
        message(137)
    );
    // MPI_Abort(5): whoever called it is not among those that were seen to end.
    assert_eq!(message(5), "the launcher exited with 5");
}

#[test]
fn the_rank_that_failed_first_is_blamed_and_not_those_that_died_of_it() {
    let failed = |host: &str, rank, ending, at_ms| SessionRecord {
        ranks: [(rank, RankState::Ended(ending))].into(),
        failed: vec![Failed { at_ms, rank }],
        ..record(host, State::Started)
    };
    let killed = failed("w1", 1, Ending::Signal(9), 20);
    let echo = failed("w0", 0, Ending::Code(14), 10);
    let run = census(vec![echo.clone(), killed.clone()]);
    let report = run.report(14, None, None, |_| true);
    assert_eq!(report.exit, 14);
    assert!(report.message.starts_with("rank 1 on worker w1"));
    let (trouble, _) = run.trouble(|_| true).unwrap();
    assert_eq!(
        trouble.sentence(),
        "rank 1 on worker w1 was ended by signal 9"
    );
    // Hydra kills the others at once, but crashes are nobody's doing.
    let hydra = |record: &SessionRecord| SessionRecord {
        daemon: Some("hydra_pmi_proxy".into()),
        ..record.clone()
    };
    let run = census(vec![hydra(&echo), hydra(&killed)]);
    let report = run.report(14, None, None, |_| true);
    assert!(report.message.starts_with("rank 0 on worker w0"));
    let crashed = failed("w1", 1, Ending::Signal(11), 20);
    let run = census(vec![hydra(&echo), hydra(&crashed)]);
    let report = run.report(255, None, None, |_| true);
    assert!(report.message.starts_with("rank 1 on worker w1"));
    // Open MPI's way of saying that another is gone.
    let cause = failed("w1", 1, Ending::Code(3), 20);
    let run = census(vec![echo.clone(), cause]);
    let report = run.report(14, None, None, |_| true);
    assert!(report.message.starts_with("rank 1 on worker w1"));
    // Later it may have been the launcher.
    let late = failed("w1", 1, Ending::Signal(9), 10 + ECHO_MS + 1);
    let run = census(vec![echo, late]);
    let report = run.report(14, None, None, |_| true);
    assert!(report.message.starts_with("rank 0 on worker w0"));
}

#[test]
fn where_the_launcher_kills_at_once_a_killed_rank_may_be_the_cause() {
    let failed = |host: &str, rank, ending, at_ms| SessionRecord {
        ranks: [(rank, RankState::Ended(ending))].into(),
        failed: vec![Failed { at_ms, rank }],
        ..record(host, State::Started)
    };
    let killed = failed("w1", 1, Ending::Signal(9), 20);
    let named = |other: SessionRecord, code: u8| {
        let run = Census {
            kills_at_once: true,
            ..census(vec![other, killed.clone()])
        };
        let message = run.report(code, None, None, |_| true).message;
        message.split(';').next().unwrap_or_default().to_owned()
    };
    // Another may have heard of it first, and its code may become the launcher's.
    let echo = failed("w0", 0, Ending::Code(14), 10);
    for code in [14, 137] {
        let sentence = named(echo.clone(), code);
        assert_eq!(sentence, "rank 1 on worker w1 was ended by signal 9");
    }
    // What exits by itself is not killed, but others are killed then.
    let exits = failed("w0", 0, Ending::Code(3), 30);
    assert_eq!(named(exits, 3), "rank 0 on worker w0 exited with code 3");
    // MPI_Abort(5)
    assert_eq!(named(ended("w0"), 5), "the launcher exited with 5");
}

#[test]
fn a_rank_that_vanished_is_trouble_only_while_others_are_in_mpi() {
    let with = |host, rank, state| SessionRecord {
        ranks: [(rank, state)].into(),
        ..record(host, State::Started)
    };
    let gone = with("w0", 0, RankState::Vanished);
    let waits = census(vec![gone.clone(), with("w1", 1, RankState::InMpi)]);
    let (trouble, _) = waits.trouble(|_| true).unwrap();
    assert_eq!(trouble.patience(), VANISHED_PATIENCE);
    let report = waits.report(143, None, Some(trouble), |_| true);
    assert_eq!((report.verdict, report.exit), (RunVerdict::RankFailed, 1));
    for state in [RankState::Running, RankState::Vanished] {
        let done = census(vec![gone.clone(), with("w1", 1, state)]);
        assert_eq!(done.trouble(|_| true), None, "{state:?}");
    }
    let ended = census(vec![ended("w0"), with("w1", 1, RankState::InMpi)]);
    assert_eq!(judge(&ended, 0, true), (RunVerdict::Succeeded, 0));
}

#[test]
fn a_killed_daemon_outweighs_the_ranks_that_it_takes_along() {
    let mut killed = record("w0", State::Ended(Ending::Code(137)));
    killed.ranks = [(0, RankState::Ended(Ending::Signal(15)))].into();
    let census = census(vec![killed, ended("w1")]);
    assert_eq!(judge(&census, 0, true), (RunVerdict::WorkerLost, 119));
}

#[test]
fn of_connections_that_were_all_killed_the_silent_worker_is_blamed() {
    let mut run = census(vec![
        record("w0", State::Started),
        record("w1", State::Started),
    ]);
    let report = run.report(0, None, None, |_| false);
    assert!(
        report
            .message
            .starts_with("the connections to workers w0, w1 were killed")
    );
    assert_eq!(report.lost, ["w0", "w1"]);
    run.note_silent(|_| false, |host| host != "w1");
    let report = run.report(0, None, None, |_| false);
    assert_eq!((report.verdict, report.exit), (RunVerdict::WorkerLost, 119));
    assert!(report.message.starts_with("worker w1 was lost"));
    assert_eq!(report.lost, ["w1"]);
}

#[test]
fn told_to_stop_is_never_a_success() {
    let good = census(vec![ended("w0"), ended("w1")]);
    let report = good.report(0, Some(15), None, |_| true);
    assert_eq!((report.verdict, report.exit), (RunVerdict::Stopped, 143));
    let report = good.report(1, Some(15), None, |_| true);
    assert_eq!((report.verdict, report.exit), (RunVerdict::Stopped, 1));
}
fn of_caller(started: u64, seen: u64, record: SessionRecord) -> SessionRecord {
    SessionRecord {
        caller: Some(Caller { started, number: 7 }),
        caller_seen: seen,
        ..record
    }
}

/// Two launchers, the first of which failed; the living are told by when they began.
fn two_launchers(first_seen: u64, second: State, living: &[u64]) -> Census {
    let lost = State::Lost("nothing was heard".into());
    let mut both = census(vec![
        of_caller(10, first_seen, record("w0", lost)),
        of_caller(30, 31, record("w0", second.clone())),
        of_caller(30, 31, record("w1", second)),
    ]);
    let lives = |caller: Caller| living.contains(&caller.started);
    both.callers.look(&both.records, 40, lives);
    both
}

#[test]
fn a_launcher_that_has_ended_is_no_trouble_for_the_next() {
    let next = two_launchers(12, State::Started, &[30]);
    assert_eq!(next.trouble(|_| true), None);
    let (trouble, caller) = next.trouble(|_| false).unwrap();
    assert_eq!(caller.map(|caller| caller.started), Some(30), "{trouble:?}");
    let at_once = two_launchers(12, State::Started, &[10, 30]);
    let (trouble, caller) = at_once.trouble(|_| true).unwrap();
    assert_eq!(caller.map(|caller| caller.started), Some(10), "{trouble:?}");
}

#[test]
fn zero_is_judged_by_the_last_launchers_and_failure_by_them_first() {
    let good = State::Ended(Ending::Code(0));
    let retried = two_launchers(12, good.clone(), &[]);
    assert_eq!(judge(&retried, 0, true), (RunVerdict::Succeeded, 0));
    assert_eq!(judge(&retried, 1, true), (RunVerdict::WorkerLost, 1));
    let at_once = two_launchers(35, good, &[]);
    assert_eq!(judge(&at_once, 0, true), (RunVerdict::WorkerLost, 119));
    let unreachable = State::Unreachable("no answer".into());
    let both_failed = two_launchers(12, unreachable, &[]);
    let report = both_failed.report(1, None, None, |_| true);
    assert_eq!(report.verdict, RunVerdict::WorkerUnreachable);
    assert_eq!(report.lost, ["w0", "w1"]);
}

#[test]
fn ranks_of_two_launchers_do_not_wait_for_each_other() {
    let with = |started, host, rank, state| SessionRecord {
        ranks: [(rank, state)].into(),
        ..of_caller(started, 31, record(host, State::Started))
    };
    let mut run = census(vec![
        with(10, "w0", 0, RankState::Vanished),
        with(30, "w1", 0, RankState::InMpi),
    ]);
    run.callers.look(&run.records, 40, |_| true);
    assert_eq!(run.trouble(|_| true), None);
}
