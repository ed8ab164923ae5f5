//! The first process inside a node's namespaces: containerd, the images, then kube-proxy and the
//! kubelet. Decides their configuration and what of the machine the node may not see or change. Must
//! not know how many other nodes there are, beyond the ways to their pods.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use super::control_plane::{program, text};
use super::daemons::Daemons;
use super::layout::{Node, Shape, State};
use super::{cgroups, mounts, network, store, wait};

/// Where containerd listens, seen from inside the node.
const SOCKET: &str = "/run/containerd.sock";

/// The same socket seen from outside, through a process of the node.
pub(crate) fn socket_seen_through(process: u32) -> PathBuf {
    PathBuf::from(format!("/proc/{process}/root{SOCKET}"))
}

/// Runs until one of the node's programs ends; ending it is a power-off.
pub(crate) fn run(state: &State, node: Node) -> Result<()> {
    let shape = Shape::read(state)?;
    let own_log = state.log(&node.name());
    rustix::system::sethostname(node.name().as_bytes()).context("cannot set the host name")?;
    mounts::separate()?;
    // The kubelet and the network plugins write here whatever their settings say.
    mounts::cover("/var/lib")?;
    mounts::cover("/var/log")?;
    // The kubelet sets these for the whole machine, unless they already are what it wants.
    mounts::pretend_setting("vm/overcommit_memory", "1")?;
    mounts::pretend_setting("kernel/panic", "10")?;
    mounts::pretend_setting("kernel/panic_on_oops", "1")?;
    cgroups::make(state, node)?;
    let others = shape.nodes().filter(|other| *other != node);
    network::configure_node(node, others, &own_log)?;
    let files = Files::write(state, node)?;

    let mut daemons = Daemons::default();
    let containerd_log = state.log(&format!("{}-containerd", node.name()));
    let mut containerd = Command::new("containerd");
    containerd.arg("--config").arg(&files.containerd);
    daemons.start("containerd", containerd_log.clone(), &mut containerd)?;
    wait::until(
        "containerd",
        Duration::from_secs(60),
        &containerd_log,
        || {
            daemons.all_alive()?;
            Ok(UnixStream::connect(SOCKET).is_ok())
        },
    )?;
    // Before the kubelet starts, or the first pods would find no image and back off.
    for archive in &shape.archives {
        store::import(state, node, Path::new(SOCKET), archive)?;
    }
    wait::until(
        "the API server",
        Duration::from_secs(180),
        &state.log("apiserver"),
        || {
            daemons.all_alive()?;
            Ok(state.api_ready_mark().exists())
        },
    )?;
    let log = |name: &str| state.log(&format!("{}-{name}", node.name()));
    daemons.start(
        "kubelet",
        log("kubelet"),
        &mut kubelet(state, &shape, node, &files),
    )?;
    daemons.start(
        "kube-proxy",
        log("proxy"),
        &mut kube_proxy(state, &shape, node),
    )?;
    daemons.keep()
}

fn kubelet(state: &State, shape: &Shape, node: Node, files: &Files) -> Command {
    let root = state.node(node).join("kubelet");
    let flags = [
        ("config", text(&files.kubelet)),
        ("kubeconfig", text(&state.kubeconfig(&node.name()))),
        ("root-dir", text(&root)),
        ("cert-dir", text(&root.join("pki"))),
        ("hostname-override", node.name()),
        ("node-ip", node.address().to_string()),
        ("v", "2".to_owned()),
    ];
    program(shape, "kubelet", flags)
}

fn kube_proxy(state: &State, shape: &Shape, node: Node) -> Command {
    let flags = [
        ("kubeconfig", text(&state.kubeconfig("proxy"))),
        ("hostname-override", node.name()),
        ("cluster-cidr", network::PODS.to_owned()),
        ("proxy-mode", "nftables".to_owned()),
        // Limits of connection tracking are the machine's: leave them alone.
        ("conntrack-max-per-core", "0".to_owned()),
        ("conntrack-min", "0".to_owned()),
    ];
    program(shape, "kube-proxy", flags)
}

