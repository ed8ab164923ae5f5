//! Logs that follow, for one browser. Decides which lines it gets, and that the end of a stream is not the end of a
//! log: a connection breaks, a container goes on, and a pod is replaced by another of the same name.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::io::{AsyncBufReadExt as _, BufReader};
use kube::api::LogParams;
use serde_json::{Value, json};

use super::answer::{self, Answer, Gone, Messages};
use super::{Ui, jobs_page};
use crate::backend::{Backend, Pauses};
use crate::rank_mark;
use crate::report::tail;
use crate::state::changes::Changes;
use crate::view::{JobView, PodView, launcher};

/// Lines in one message.
const LINES_MAX: usize = 200;
/// Bytes of a line that are kept while the rest of it is read.
const LINE_BYTES_MAX: usize = 64 << 10;
/// A pod may be replaced without a word in the status of its job: this is when it is looked for at the latest.
const LOOK_AGAIN: Duration = Duration::from_secs(15);
/// So many times a log of a job that is over is tried to be read.
const TRIES_MAX: u32 = 5;
/// Of a place in a log, the bits that count lines; the others tell the pod.
const LINE_BITS: u32 = 40;
/// Changes of a job come in crowds, of which one look sees all.
const CROWD: Duration = Duration::from_millis(500);

/// Whose lines.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Choice {
    /// Empty: the launcher.
    pod: String,
    rank: Option<usize>,
}

impl Choice {
    pub(super) fn of(query: &str) -> Self {
        let mut choice = Self::default();
        for (name, value) in jobs_page::pairs(query) {
            match name.as_str() {
                "pod" => choice.pod = value,
                "rank" => choice.rank = value.parse().ok(),
                _ => {}
            }
        }
        choice
    }
}

/// How far a browser has read, and in the log of which pod: another pod of the same name begins anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Place {
    /// Tells logs apart by their names.
    pod: u64,
    lines: u64,
}

impl Place {
    /// From the number of a message, which the browser says when it connects again.
    fn of(number: u64) -> Self {
        Self {
            pod: number >> LINE_BITS,
            lines: number & ((1 << LINE_BITS) - 1),
        }
    }

    fn number(self) -> u64 {
        self.pod << LINE_BITS | self.lines
    }

    /// The same place, or the beginning of another log.
    fn in_log_of(self, name: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        let pod = hasher.finish() >> LINE_BITS;
        let lines = match pod == self.pod {
            true => self.lines,
            false => 0,
        };
        Self { pod, lines }
    }
}

/// Tells logs apart: a container that starts again in its pod begins a log of its own.
fn name_of_log(pod: PodView<'_>) -> String {
    let statuses = pod.0["status"]["containerStatuses"].as_array();
    let mut statuses = statuses.into_iter().flatten();
    let main = statuses.find(|status| status["name"] == pod.main_container());
    let restarts = main.and_then(|status| status["restartCount"].as_u64());
    let uid = pod.0["metadata"]["uid"].as_str().unwrap_or_default();
    format!("{uid}/{}", restarts.unwrap_or_default())
}

/// The lines of a log, after those that the browser has seen.
pub(super) fn follow(ui: Arc<Ui>, uid: String, choice: Choice, seen: u64) -> Answer {
    let (answer, messages) = answer::messages();
    let gone = messages.clone();
    tokio::spawn(async move {
        let mut reader = Reader {
            messages,
            choice,
            seen: Place::of(seen),
            read: 0,
            lines: Vec::new(),
            whole: String::new(),
            failed: 0,
        };
        let work = async {
            let why = reader.until_the_end(&ui, &uid).await?;
            reader.messages.send("end", None, &why.into()).await
        };
        tokio::select! {
            _ = work => {}
            () = gone.gone() => {}
        }
    });
    answer
}

struct Reader {
    messages: Messages,
    choice: Choice,
    /// Lines of the log that the browser has, or that are not for it.
    seen: Place,
    /// Lines that were read since the log was opened.
    read: u64,
    lines: Vec<String>,
    /// Name of the log that was read to its end.
    whole: String,
    /// Looks that failed, one after the other.
    failed: u32,
}

/// What comes after a look for more lines.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    /// Nothing, for this reason.
    End(String),
    /// Another look after a pause: a connection broke, or the API server is away.
    Retry,
    /// Another look once something has changed.
    Wait,
}

