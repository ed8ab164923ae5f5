//! Whoever runs containers: decides by the seed how long each step takes, and by the fate of the job's
//! program how its launcher ends. Remembers what ended how, for the laws.

use std::collections::{BTreeMap, BTreeSet};

use contract::labels::END_ANNOTATION;
use minicluster::kubelet::{Order, PodRef, PodReport};
use serde_json::Value;

use crate::objects;
use crate::random::Random;
use crate::schedule::Fate;

/// A report that comes later.
#[derive(Debug)]
pub(crate) struct Due {
    pub(crate) after_ms: u64,
    pub(crate) report: PodReport,
    /// The life of its container that it is about.
    life: u32,
}

/// The runner of one cluster.
#[derive(Debug)]
pub(crate) struct Kubelet {
    random: Random,
    fate: Fate,
    addresses: u32,
    /// Launchers that failed by themselves, by the UID of their job.
    pub(crate) failures: BTreeMap<String, u32>,
    /// Pods that were told to stop.
    stopped: BTreeSet<String>,
    /// Of each container, how often it was started or ended. A container that was killed does not end a
    /// second time when its program would have ended.
    lives: BTreeMap<(String, String), u32>,
    /// Pods that failed by themselves, by the UID of their job.
    pub(crate) failed_pods: BTreeMap<String, u32>,
    /// Jobs of which a launcher exited with 0.
    pub(crate) exited_zero: BTreeSet<String>,
    /// Jobs of which a launcher exited with 0 by itself.
    pub(crate) succeeded: BTreeSet<String>,
    /// Launchers that were started after one of their job had exited with 0 by itself.
    pub(crate) reruns: BTreeSet<String>,
}

impl Kubelet {
    pub(crate) fn new(seed: u64, fate: Fate) -> Self {
        Self {
            random: Random::new(seed, "kubelet"),
            fate,
            addresses: 0,
            failures: BTreeMap::new(),
            stopped: BTreeSet::new(),
            lives: BTreeMap::new(),
            failed_pods: BTreeMap::new(),
            exited_zero: BTreeSet::new(),
            succeeded: BTreeSet::new(),
            reruns: BTreeSet::new(),
        }
    }

    /// What comes of an order.
    pub(crate) fn obey(&mut self, order: Order) -> Vec<Due> {
        match order {
            Order::Place { pod, .. } => {
                self.addresses += 1;
                let ip = format!("10.1.{}.{}", self.addresses / 250, self.addresses % 250);
                let report = PodReport::Placed { pod, ip };
                let after_ms = self.random.skewed(5, 2_000);
                vec![self.due(after_ms, report)]
            }
            Order::Start {
                pod,
                container,
                init,
                object,
                ..
            } => self.start(&pod, &container, init, &object),
            Order::Stop { pod, container, .. } => {
                self.stopped.insert(pod.uid.clone());
                let after_ms = self.random.skewed(1, 1_000);
                // Some programs take the signal for a wish, and end well.
                let code = if self.random.one_in(4) { 0 } else { 143 };
                vec![self.due(after_ms, exited(pod, container, code))]
            }
            Order::Refresh { pod, object } => {
                let annotation = &object["metadata"]["annotations"][END_ANNOTATION];
                if !annotation.is_string() || !self.stopped.insert(pod.uid.clone()) {
                    return Vec::new();
                }
                let took = self.random.skewed(1, 1_000);
                let containers = items(&object["spec"]["containers"]).iter();
                let names = containers.filter_map(|one| one["name"].as_str());
                names
                    .map(|name| self.due(took, exited(pod.clone(), name.to_owned(), 0)))
                    .collect()
            }
            Order::Release { .. } => Vec::new(),
        }
    }

    fn start(&mut self, pod: &PodRef, container: &str, init: bool, object: &Value) -> Vec<Due> {
        *self.life(pod, container) += 1;
        let job = objects::job_uid(object).to_owned();
        let is_launcher = objects::is_launcher(object);
        if self.fate == Fate::Stuck && !is_launcher && !init {
            return Vec::new();
        }
        let began = self.random.skewed(5, 1_000);
        let started = PodReport::Started {
            pod: pod.clone(),
            container: container.to_owned(),
        };
        let mut due = vec![self.due(began, started)];
        let first = object["spec"]["containers"][0]["name"] == container;
        if init {
            let is_sidecar = items(&object["spec"]["initContainers"])
                .iter()
                .any(|one| one["name"] == container && one["restartPolicy"] == "Always");
            if !is_sidecar {
                let took = began + self.random.skewed(5, 3_000);
                due.push(self.due(took, exited(pod.clone(), container.to_owned(), 0)));
            }
        } else if is_launcher && first {
            if self.succeeded.contains(&job) {
                self.reruns.insert(job.clone());
            }
            let code = match self.fate {
                Fate::Succeeds | Fate::Stuck => 0,
                Fate::FailsOnce if self.failures.contains_key(&job) => 0,
                Fate::FailsOnce | Fate::Fails => 1,
            };
            let took = began + self.random.skewed(20, 30_000);
            due.push(self.due(took, exited(pod.clone(), container.to_owned(), code)));
        }
        due
    }

    fn due(&self, after_ms: u64, report: PodReport) -> Due {
        let life = concerned(&report).and_then(|key| self.lives.get(&key));
        Due {
            after_ms,
            life: life.copied().unwrap_or_default(),
            report,
        }
    }

    fn life(&mut self, pod: &PodRef, container: &str) -> &mut u32 {
        let key = (pod.uid.clone(), container.to_owned());
        self.lives.entry(key).or_default()
    }

    /// Whether the container that it is about has neither ended nor been started again since.
    pub(crate) fn still_holds(&self, due: &Due) -> bool {
        let life = concerned(&due.report).and_then(|key| self.lives.get(&key));
        life.copied().unwrap_or_default() == due.life
    }

    /// A report reaches the cluster, which knows the pod as `object`.
    pub(crate) fn reported(&mut self, report: &PodReport, object: Option<&Value>) {
        let PodReport::Exited {
            pod,
            container,
            code,
            ..
        } = report
        else {
            return;
        };
        *self.life(pod, container) += 1;
        let Some(object) = object else { return };
        let job = objects::job_uid(object).to_owned();
        let is_launcher = objects::is_launcher(object);
        let first = object["spec"]["containers"][0]["name"] == container.as_str();
        let by_itself =
            !self.stopped.contains(&pod.uid) && object["metadata"]["deletionTimestamp"].is_null();
        if is_launcher && first && *code == 0 {
            self.exited_zero.insert(job.clone());
        }
        if !first || !by_itself {
            return;
        }
        if *code != 0 {
            *self.failed_pods.entry(job.clone()).or_default() += 1;
        }
        match code {
            _ if !is_launcher => {}
            0 => _ = self.succeeded.insert(job),
            _ => *self.failures.entry(job).or_default() += 1,
        }
    }
}

/// The container that a report is about.
fn concerned(report: &PodReport) -> Option<(String, String)> {
    match report {
        PodReport::Started { pod, container } | PodReport::Exited { pod, container, .. } => {
            Some((pod.uid.clone(), container.clone()))
        }
        PodReport::Placed { .. } | PodReport::Ready { .. } | PodReport::CannotStart { .. } => None,
    }
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn exited(pod: PodRef, container: String, code: i32) -> PodReport {
    PodReport::Exited {
        pod,
        container,
        code,
        signal: None,
        message: String::new(),
        oom: false,
    }
}
