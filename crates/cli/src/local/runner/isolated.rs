//! The run's own network, from outside: starts the processes that hold it, and keeps them. They end
//! when this is dropped.

use std::path::Path;
use std::process::Stdio;

use anyhow::{Context as _, Result, bail};
use futures::future::BoxFuture;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStdout, Command};

use crate::local::stages::protocol::Isolation;
use crate::local::stages::{BRIDGE, NETWORK};

/// The bridge, and how many cables it has.
#[derive(Debug)]
pub(crate) struct Network {
    bridge: Bridge,
    pods: u32,
}

/// A process that holds a network.
#[derive(Debug)]
pub(crate) struct Holder {
    /// Killed when this is dropped.
    _child: Child,
    id: u32,
    stdout: Option<ChildStdout>,
}

impl Network {
    /// Waits until the bridge is there: a few milliseconds, once per run.
    pub(crate) fn new(binary: &Path, isolation: Isolation) -> Result<Self> {
        let mut child = std::process::Command::new(binary)
            .args([BRIDGE, isolation.as_str()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start a process for the network")?;
        let stdout = child.stdout.take().context("the process has no stdout")?;
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line)?;
        let stdin = child.stdin.take().context("the process has no stdin")?;
        if line.trim() != "ready" {
            bail!("no network of its own for this run: {}", line.trim());
        }
        Ok(Self {
            bridge: Bridge {
                child,
                _stdin: stdin,
            },
            pods: 0,
        })
    }

    /// One more cable.
    pub(crate) fn pod(&mut self, binary: &Path, isolation: Isolation, ip: &str) -> Result<Holder> {
        self.pods += 1;
        let mut child = Command::new(binary)
            .args([NETWORK, isolation.as_str()])
            .args([
                &self.bridge.child.id().to_string(),
                &self.pods.to_string(),
                ip,
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .process_group(0)
            .spawn()
            .context("cannot start a process for the pod's network")?;
        let id = child.id().context("the process has ended at once")?;
        let stdout = child.stdout.take();
        Ok(Holder {
            _child: child,
            id,
            stdout,
        })
    }
}

/// The bridge's process.
#[derive(Debug)]
struct Bridge {
    child: std::process::Child,
    _stdin: std::process::ChildStdin,
}

impl Drop for Bridge {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Holder {
    /// The process by whose network containers find it.
    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    /// Heard once when the network is there, or why it is not.
    pub(crate) fn ready(&mut self) -> Option<BoxFuture<'static, Result<(), String>>> {
        let stdout = self.stdout.take()?;
        Some(Box::pin(async move {
            let mut line = String::new();
            let read = BufReader::new(stdout).read_line(&mut line).await;
            match (read, line.trim()) {
                (Ok(_), "ready") => Ok(()),
                (_, line) => Err(format!("no network for the pod: {line}")),
            }
        }))
    }
}
