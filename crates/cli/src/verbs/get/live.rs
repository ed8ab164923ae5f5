//! `muster get --watch`: a table that stays up to date on a terminal, or a line for each change. Decides what is
//! drawn and when. Must not know how jobs are followed.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::time::Duration;

use anyhow::Result;
use jiff::Timestamp;
use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::{Columns, heads, row};
use crate::args::GetArgs;
use crate::backend::{Backend, Change, Target, follow};
use crate::exit;
use crate::manifest::typed_name;
use crate::view::JobView;
use crate::{out, table, terminal};

/// Ages are shown in seconds.
const TICK: Duration = Duration::from_secs(1);
/// Changes that wait to be drawn.
const CHANGES_MAX: usize = 256;

/// The jobs as they are known, and what is wrong, by API.
#[derive(Debug, Default)]
struct Board {
    jobs: BTreeMap<Key, Value>,
    answered: BTreeMap<usize, Option<String>>,
}

/// Place of its API, namespace and name.
type Key = (usize, String, String);

impl Board {
    /// Takes a change over; returns the jobs that are new, different or gone.
    fn take(&mut self, place: usize, change: Change) -> Vec<(Value, bool)> {
        let mut news = Vec::new();
        match change {
            Change::Lost(error) => {
                self.answered.insert(place, Some(reason(&error)));
                return news;
            }
            Change::Followed => {}
            Change::Is(job) => news.extend(self.put(place, job)),
            Change::Gone(job) => {
                self.jobs.remove(&key(place, &job));
                news.push((job, true));
            }
            Change::Listed(jobs) => {
                let known: Vec<Key> = jobs.iter().map(|job| key(place, job)).collect();
                let gone = |key: &Key| key.0 == place && !known.contains(key);
                let gone: Vec<Key> = self.jobs.keys().filter(|key| gone(key)).cloned().collect();
                let gone = gone.iter().filter_map(|key| self.jobs.remove(key));
                news.extend(gone.map(|job| (job, true)));
                news.extend(jobs.into_iter().filter_map(|job| self.put(place, job)));
                // Who may list and not watch would read twice in each round that it is over.
                self.answered.entry(place).or_default();
                return news;
            }
        }
        self.answered.insert(place, None);
        news
    }

    fn put(&mut self, place: usize, job: Value) -> Option<(Value, bool)> {
        let before = self.jobs.insert(key(place, &job), job.clone());
        (before.as_ref() != Some(&job)).then_some((job, false))
    }

    /// Why what is shown may be old, if it may.
    fn trouble(&self) -> Option<String> {
        let mut troubles: Vec<&String> = self.answered.values().flatten().collect();
        troubles.dedup();
        let why = troubles.first()?;
        Some(table::one_line(&format!(
            "this may be old, and muster goes on trying: {why}"
        )))
    }
}

fn key(place: usize, job: &Value) -> Key {
    let view = JobView(job);
    (place, view.namespace().to_owned(), view.name().to_owned())
}

/// Whether the job is served by this API: those of others may have the same name.
fn is_of(job: &Value, version: &str, kind: &str) -> bool {
    job["apiVersion"] == version && job["kind"] == kind
}

