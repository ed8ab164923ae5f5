//! Finding the processes of a cluster from outside, even when whoever started them is long gone.
//! Decides what makes a process ours: a variable that every daemon inherits, or the cgroup that every
//! container is in. Must not know what the processes do.

use std::fs;

use anyhow::{Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use super::layout::{Node, State};

/// Set for every process of a cluster, to the cluster's directory.
pub(crate) const OF_CLUSTER: &str = "MUSTER_PROCESS_OF_CLUSTER";
/// Set for every process of a node, to the node's name.
pub(crate) const OF_NODE: &str = "MUSTER_PROCESS_OF_NODE";

/// Every process of the cluster, containers included.
pub(crate) fn of_cluster(state: &State) -> Vec<u32> {
    let mark = mark(state);
    let cgroup = format!("/{}", state.cgroup_prefix());
    all()
        .filter(|pid| has_variable(*pid, &mark) || is_in_cgroup(*pid, &cgroup))
        .collect()
}

/// Every process of the node, containers included.
pub(crate) fn of_node(state: &State, node: Node) -> Vec<u32> {
    let mark = format!("{OF_NODE}={}", node.name());
    let cgroup = format!("/{}/", state.cgroup(node));
    let mut pids = of_cluster(state);
    pids.retain(|pid| has_variable(*pid, &mark) || is_in_cgroup(*pid, &cgroup));
    pids
}

/// The first process of the node's own process namespace: when it ends, so does all of the node.
pub(crate) fn init_of_node(state: &State, node: Node) -> Option<u32> {
    of_node(state, node)
        .into_iter()
        .find(|pid| is_init_two_namespaces_down(*pid))
}

/// The process that `up` started, if it runs: when it ends, so does all of the cluster.
pub(crate) fn top(state: &State) -> Option<u32> {
    let pid = fs::read_to_string(state.pid_file())
        .ok()?
        .trim()
        .parse()
        .ok()?;
    // The file may be older than the machine's last start, and the number someone else's by now.
    has_variable(pid, &mark(state)).then_some(pid)
}

/// Ends the process now. One that has ended already is fine.
pub(crate) fn kill(pid: u32) -> Result<()> {
    let Some(target) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
        bail!("{pid} is no process id");
    };
    match kill_process(target, Signal::KILL) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => bail!("cannot end process {pid}: {error}"),
    }
}

fn mark(state: &State) -> String {
    format!("{OF_CLUSTER}={}", state.dir().display())
}

fn all() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    let own = std::process::id();
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(move |pid| *pid != own)
}

// A process may end between any two reads, so one that cannot be read is simply not there.

fn has_variable(pid: u32, variable: &str) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment
        .split(|byte| *byte == 0)
        .any(|entry| entry == variable.as_bytes())
}

fn is_in_cgroup(pid: u32, part: &str) -> bool {
    fs::read_to_string(format!("/proc/{pid}/cgroup")).is_ok_and(|text| text.contains(part))
}

/// The kernel lists a process's numbers from our namespace inwards: ours, the cluster's, the node's.
fn is_init_two_namespaces_down(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    let numbers: Vec<_> = numbers.unwrap_or_default().split_whitespace().collect();
    numbers.len() == 3 && numbers[2] == "1"
}
