//! What the tests against real Kubernetes share: a way to talk to the cluster with the real
//! kubectl, and to wait for a condition instead of a time.
//!
//! `cargo xtask test` starts the cluster and says in `MUSTER_E2E_STATE` where its state is; a test
//! without it fails with a sentence that says so.

pub mod api;
pub mod api_fixture;
pub mod audit;
pub mod cluster_fixture;
pub mod fake_kubelet;
pub mod figures;
pub mod flyte;
pub mod installation;
pub mod jobs;
pub mod limited_operator;
pub mod memory_group;
pub mod operator;
mod ports;
pub mod raw_tls;
pub mod relay;
pub mod scraper;

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

/// How often a condition is looked at.
const POLL: Duration = Duration::from_millis(50);

/// A number from the environment, for those who have more time than `make test`.
pub fn number(variable: &str, otherwise: u32) -> Result<u32> {
    match std::env::var(variable) {
        Ok(text) => text.parse().with_context(|| format!("{variable}={text}")),
        Err(_) => Ok(otherwise),
    }
}

/// A running test cluster.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// Directory with `pki/admin.kubeconfig`, `kubectl` and `log/audit.log`.
    pub state: PathBuf,
}

impl Cluster {
    /// The cluster that `cargo xtask test` started.
    pub fn from_env() -> Result<Self> {
        let state = std::env::var_os("MUSTER_E2E_STATE").context(
            "MUSTER_E2E_STATE is not set: run these tests with `cargo xtask test`, which starts \
             a cluster, or set it to the state directory that `cargo xtask cluster env` prints",
        )?;
        Ok(Self {
            state: state.into(),
        })
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.state.join("pki/admin.kubeconfig")
    }

    /// A kubectl command for the administrator.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(self.state.join("kubectl"));
        command
            .arg("--kubeconfig")
            .arg(self.kubeconfig())
            .args(args);
        command
    }

    /// Standard output of a kubectl call that must succeed.
    pub fn kubectl(&self, args: &[&str]) -> Result<String> {
        self.kubectl_with(args, "")
    }

    /// The same, with this on its standard input.
    pub fn kubectl_with(&self, args: &[&str], input: &str) -> Result<String> {
        self.run(args, input).map(|(said, _)| said)
    }

    /// The same, which fails if the API server has warned of anything.
    pub fn kubectl_unwarned(&self, args: &[&str], input: &str) -> Result<String> {
        let (said, complaints) = self.run(args, input)?;
        ensure!(!complaints.contains("Warning"), "{complaints}");
        Ok(said)
    }

    /// Standard output and standard error of a call that must succeed.
    fn run(&self, args: &[&str], input: &str) -> Result<(String, String)> {
        let mut command = self.command(args);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().context("starting kubectl")?;
        let mut stdin = child.stdin.take().expect("its input was piped");
        let input = input.to_owned();
        // From a thread: a kubectl that writes much before it reads all would wait forever.
        let writer = thread::spawn(move || std::io::Write::write_all(&mut stdin, input.as_bytes()));
        let output = child.wait_with_output().context("waiting for kubectl")?;
        // A kubectl that refuses its arguments does not read its input.
        drop(writer.join());
        let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
        if !output.status.success() {
            bail!("kubectl {}: {}", args.join(" "), complaints.trim());
        }
        let said = String::from_utf8(output.stdout);
        let said = said.context("kubectl printed something that is not text")?;
        Ok((said, complaints))
    }

    /// Applies YAML or JSON text.
    pub fn apply(&self, manifest: &str) -> Result<String> {
        self.kubectl_with(&["apply", "-f", "-"], manifest)
    }

    /// An object, or `None` when there is none of that name.
    pub fn get(&self, namespace: &str, kind: &str, name: &str) -> Result<Option<Value>> {
        let args = [
            "get",
            "-n",
            namespace,
            kind,
            name,
            "-o",
            "json",
            "--ignore-not-found",
        ];
        let text = self.kubectl(&args)?;
        if text.trim().is_empty() {
            Ok(None)
        } else {
            Ok(Some(serde_json::from_str(&text)?))
        }
    }

    /// The objects of a kind, by label selector (empty for all).
    pub fn list(&self, namespace: &str, kind: &str, selector: &str) -> Result<Vec<Value>> {
        let text = self.kubectl(&["get", "-n", namespace, kind, "-l", selector, "-o", "json"])?;
        let list: Value = serde_json::from_str(&text)?;
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    }

    /// Changes an object's status as a kubelet or a controller would.
    pub fn patch_status(
        &self,
        namespace: &str,
        kind: &str,
        name: &str,
        patch: &Value,
    ) -> Result<()> {
        let patch = patch.to_string();
        let args = ["patch", "-n", namespace, kind, name, "--subresource=status"];
        self.kubectl(&[&args[..], &["--type=merge", "-p", &patch]].concat())?;
        Ok(())
    }
}

/// Waits until `look` finds something, or fails with what was waited for and what was last seen.
pub fn wait_for<T>(
    what: &str,
    at_most: Duration,
    mut look: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    let end = Instant::now() + at_most;
    loop {
        let last_error = match look() {
            Ok(Some(found)) => return Ok(found),
            Ok(None) => None,
            Err(error) => Some(error),
        };
        if Instant::now() >= end {
            return match last_error {
                Some(error) => Err(error.context(format!("waited {at_most:?} for {what}"))),
                None => bail!("timed out after {at_most:?}: {what}"),
            };
        }
        thread::sleep(POLL);
    }
}

/// The status of a job's condition, e.g. `True`; `None` when the job has no such condition.
pub fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a str> {
    let conditions = object["status"]["conditions"].as_array()?;
    let found = conditions
        .iter()
        .find(|condition| condition["type"] == kind)?;
    found["status"].as_str()
}
