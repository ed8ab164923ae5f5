//! The API server's state: objects, kinds, names, addresses. Decides what is there at the start; what
//! requests do to it is in `api`, and what controllers do in their own modules.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::kinds::Kinds;
use crate::schema::format;
use crate::seed::Seed;
use crate::store::{Key, KindId, Store};
use crate::value::text;

/// What requests and controllers work on.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) config: Config,
    pub(crate) store: Store,
    pub(crate) kinds: Kinds,
    pub(crate) seed: Seed,
    /// Service addresses given away.
    pub(crate) addresses: u32,
    /// Times at which watches end.
    pub(crate) alarms: BTreeSet<Timestamp>,
}

/// How a cluster begins.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where names and UIDs come from.
    pub seed: u64,
    /// When its namespaces and its node were created.
    pub created_at: Timestamp,
    /// The one node; without it no pod is scheduled.
    pub node: Option<NodeConfig>,
    /// Events of each kind that watches may still ask for.
    pub history: usize,
    /// Seconds that pods tolerate a lost node.
    pub toleration_secs: i64,
    /// A pod's service account must exist.
    pub service_accounts: bool,
    /// Run the Job controller, scheduler and kubelet. The garbage collector always runs.
    pub controllers: bool,
    /// Keep who set which field. Without it writes take half the time, objects half the room, and
    /// server-side apply overwrites whatever others set.
    pub managed_fields: bool,
}

/// The node.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// Its name, also its host name.
    pub name: String,
    /// Its address.
    pub ip: String,
    /// Processors, as a quantity.
    pub cpu: String,
    /// Memory, as a quantity.
    pub memory: String,
    /// Other resources that pods may ask for, as quantities.
    pub extended: Vec<(String, String)>,
    /// Pods at a time.
    pub pods: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            seed: 1,
            created_at: Timestamp::UNIX_EPOCH,
            node: None,
            history: 100_000,
            toleration_secs: 300,
            service_accounts: true,
            controllers: true,
            managed_fields: true,
        }
    }
}

impl Server {
    /// With the usual namespaces and, if configured, the node.
    pub(crate) fn new(config: Config) -> Self {
        let mut server = Self {
            seed: Seed::new(config.seed),
            store: Store::new(config.history),
            kinds: Kinds::new(),
            config,
            addresses: 0,
            alarms: BTreeSet::new(),
        };
        let start = server.config.created_at;
        for name in ["default", "kube-node-lease", "kube-public", "kube-system"] {
            server.make_namespace(start, name);
        }
        server.make_node(start);
        server
    }

    fn make_namespace(&mut self, now: Timestamp, name: &str) {
        let key = Key::new(&KindId::new("", "namespaces"), "", name);
        let namespace = json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {
                "name": name,
                "uid": self.seed.uid(),
                "creationTimestamp": format::seconds(now),
                "labels": {"kubernetes.io/metadata.name": name},
            },
            "spec": {"finalizers": ["kubernetes"]},
            "status": {"phase": "Active"},
        });
        self.store.put(&key, namespace);
        self.create_default_account(now, name);
    }

    /// What controllers put into every new namespace, as far as pods need it.
    pub(crate) fn create_default_account(&mut self, now: Timestamp, namespace: &str) {
        let key = Key::new(&KindId::new("", "serviceaccounts"), namespace, "default");
        if self.store.get(&key).is_some() {
            return;
        }
        let account: Value = json!({
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {
                "name": "default",
                "namespace": namespace,
                "uid": self.seed.uid(),
                "creationTimestamp": format::seconds(now),
            },
        });
        self.store.put(&key, account);
    }

    /// The node's labels.
    pub(crate) fn node_labels(&self) -> BTreeMap<String, String> {
        let name = self.config.node.as_ref().map(|node| node.name.clone());
        let pairs = [
            ("kubernetes.io/hostname", name.unwrap_or_default()),
            ("kubernetes.io/os", "linux".to_owned()),
            ("kubernetes.io/arch", "amd64".to_owned()),
        ];
        pairs.map(|(key, value)| (key.to_owned(), value)).into()
    }

    fn make_node(&mut self, now: Timestamp) {
        let Some(node) = self.config.node.clone() else {
            return;
        };
        let mut amounts =
            json!({"cpu": node.cpu, "memory": node.memory, "pods": node.pods.to_string()});
        for (name, amount) in &node.extended {
            amounts[name] = amount.as_str().into();
        }
        let time = format::seconds(now);
        let object = json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": node.name,
                "uid": self.seed.uid(),
                "creationTimestamp": time,
                "labels": self.node_labels(),
            },
            "spec": {},
            "status": {
                "capacity": amounts,
                "allocatable": amounts,
                "addresses": [
                    {"type": "InternalIP", "address": node.ip},
                    {"type": "Hostname", "address": node.name},
                ],
                "conditions": [{
                    "type": "Ready",
                    "status": "True",
                    "reason": "KubeletReady",
                    "message": "this machine is the node",
                    "lastHeartbeatTime": time,
                    "lastTransitionTime": time,
                }],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
                "nodeInfo": {"kubeletVersion": "v1.37.1+minicluster", "operatingSystem": "linux", "architecture": "amd64"},
            },
        });
        let key = Key::new(&KindId::new("", "nodes"), "", &node.name);
        self.store.put(&key, object);
    }

    /// Records an event about an object.
    pub(crate) fn say(
        &mut self,
        now: Timestamp,
        about: &Value,
        kind: &str,
        reason: &str,
        message: &str,
        component: &str,
    ) {
        let metadata = &about["metadata"];
        let namespace = match text(&metadata["namespace"]) {
            "" => "default",
            namespace => namespace,
        };
        let name = format!("{}.{}", text(&metadata["name"]), self.seed.suffix());
        let time = format::seconds(now);
        let event = json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": self.seed.uid(),
                "creationTimestamp": time,
            },
            "involvedObject": {
                "kind": about["kind"],
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": metadata["uid"],
                "apiVersion": about["apiVersion"],
                "resourceVersion": metadata["resourceVersion"],
            },
            "reason": reason,
            "message": message,
            "source": {"component": component},
            "firstTimestamp": time,
            "lastTimestamp": time,
            "count": 1,
            "type": kind,
            "eventTime": null,
            "reportingComponent": component,
            "reportingInstance": "",
        });
        let key = Key::new(&KindId::new("", "events"), namespace, &name);
        self.store.put(&key, event);
    }
}
