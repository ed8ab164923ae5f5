//! Ending a cluster, whatever state it is in. Decides what counts as left over, and fails if anything
//! is; must not need anything that `up` may not have got around to writing.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::layout::{Shape, State};
use super::{cgroups, network, processes, wait};

/// Ends the cluster. One that does not run is fine, and is cleaned up after.
pub(crate) fn down(name: &str) -> Result<()> {
    let state = State::named(name)?;
    let _lock = state.hold()?;
    stop(&state)
}

/// Ends the cluster and removes its directory, with image stores and logs.
pub(crate) fn purge(name: &str) -> Result<()> {
    let state = State::named(name)?;
    let _lock = state.hold()?;
    stop(&state)?;
    fs::remove_dir_all(state.dir())
        .with_context(|| format!("cannot remove {}", state.dir().display()))
}

/// The caller holds the cluster's lock.
pub(crate) fn stop(state: &State) -> Result<()> {
    // One thing that cannot be removed is no reason to leave the others; what stays is told below.
    let steps = [
        end_processes(state),
        network::unlink_machine(state),
        cgroups::remove(state),
        remove_marks(state),
        unguard(),
    ];
    for error in steps.iter().filter_map(|step| step.as_ref().err()) {
        eprintln!("ending the cluster {}: {error:#}", state.name());
    }
    let left = leftovers(state)?;
    if !left.is_empty() {
        bail!(
            "the cluster {} left something behind:\n{}",
            state.name(),
            left.join("\n")
        );
    }
    steps.into_iter().collect()
}

/// Killing the first process of a namespace kills the others too; what is found later was on its way
/// out of the namespace, or never in it.
fn end_processes(state: &State) -> Result<()> {
    if let Some(top) = processes::top(state) {
        processes::kill(top)?;
    }
    let what = "the cluster's processes to end";
    wait::until(what, Duration::from_secs(30), &state.log("cluster"), || {
        let found = processes::of_cluster(state);
        found.iter().try_for_each(|pid| processes::kill(*pid))?;
        Ok(found.is_empty())
    })
}

fn remove_marks(state: &State) -> Result<()> {
    for file in [state.shape_file(), state.pid_file(), state.api_ready_mark()] {
        if file.exists() {
            fs::remove_file(&file).with_context(|| format!("cannot remove {}", file.display()))?;
        }
    }
    Ok(())
}

fn unguard() -> Result<()> {
    if may_unguard()? {
        network::unguard_ranges()?;
    }
    Ok(())
}

/// What the cluster has on this machine beyond the files in its directory.
pub(crate) fn leftovers(state: &State) -> Result<Vec<String>> {
    let mut left = Vec::new();
    for pid in processes::of_cluster(state) {
        let command = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        left.push(format!("process {pid}: {}", command.replace('\0', " ")));
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo").context("cannot read the mounts")?;
    let dir = format!("{}/", state.dir().display());
    left.extend(
        mounts
            .lines()
            .filter(|line| line.contains(&dir))
            .map(|line| format!("mount {line}")),
    );
    if network::has_link(state.link()) {
        left.push(format!("network link {}", state.link()));
    }
    if may_unguard()? {
        left.extend(
            network::guarded_ranges()?
                .iter()
                .map(|range| format!("route to {range}")),
        );
    }
    left.extend(
        cgroups::left(state)?
            .iter()
            .map(|group| format!("cgroup {}", group.display())),
    );
    Ok(left)
}

/// The routes serve all clusters with nodes: running ones have a link, starting ones a shape. Only
/// root can have made the routes, so nobody else has anything to remove.
fn may_unguard() -> Result<bool> {
    let shapes = State::all()?
        .into_iter()
        .filter_map(|state| Shape::read(&state).ok());
    let in_use = !network::links().is_empty() || shapes.into_iter().any(|shape| shape.nodes > 0);
    Ok(rustix::process::geteuid().is_root() && !in_use)
}
