//! Follows a job until it is over: prints changes on stderr, and the result at the end. Decides when a
//! change is worth a line; the result comes from the job's status alone.

use std::time::{Duration, Instant};

use anyhow::Result;
use futures::{AsyncBufReadExt as _, FutureExt as _};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use jiff::Timestamp;
use kube::api::LogParams;
use serde_json::Value;

use crate::args::Global;
use crate::backend::{Backend, Pauses, is_refused};
use crate::exit::{self, Failure};
use crate::out::{GREEN, painted};
use crate::view::{JobView, launcher};
use crate::{out, table, verdict};

/// The progress line appears only after this time.
const PROGRESS_DELAY: Duration = Duration::from_secs(2);
const TICK: Duration = Duration::from_millis(120);
/// How long a log may take to end once its job is over.
const LAST_LINES_MAX: Duration = Duration::from_secs(5);
/// Time between two lines of a job that does not change.
const UNCHANGED_INTERVAL: Duration = Duration::from_secs(30);
/// An API server that is away for longer may not come back: a local cluster has been ended.
const AWAY_MAX: Duration = Duration::from_secs(300);
/// Lines of a failed program that are repeated at the end, and how many are searched for them.
const LAST_LINES: usize = 5;
const LINES_READ: i64 = 100;

/// How a job ended.
#[derive(Debug)]
pub(crate) struct Conclusion {
    pub(crate) code: u8,
    pub(crate) json: Value,
}

/// Watches a job.
pub(crate) struct Follower<'a> {
    backend: &'a Backend,
    quiet: bool,
    bar: ProgressBar,
    live: bool,
    since: Instant,
    /// The program's output goes to the same terminal.
    pub(crate) shares_terminal: bool,
}

