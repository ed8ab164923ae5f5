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

/// The process that holds the bridge, and how many pods are connected to it.
#[derive(Debug)]
pub(crate) struct Network {
    /// Its stdin stays open as long as the bridge is needed.
    bridge: std::process::Child,
    pods: u32,
}

/// A process that holds a pod's network.
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
        let mut bridge = std::process::Command::new(binary)
            .args([BRIDGE, isolation.as_str()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start a process for the network")?;
        let stdout = bridge.stdout.take().context("the process has no stdout")?;
        let network = Self { bridge, pods: 0 };
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line)?;
        match line.trim() {
            "ready" => Ok(network),
            line => bail!("cannot make a network for this run: {line}"),
        }
    }

    /// Connects one more pod.
    pub(crate) fn pod(&mut self, binary: &Path, isolation: Isolation, ip: &str) -> Result<Holder> {
        self.pods += 1;
        let (bridge, number) = (self.bridge.id().to_string(), self.pods.to_string());
        let mut child = Command::new(binary)
            .args([NETWORK, isolation.as_str(), &bridge, &number, ip])
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

impl Drop for Network {
    fn drop(&mut self) {
        let _ = self.bridge.kill();
        let _ = self.bridge.wait();
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
                (_, line) => Err(format!("cannot make a network for the pod: {line}")),
            }
        }))
    }
}
