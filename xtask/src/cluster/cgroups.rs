//! The control groups that hold the containers of a node. Decides which hierarchies there are on this
//! machine (one per controller with version 1, a single one with version 2) and what must be filled in
//! before the kubelet takes over. Must not know what the containers are.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use super::layout::{Node, State};
use super::wait;

const ROOT: &str = "/sys/fs/cgroup";
/// What the kubelet asks of its root with version 2: these controllers for the groups below it.
const CONTROLLERS: [&str; 5] = ["cpu", "cpuset", "hugetlb", "memory", "pids"];

/// Makes the group that becomes the kubelet's root, in every hierarchy.
pub(crate) fn make(state: &State, node: Node) -> Result<()> {
    for hierarchy in hierarchies()? {
        if is_unified(&hierarchy) && hierarchy != Path::new(ROOT) {
            continue; // beside version 1 it has no controllers, and nothing asks for it
        }
        if is_unified(&hierarchy) {
            delegate(&hierarchy)?;
        }
        let group = hierarchy.join(state.cgroup(node));
        fs::create_dir_all(&group).with_context(|| format!("cannot make {}", group.display()))?;
        if hierarchy.ends_with("cpuset") {
            // A new group of version 1 has no processors and no memory until it is given some.
            for file in ["cpuset.cpus", "cpuset.mems"] {
                let given =
                    fs::read(hierarchy.join(file)).context("cannot read the root cpuset")?;
                fs::write(group.join(file), given)
                    .with_context(|| format!("cannot fill {}", group.join(file).display()))?;
            }
        }
    }
    Ok(())
}

/// With version 2, a group has those controllers that the group above it passes on. systemd passes on what its services
/// ask for, which need not be all.
fn delegate(root: &Path) -> Result<()> {
    let read = |file: &str| {
        let path = root.join(file);
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    let (there, passed_on) = (read("cgroup.controllers")?, read("cgroup.subtree_control")?);
    for controller in missing(&there, &passed_on) {
        fs::write(
            root.join("cgroup.subtree_control"),
            format!("+{controller}"),
        )
        .with_context(|| format!("cannot pass on the cgroup controller {controller}"))?;
    }
    Ok(())
}

/// What the kernel has, the kubelet needs, and the root does not pass on yet.
fn missing(there: &str, passed_on: &str) -> Vec<&'static str> {
    let has = |list: &str, name: &str| list.split_whitespace().any(|word| word == name);
    let mut needed = CONTROLLERS.to_vec();
    needed.retain(|name| has(there, name) && !has(passed_on, name));
    needed
}

/// Removes every group of the cluster. The kernel lets go of a killed process some time after the
/// kill, so a group may be busy for a moment.
pub(crate) fn remove(state: &State) -> Result<()> {
    for group in left(state)? {
        let what = format!("{} to become empty", group.display());
        wait::until(
            &what,
            Duration::from_secs(20),
            &group.join("cgroup.procs"),
            || {
                remove_tree(&group);
                Ok(!group.exists())
            },
        )?;
    }
    Ok(())
}

/// The groups of the cluster that exist.
pub(crate) fn left(state: &State) -> Result<Vec<PathBuf>> {
    let mut groups = Vec::new();
    for hierarchy in hierarchies()? {
        groups.extend(subdirectories(&hierarchy)?.into_iter().filter(|group| {
            let name = group.file_name().map(|name| name.to_string_lossy());
            name.is_some_and(|name| name.starts_with(&state.cgroup_prefix()))
        }));
    }
    Ok(groups)
}

fn hierarchies() -> Result<Vec<PathBuf>> {
    if is_unified(Path::new(ROOT)) {
        return Ok(vec![PathBuf::from(ROOT)]);
    }
    let mut hierarchies = subdirectories(Path::new(ROOT))?;
    // With version 1, `cpu` and `cpuacct` may both point to one hierarchy of both.
    hierarchies.retain(|path| !path.is_symlink());
    Ok(hierarchies)
}

fn is_unified(hierarchy: &Path) -> bool {
    hierarchy.join("cgroup.controllers").exists()
}

/// Groups are directories whose files cannot be removed, and need not be.
fn remove_tree(group: &Path) {
    for child in subdirectories(group).unwrap_or_default() {
        remove_tree(&child);
    }
    // A busy group stays; the caller looks again.
    let _ = fs::remove_dir(group);
}

fn subdirectories(dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(dir).with_context(|| format!("cannot list {}", dir.display()))?;
    Ok(entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.is_dir())
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_controllers_that_are_there_and_not_passed_on_are_asked_for() {
        let there = "cpuset cpu io memory pids rdma misc\n";
        assert_eq!(missing(there, "memory pids\n"), ["cpu", "cpuset"]);
        assert!(missing(there, "cpuset cpu memory pids\n").is_empty());
    }
}
