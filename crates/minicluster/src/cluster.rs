//! The cluster as a value: what it is made of and the few ways to move it. Decides the order of
//! its parts' steps; the parts decide the rest.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::api::store::{Key, KindId, Store};
use crate::api::watch::Watch;
use crate::kinds::Kinds;
use crate::kubelet::{Order, PodRef, Report};
use crate::schema::format;
use crate::seed::Seed;

/// How a cluster begins.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where names and UIDs come from.
    pub seed: u64,
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

/// A question for a container's output.
#[derive(Clone, Debug, PartialEq)]
pub struct LogQuery {
    /// The pod.
    pub pod: PodRef,
    /// Which of its containers.
    pub container: String,
    /// Go on as long as the container runs.
    pub follow: bool,
    /// Of the container's life before this one.
    pub previous: bool,
    /// Begin each line with its time.
    pub timestamps: bool,
    /// Only the last so many lines.
    pub tail_lines: Option<u64>,
    /// Only what was written in the last so many seconds.
    pub since_seconds: Option<u64>,
    /// Only what was written since.
    pub since: Option<Timestamp>,
    /// No more than so many bytes.
    pub limit_bytes: Option<u64>,
}

/// The answer to a request.
#[derive(Debug)]
pub enum Answer {
    /// All of it.
    Whole(http::Response<Vec<u8>>),
    /// 200, and then what [`Cluster::follow`] says, as long as it says something.
    Watch(Watch),
    /// 200, and then what the container wrote: the runner knows.
    Log(LogQuery),
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
}

impl Default for Config {
    fn default() -> Self {
        Self {
            seed: 1,
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
        };
        let start = Timestamp::UNIX_EPOCH;
        for name in ["default", "kube-node-lease", "kube-public", "kube-system"] {
            cluster.make_namespace(start, name);
        }
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

    /// Lets controllers act on what changed. The orders are for the runner.
    pub fn tick(&mut self, _now: Timestamp) -> Vec<Order> {
        Vec::new()
    }

    /// Takes in what the runner says.
    pub fn report(&mut self, _now: Timestamp, _report: Report) {}

    /// [`Self::tick`] has something to do now.
    pub fn is_restless(&self) -> bool {
        self.store.has_changes()
    }

    /// When [`Self::tick`] has something to do although nothing happened.
    pub fn next_wake(&self) -> Option<Timestamp> {
        self.alarms.first().copied()
    }
}
