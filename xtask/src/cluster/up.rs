//! Starting a cluster, or finding it running. Decides when a running cluster will do, what of an
//! earlier run is kept (image stores) and what is not (everything else), and when the cluster counts
//! as up. Must not know how its parts are configured.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::api::Api;
use super::daemons::spawn_logged;
use super::layout::{Node, Shape, State};
use super::wait::Progress;
use super::{Running, Spec, down, network, node, pki, processes, programs, store, wait};
use crate::{command, packages};

const DNS: &str = include_str!("../../../e2e/cluster/coredns.yaml");
const START: Duration = Duration::from_secs(10);
const LIMIT: Duration = Duration::from_secs(180);

pub(crate) fn up(spec: &Spec) -> Result<Running> {
    let state = State::named(&spec.name)?;
    let has_nodes = spec.nodes > 0;
    require_rights(spec.nodes)?;
    install_packages(has_nodes)?;
    let kube = programs::built("kube")?;
    let own_archives = if has_nodes {
        store::own_archives()?
    } else {
        Vec::new()
    };
    let _lock = state.hold()?;
    if !is_up(&state, spec.nodes, &kube) {
        down::stop(&state)?;
        let shape = Shape::new(spec.nodes, kube, own_archives)?;
        if let Err(error) = start(&state, &shape) {
            // Its logs stay. An error of the clean-up would hide the one that matters.
            let _ = down::stop(&state);
            return Err(error);
        }
    }
    load_into_running(&state, &spec.archives)?;
    Ok(Running::of(&state))
}

pub(crate) fn require_rights(nodes: u8) -> Result<()> {
    if nodes > 0 && !rustix::process::geteuid().is_root() {
        bail!("a cluster with nodes needs root; `--nodes 0` starts just the API server without");
    }
    Ok(())
}

/// Brings the archives into every node.
pub(crate) fn load_into_running(state: &State, archives: &[PathBuf]) -> Result<()> {
    let progress = Progress::start();
    let load_node = |node: Node| {
        let Some(process) = processes::init_of_node(state, node) else {
            return Ok(());
        };
        let socket = node::socket_seen_through(process);
        for archive in archives {
            if let Some(reference) = store::import(state, node, &socket, archive)? {
                progress.reached(&format!("{} has {reference}", node.name()));
            }
        }
        Ok(())
    };
    thread::scope(|scope| {
        let load_node = &load_node;
        let nodes = Shape::read(state)?.nodes();
        let loading: Vec<_> = nodes
            .map(|node| scope.spawn(move || load_node(node)))
            .collect();
        let results = loading
            .into_iter()
            .map(|thread| thread.join().expect("loading never panics"));
        results.collect()
    })
}

/// What a cluster needs of this machine.
pub(crate) fn install_packages(has_nodes: bool) -> Result<()> {
    packages::ensure(&["curl", "openssl", "iproute2", "util-linux"])?;
    if has_nodes {
        packages::ensure(&[
            "conntrack",
            "containerd",
            "containernetworking-plugins",
            "ethtool",
            "iptables",
            "nftables",
            "runc",
            "socat",
        ])?;
    }
    Ok(())
}

fn is_up(state: &State, nodes: u8, kube: &Path) -> bool {
    let Ok(shape) = Shape::read(state) else {
        return false;
    };
    let api = Api {
        state,
        address: shape.api,
    };
    shape.nodes == nodes
        && shape.kube == kube
        && processes::top(state).is_some()
        && api.is_ready()
        && api.ready_nodes() == usize::from(nodes)
        && (nodes == 0 || api.has_dns())
}

fn start(state: &State, shape: &Shape) -> Result<()> {
    let progress = Progress::start();
    empty(state, shape)?;
    if shape.nodes > 0 {
        claim_network(state)?;
    }
    shape.write(state)?;
    if shape.nodes > 0 {
        network::guard_ranges()?;
    }
    pki::make(state, shape)?;
    progress.reached("certificates");
    let top = spawn(state, shape)?;
    // While a process becomes another program, it shows no variables, by which it is known.
    let log = state.log("cluster");
    wait::until("the first process", START, &log, || {
        Ok(processes::top(state).is_some())
    })?;
    if shape.nodes > 0 {
        network::await_own_namespace(top, &state.log("cluster"))?;
        network::link_machine(state, top)?;
    }
    await_up(state, shape, &progress)
}