impl Reader {
    /// Says why there are no more lines.
    async fn until_the_end(&mut self, ui: &Ui, uid: &str) -> Result<String, Gone> {
        let mut pauses = Pauses::default();
        loop {
            let began = Instant::now();
            let Some(job) = ui.found(uid).await else {
                return Ok("The job was deleted.".to_owned());
            };
            let Ok(backend) = ui.backend.renewed() else {
                return Ok("The runs on this machine cannot be read.".to_owned());
            };
            let mut changes = None;
            match self.look(&backend, JobView(&job), &mut changes).await? {
                Next::End(why) => return Ok(why),
                Next::Retry => tokio::time::sleep(pauses.after(began.elapsed())).await,
                Next::Wait => wait(ui, &backend, &job, changes).await,
            }
        }
    }

    /// Sends what there is, and all that comes while the log is open.
    async fn look(
        &mut self,
        backend: &Backend,
        job: JobView<'_>,
        changes: &mut Option<Changes>,
    ) -> Result<Next, Gone> {
        let pods = match backend.pods(job).await {
            Ok(pods) => pods,
            Err(error) => return Ok(self.failure(job, &error)),
        };
        let pod = match self.choice.pod.as_str() {
            "" => launcher(&pods),
            name => pods.iter().map(PodView).find(|pod| pod.name() == name),
        };
        // Looked for before the log is read: nothing is written unseen in between.
        *changes = pod
            .and_then(|pod| backend.log_directory(pod))
            .and_then(|directory| Changes::of(&[directory]).ok());
        let mut next = Next::Wait;
        if let Some(pod) = pod.filter(|pod| pod.phase() != "Pending") {
            let log = name_of_log(pod);
            let is_whole = self.whole == log && !backend.is_recorded();
            if !is_whole {
                self.seen = self.seen.in_log_of(&log);
                if let Err(error) = self.read_all(backend, pod).await? {
                    return Ok(self.failure(job, &error));
                }
            }
            self.failed = 0;
            match pod.phase() {
                "Succeeded" | "Failed" => self.whole = log,
                // The connection broke, or the pod is about to end.
                _ if !backend.is_recorded() => next = Next::Retry,
                _ => {}
            }
        }
        Ok(match job.is_finished() {
            true => Next::End("The log has ended.".to_owned()),
            false => next,
        })
    }

    /// What comes after a failure. A right that is missing stays missing; an API server that is away comes back.
    fn failure(&mut self, job: JobView<'_>, error: &anyhow::Error) -> Next {
        self.failed += 1;
        let text = format!("{error:#}");
        if text.starts_with("you may not read the log") {
            let right = "the right to get pods/log";
            let namespace = job.namespace();
            return Next::End(format!("You lack {right} in namespace {namespace}: {text}"));
        }
        let is_final = text.starts_with("you may not ");
        match is_final || (job.is_finished() && self.failed >= TRIES_MAX) {
            true => Next::End(text),
            false => Next::Retry,
        }
    }

    /// Reads a log from its beginning, and sends what the browser does not have.
    async fn read_all(
        &mut self,
        backend: &Backend,
        pod: PodView<'_>,
    ) -> Result<anyhow::Result<()>, Gone> {
        let params = LogParams {
            container: Some(pod.main_container().to_owned()),
            follow: !backend.is_recorded(),
            ..LogParams::default()
        };
        let stream = match backend.log(pod, &params).await {
            Ok(stream) => stream,
            Err(error) => return Ok(Err(error)),
        };
        self.read = 0;
        let mut stream = BufReader::new(stream);
        let mut line = Vec::new();
        // A line without an end must not fill the memory.
        while let Ok(part) = stream.fill_buf().await {
            if part.is_empty() {
                break;
            }
            let end = part.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(part.len(), |end| end + 1);
            let room = LINE_BYTES_MAX.saturating_sub(line.len()).min(taken);
            line.extend_from_slice(&part[..room]);
            stream.consume_unpin(taken);
            if end.is_some() {
                self.line(&line);
                line.clear();
            }
            // What the program has written so far is sent before the wait for more.
            if self.lines.len() >= LINES_MAX || (end.is_some() && stream.buffer().is_empty()) {
                self.flush().await?;
            }
        }
        if !line.is_empty() {
            self.line(&line);
        }
        self.flush().await?;
        // The node has dropped the oldest lines. How many is not known, and lines to come must not be lost too.
        self.seen.lines = self.seen.lines.min(self.read);
        Ok(Ok(()))
    }

