//! Inside a pod: commands that run in its container, and, since the nodes are namespaces of this
//! machine, its processes and its network as the machine sees them. Must not know what is tested.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};
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

    /// Deletes a pod as `kubectl drain` does: its containers are told to end and have their time for it.
    pub fn delete_pod(&self, name: &str) -> Result<()> {
        let place = ["delete", "pod", "-n", &self.namespace, name];
        self.cluster
            .kubectl(&[&place[..], &["--wait=false"]].concat())?;
        Ok(())
    }

    /// Kills the agent of a worker, without a word.
    pub fn kill_agent(&self, pod: &str) -> Result<()> {
        let processes = processes(&self.pod(pod)?)?;
        let is_agent = |number: &u32| {
            let words = fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
            let mut words = words.split(|byte| *byte == 0);
            let program = words.next().unwrap_or_default();
            program.ends_with(b"muster-agent") && words.next() == Some(b"serve")
        };
        let agent = processes.into_iter().find(is_agent);
        let agent = agent.with_context(|| format!("no agent serves in pod {pod}"))?;
        let killed = Command::new("kill")
            .args(["-KILL", &agent.to_string()])
            .status();
        ensure!(killed.context("starting kill")?.success(), "kill failed");
        Ok(())
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
        let processes = processes(&pod)?;
        let process = processes.first().context("a pod without processes")?;
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

/// The processes of the pod, by their numbers on this machine.
fn processes(pod: &Value) -> Result<Vec<u32>> {
    let uid = pod["metadata"]["uid"]
        .as_str()
        .context("a pod without uid")?;
    let group = format!("/pod{uid}/");
    let mut processes = Vec::new();
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
            processes.push(number);
        }
    }
    ensure!(
        !processes.is_empty(),
        "no process of pod {uid} on this machine: is the cluster another machine's?"
    );
    Ok(processes)
}
