//! A timeline as text: one bar for each pod. Decides the scale, which pods share a line, and what fits. Must not
//! know a cluster.

use jiff::{SignedDuration, Timestamp};

use super::{PodPhase, Row, Span, Timeline};
use crate::out::{RED, painted};
use crate::table::{one_line, seconds};

/// More workers than this share lines.
const LINES_MAX: usize = 40;
/// Of those, so many failed ones and so many late ones have a line of their own.
const OWN_LINES_MAX: usize = 10;
/// Longer names are cut.
const LABEL_MAX: usize = 28;
const LABEL_MIN: usize = 8;
const BAR_MIN: usize = 20;
/// Columns between two times above the bars, at least.
const TICK_COLUMNS: usize = 10;
const STEPS: [i64; 15] = [
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21_600, 86_400,
];

/// What is drawn on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Canvas {
    pub(crate) columns: usize,
    pub(crate) is_ascii: bool,
    pub(crate) is_coloured: bool,
}

/// A line: a pod, or one that stands for several.
struct Line<'t> {
    label: String,
    row: &'t Row,
}

/// The times that the bars show.
#[derive(Clone, Copy)]
struct Scale {
    from: Timestamp,
    to: Timestamp,
    /// What comes after is not shown: the job ran much longer than it took to start.
    is_cut: bool,
    columns: usize,
}

/// One line for each pod, under a line of times.
pub(crate) fn text(timeline: &Timeline, canvas: Canvas) -> String {
    let lines = lines(timeline);
    let labels = lines.iter().map(|line| line.label.chars().count());
    let notes: Vec<String> = lines.iter().map(|line| note(line.row)).collect();
    let note_width = notes.iter().map(|note| note.chars().count()).max();
    let beside = note_width.unwrap_or_default() + 4;
    let room = canvas.columns.saturating_sub(beside + BAR_MIN);
    let label_width = labels.max().unwrap_or_default();
    let label_width = label_width.min(LABEL_MAX).min(room.max(LABEL_MIN));
    let around = label_width + beside;
    let columns = canvas.columns.saturating_sub(around).max(BAR_MIN);
    let scale = Scale::of(timeline, columns);
    let mut text = format!("{:label_width$}  {}\n", "", scale.times());
    for (line, note) in lines.iter().zip(&notes) {
        let label = cut(&line.label, label_width);
        let bar = scale.bar(&line.row.phases, canvas.is_ascii);
        let shown = format!("{label:label_width$}  {bar}  {note}");
        let shown = shown.trim_end();
        text += &match canvas.is_coloured && line.row.has_failed() {
            true => painted(shown, RED),
            false => shown.to_owned(),
        };
        text += "\n";
    }
    text + &legend(&lines, canvas)
}

/// Seconds until the first pod was made, if that is worth a word.
pub(crate) fn queued(timeline: &Timeline) -> Option<String> {
    let secs = first_pod(timeline).duration_since(timeline.from).as_secs();
    (secs >= 5).then(|| seconds(secs))
}

fn lines(timeline: &Timeline) -> Vec<Line<'_>> {
    let (launchers, workers): (Vec<&Row>, Vec<&Row>) =
        timeline.rows.iter().partition(|row| row.is_launcher());
    let launcher_count = launchers.len();
    let mut lines: Vec<Line<'_>> = launchers.into_iter().map(of_pod).collect();
    if workers.len() <= LINES_MAX {
        lines.extend(workers.into_iter().map(of_pod));
        return lines;
    }
    let mut by_start = workers.clone();
    by_start.sort_by_key(|row| row.start_seconds());
    let median = by_start[(by_start.len() - 1) / 2];
    let notable = median.start_seconds() + (median.start_seconds() / 2).max(5);
    let failed = workers.iter().filter(|row| row.has_failed());
    let failed: Vec<&Row> = failed.take(OWN_LINES_MAX).copied().collect();
    let late = by_start.iter().rev();
    let late = late.filter(|row| row.start_seconds() >= notable && !row.has_failed());
    let own: Vec<&Row> = failed
        .into_iter()
        .chain(late.take(OWN_LINES_MAX).copied())
        .collect();
    let others = timeline.pods.saturating_sub(launcher_count + own.len());
    lines.push(Line {
        label: format!("{others} workers, median"),
        row: median,
    });
    lines.extend(own.into_iter().map(of_pod));
    lines
}

fn of_pod(row: &Row) -> Line<'_> {
    Line {
        label: one_line(&row.pod),
        row,
    }
}

/// What is most worth a word about a pod: how it failed, or what its start took longest for.
fn note(row: &Row) -> String {
    if let Some(code) = row.exit_code.filter(|code| *code != 0) {
        return format!("exit code {code}");
    }
    let start = [PodPhase::Scheduling, PodPhase::Pulling, PodPhase::Starting];
    let spent = start.map(|phase| (spent(row, phase), phase));
    match spent.into_iter().max_by_key(|(secs, _)| *secs) {
        Some((secs, phase)) if secs > 0 => {
            format!("{} {}", phase.as_str().to_lowercase(), seconds(secs))
        }
        _ => String::new(),
    }
}