    fn line(&mut self, line: &[u8]) {
        self.read += 1;
        if self.read <= self.seen.lines {
            return;
        }
        self.seen.lines = self.read;
        let text = tail::shown_line(line);
        if self.choice.rank.is_none() || rank_mark::of(&text) == self.choice.rank {
            self.lines.push(text);
        }
    }

    async fn flush(&mut self) -> Result<(), Gone> {
        if self.lines.is_empty() {
            return Ok(());
        }
        let lines: Value = json!(std::mem::take(&mut self.lines));
        let number = self.seen.number();
        self.messages.send("lines", Some(number), &lines).await
    }
}

/// Until there may be more lines.
async fn wait(ui: &Ui, backend: &Backend, job: &Value, changes: Option<Changes>) {
    // Heard from before the job is compared: no change is missed in between.
    let mut rings = ui.bell.subscribe();
    let changed = async {
        let uid = JobView(job).uid();
        loop {
            let now = ui.jobs.iter().find_map(|jobs| jobs.get(uid));
            // The bell rings for other jobs, too.
            if now.as_ref() != Some(job) || rings.changed().await.is_err() {
                break;
            }
            if backend.is_recorded() {
                return;
            }
        }
        tokio::time::sleep(CROWD).await;
    };
    let written = async {
        match &changes {
            Some(changes) => {
                let _ = changes.next().await;
            }
            None => std::future::pending().await,
        }
    };
    let replaced = async {
        match backend.is_recorded() {
            true => std::future::pending().await,
            false => tokio::time::sleep(LOOK_AGAIN).await,
        }
    };
    tokio::select! {
        () = changed => {}
        () = written => {}
        () = replaced => {}
    }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    fn reader() -> Reader {
        Reader {
            messages: answer::messages().1,
            choice: Choice::default(),
            seen: Place::default(),
            read: 0,
            lines: Vec::new(),
            whole: String::new(),
            failed: 0,
        }
    }

    #[test]
    fn a_container_that_starts_again_has_another_log() {
        let pod = |restarts: u32| {
            json!({"metadata": {"uid": "u1"}, "spec": {"containers": [{"name": "mpi"}]},
                "status": {"containerStatuses": [{"name": "mpi", "restartCount": restarts}]}})
        };
        let (first, second) = (pod(0), pod(1));
        let seen = Place::default().in_log_of(&name_of_log(PodView(&first)));
        let seen = Place { lines: 9, ..seen };
        assert_eq!(seen.in_log_of(&name_of_log(PodView(&first))).lines, 9);
        assert_eq!(seen.in_log_of(&name_of_log(PodView(&second))).lines, 0);
    }

    #[test]
    fn a_pod_that_replaces_another_of_the_same_name_is_read_from_its_first_line() {
        let mut reader = reader();
        for (uid, expected) in [("u1", ["one", "two"]), ("u2", ["uno", "due"])] {
            reader.seen = reader.seen.in_log_of(uid);
            reader.read = 0;
            for line in expected {
                reader.line(line.as_bytes());
            }
            assert_eq!(std::mem::take(&mut reader.lines), expected, "{uid}");
        }
        // The browser connects again: it has all of this log, and nothing of the other.
        let seen = Place::of(reader.seen.number());
        assert_eq!(seen.in_log_of("u2").lines, 2);
        assert_eq!(seen.in_log_of("u1").lines, 0);
    }

    #[test]
    fn an_outage_does_not_end_a_log_and_a_right_that_is_missing_does() {
        let of = |is_over: bool| json!({"metadata": {"namespace": "lab"}, "status": {"muster": {"finished": is_over}}});
        let (running, over) = (of(false), of(true));
        let mut reader = reader();
        let away = anyhow!("cannot read the log of pi-launcher: connection refused");
        for _ in 0..2 * TRIES_MAX {
            assert_eq!(reader.failure(JobView(&running), &away), Next::Retry);
        }
        reader.failed = 0;
        assert_eq!(reader.failure(JobView(&over), &away), Next::Retry);
        reader.failed = TRIES_MAX;
        assert_eq!(
            reader.failure(JobView(&over), &away),
            Next::End(away.to_string())
        );
        let refused = anyhow!("you may not read the log of pi-launcher: forbidden");
        let Next::End(why) = reader.failure(JobView(&running), &refused) else {
            panic!("goes on without the right");
        };
        assert!(why.contains("get pods/log in namespace lab"), "{why}");
    }
}