impl<'a> Follower<'a> {
    pub(crate) fn new(global: &Global, backend: &'a Backend) -> Self {
        let live = out::is_live() && !global.no_progress && !global.quiet;
        let target = if live {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(None, target);
        let style = ProgressStyle::with_template("  {spinner} {msg}  {elapsed_precise}");
        bar.set_style(style.expect("the template is constant"));
        Self {
            backend,
            quiet: global.quiet,
            bar,
            live,
            since: Instant::now(),
            shares_terminal: false,
        }
    }

    /// Stops watching on Ctrl-C. A second Ctrl-C soon after cancels the job.
    pub(crate) async fn interruptible(
        &self,
        finished: impl Future<Output = Result<Conclusion>>,
        name: &str,
    ) -> Result<Conclusion> {
        tokio::pin!(finished);
        tokio::select! {
            finished = &mut finished => return finished,
            _ = tokio::signal::ctrl_c() => {}
        }
        self.bar.finish_and_clear();
        out::note(&format!(
            "\n{name} keeps running; press Ctrl-C again within 2 s to cancel it\n"
        ));
        let text = match tokio::time::timeout(PROGRESS_DELAY, tokio::signal::ctrl_c()).await {
            Ok(_) => {
                let job = self.backend.job(name).await?;
                self.backend.delete(JobView(&job)).await?;
                format!("{name} was cancelled")
            }
            Err(_) => format!(
                "no longer watching {name}; `muster wait {}` resumes",
                self.backend.address(name)
            ),
        };
        Err(Failure::new(exit::INTERRUPTED, text))
    }

    /// Waits until the job is finished, and prints how it ended.
    pub(crate) async fn until_finished(&self, name: &str) -> Result<Conclusion> {
        let job = self.until(name, |_| {}).await?;
        self.conclude(JobView(&job)).await
    }

    /// The same, with the launcher's output on stdout.
    pub(crate) async fn until_finished_with_logs(&self, name: &str) -> Result<Conclusion> {
        let logs = self.logs(name).fuse();
        let finished = self.until_finished(name).fuse();
        futures::pin_mut!(logs, finished);
        futures::select! {
            result = finished => {
                // The job may be over before its last lines have come.
                let _ = tokio::time::timeout(LAST_LINES_MAX, logs).await;
                result
            }
            // A log may end before the job does.
            _ = logs => finished.await,
        }
    }

    async fn logs(&self, name: &str) -> Result<()> {
        loop {
            let job = self.backend.job(name).await?;
            let pods = self.backend.pods(JobView(&job)).await?;
            let started = launcher(&pods).filter(|pod| pod.phase() != "Pending");
            let Some(pod) = started else {
                if JobView(&job).is_finished() {
                    return Ok(());
                }
                self.backend.changed(JobView(&job)).await?;
                continue;
            };
            let params = LogParams {
                container: Some(pod.main_container().to_owned()),
                follow: true,
                ..LogParams::default()
            };
            let mut reader = self.backend.log(pod, &params).await?;
            let mut line = Vec::new();
            while reader.read_until(b'\n', &mut line).await? > 0 {
                self.bar
                    .suspend(|| out::data(&String::from_utf8_lossy(&line)));
                line.clear();
            }
            return Ok(());
        }
    }

    /// Waits until the job is finished and returns it; calls `seen` with every state before.
    pub(crate) async fn until(&self, name: &str, seen: impl Fn(&Value)) -> Result<Value> {
        let mut last_line = String::new();
        let mut last = Instant::now();
        let (mut known, mut pauses) = (false, Pauses::default());
        let mut away_since = None;
        loop {
            let looked = Instant::now();
            let job = match self.backend.find(name).await {
                Ok(Some(job)) => job,
                Ok(None) if known => {
                    let text = format!("{name} was deleted before it was over");
                    return Err(Failure::new(exit::STOPPED, text));
                }
                // The job goes on, whoever looks.
                Err(error) if known && !is_refused(&error) => {
                    if away_since.is_none() {
                        out::note(&format!("{error:#}; trying again\n"));
                    }
                    if away_since.get_or_insert(looked).elapsed() > AWAY_MAX {
                        return Err(error);
                    }
                    tokio::time::sleep(pauses.after(looked.elapsed())).await;
                    continue;
                }
                Ok(None) => return self.backend.job(name).await,
                Err(error) => return Err(error),
            };
            (known, away_since, pauses) = (true, None, Pauses::default());
            seen(&job);
            let view = JobView(&job);
            if view.is_finished() {
                self.bar.finish_and_clear();
                return Ok(job);
            }
            let line = state(view);
            if line != last_line {
                self.print_state(view, &line);
                last_line = line;
                last = Instant::now();
            } else if last.elapsed() >= UNCHANGED_INTERVAL {
                self.print_state(view, &format!("{last_line} (unchanged)"));
                last = Instant::now();
            }
            if self.live && self.since.elapsed() >= PROGRESS_DELAY && !self.is_showing_output(view)
            {
                self.bar.enable_steady_tick(TICK);
            }
            let pause = if self.live {
                PROGRESS_DELAY
            } else {
                UNCHANGED_INTERVAL
            };
            let _ = tokio::time::timeout(pause, self.backend.changed(view)).await;
        }
    }

    /// The output of a running program replaces the progress line.
    fn is_showing_output(&self, job: JobView<'_>) -> bool {
        let shared = self.shares_terminal && job.phase() == "Running";
        if shared {
            self.bar.finish_and_clear();
        }
        shared
    }

    fn print_state(&self, job: JobView<'_>, line: &str) {
        if self.live {
            let message = format!("{}  {line}", job.name());
            self.bar.set_message(out::printable(&message).into_owned());
        } else if !self.quiet {
            out::note(&format!("{:.0} {} {line}\n", Timestamp::now(), job.name()));
        }
    }

    /// Prints how the job ended.
    pub(crate) async fn conclude(&self, job: JobView<'_>) -> Result<Conclusion> {
        let pods = self.backend.pods(job).await?;
        let code = verdict::exit_code(job, &pods);
        if code != 0 {
            let last = last_lines(self.backend, &pods).await;
            let address = self.backend.address(job.name());
            out::note(&verdict::failure(job, &address, &pods, &last));
        } else if !self.quiet {
            let took = table::run_time(job.seconds().unwrap_or(0.0));
            let ranks = job.ranks().unwrap_or(0);
            let recovery = verdict::recovery_words(&pods);
            out::note(&if self.live {
                let mark = painted("✔", GREEN);
                format!(
                    "{mark} {} succeeded in {took}   ranks {ranks}{recovery}\n",
                    job.name()
                )
            } else {
                format!(
                    "{:.0} {} succeeded took={took} ranks={ranks} exit=0{recovery}\n",
                    Timestamp::now(),
                    job.name()
                )
            });
        }
        Ok(Conclusion {
            code,
            json: verdict::as_json(job, &pods),
        })
    }
}

fn state(job: JobView<'_>) -> String {
    let phase = match job.phase() {
        "" => "Submitted",
        phase => phase,
    };
    let mut line = phase.to_lowercase();
    for (name, value) in [("ready", job.word("ready")), ("reason", job.word("reason"))] {
        if !value.is_empty() {
            line += &format!(" {name}={value}");
        }
    }
    line
}

/// The end of the launcher's log.
pub(crate) async fn last_lines(backend: &Backend, pods: &[Value]) -> Vec<String> {
    let Some(pod) = launcher(pods) else {
        return Vec::new();
    };
    let params = LogParams {
        container: Some(pod.main_container().to_owned()),
        tail_lines: Some(LINES_READ),
        ..LogParams::default()
    };
    let Ok(mut reader) = backend.log(pod, &params).await else {
        return Vec::new();
    };
    let (mut lines, mut line) = (Vec::new(), Vec::new());
    while matches!(reader.read_until(b'\n', &mut line).await, Ok(1..)) {
        lines.push(String::from_utf8_lossy(&line).trim_end().to_owned());
        line.clear();
    }
    let mut lines = program_lines(&lines);
    lines.split_off(lines.len().saturating_sub(LAST_LINES))
}

/// The lines of the program itself, without Open MPI's explanations, which are between lines of
/// dashes, and without the agent's summary. All lines if none is left.
fn program_lines(lines: &[String]) -> Vec<String> {
    let is_ruler = |line: &str| line.len() > 20 && line.chars().all(|char| char == '-');
    let says_something = |line: &str| line.contains(|char: char| char.is_alphanumeric());
    let mut inside = false;
    let own = lines.iter().filter(|line| {
        if is_ruler(line) {
            inside = !inside;
        }
        !inside && says_something(line) && !line.starts_with("muster-agent:")
    });
    let own: Vec<String> = own.cloned().collect();
    match own.is_empty() {
        true => lines
            .iter()
            .filter(|line| says_something(line))
            .cloned()
            .collect(),
        false => own,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_s_own_lines_are_told_from_the_launcher_s() {
        let ruler = "-".repeat(74);
        let text = [
            "cannot open input",
            &ruler,
            "mpirun detected",
            &ruler,
            "muster-agent: x",
        ];
        let lines = text.map(str::to_owned);
        assert_eq!(program_lines(&lines), ["cannot open input"]);
        assert_eq!(program_lines(&lines[1..4]), ["mpirun detected"]);
    }
}
