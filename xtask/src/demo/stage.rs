//! What happens on the cluster, with each command shown as a person would type it. Decides which
//! commands those are; must not know how the cluster came to be.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::root;
use crate::cluster::Running;
use crate::command;
use crate::test::interrupts::Interrupts;

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
        let start = Instant::now();
        let launcher = format!("job/{job}-launcher");
        self.shown(&["apply", "-f", file])?;
        self.run(
            &["wait", "--for=create", &launcher, "--timeout=60s"],
            |_| {},
        )
        .context("the operator made no launcher")?;
        let mut log = vec!["logs", "--follow", &launcher];
        println!("\n$ kubectl {}", log.join(" "));
        log.push("--pod-running-timeout=120s");
        let finished = loop {
            // A launcher that fails is tried again, so there may be another log to follow.
            let followed = self.run(&log, |line| println!("{line}"));
            let resource = format!("mpijob/{job}");
            let wait = ["wait", "--for=jsonpath={.status.completionTime}", &resource];
            let ended = self.run(&[&wait[..], &["--timeout=15s"]].concat(), |_| {});
            if ended.is_ok() {
                break self.get_job(job)?;
            }
            if self.interrupts.exit_code().is_some() || start.elapsed() > LIMIT {
                self.explain(job);
                return Err(followed.and(ended).expect_err("it has not ended"))
                    .context("the job does not come to an end");
            }
        };
        println!();
        self.shown(&["get", "mpijob", job])?;
        Ok(print_conditions(&finished))
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
