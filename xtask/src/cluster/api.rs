//! Asking the API server whether something has come about. Decides that no answer and a refusal both
//! mean "not yet"; must not change anything in the cluster. Runs curl, because starting kubectl takes
//! ten times as long and these questions are asked many times a second.

use std::net::SocketAddrV4;
use std::process::Command;

use serde_json::Value;

use super::layout::State;
use crate::command;

pub(crate) struct Api<'a> {
    pub(crate) state: &'a State,
    pub(crate) address: SocketAddrV4,
}

impl Api<'_> {
    pub(crate) fn is_ready(&self) -> bool {
        self.get("/readyz").is_some_and(|answer| answer == "ok")
    }

    pub(crate) fn exists(&self, path: &str) -> bool {
        self.get(path).is_some()
    }

    pub(crate) fn ready_nodes(&self) -> usize {
        let nodes = self.get_json("/api/v1/nodes").unwrap_or_default();
        let nodes = nodes["items"].as_array().map_or(&[][..], Vec::as_slice);
        nodes
            .iter()
            .filter(|node| has_condition(node, "Ready"))
            .count()
    }

    pub(crate) fn has_dns(&self) -> bool {
        self.get_json("/apis/apps/v1/namespaces/kube-system/deployments/coredns")
            .is_some_and(|deployment| has_condition(&deployment, "Available"))
    }

    fn get_json(&self, path: &str) -> Option<Value> {
        serde_json::from_str(&self.get(path)?).ok()
    }

    fn get(&self, path: &str) -> Option<String> {
        command::output(
            Command::new("curl")
                .args(["--silent", "--fail", "--max-time", "5", "--noproxy", "*"])
                .arg("--cacert")
                .arg(self.state.pki("ca.crt"))
                .arg("--cert")
                .arg(self.state.pki("admin.crt"))
                .arg("--key")
                .arg(self.state.pki("admin.key"))
                .arg(format!("https://{}{path}", self.address)),
        )
        .ok()
    }
}

fn has_condition(object: &Value, kind: &str) -> bool {
    let conditions = object["status"]["conditions"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    conditions
        .iter()
        .any(|condition| condition["type"] == kind && condition["status"] == "True")
}
