//! The first process inside the cluster's namespaces: it starts etcd, the API server, the controller
//! manager and the scheduler, and one set of namespaces per node. Decides the flags of these programs
//! and the order of things; must not know what happens inside a node.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use super::api::Api;
use super::daemons::{Daemons, spawn_logged};
use super::layout::{Node, Shape, State};
use super::processes::OF_NODE;
use super::{mounts, network, wait};

/// Kubernetes' own gangs, which are off unless asked for.
const GATES: &str = "GenericWorkload=true";
const AUDIT_POLICY: &str = include_str!("../../../e2e/cluster/audit-policy.yaml");

/// Runs until one of the control plane's programs ends; ending it ends the whole cluster.
pub(crate) fn run(state: &State) -> Result<()> {
    let shape = Shape::read(state)?;
    if shape.nodes > 0 {
        mounts::separate()?;
        network::make_bridge()?;
    }
    let mut daemons = Daemons::default();
    daemons.start("etcd", state.log("etcd"), &mut etcd(state, &shape))?;
    daemons.start(
        "kube-apiserver",
        state.log("apiserver"),
        &mut api_server(state, &shape)?,
    )?;
    if shape.nodes > 0 {
        network::connect_machine(&state.log("cluster"))?;
        for node in shape.nodes() {
            start_node(state, node)?;
        }
    }
    let api = Api {
        state,
        address: shape.api,
    };
    wait::until(
        "the API server",
        Duration::from_secs(120),
        &state.log("apiserver"),
        || {
            daemons.all_alive()?;
            Ok(api.is_ready())
        },
    )?;
    fs::write(state.api_ready_mark(), "").context("cannot mark the API server as ready")?;
    let log = state.log("controller-manager");
    daemons.start(
        "kube-controller-manager",
        log,
        &mut controller_manager(state, &shape),
    )?;
    if shape.nodes > 0 {
        daemons.start(
            "kube-scheduler",
            state.log("scheduler"),
            &mut scheduler(state, &shape),
        )?;
    }
    daemons.keep()
}

/// A node is a set of namespaces within the cluster's. Its end is not the end of the cluster: that
/// is how a node loses power.
fn start_node(state: &State, node: Node) -> Result<()> {
    let log = state.log(&node.name());
    let child = spawn_logged(
        Command::new("unshare")
            .args(["--net", "--pid", "--mount", "--ipc", "--uts"])
            .args([
                "--fork",
                "--kill-child=KILL",
                "--mount-proc",
                "--propagation=private",
            ])
            .arg(state.own_program())
            .args([
                "cluster",
                "inside-node",
                "--name",
                state.name(),
                &node.name(),
            ])
            .env(OF_NODE, node.name()),
        &log,
    )
    .with_context(|| format!("cannot start {}", node.name()))?;
    network::await_own_namespace(child.id(), &log)?;
    network::plug_in(node, child.id())
}

fn etcd(state: &State, shape: &Shape) -> Command {
    let client = format!("http://{}", shape.etcd_client);
    let peer = format!("http://{}", shape.etcd_peer);
    let flags = [
        ("data-dir", text(&state.etcd())),
        ("unsafe-no-fsync", yes()), // the data need not outlive the cluster
        // Tests of hostile tenants write large objects again and again; old ones go after minutes.
        ("quota-backend-bytes", (8_u64 << 30).to_string()),
        ("listen-client-urls", client.clone()),
        ("advertise-client-urls", client),
        ("listen-peer-urls", peer.clone()),
        ("initial-advertise-peer-urls", peer.clone()),
        ("initial-cluster", format!("default={peer}")),
    ];
    program(shape, "etcd", flags)
}

