//! What a cluster is made of, and where its files lie. Decides every path and name that more than
//! one part of the cluster must agree on; must not start, stop or read anything else.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::network;
use crate::cache;

/// The directory of a cluster, running or not.
#[derive(Clone, Debug)]
pub(crate) struct State {
    name: String,
    dir: PathBuf,
    /// Names what the cluster has outside of its directory. It follows from the directory, since a
    /// cluster of the same name in another cache is another cluster.
    tag: String,
}

impl State {
    pub(crate) fn named(name: &str) -> Result<Self> {
        ensure!(
            (1..=20).contains(&name.len())
                && name
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()),
            "the cluster name `{name}` must be 1 to 20 small letters and digits"
        );
        let dir = cache::dir()?.join("cluster").join(name);
        // Each node hides these behind a memory file system of its own.
        let hidden = ["/run", "/var/run", "/var/lib", "/var/log"];
        ensure!(
            !hidden.iter().any(|prefix| dir.starts_with(prefix)),
            "clusters cannot live in {}: set MUSTER_CACHE to a directory outside of {}",
            dir.display(),
            hidden.join(", ")
        );
        let digest = cache::sha256(dir.as_os_str().as_bytes())?;
        Ok(Self {
            name: name.to_owned(),
            tag: format!("{}{}", network::LINK_PREFIX, &digest[..8]),
            dir,
        })
    }

    /// Every cluster that has a directory.
    pub(crate) fn all() -> Result<Vec<Self>> {
        let Ok(entries) = fs::read_dir(cache::dir()?.join("cluster")) else {
            return Ok(Vec::new()); // no cluster was ever started
        };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        Ok(names.filter_map(|name| Self::named(&name).ok()).collect())
    }

    /// Makes the directory, and keeps other processes from starting or ending the cluster until the
    /// returned handle is dropped.
    pub(crate) fn hold(&self) -> Result<File> {
        fs::create_dir_all(&self.dir)
            .with_context(|| format!("cannot make {}", self.dir.display()))?;
        cache::lock(&self.dir.with_extension("lock"))
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }
    pub(crate) fn pid_file(&self) -> PathBuf {
        self.dir.join("pid")
    }
    pub(crate) fn shape_file(&self) -> PathBuf {
        self.dir.join("shape.json")
    }
    pub(crate) fn api_ready_mark(&self) -> PathBuf {
        self.dir.join("api-ready")
    }
    pub(crate) fn own_program(&self) -> PathBuf {
        self.dir.join("xtask")
    }
    pub(crate) fn kubectl(&self) -> PathBuf {
        self.dir.join("kubectl")
    }
    pub(crate) fn etcd(&self) -> PathBuf {
        self.dir.join("etcd")
    }
    pub(crate) fn pki(&self, file: &str) -> PathBuf {
        self.dir.join("pki").join(file)
    }
    pub(crate) fn kubeconfig(&self, user: &str) -> PathBuf {
        self.pki(&format!("{user}.kubeconfig"))
    }
    pub(crate) fn log(&self, program: &str) -> PathBuf {
        self.dir.join("log").join(format!("{program}.log"))
    }
    pub(crate) fn node(&self, node: Node) -> PathBuf {
        self.dir.join(node.name())
    }
    /// The machine's end of the only link into the cluster.
    pub(crate) fn link(&self) -> &str {
        &self.tag
    }
    /// What the names of all cgroups of this cluster begin with.
    pub(crate) fn cgroup_prefix(&self) -> String {
        format!("{}-", self.tag)
    }
    pub(crate) fn cgroup(&self, node: Node) -> String {
        format!("{}{}", self.cgroup_prefix(), node.name())
    }
}

/// What a cluster is started with. Written to a file, because the processes that need it start
/// inside namespaces, as programs of their own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Shape {
    pub(crate) nodes: u8,
    pub(crate) kube: PathBuf,
    pub(crate) archives: Vec<PathBuf>,
    pub(crate) api: SocketAddrV4,
    pub(crate) etcd_client: SocketAddrV4,
    pub(crate) etcd_peer: SocketAddrV4,
}

impl Shape {
    /// With nodes the cluster has a network of its own, so that addresses never clash; without, it
    /// shares the machine's loopback device and takes ports that are free now.
    pub(crate) fn new(nodes: u8, kube: PathBuf, archives: Vec<PathBuf>) -> Result<Self> {
        let local = |port| SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
        let (api, etcd_client, etcd_peer) = if nodes > 0 {
            (
                SocketAddrV4::new(network::API, 6443),
                local(2379),
                local(2380),
            )
        } else {
            let [api, client, peer] = free_ports().context("no free port on 127.0.0.1")?;
            (local(api), local(client), local(peer))
        };
        Ok(Self {
            nodes,
            kube,
            archives,
            api,
            etcd_client,
            etcd_peer,
        })
    }

    pub(crate) fn read(state: &State) -> Result<Self> {
        let path = state.shape_file();
        let text = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        serde_json::from_slice(&text).with_context(|| format!("cannot parse {}", path.display()))
    }

    pub(crate) fn write(&self, state: &State) -> Result<()> {
        let path = state.shape_file();
        fs::write(&path, serde_json::to_vec_pretty(self)?)
            .with_context(|| format!("cannot write {}", path.display()))
    }

    pub(crate) fn nodes(&self) -> impl Iterator<Item = Node> + use<> {
        (1..=self.nodes).map(Node)
    }
}

/// One node, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Node(pub(crate) u8);

impl Node {
    pub(crate) fn name(self) -> String {
        format!("node{}", self.0)
    }
    pub(crate) fn named(name: &str) -> Result<Self> {
        let number = name
            .strip_prefix("node")
            .and_then(|number| number.parse().ok());
        number
            .map(Self)
            .with_context(|| format!("`{name}` is no node: they are node1, node2, …"))
    }
    pub(crate) fn address(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 89, 0, 10 + self.0)
    }
    pub(crate) fn pods(self) -> String {
        format!("10.244.{}.0/24", self.0)
    }
    /// The name of the node's link on the cluster's bridge.
    pub(crate) fn link(self) -> String {
        format!("port{}", self.0)
    }
}

/// Below the range in which the kernel finds ports for connections: one of those could take a port before its server
/// listens. Clusters that start at the same time begin to look at different places.
fn free_ports() -> Option<[u16; 3]> {
    let offset = u16::try_from(std::process::id() % 9_000).ok()?;
    let is_free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    let mut ports = (10_000 + offset..20_000).filter(is_free);
    Some([ports.next()?, ports.next()?, ports.next()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_name_fits_the_kernels_fifteen_characters() {
        let state = State::named("acceptably1long2name").expect("a name of 20 characters");
        assert!(state.link().len() <= 15, "{}", state.link());
    }

    #[test]
    fn a_name_that_is_no_plain_word_is_refused() {
        for name in ["", "Upper", "a/b", "..", "acceptably1long2name3"] {
            assert!(State::named(name).is_err(), "{name}");
        }
    }

    #[test]
    fn node_names_read_back() {
        assert_eq!(Node::named("node3").expect("a node's name"), Node(3));
        assert!(Node::named("3").is_err());
    }
}