/// The same words for all APIs, so that one outage is one sentence.
fn reason(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

/// Shows jobs until Ctrl-C.
pub(super) async fn run(backend: &Backend, args: &GetArgs, columns: Columns) -> Result<u8> {
    let mut targets = backend.job_targets(args.all_namespaces)?;
    for target in &mut targets {
        target.labels.clone_from(&args.selector);
    }
    if let Some(called) = &args.name {
        // It must exist, and one of two of the same name must be meant.
        let job = backend.job(called).await?;
        let has_job = |target: &Target| {
            let kind = target.kind.as_ref();
            kind.is_some_and(|(version, kind)| is_of(&job, version, kind))
        };
        targets.retain(has_job);
        for target in &mut targets {
            target.fields = format!("metadata.name={}", JobView(&job).name());
        }
    }
    let count = targets.len();
    let (sender, mut changes) = mpsc::channel(CHANGES_MAX);
    for (place, target) in targets.into_iter().enumerate() {
        let sender = sender.clone();
        let tell = move |change| {
            let sender = sender.clone();
            async move { sender.send((place, change)).await.is_ok() }
        };
        tokio::spawn(follow(target, tell));
    }
    drop(sender);
    let mut view = match terminal::size() {
        Some(_) => View::Live(Screen::default()),
        None => View::Lines(Lines::default()),
    };
    let mut board = Board::default();
    let mut resized = signal(SignalKind::window_change())?;
    let mut tick = tokio::time::interval(TICK);
    loop {
        let mut news = Vec::new();
        tokio::select! {
            _ = tokio::signal::ctrl_c() => return Ok(exit::INTERRUPTED),
            change = changes.recv() => {
                let Some((place, change)) = change else {
                    return Ok(exit::FAILED);
                };
                news.extend(board.take(place, change));
                while let Ok((place, change)) = changes.try_recv() {
                    news.extend(board.take(place, change));
                }
            }
            _ = resized.recv() => {
                if let View::Live(screen) = &mut view {
                    screen.lines = 0;
                    screen.is_wiped = true;
                }
            }
            _ = tick.tick() => {}
        }
        if board.answered.len() < count {
            continue;
        }
        match &mut view {
            View::Live(screen) => screen.draw(&board, columns),
            View::Lines(lines) => lines.print(&board, &news, columns),
        }
    }
}

enum View {
    Live(Screen),
    Lines(Lines),
}

/// A terminal, on which the table is drawn over itself.
#[derive(Debug, Default)]
struct Screen {
    /// Lines of the table that stands there.
    lines: usize,
    /// The terminal has another size, and nobody knows where the old table is.
    is_wiped: bool,
}

impl Screen {
    fn draw(&mut self, board: &Board, columns: Columns) {
        let (width, height) = terminal::size().unwrap_or((80, 24));
        let jobs: Vec<&Value> = board.jobs.values().collect();
        let text = match jobs.is_empty() {
            true => "No jobs found.\n".to_owned(),
            false => columns.table(&jobs, Timestamp::now()),
        };
        let shown = fitted(&text, board.trouble().as_deref(), width, height);
        let frame = self.frame(&shown);
        // What others wrote is without control characters by now.
        let mut stdout = std::io::stdout().lock();
        let _ = stdout
            .write_all(frame.as_bytes())
            .and_then(|()| stdout.flush());
        self.lines = shown.len();
    }

    /// One write, which replaces line by line: what stays the same does not flicker.
    fn frame(&mut self, shown: &[String]) -> String {
        let mut frame = match (std::mem::take(&mut self.is_wiped), self.lines) {
            (true, _) => "\u{1b}[2J\u{1b}[H".to_owned(),
            (false, 0) => String::new(),
            (false, lines) => format!("\r\u{1b}[{lines}A"),
        };
        for line in shown {
            frame += line;
            frame += "\u{1b}[K\n";
        }
        frame + "\u{1b}[J"
    }
}

/// As many lines as fit, and as much of each. A line that wraps would count twice.
fn fitted(text: &str, trouble: Option<&str>, width: usize, height: usize) -> Vec<String> {
    let cut = |line: &str| line.chars().take(width).collect::<String>();
    // The cursor stands below.
    let room = height
        .saturating_sub(1 + usize::from(trouble.is_some()))
        .max(1);
    let mut lines: Vec<String> = text.lines().map(cut).collect();
    if lines.len() > room {
        let hidden = lines.len() - room + 1;
        lines.truncate(room - 1);
        lines.push(cut(&format!("and {hidden} more")));
    }
    lines.extend(trouble.map(cut));
    lines
}

/// A pipe or a file: a line for each change that is seen in the table.
#[derive(Debug, Default)]
struct Lines {
    layout: Option<table::Layout>,
    /// What was printed of each job, without its times.
    printed: BTreeMap<String, Vec<String>>,
    told_trouble: bool,
}

impl Lines {
    fn print(&mut self, board: &Board, news: &[(Value, bool)], columns: Columns) {
        let (text, note) = self.text(board, news, columns, Timestamp::now());
        if let Some(note) = note {
            out::note(&format!("{note}\n"));
        }
        if !text.is_empty() {
            out::data(&text);
        }
    }

    fn text(
        &mut self,
        board: &Board,
        news: &[(Value, bool)],
        columns: Columns,
        now: Timestamp,
    ) -> (String, Option<String>) {
        let note = match (board.trouble(), self.told_trouble) {
            (Some(trouble), false) => Some(trouble),
            (None, true) => Some("the API server answers again".to_owned()),
            _ => None,
        };
        self.told_trouble = board.trouble().is_some();
        let heads = heads(columns);
        let all: Vec<(Value, bool)>;
        let (mut text, news) = match &self.layout {
            Some(_) => (String::new(), news),
            None => {
                all = board
                    .jobs
                    .values()
                    .map(|job| (job.clone(), false))
                    .collect();
                let rows: Vec<Vec<String>> =
                    all.iter().map(|(job, _)| row(job, columns, now)).collect();
                let layout = table::Layout::of(&heads, &rows);
                let text = layout.line(heads.iter().copied());
                self.layout = Some(layout);
                (text, &all[..])
            }
        };
        let Some(layout) = &self.layout else {
            return (text, note);
        };
        for (job, is_gone) in news {
            let mut cells = row(job, columns, now);
            if *is_gone {
                columns.set_state(&mut cells, "Deleted");
            }
            let without_times = columns.without_times(&cells);
            let name = format!("{}/{}", JobView(job).namespace(), typed_name(job));
            if self.printed.get(&name) != Some(&without_times) {
                text += &layout.line(cells.iter().map(String::as_str));
            }
            match is_gone {
                true => self.printed.remove(&name),
                false => self.printed.insert(name, without_times),
            };
        }
        (text, note)
    }
}

#[cfg(test)]
mod tests;