fn api_server(state: &State, shape: &Shape) -> Result<Command> {
    let policy = state.dir().join("audit-policy.yaml");
    fs::write(&policy, AUDIT_POLICY)
        .with_context(|| format!("cannot write {}", policy.display()))?;
    let pki = |file| text(&state.pki(file));
    let issuer = "https://kubernetes.default.svc.cluster.local";
    let mut flags = vec![
        ("etcd-servers", format!("http://{}", shape.etcd_client)),
        ("bind-address", shape.api.ip().to_string()),
        ("advertise-address", shape.api.ip().to_string()),
        ("secure-port", shape.api.port().to_string()),
        ("tls-cert-file", pki("apiserver.crt")),
        ("tls-private-key-file", pki("apiserver.key")),
        ("client-ca-file", pki("ca.crt")),
        ("kubelet-client-certificate", pki("apiserver-kubelet.crt")),
        ("kubelet-client-key", pki("apiserver-kubelet.key")),
        ("kubelet-preferred-address-types", "InternalIP".to_owned()),
        ("service-account-key-file", pki("serviceaccounts.pub")),
        (
            "service-account-signing-key-file",
            pki("serviceaccounts.key"),
        ),
        ("service-account-issuer", issuer.to_owned()),
        ("service-cluster-ip-range", network::SERVICES.to_owned()),
        ("authorization-mode", "Node,RBAC".to_owned()),
        ("enable-admission-plugins", "NodeRestriction".to_owned()),
        ("allow-privileged", yes()),
        ("feature-gates", GATES.to_owned()),
        // PodGroups are beta, which no API server serves unless told.
        (
            "runtime-config",
            "scheduling.k8s.io/v1beta1=true".to_owned(),
        ),
        // No proxy runs beside the API server, so it calls webhooks at their pods' addresses.
        ("enable-aggregator-routing", yes()),
        // A test of a lost node would otherwise wait five minutes for its pods to be given up.
        ("default-not-ready-toleration-seconds", "30".to_owned()),
        ("default-unreachable-toleration-seconds", "30".to_owned()),
        ("audit-policy-file", text(&policy)),
        ("audit-log-path", text(&state.log("audit"))),
        // In megabytes: whoever counts lines must never meet a new file.
        ("audit-log-maxsize", "100000".to_owned()),
    ];
    if shape.nodes == 0 {
        // The API forbids loopback addresses as endpoints, even of the API server itself.
        flags.push(("endpoint-reconciler-type", "none".to_owned()));
    }
    Ok(program(shape, "kube-apiserver", flags))
}

fn controller_manager(state: &State, shape: &Shape) -> Command {
    let mut flags = client_flags(state, "controller-manager");
    flags.extend([
        ("use-service-account-credentials", yes()),
        ("root-ca-file", text(&state.pki("ca.crt"))),
        (
            "service-account-private-key-file",
            text(&state.pki("serviceaccounts.key")),
        ),
        // When a silent node counts as lost; its lease is renewed every two seconds.
        ("node-monitor-period", "1s".to_owned()),
        ("node-monitor-grace-period", "15s".to_owned()),
    ]);
    program(shape, "kube-controller-manager", flags)
}

fn scheduler(state: &State, shape: &Shape) -> Command {
    program(shape, "kube-scheduler", client_flags(state, "scheduler"))
}

/// What the API server's own clients share. They serve nothing, so they need no port; and with their
/// default request rates they would be the slowest part of many a test.
fn client_flags(state: &State, user: &str) -> Vec<(&'static str, String)> {
    let kubeconfig = text(&state.kubeconfig(user));
    vec![
        ("feature-gates", GATES.to_owned()),
        ("kubeconfig", kubeconfig.clone()),
        ("authentication-kubeconfig", kubeconfig.clone()),
        ("authorization-kubeconfig", kubeconfig),
        ("secure-port", "0".to_owned()),
        ("leader-elect", "false".to_owned()),
        ("kube-api-qps", "500".to_owned()),
        ("kube-api-burst", "1000".to_owned()),
    ]
}

/// One of the programs in the `kube` binary.
pub(crate) fn program(
    shape: &Shape,
    name: &str,
    flags: impl IntoIterator<Item = (&'static str, String)>,
) -> Command {
    let mut command = Command::new(&shape.kube);
    let flags = flags
        .into_iter()
        .map(|(flag, value)| format!("--{flag}={value}"));
    command.arg(name).args(flags);
    command
}

pub(crate) fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn yes() -> String {
    "true".to_owned()
}
