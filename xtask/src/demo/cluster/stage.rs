//! What happens on the cluster, with each command shown as a person would type it. Decides which
//! commands those are; must not know how the cluster came to be.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::cluster::Running;
use crate::interrupts::Interrupts;
use crate::{command, root};

const NAMESPACE: &str = "mpi-operator";
const DEPLOYMENT: &str = "deployment/mpi-operator";
/// For a job that takes seconds, on a machine that may be busy.
const LIMIT: Duration = Duration::from_secs(180);

/// A cluster with somebody who watches.
pub(super) struct Stage<'a> {
    kubectl: PathBuf,
    kubeconfig: PathBuf,
    interrupts: &'a Interrupts,
}

impl<'a> Stage<'a> {
    pub(super) fn new(running: &Running, interrupts: &'a Interrupts) -> Self {
        Self {
            kubectl: running.kubectl.clone(),
            kubeconfig: running.kubeconfig.clone(),
            interrupts,
        }
    }

    /// Applies the manifest and waits until the operator runs.
    pub(super) fn install(&self, manifest: &str) -> Result<()> {
        println!("$ kubectl apply -f deploy/muster.yaml");
        let mut apply = self
            .kubectl(&["apply", "-f", "-"])
            .stdin(Stdio::piped())
            .spawn()
            .context("cannot start kubectl")?;
        let mut stdin = apply
            .stdin
            .take()
            .expect("its input was asked to be a pipe");
        stdin
            .write_all(manifest.as_bytes())
            .context("cannot hand kubectl the manifest")?;
        drop(stdin);
        let status = apply.wait().context("cannot wait for kubectl")?;
        ensure!(status.success(), "the operator was not accepted: {status}");
        self.shown(&[
            "rollout",
            "status",
            "--namespace",
            NAMESPACE,
            DEPLOYMENT,
            "--timeout=120s",
        ])
    }

    /// Submits a job, shows what its launcher says and how it ends. Whether it succeeded.
    pub(super) fn run_job(&self, job: &str, file: &str) -> Result<bool> {
        let launcher = format!("job/{job}-launcher");
        self.shown(&["apply", "-f", file])?;
        self.run(
            &["wait", "--for=create", &launcher, "--timeout=60s"],
            |_| {},
        )
        .context("the operator made no launcher")?;
        let log = ["logs", "--follow", &launcher];
        println!("\n$ kubectl {}", log.join(" "));
        self.follow(job, &log)?;
        println!();
        self.shown(&["get", "mpijob", job])?;
        Ok(print_conditions(&self.get_job(job)?))
    }

    /// Shows the launcher's log until the job has ended. There is none before its container runs, and
    /// another one whenever it is tried again.
    fn follow(&self, job: &str, log: &[&str]) -> Result<()> {
        let resource = format!("mpijob/{job}");
        let end = ["wait", "--for=jsonpath={.status.completionTime}", &resource];
        let start = Instant::now();
        let mut seen = Vec::new();
        loop {
            let mut lines = Vec::new();
            let has_log = self.try_run(log, |line| {
                println!("{line}");
                lines.push(line.to_owned());
            })?;
            if has_log {
                seen = lines;
            }
            // After a log has come to its end, so has the job, unless the launcher is tried again.
            let patience = if has_log {
                "--timeout=15s"
            } else {
                "--timeout=1s"
            };
            if self.try_run(&[&end[..], &[patience]].concat(), |_| {})? {
                return self.rest_of_log(log, &seen);
            }
            if self.interrupts.exit_code().is_some() {
                bail!("stopped");
            }
            if start.elapsed() > LIMIT {
                self.explain(job);
                bail!("the job has not ended after {} s", LIMIT.as_secs());
            }
        }
    }

    /// The log of the last try, unless it is the one that was seen.
    fn rest_of_log(&self, log: &[&str], seen: &[String]) -> Result<()> {
        let at_once: Vec<&str> = log
            .iter()
            .copied()
            .filter(|word| *word != "--follow")
            .collect();
        let mut last = Vec::new();
        self.run(&at_once, |line| last.push(line.to_owned()))?;
        if last != seen {
            if !seen.is_empty() {
                println!("-- the launcher came before its workers could be reached; tried again:");
            }
            last.iter().for_each(|line| println!("{line}"));
        }
        Ok(())
    }

    fn get_job(&self, job: &str) -> Result<Value> {
        let text = command::output(&mut self.kubectl(&["get", "mpijob", job, "--output=json"]))?;
        serde_json::from_str(&text).context("kubectl did not print JSON")
    }

    /// What a person would look at next.
    fn explain(&self, job: &str) {
        let operator = ["logs", "--namespace", NAMESPACE, DEPLOYMENT, "--tail=20"];
        for args in [
            &["describe", "mpijob", job][..],
            &["get", "pods", "--output=wide"],
            &operator,
        ] {
            // They are said in addition to an error, which must not be hidden by another.
            let _ = self.shown(args);
        }
    }

    /// Runs a command that is shown with its output.
    fn shown(&self, args: &[&str]) -> Result<()> {
        println!("$ kubectl {}", args.join(" "));
        self.run(args, |line| println!("{line}"))
    }

    fn run(&self, args: &[&str], on_line: impl FnMut(&str)) -> Result<()> {
        let status = self.interrupts.run(&mut self.kubectl(args), on_line)?;
        if !status.success() {
            bail!("`kubectl {}` failed: {status}", args.join(" "));
        }
        Ok(())
    }

    /// Whether it succeeded; what it says about a failure is not shown.
    fn try_run(&self, args: &[&str], on_line: impl FnMut(&str)) -> Result<bool> {
        let mut command = self.kubectl(args);
        let status = self
            .interrupts
            .run(command.stderr(Stdio::null()), on_line)?;
        Ok(status.success())
    }

    fn kubectl(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.kubectl);
        command
            .current_dir(root())
            .args(args)
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            // The cluster is on this machine, whatever lies between it and the world.
            .env("NO_PROXY", "*");
        command
    }
}

/// Prints a job's conditions, as `kubectl describe` would; whether it succeeded.
fn print_conditions(job: &Value) -> bool {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut succeeded = false;
    for condition in job["status"]["conditions"].as_array().into_iter().flatten() {
        let (kind, status) = (text(&condition["type"]), text(&condition["status"]));
        println!("  {kind:<10} {status:<6} {}", text(&condition["message"]));
        succeeded |= kind == "Succeeded" && status == "True";
    }
    succeeded
}
