//! The last lines of logs. Decides whose logs tell most about the end of a job, how much of them is read,
//! and how a line of any program becomes text of a bounded length.

use futures::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use kube::api::LogParams;
use serde::Serialize;
use serde_json::Value;

use crate::backend::Backend;
use crate::rank_mark;
use crate::report::redact;
use crate::view::{JobView, PodView, launcher, workers};

/// Lines that are read of a log, and that are shown of it.
const LINES_READ: i64 = 1_000;
const LINES_SHOWN: usize = 40;
/// Characters of a line that are shown.
pub(crate) const LINE_CHARS_MAX: usize = 2_000;
/// Bytes of a log that are read, whatever its lines are like.
const BYTES_MAX: u64 = 8 << 20;

/// The end of a log.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LogTail {
    pub(crate) title: String,
    pub(crate) pod: String,
    pub(crate) container: String,
    pub(crate) lines: Vec<String>,
}

/// The ends of the logs that tell most, and which of them could not be read.
pub(crate) async fn tails(
    backend: &Backend,
    job: JobView<'_>,
    pods: &[Value],
) -> (Vec<LogTail>, Vec<String>) {
    let (mut tails, mut missing) = (Vec::new(), Vec::new());
    let failed = failed_rank(job.word("message"));
    let launcher = launcher(pods).filter(|pod| pod.phase() != "Pending");
    if let Some(pod) = launcher {
        match last_lines(backend, pod).await {
            Ok(lines) => {
                if let Some((rank, _)) = failed {
                    let own = |line: &&String| rank_mark::of(line) == Some(rank);
                    let own: Vec<String> = lines.iter().filter(own).cloned().collect();
                    if !own.is_empty() {
                        tails.push(tail(format!("Rank {rank}, which failed"), pod, own));
                    }
                }
                tails.insert(0, tail("Launcher".to_owned(), pod, lines));
            }
            Err(error) => missing.push(format!("{error:#}")),
        }
    }
    let worker = failed.and_then(|(_, worker)| {
        let mut workers = workers(pods).into_iter();
        workers.find(|pod| pod.name() == worker)
    });
    if let Some(pod) = worker {
        match last_lines(backend, pod).await {
            Ok(lines) if lines.is_empty() => {}
            Ok(lines) => tails.push(tail(
                "Worker of the rank that failed".to_owned(),
                pod,
                lines,
            )),
            Err(error) => missing.push(format!("{error:#}")),
        }
    }
    (tails, missing)
}

fn tail(title: String, pod: PodView<'_>, mut lines: Vec<String>) -> LogTail {
    LogTail {
        title,
        pod: pod.name().to_owned(),
        container: pod.main_container().to_owned(),
        lines: lines.split_off(lines.len().saturating_sub(LINES_SHOWN)),
    }
}

/// Rank and worker, where a message says which rank failed: `rank 3 on worker pi-worker-1 was ...`.
pub(crate) fn failed_rank(message: &str) -> Option<(usize, &str)> {
    let (_, rest) = message.split_once("rank ")?;
    let (rank, rest) = rest.split_once(" on worker ")?;
    let worker = rest.split([' ', ',', ':']).next()?;
    Some((rank.parse().ok()?, worker))
}

async fn last_lines(backend: &Backend, pod: PodView<'_>) -> anyhow::Result<Vec<String>> {
    let params = LogParams {
        container: Some(pod.main_container().to_owned()),
        tail_lines: Some(LINES_READ),
        ..LogParams::default()
    };
    let reader = backend.log(pod, &params).await?;
    let mut reader = BufReader::new(reader.take(BYTES_MAX));
    let (mut lines, mut line) = (Vec::new(), Vec::new());
    while matches!(reader.read_until(b'\n', &mut line).await, Ok(1..)) {
        lines.push(shown_line(&line));
        line.clear();
    }
    Ok(lines)
}

/// A line of any program, as text: without colours, and cut where it is longer than anybody reads.
pub(crate) fn shown_line(line: &[u8]) -> String {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    // Four bytes are the longest character, and a sequence of colours is short.
    let read = &line[..line.len().min(4 * LINE_CHARS_MAX)];
    let text = String::from_utf8_lossy(read);
    let text = without_colours(text.trim_end());
    let text = redact::text_shown(&text);
    let mut shown: String = text.chars().take(LINE_CHARS_MAX).collect();
    if shown.len() < text.len() || read.len() < line.len() {
        shown += &format!(" ... (a line of {} bytes)", line.len());
    }
    shown
}

fn without_colours(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut parts = text.split("\u{1b}[");
    plain.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let end = part.find(|char: char| !char.is_ascii_digit() && char != ';');
        match end {
            Some(end) if part[end..].starts_with('m') => plain.push_str(&part[end + 1..]),
            _ => {
                plain.push_str("\u{1b}[");
                plain.push_str(part);
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_failed_rank_is_read_from_the_message() {
        let message = "rank 3 on worker fails-worker-1 exited with code 66; the launcher exited";
        assert_eq!(failed_rank(message), Some((3, "fails-worker-1")));
        assert_eq!(
            failed_rank("rank 1 on worker a-worker-0, node b"),
            Some((1, "a-worker-0"))
        );
        assert_eq!(failed_rank("the launcher ended with code 3"), None);
    }

    #[test]
    fn lines_of_any_program_become_short_text() {
        assert_eq!(shown_line(b"\x1b[1;31mred\x1b[0m\r\n"), "red");
        assert_eq!(shown_line(b"\x1b[2Jx\n"), "\u{1b}[2Jx");
        assert_eq!(shown_line(b"a\xff\xfeb\n"), "a\u{fffd}\u{fffd}b");
        assert_eq!(
            shown_line(b"TOKEN=hunter2 step 3"),
            "TOKEN=(left out) step 3"
        );
        let long = vec![b'x'; 1 << 20];
        let shown = shown_line(&long);
        assert!(
            shown.ends_with(" ... (a line of 1048576 bytes)"),
            "{}",
            shown.len()
        );
        assert!(shown.len() < LINE_CHARS_MAX + 40);
    }
}