/// The configuration files of a node.
struct Files {
    containerd: PathBuf,
    kubelet: PathBuf,
}

impl Files {
    fn write(state: &State, node: Node) -> Result<Self> {
        let dir = state.node(node);
        let (network, resolver) = (dir.join("cni"), dir.join("resolv.conf"));
        fs::create_dir_all(&network)
            .with_context(|| format!("cannot make {}", network.display()))?;
        let files = Self {
            containerd: dir.join("containerd.toml"),
            kubelet: dir.join("kubelet.yaml"),
        };
        let write = |path: &Path, text: String| {
            fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
        };
        write(&network.join("10-pods.conflist"), pod_network(node))?;
        // The machine's name servers are out of reach from here, and pods should not wait for them.
        write(&resolver, "nameserver 127.0.0.1\n".to_owned())?;
        write(&files.containerd, containerd_config(&dir, &network))?;
        write(&files.kubelet, kubelet_config(state, node, &resolver))?;
        Ok(files)
    }
}

fn containerd_config(dir: &Path, network: &Path) -> String {
    const CRI: &str = r#"plugins."io.containerd.grpc.v1.cri""#;
    let snapshotters = ["aufs", "btrfs", "devmapper", "zfs"]
        .map(|name| format!(r#""io.containerd.snapshotter.v1.{name}""#))
        .join(", ");
    format!(
        r#"version = 2
root = "{root}"
state = "/run/containerd"
disabled_plugins = [{snapshotters}, "io.containerd.internal.v1.opt"]
[grpc]
address = "{SOCKET}"
[{CRI}]
sandbox_image = "{pause}"
restrict_oom_score_adj = true
disable_apparmor = true
[{CRI}.cni]
bin_dir = "/usr/lib/cni"
conf_dir = "{network}"
[{CRI}.containerd]
snapshotter = "overlayfs"
default_runtime_name = "runc"
[{CRI}.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[{CRI}.containerd.runtimes.runc.options]
SystemdCgroup = false
"#,
        root = dir.join("containerd").display(),
        pause = store::PAUSE,
        network = network.display(),
    )
}

fn pod_network(node: Node) -> String {
    format!(
        r#"{{"cniVersion": "1.0.0", "name": "pods", "plugins": [
  {{"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": false, "hairpinMode": true,
    "ipam": {{"type": "host-local", "dataDir": "/run/addresses",
      "ranges": [[{{"subnet": "{pods}"}}]], "routes": [{{"dst": "0.0.0.0/0"}}]}}}}
]}}
"#,
        pods = node.pods(),
    )
}

fn kubelet_config(state: &State, node: Node, resolver: &Path) -> String {
    let (dir, name) = (state.node(node), node.name());
    format!(
        "apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: {address}
authentication:
  anonymous: {{enabled: false}}
  webhook: {{enabled: true}}
  x509: {{clientCAFile: {ca}}}
authorization: {{mode: Webhook}}
tlsCertFile: {certificate}
tlsPrivateKeyFile: {key}
cgroupDriver: cgroupfs
cgroupRoot: /{cgroup}
failCgroupV1: false
failSwapOn: false
oomScoreAdj: 0 # lowering it takes a right that containers of this kind of machine lack
clusterDomain: cluster.local
clusterDNS: [\"{dns}\"]
resolvConf: {resolver}
containerRuntimeEndpoint: unix://{SOCKET}
podLogsDir: {pod_logs}
volumePluginDir: {plugins}
imageGCHighThresholdPercent: 100 # nothing could bring a collected image back
evictionHard: {{memory.available: 50Mi, nodefs.available: 1%, nodefs.inodesFree: 1%, imagefs.available: 1%}}
nodeLeaseDurationSeconds: 8
",
        address = node.address(),
        ca = state.pki("ca.crt").display(),
        certificate = state.pki(&format!("{name}.crt")).display(),
        key = state.pki(&format!("{name}.key")).display(),
        cgroup = state.cgroup(node),
        dns = network::DNS,
        resolver = resolver.display(),
        pod_logs = dir.join("pod-logs").display(),
        plugins = dir.join("volume-plugins").display(),
    )
}