fn spent(row: &Row, phase: PodPhase) -> i64 {
    let spans = row.phases.iter().filter(|span| span.phase == phase);
    spans.map(|span| span.seconds).sum()
}

fn first_pod(timeline: &Timeline) -> Timestamp {
    let queued = |row: &Row| match row.phases.first() {
        Some(first) if first.phase == PodPhase::Queued => first.to,
        Some(first) => first.from,
        None => timeline.to,
    };
    timeline
        .rows
        .iter()
        .map(queued)
        .min()
        .unwrap_or(timeline.from)
}

impl Scale {
    fn of(timeline: &Timeline, columns: usize) -> Self {
        let from = first_pod(timeline);
        let spans = timeline.rows.iter().flat_map(|row| &row.phases);
        let running = spans.filter(|span| span.phase == PodPhase::Running);
        let launched = running.map(|span| span.from).min().unwrap_or(timeline.to);
        let start = launched.duration_since(from).as_secs().max(3);
        let shown = SignedDuration::from_secs((start / 3).max(3));
        // Times of objects are whatever somebody wrote.
        let shown = launched.saturating_add(shown).unwrap_or(timeline.to);
        let is_cut = timeline.to.duration_since(launched).as_secs() > start.max(10);
        Self {
            from,
            to: if is_cut { shown } else { timeline.to },
            is_cut,
            columns,
        }
    }

    fn length(&self) -> f64 {
        let length = self.to.duration_since(self.from).as_secs_f64();
        length.max(0.001)
    }

    /// The first column at or after a number of seconds.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a terminal has few columns"
    )]
    fn column(&self, secs: i64) -> usize {
        let column = secs.max(0) as f64 / self.length() * self.columns as f64;
        column.round() as usize
    }

    /// Times above the bars.
    fn times(&self) -> String {
        let fits = |step: &i64| self.column(*step) >= TICK_COLUMNS;
        let week = STEPS[STEPS.len() - 1] * 7;
        let weeks = std::iter::successors(Some(week), |step| step.checked_mul(2));
        let step = STEPS.into_iter().chain(weeks).find(fits).unwrap_or(week);
        let mut text = String::new();
        let ticks = std::iter::successors(Some(0), |tick: &i64| tick.checked_add(step));
        for tick in ticks {
            let column = self.column(tick);
            let label = seconds(tick);
            if column.saturating_add(label.len()) > self.columns {
                break;
            }
            text += &" ".repeat(column.saturating_sub(text.chars().count()));
            text += &label;
        }
        text
    }

    /// A character for each column: what the pod did in the middle of it. A phase that is shorter than a column
    /// may have none.
    #[expect(clippy::cast_precision_loss, reason = "a terminal has few columns")]
    fn bar(&self, spans: &[Span], is_ascii: bool) -> String {
        let since = |at: Timestamp| at.duration_since(self.from).as_secs_f64();
        let width = self.length() / self.columns as f64;
        let mut bar: String = (0..self.columns)
            .map(|column| {
                let middle = (column as f64 + 0.5) * width;
                let covers = |span: &&Span| since(span.from) <= middle && middle < since(span.to);
                let span = spans.iter().find(covers);
                span.map_or(' ', |span| mark(span.phase, is_ascii))
            })
            .collect();
        let goes_on = spans.last().is_some_and(|span| span.to > self.to);
        if self.is_cut && goes_on {
            bar.pop();
            bar.push(if is_ascii { '>' } else { '▶' });
        }
        bar
    }
}

fn mark(phase: PodPhase, is_ascii: bool) -> char {
    let (block, letter) = match phase {
        PodPhase::Queued => (' ', ' '),
        PodPhase::Scheduling => ('░', '-'),
        PodPhase::Pulling => ('▒', '='),
        PodPhase::Starting => ('▚', '+'),
        PodPhase::Waiting => ('·', '.'),
        PodPhase::Running => ('█', '#'),
    };
    if is_ascii { letter } else { block }
}

/// What the characters mean, of those that there are.
fn legend(lines: &[Line<'_>], canvas: Canvas) -> String {
    let is_shown = |phase: &PodPhase| {
        let mut spans = lines.iter().flat_map(|line| &line.row.phases);
        *phase != PodPhase::Queued && spans.any(|span| span.phase == *phase)
    };
    let (mut text, mut width) = (String::new(), 0);
    for phase in PodPhase::ALL.into_iter().filter(is_shown) {
        let mark = mark(phase, canvas.is_ascii);
        let word = format!("{mark} {}", phase.as_str().to_lowercase());
        let length = word.chars().count();
        let between = match width {
            0 => "",
            width if width + 3 + length > canvas.columns => "\n",
            _ => "   ",
        };
        width = if between == "   " {
            width + 3 + length
        } else {
            length
        };
        text += between;
        text += &word;
    }
    if text.is_empty() { text } else { text + "\n" }
}

fn cut(text: &str, max: usize) -> String {
    match text.chars().count() > max {
        true => {
            let kept: String = text.chars().take(max.saturating_sub(1)).collect();
            kept + "~"
        }
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
