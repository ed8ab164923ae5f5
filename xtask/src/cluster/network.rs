//! The cluster's network: its ranges, the one link into it from the machine, and the bridge between
//! its nodes. Decides that packets to these ranges never leave the machine, whatever is up or down.
//! Must not know what runs in the cluster.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use super::layout::{Node, State};
use super::wait;
use crate::command;

/// The API server, on the bridge.
pub(crate) const API: Ipv4Addr = Ipv4Addr::new(10, 89, 0, 1);
/// The machine's own address in the cluster's network.
const MACHINE: Ipv4Addr = Ipv4Addr::new(10, 89, 0, 254);
pub(crate) const DNS: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 10);
const LINKS: &str = "10.89.0.0/24";
pub(crate) const PODS: &str = "10.244.0.0/16";
pub(crate) const SERVICES: &str = "10.96.0.0/16";
/// What the names of the links between the machine and its clusters begin with.
pub(crate) const LINK_PREFIX: &str = "muster-";
const RANGES: [&str; 3] = [LINKS, PODS, SERVICES];
/// Behind every real route, so that the blackhole counts only while there is none.
const LAST: &str = "4096";

/// Swallows packets to the cluster's ranges while no link leads there; otherwise they would follow
/// the machine's default route to some network that may use the same addresses.
pub(crate) fn guard_ranges() -> Result<()> {
    for range in RANGES {
        ip(&format!("route replace blackhole {range} metric {LAST}"))?;
    }
    Ok(())
}

pub(crate) fn unguard_ranges() -> Result<()> {
    for range in RANGES {
        if has_guard(range)? {
            ip(&format!("route del blackhole {range} metric {LAST}"))?;
        }
    }
    Ok(())
}

/// The ranges that still have a route of ours.
pub(crate) fn guarded_ranges() -> Result<Vec<&'static str>> {
    let mut guarded = Vec::new();
    for range in RANGES {
        if has_guard(range)? {
            guarded.push(range);
        }
    }
    Ok(guarded)
}

fn has_guard(range: &str) -> Result<bool> {
    Ok(!ip(&format!("route show type blackhole exact {range}"))?.is_empty())
}

/// Links the machine to the cluster whose network namespace the process is in.
pub(crate) fn link_machine(state: &State, top: u32) -> Result<()> {
    let link = state.link();
    ip(&format!(
        "link add {link} type veth peer name machine netns {top}"
    ))?;
    ip(&format!("addr add {MACHINE}/24 dev {link}"))?;
    ip(&format!("link set {link} up"))?;
    ip(&format!("route add {PODS} via {API}"))?;
    // Any node can answer for a service; the bridge cannot, it has no proxy.
    ip(&format!("route add {SERVICES} via {}", Node(1).address()))?;
    Ok(())
}

/// A network namespace goes away some time after its last process; its link is removed by hand, or
/// the next cluster would find the name taken.
pub(crate) fn unlink_machine(state: &State) -> Result<()> {
    if !has_link(state.link()) {
        return Ok(());
    }
    // It may go away by itself between the question and the removal, which is just as good.
    let removed = ip(&format!("link del {}", state.link()));
    if has_link(state.link()) {
        removed.map(drop)
    } else {
        Ok(())
    }
}

/// Links from this machine to clusters, of whichever cache. A link goes away with its cluster.
pub(crate) fn links() -> Vec<String> {
    let devices = fs::read_dir("/sys/class/net").into_iter().flatten();
    devices
        .filter_map(|device| device.ok()?.file_name().into_string().ok())
        .filter(|device| device.starts_with(LINK_PREFIX))
        .collect()
}

pub(crate) fn has_link(link: &str) -> bool {
    command::succeeds(Command::new("ip").args(["link", "show", "dev", link]))
}

/// Inside the cluster's network namespace: the bridge that stands for the wire between the nodes.
pub(crate) fn make_bridge() -> Result<()> {
    ip("link set lo up")?;
    // Without an address of its own a bridge takes one from its ports, and another when that port goes
    // away: all nodes would lose the API server for half a minute when one of them loses power.
    ip("link add wire address 02:00:0a:59:00:01 type bridge")?;
    ip(&format!("addr add {API}/24 dev wire"))?;
    ip("link set wire up")?;
    forward_packets()
}

/// Inside the cluster's network namespace: puts the machine's end on the bridge, once it is there.
pub(crate) fn connect_machine(log: &Path) -> Result<()> {
    await_link("machine", log)?;
    ip("link set machine master wire up").map(drop)
}

/// Inside the cluster's network namespace: plugs in the node whose namespace the process is in.
pub(crate) fn plug_in(node: Node, process: u32) -> Result<()> {
    let link = node.link();
    ip(&format!(
        "link add {link} type veth peer name eth0 netns {process}"
    ))?;
    ip(&format!("link set {link} master wire up"))?;
    ip(&format!("route add {} via {}", node.pods(), node.address()))?;
    Ok(())
}

/// Inside the node's network namespace: its address, and the ways to the pods of the others.
pub(crate) fn configure_node(
    node: Node,
    others: impl Iterator<Item = Node>,
    log: &Path,
) -> Result<()> {
    await_link("eth0", log)?;
    ip("link set lo up")?;
    ip(&format!("addr add {}/24 dev eth0", node.address()))?;
    ip("link set eth0 up")?;
    ip(&format!("route add default via {API}"))?;
    for other in others {
        ip(&format!(
            "route add {} via {}",
            other.pods(),
            other.address()
        ))?;
    }
    forward_packets()
}

/// Waits until a process that was just started has left our network namespace for its own.
pub(crate) fn await_own_namespace(process: u32, log: &Path) -> Result<()> {
    let namespace = |process: &str| fs::read_link(format!("/proc/{process}/ns/net"));
    let ours = namespace("self").context("cannot read /proc/self/ns/net")?;
    wait::until("a network namespace", Duration::from_secs(20), log, || {
        let theirs = namespace(&process.to_string()).context("the process has ended")?;
        Ok(theirs != ours)
    })
}

fn await_link(link: &str, log: &Path) -> Result<()> {
    wait::until(
        &format!("the link {link}"),
        Duration::from_secs(20),
        log,
        || Ok(has_link(link)),
    )
}

fn forward_packets() -> Result<()> {
    fs::write("/proc/sys/net/ipv4/ip_forward", "1").context("cannot turn on IP forwarding")
}

fn ip(words: &str) -> Result<String> {
    command::output(Command::new("ip").args(words.split_whitespace()))
}
