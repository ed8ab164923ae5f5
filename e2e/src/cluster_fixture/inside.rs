//! Inside a pod: commands that run in its container, and, since the nodes are namespaces of this
//! machine, its processes and its network as the machine sees them. Must not know what is tested.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::ClusterFixture;

impl ClusterFixture {
    /// What a command in a pod's main container says; it must succeed.
    pub fn exec(&self, pod: &str, words: &[&str]) -> Result<String> {
        let args = [&["exec", "-n", &self.namespace, pod, "--"], words].concat();
        self.cluster.kubectl(&args)
    }

    /// A pod as it is now.
    pub fn pod(&self, name: &str) -> Result<Value> {
        let pod = self.cluster.get(&self.namespace, "pod", name)?;
        pod.with_context(|| format!("pod {name} is gone"))
    }

    /// Removes a pod at once, as a node's sudden end would.
    pub fn kill_pod(&self, name: &str) -> Result<()> {
        let place = ["delete", "pod", "-n", &self.namespace, name];
        let at_once = ["--grace-period=0", "--force", "--wait=false"];
        self.cluster.kubectl(&[&place[..], &at_once].concat())?;
        Ok(())
    }

    /// Takes the network from a pod: nobody is told, packets just do not arrive any more.
    pub fn cut_network(&self, pod: &str) -> Result<()> {
        let pod = self.pod(pod)?;
        let process = any_process(&pod)?;
        let target = format!("--target={process}");
        let down = ["ip", "link", "set", "eth0", "down"];
        let output = Command::new("nsenter")
            .args([&target, "--net", "--"])
            .args(down)
            .output()
            .context("starting nsenter")?;
        ensure!(
            output.status.success(),
            "nsenter: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
        Ok(())
    }
}

/// A process of the pod, by its number on this machine.
fn any_process(pod: &Value) -> Result<u32> {
    let uid = pod["metadata"]["uid"]
        .as_str()
        .context("a pod without uid")?;
    let group = format!("/pod{uid}/");
    for entry in fs::read_dir("/proc").context("looking for processes")? {
        let entry = entry.context("looking for processes")?;
        let Some(number) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        // A process may end between two looks.
        let groups = fs::read_to_string(entry.path().join("cgroup")).unwrap_or_default();
        if groups.contains(&group) {
            return Ok(number);
        }
    }
    bail!("no process of pod {uid} on this machine: is the cluster another machine's?")
}