fn await_up(state: &State, shape: &Shape, progress: &Progress) -> Result<()> {
    let api = Api {
        state,
        address: shape.api,
    };
    let reach = |what: &str, log: &str, holds: &dyn Fn() -> Result<bool>| {
        wait::until(what, LIMIT, &state.log(log), || {
            if processes::top(state).is_none() {
                bail!(
                    "the cluster ended while it started; {}",
                    wait::tail(&state.log("cluster"))
                );
            }
            holds()
        })?;
        progress.reached(what);
        anyhow::Ok(())
    };
    reach("API server ready", "apiserver", &|| {
        Ok(state.api_ready_mark().exists() && api.is_ready())
    })?;
    if shape.nodes > 0 {
        let manifest = state.dir().join("coredns.yaml");
        fs::write(&manifest, DNS)?;
        // Everything is new, so there is nothing to compare with, and no schema to fetch first.
        command::output(
            kubectl(state)
                .args(["create", "--validate=false", "-f"])
                .arg(&manifest),
        )?;
    }
    reach("default service account", "controller-manager", &|| {
        Ok(api.exists("/api/v1/namespaces/default/serviceaccounts/default"))
    })?;
    if shape.nodes > 0 {
        let nodes = usize::from(shape.nodes);
        let first_log = format!("{}-kubelet", Node(1).name());
        reach(&format!("{nodes} nodes ready"), &first_log, &|| {
            nodes_have_power(state, shape)?;
            Ok(api.ready_nodes() == nodes)
        })?;
        reach("cluster DNS ready", &first_log, &|| Ok(api.has_dns()))?;
    }
    Ok(())
}

/// A node whose programs cannot run ends itself; waiting longer would not help.
fn nodes_have_power(state: &State, shape: &Shape) -> Result<()> {
    for node in shape.nodes() {
        if processes::init_of_node(state, node).is_none() {
            let name = node.name();
            bail!(
                "{name} ended while it started; {}",
                wait::tail(&state.log(&name))
            );
        }
    }
    Ok(())
}

/// Keeps the image stores and what they are known to hold; removes everything else of earlier runs.
fn empty(state: &State, shape: &Shape) -> Result<()> {
    let remove = |path: PathBuf| {
        let removed = if path.is_dir() {
            fs::remove_dir_all(&path)
        } else {
            fs::remove_file(&path)
        };
        removed.with_context(|| format!("cannot remove {}", path.display()))
    };
    for entry in fs::read_dir(state.dir())? {
        let entry = entry?;
        if Node::named(&entry.file_name().to_string_lossy()).is_err() {
            remove(entry.path())?;
        }
    }
    for node in shape.nodes() {
        let dir = state.node(node);
        fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        for entry in fs::read_dir(&dir)? {
            let entry = entry?;
            if !["containerd", "images"].contains(&&*entry.file_name().to_string_lossy()) {
                remove(entry.path())?;
            }
        }
    }
    fs::create_dir(state.dir().join("log")).context("cannot make the log directory")?;
    // A copy, because the original may be rebuilt while the cluster starts processes from it; and
    // by way of /proc, because it may have been rebuilt already.
    fs::copy("/proc/self/exe", state.own_program()).context("cannot copy this program")?;
    symlink(&shape.kube, state.kubectl()).context("cannot link kubectl")
}

/// All clusters with nodes use the same addresses, so there can be one of them at a time.
fn claim_network(state: &State) -> Result<()> {
    for other in State::all()?
        .into_iter()
        .filter(|other| other.name() != state.name())
    {
        if Shape::read(&other).is_ok_and(|shape| shape.nodes > 0) {
            let _lock = other.hold()?;
            if processes::top(&other).is_some() {
                let name = other.name();
                bail!(
                    "the cluster {name} uses the same addresses: end it first, with \
                     `cargo xtask cluster down --name {name}`"
                );
            }
            down::stop(&other)?;
        }
    }
    if let Some(link) = network::links().first() {
        bail!("a cluster of another cache uses the same addresses, by the network link {link}");
    }
    Ok(())
}

/// Starts the one process under which the whole cluster runs, in a session of its own: whatever ends
/// our process group leaves the cluster alone.
fn spawn(state: &State, shape: &Shape) -> Result<u32> {
    let mut command = Command::new("setsid");
    command.args(["unshare", "--pid", "--fork", "--kill-child=KILL"]);
    command.args(["--mount", "--mount-proc", "--propagation=private"]);
    if shape.nodes > 0 {
        command.args(["--net", "--ipc", "--uts"]);
    }
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command
        .arg(state.own_program())
        .args(["cluster", "inside", "--name", state.name()])
        // Nothing of the caller's environment is the cluster's business.
        .env_clear()
        .envs(
            std::env::vars()
                .filter(|(name, _)| ["PATH", "HOME", "MUSTER_CACHE"].contains(&&**name)),
        )
        .env(processes::OF_CLUSTER, state.dir());
    let child = spawn_logged(&mut command, &state.log("cluster")).context("cannot start setsid")?;
    fs::write(state.pid_file(), child.id().to_string()).context("cannot write the pid file")?;
    Ok(child.id())
}

/// Our kubectl as the cluster's administrator.
pub(crate) fn kubectl(state: &State) -> Command {
    let mut command = Command::new(state.kubectl());
    command
        .env("KUBECONFIG", state.kubeconfig("admin"))
        .env("NO_PROXY", "*");
    command
}
