//! The cluster as a value: what it is made of and the few ways to move it. Decides the order of
//! its parts' steps; the parts decide the rest.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::api::request::{Form, Params};
use crate::api::{Answer, Call};
use crate::garbage::Garbage;
use crate::jobs::Jobs;
use crate::kinds::Kinds;
use crate::kubelet::machine::Kubelet;
use crate::kubelet::{Order, PodReport};
use crate::scheduler::Scheduler;
use crate::schema::format;
use crate::seed::Seed;
use crate::status::Refusal;
use crate::store::{Key, KindId, Store};
use crate::value::text;

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

/// A Kubernetes in a value.
#[derive(Debug)]
pub struct Cluster {
    pub(crate) config: Config,
    pub(crate) store: Store,
    pub(crate) kinds: Kinds,
    pub(crate) seed: Seed,
    /// Service addresses given away.
    pub(crate) addresses: u32,
    /// Times at which watches end.
    pub(crate) alarms: BTreeSet<Timestamp>,
    pub(crate) garbage: Garbage,
    pub(crate) jobs: Jobs,
    pub(crate) scheduler: Scheduler,
    pub(crate) kubelet: Kubelet,
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
        }
    }
}

impl Cluster {
    /// A cluster with the usual namespaces and, if configured, its node.
    pub fn new(config: Config) -> Self {
        let mut cluster = Self {
            seed: Seed::new(config.seed),
            store: Store::new(config.history),
            kinds: Kinds::new(),
            config,
            addresses: 0,
            alarms: BTreeSet::new(),
            garbage: Garbage::default(),
            jobs: Jobs::default(),
            scheduler: Scheduler::default(),
            kubelet: Kubelet::default(),
        };
        let start = cluster.config.created_at;
        for name in ["default", "kube-node-lease", "kube-public", "kube-system"] {
            cluster.make_namespace(start, name);
        }
        cluster.make_node(start);
        cluster
    }

    /// Answers a request. Controllers see what it changed at the next [`Self::tick`].
    pub fn handle(&mut self, now: Timestamp, request: http::Request<Vec<u8>>) -> Answer {
        self.answer(now, request)
    }

    /// A number that grows with every change: watches need not be asked while it stands still.
    pub fn revision(&self) -> u64 {
        self.store.revision()
    }

    /// Forgets history up to now, as a server does from time to time: watches that are behind end
    /// with 410.
    pub fn compact(&mut self) {
        let revision = self.store.revision();
        self.store.forget_before(revision);
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
        self.furnish_namespace(now, name);
    }

    /// What controllers put into every new namespace, as far as pods need it.
    pub(crate) fn furnish_namespace(&mut self, now: Timestamp, namespace: &str) {
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

    /// Lets controllers act on what changed. The orders are for the runner.
    pub fn tick(&mut self, now: Timestamp) -> Vec<Order> {
        while self.alarms.first().is_some_and(|at| *at <= now) {
            self.alarms.pop_first();
        }
        let node = self.config.node.as_ref().map(|node| node.name.clone());
        let mut orders = Vec::new();
        loop {
            for change in self.store.changes() {
                self.garbage.note(&change, &self.store);
                if !self.config.controllers {
                    continue;
                }
                self.jobs.note(&change);
                if change.key.kind.is("/pods") {
                    self.scheduler.note(&change);
                    if let Some(node) = &node {
                        self.kubelet.note(&change, node);
                    }
                } else if change.key.kind.0.ends_with("/podgroups") {
                    self.scheduler.stir();
                }
            }
            self.collect_garbage(now);
            if self.config.controllers {
                self.run_jobs(now);
                self.schedule(now);
                orders.append(&mut self.run_kubelet(now));
            }
            if !self.store.has_changes() {
                return orders;
            }
        }
    }

    /// Takes in what the runner says; its consequences come with the next [`Self::tick`].
    pub fn report(&mut self, now: Timestamp, report: PodReport) {
        self.kubelet.report(now, report);
    }

    /// [`Self::tick`] has something to do now.
    pub fn is_restless(&self) -> bool {
        self.store.has_changes() || self.kubelet.is_restless()
    }

    /// When [`Self::tick`] has something to do although nothing happened.
    pub fn next_wake(&self) -> Option<Timestamp> {
        let alarms = [
            self.alarms.first().copied(),
            self.jobs.next_wake(),
            self.kubelet.next_wake(),
        ];
        alarms.into_iter().flatten().min()
    }

    /// Creates an object as a controller of the cluster.
    pub(crate) fn create_internal(
        &mut self,
        now: Timestamp,
        (group, version, plural): (&str, &str, &str),
        namespace: &str,
        object: Value,
        manager: &str,
    ) -> Result<Arc<Value>, Refusal> {
        let resource = self.kinds.get(group, version, plural).cloned();
        let resource = resource.ok_or_else(Refusal::no_such_path)?;
        let mut call = Call {
            api_version: resource.api_version(),
            resource,
            namespace: namespace.to_owned(),
            name: String::new(),
            sub: String::new(),
            params: Params::default(),
            form: Form::Whole,
            now,
            manager: manager.to_owned(),
            body: Vec::new(),
            content_type: String::new(),
            warnings: Vec::new(),
        };
        let object = self.read(&mut call, object)?;
        self.create_object(&mut call, object)
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
