//! What is drawn when jobs come, change and go.

use serde_json::json;

use super::*;

const PLAIN: Columns = Columns {
    all: false,
    wide: false,
};

fn job(name: &str, phase: &str) -> Value {
    json!({
        "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob",
        "metadata": {"name": name, "namespace": "lab", "creationTimestamp": "2026-11-15T12:00:00Z"},
        "status": {"muster": {"phase": phase, "ready": "1/2", "message": "so it is"}},
    })
}

fn now(secs: i64) -> Timestamp {
    let noon: Timestamp = "2026-11-15T12:00:00Z".parse().unwrap();
    noon + jiff::SignedDuration::from_secs(secs)
}

#[test]
fn a_pipe_gets_the_table_and_then_a_line_for_each_change() {
    let (mut board, mut lines) = (Board::default(), Lines::default());
    let news = board.take(0, Change::Listed(vec![job("pi", "Waiting")]));
    let (text, note) = lines.text(&board, &news, PLAIN, now(5));
    assert_eq!(text.lines().count(), 2, "{text}");
    assert!(text.starts_with("NAME"), "{text}");
    assert_eq!(note, None);
    // Only its age is different.
    let mut same = job("pi", "Waiting");
    same["metadata"]["resourceVersion"] = "7".into();
    let news = board.take(0, Change::Is(same));
    assert_eq!(lines.text(&board, &news, PLAIN, now(9)).0, "");
    let news = board.take(0, Change::Is(job("pi", "Running")));
    let (text, _) = lines.text(&board, &news, PLAIN, now(10));
    assert!(
        text.contains("Running") && text.lines().count() == 1,
        "{text}"
    );
    let news = board.take(0, Change::Gone(job("pi", "Running")));
    let (text, _) = lines.text(&board, &news, PLAIN, now(11));
    assert!(
        text.contains("Deleted") && text.lines().count() == 1,
        "{text}"
    );
}

#[test]
fn an_api_server_that_goes_away_and_returns_is_told_once_each() {
    let (mut board, mut lines) = (Board::default(), Lines::default());
    let both = || Change::Listed(vec![job("pi", "Running"), job("old", "Running")]);
    let news = board.take(0, both());
    lines.text(&board, &news, PLAIN, now(0));
    let lost = || Change::Lost(kube::Error::Service("connection refused".into()));
    let news = board.take(0, lost());
    let (text, note) = lines.text(&board, &news, PLAIN, now(1));
    assert_eq!(text, "", "what is known stays");
    assert!(note.is_some_and(|note| note.contains("connection refused")));
    let news = board.take(0, lost());
    assert_eq!(
        lines.text(&board, &news, PLAIN, now(2)),
        (String::new(), None)
    );
    // Meanwhile one was deleted, and the other has ended.
    let news = board.take(0, Change::Listed(vec![job("pi", "Succeeded")]));
    let (text, note) = lines.text(&board, &news, PLAIN, now(3));
    assert_eq!(note, None, "a list does not say that a watch is allowed");
    let news = board.take(0, Change::Followed);
    let (_, note) = lines.text(&board, &news, PLAIN, now(4));
    assert_eq!(note.as_deref(), Some("the API server answers again"));
    let states: Vec<&str> = text
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2))
        .collect();
    assert_eq!(states, ["Deleted", "Succeeded"], "{text}");
}

#[test]
fn a_table_is_drawn_over_the_one_before() {
    let mut screen = Screen::default();
    assert_eq!(screen.frame(&["a".to_owned()]), "a\u{1b}[K\n\u{1b}[J");
    screen.lines = 3;
    assert_eq!(
        screen.frame(&["b".to_owned()]),
        "\r\u{1b}[3Ab\u{1b}[K\n\u{1b}[J"
    );
    screen.is_wiped = true;
    assert_eq!(screen.frame(&[]), "\u{1b}[2J\u{1b}[H\u{1b}[J");
}

#[test]
fn what_does_not_fit_is_counted_and_no_line_wraps() {
    let text: String = (0..100)
        .map(|row| format!("row {row} {}\n", "x".repeat(200)))
        .collect();
    let shown = fitted(&text, Some("no news"), 40, 10);
    assert_eq!(shown.len(), 9, "one line is the cursor's");
    assert_eq!(shown[7..], ["and 93 more", "no news"]);
    assert!(shown.iter().all(|line| line.chars().count() <= 40));
    assert_eq!(
        fitted("a\nb\n", None, 1, 1),
        ["and 2 more".chars().next().unwrap().to_string()]
    );
}

/// A tenant may call a job and its message what it likes, and administrators watch all of them.
#[test]
fn s07_hostile_jobs_do_not_reach_the_terminal() {
    let mut evil = job("pi", "Running\u{1b}[2J");
    evil["status"]["muster"]["message"] = "x\u{1b}]52;c;ZXZpbA==\u{7}\nNAME\u{202e}".into();
    let text = PLAIN.table(&[&evil], now(1));
    assert!(!text.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{text:?}");
    let (mut board, mut lines) = (Board::default(), Lines::default());
    let news = board.take(0, Change::Listed(vec![evil]));
    let (text, _) = lines.text(&board, &news, PLAIN, now(1));
    assert!(!text.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{text:?}");
    assert_eq!(text.lines().count(), 2, "{text:?}");
}

#[test]
fn only_the_api_of_the_job_that_was_found_is_followed() {
    let job = job("pi", "Running");
    assert!(is_of(&job, "kubeflow.org/v2beta1", "MPIJob"));
    assert!(!is_of(&job, "kubeflow.org/v1", "MPIJob"));
    assert!(!is_of(&job, "kubeflow.org/v2beta1", "OpenMpi"));
}
