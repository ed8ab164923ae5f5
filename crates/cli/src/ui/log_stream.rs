//! Logs that follow, for one browser. Decides which lines it gets, and that the end of a stream is not the end of a
//! log: a connection breaks, and a container goes on.

use std::sync::Arc;

use futures::io::{AsyncBufReadExt as _, BufReader};
use kube::api::LogParams;
use serde_json::{Value, json};

use super::answer::{self, Answer, Gone, Messages};
use super::{Ui, jobs_page};
use crate::backend::Backend;
use crate::rank_mark;
use crate::report::tail;
use crate::state::changes::Changes;
use crate::view::{JobView, PodView, launcher};

/// Lines in one message.
const LINES_MAX: usize = 200;
/// Bytes of a line that are kept while the rest of it is read.
const LINE_BYTES_MAX: usize = 64 << 10;

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

/// The lines of a log, after those that the browser has seen.
pub(super) fn follow(ui: Arc<Ui>, uid: String, choice: Choice, seen: u64) -> Answer {
    let (answer, messages) = answer::messages();
    let gone = messages.clone();
    tokio::spawn(async move {
        let mut reader = Reader {
            messages,
            choice,
            seen,
            read: 0,
            lines: Vec::new(),
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
    seen: u64,
    /// Lines that were read since the log was opened.
    read: u64,
    lines: Vec<String>,
}

impl Reader {
    /// Says why there are no more lines.
    async fn until_the_end(&mut self, ui: &Ui, uid: &str) -> Result<String, Gone> {
        loop {
            let Some(job) = ui.found(uid).await else {
                return Ok("The job was deleted.".to_owned());
            };
            let Ok(backend) = ui.backend.renewed() else {
                return Ok("The runs on this machine cannot be read.".to_owned());
            };
            let view = JobView(&job);
            let pods = match backend.pods(view).await {
                Ok(pods) => pods,
                Err(error) => return Ok(format!("{error:#}")),
            };
            let pod = match self.choice.pod.as_str() {
                "" => launcher(&pods),
                name => pods.iter().map(PodView).find(|pod| pod.name() == name),
            };
            let changes = pod
                .and_then(|pod| backend.log_directory(pod))
                .and_then(|directory| Changes::of(&[directory]).ok());
            let is_over = view.is_finished()
                || pod.is_some_and(|pod| matches!(pod.phase(), "Succeeded" | "Failed"));
            if let Some(pod) = pod.filter(|pod| pod.phase() != "Pending") {
                let read = self.read_all(&backend, pod).await?;
                if let Err(error) = read.filter_over(is_over) {
                    return Ok(error);
                }
            }
            if is_over {
                return Ok("The log has ended.".to_owned());
            }
            wait(ui, &backend, view, changes).await;
        }
    }

    /// Reads a log from its beginning, and sends what the browser does not have.
    async fn read_all(&mut self, backend: &Backend, pod: PodView<'_>) -> Result<Read, Gone> {
        let params = LogParams {
            container: Some(pod.main_container().to_owned()),
            follow: !backend.is_recorded(),
            ..LogParams::default()
        };
        let stream = match backend.log(pod, &params).await {
            Ok(stream) => stream,
            Err(error) => return Ok(Read::Failed(format!("{error:#}"))),
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
        Ok(Read::Ended)
    }

    fn line(&mut self, line: &[u8]) {
        self.read += 1;
        if self.read <= self.seen {
            return;
        }
        self.seen = self.read;
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
        self.messages.send("lines", Some(self.seen), &lines).await
    }
}

/// How reading a log ended.
enum Read {
    Ended,
    Failed(String),
}

impl Read {
    /// A log that cannot be read yet may be there later, while the pod lives.
    fn filter_over(self, is_over: bool) -> Result<(), String> {
        match self {
            Self::Failed(why) if is_over => Err(why),
            Self::Failed(_) | Self::Ended => Ok(()),
        }
    }
}

/// Until there may be more lines.
async fn wait(ui: &Ui, backend: &Backend, job: JobView<'_>, changes: Option<Changes>) {
    let mut rings = ui.bell.subscribe();
    let written = async {
        match &changes {
            Some(changes) => {
                let _ = changes.next().await;
            }
            None => std::future::pending().await,
        }
    };
    let changed = async {
        match backend.is_recorded() {
            true => std::future::pending().await,
            false => backend.changed(job).await,
        }
    };
    tokio::select! {
        _ = rings.changed() => {}
        () = written => {}
        _ = changed => {}
    }
}
