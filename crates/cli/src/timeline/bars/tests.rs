//! Timelines of a few pods, and of many.

use super::*;

const PIPED: Canvas = Canvas {
    columns: 80,
    is_ascii: false,
    is_coloured: false,
};

fn at(second: i64) -> Timestamp {
    let noon: Timestamp = "2026-11-15T12:00:00Z".parse().unwrap();
    noon + SignedDuration::from_secs(second)
}

/// A pod that was in each phase until this second.
fn row(pod: &str, phases: &[(PodPhase, i64)]) -> Row {
    let mut from = 0;
    let spans = phases.iter().map(|(phase, to)| {
        let span = Span {
            phase: *phase,
            from: at(from),
            to: at(*to),
            seconds: to - from,
        };
        from = *to;
        span
    });
    Row {
        pod: pod.to_owned(),
        role: if pod.contains("launcher") {
            "launcher"
        } else {
            "worker"
        },
        node: "node-a".to_owned(),
        state: "Ready".to_owned(),
        exit_code: None,
        phases: spans.collect(),
        clock_skew_seconds: None,
    }
}

fn timeline(to: i64, rows: Vec<Row>) -> Timeline {
    Timeline {
        from: at(0),
        to: at(to),
        pods: rows.len(),
        rows,
    }
}

use PodPhase::{Pulling, Queued, Running, Scheduling, Starting, Waiting};

fn slow_start(to: i64) -> Timeline {
    let usual = |name: &str| {
        row(
            name,
            &[
                (Queued, 10),
                (Scheduling, 14),
                (Starting, 18),
                (Waiting, 130),
                (Running, to),
            ],
        )
    };
    let late = [
        (Queued, 10),
        (Scheduling, 14),
        (Pulling, 120),
        (Starting, 126),
        (Waiting, 130),
        (Running, to),
    ];
    timeline(
        to,
        vec![
            usual("train-launcher-x"),
            usual("train-worker-0"),
            row("train-worker-1", &late),
        ],
    )
}

#[test]
fn a_late_worker_is_seen_at_once() {
    let drawn = text(&slow_start(160), PIPED);
    assert_eq!(
        drawn,
        concat!(
            "                  0s        30s      60s       90s      2m\n",
            "train-launcher-x  ░▚▚···································██████████  starting 4s\n",
            "train-worker-0    ░▚▚···································██████████  starting 4s\n",
            "train-worker-1    ░▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▚▚·██████████  pulling 106s\n",
            "░ scheduling   ▒ pulling   ▚ starting   · waiting   █ running\n",
        )
    );
    assert!(
        drawn.lines().all(|line| line.chars().count() <= 80),
        "{drawn}"
    );
}

#[test]
fn a_run_that_is_much_longer_than_its_start_is_cut() {
    let drawn = text(&slow_start(36_000), PIPED);
    let late = drawn.lines().nth(3).unwrap();
    assert!(late.contains('▶'), "{drawn}");
    let pulled = late.chars().filter(|char| *char == '▒').count();
    assert!(pulled > 20, "the start is what people look for:\n{drawn}");
}

#[test]
fn terminals_without_blocks_get_letters() {
    let canvas = Canvas {
        is_ascii: true,
        ..PIPED
    };
    let drawn = text(&slow_start(160), canvas);
    assert!(drawn.is_ascii(), "{drawn}");
    assert!(
        drawn.ends_with("- scheduling   = pulling   + starting   . waiting   # running\n"),
        "{drawn}"
    );
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    let mut rows = slow_start(160).rows;
    rows[2].pod = "x".repeat(253);
    for columns in [60, 80, 200] {
        let canvas = Canvas { columns, ..PIPED };
        let drawn = text(&timeline(160, rows.clone()), canvas);
        assert!(
            drawn.lines().all(|line| line.chars().count() <= columns),
            "{columns}:\n{drawn}"
        );
    }
}

#[test]
fn many_workers_share_a_line_and_those_that_tell_something_do_not() {
    let mut rows: Vec<Row> = (0..1_000)
        .map(|index| {
            let ends = [
                (Queued, 1),
                (Scheduling, 2),
                (Starting, 6),
                (Waiting, 100),
                (Running, 200),
            ];
            row(&format!("w-{index}"), &ends)
        })
        .collect();
    rows[7].phases[2].seconds = 95;
    rows[7].phases[2].to = at(97);
    rows[9].exit_code = Some(66);
    let mut timeline = timeline(200, rows);
    timeline.pods = 10_000;
    let drawn = text(&timeline, PIPED);
    let labels: Vec<&str> = drawn
        .lines()
        .skip(1)
        .filter_map(|line| line.split("  ").next())
        .collect();
    assert_eq!(
        labels[..3],
        ["9998 workers, median", "w-9", "w-7"],
        "{drawn}"
    );
    assert_eq!(drawn.lines().count(), 5, "{drawn}");
}

#[test]
fn hostile_names_are_one_line_and_tell_a_terminal_nothing() {
    let mut rows = slow_start(160).rows;
    rows[1].pod = "<script>\u{1b}[2J\nx\u{202e}".to_owned();
    let drawn = text(&timeline(160, rows), PIPED);
    assert_eq!(drawn.lines().count(), 5, "{drawn}");
    assert!(!drawn.contains(['\u{1b}', '\u{202e}']), "{drawn}");
}

#[test]
fn a_job_without_pods_has_no_bars_and_times_that_are_odd_do_no_harm() {
    assert_eq!(text(&timeline(0, Vec::new()), PIPED).lines().count(), 1);
    let long = timeline(
        i64::from(u32::MAX) * 2,
        vec![row("w-0", &[(Queued, i64::from(u32::MAX) * 2)])],
    );
    assert!(
        text(&long, PIPED)
            .lines()
            .all(|line| line.chars().count() <= 80)
    );
}

#[test]
fn times_at_the_end_of_all_time_are_drawn() {
    let mut far = timeline(0, vec![row("w-0", &[(Queued, 10), (Running, 20)])]);
    (far.from, far.to) = (Timestamp::MIN, Timestamp::MAX);
    for from in [Timestamp::MIN, Timestamp::MAX] {
        let span = &mut far.rows[0].phases[1];
        (span.from, span.to) = (from, Timestamp::MAX);
        let drawn = text(&far, PIPED);
        assert!(
            drawn.lines().all(|line| line.chars().count() <= 80),
            "{drawn}"
        );
    }
}
