//! A node that says it is well. Without one, Kubernetes takes bound pods for orphans and removes them;
//! without its lease, it evicts them. Decides how a node is registered; must not know of pods.

use anyhow::Result;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::api::{Api, collection};

const NODES: &str = "/api/v1/nodes";
const LEASES: &str = "kube-node-lease";

/// Registers a node that is Ready.
pub(super) fn register(api: &Api, name: &str) -> Result<()> {
    let condition = json!({
        "type": "Ready", "status": "True", "reason": "KubeletReady",
        "lastHeartbeatTime": Timestamp::now().to_string(),
    });
    let node = json!({"metadata": {"name": name}, "status": {"conditions": [condition]}});
    api.create(NODES, &node)?;
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": name}, "spec": spec(name),
    });
    api.create(&collection(LEASES, "leases"), &lease)?;
    Ok(())
}

/// Says that the node is still there.
pub(super) fn renew(api: &Api, name: &str) -> Result<()> {
    let path = format!("{}/{name}", collection(LEASES, "leases"));
    api.merge(&path, &json!({"spec": spec(name)}))?;
    Ok(())
}

/// Takes the node away; its lease goes with it or not, and nobody minds.
pub(super) fn remove(api: &Api, name: &str) -> Result<()> {
    api.delete(&format!("{NODES}/{name}"))?;
    api.delete(&format!("{}/{name}", collection(LEASES, "leases")))
}

fn spec(name: &str) -> Value {
    json!({
        "holderIdentity": name,
        "leaseDurationSeconds": 40,
        "renewTime": format!("{:.6}", Timestamp::now()),
    })
}
