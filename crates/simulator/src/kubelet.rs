//! Whoever runs containers: decides by the seed how long each step takes, and by the fate of the job's
//! program how its launcher ends. Remembers what ended how, for the laws.

use std::collections::{BTreeMap, BTreeSet};

use contract::labels::END_ANNOTATION;
use minicluster::kubelet::{Order, PodRef, PodReport};
use serde_json::Value;

use crate::attempts::{End, Launchers, Policy};
use crate::objects;
use crate::random::Random;
use crate::schedule::Fate;

/// A launcher waits for a worker for so long.
const PATIENCE_MS: u64 = 900_000;

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
    /// Launchers whose program may be started again.
    launchers: Launchers,
    /// Jobs of which an attempt failed that another one followed.
    retried: BTreeSet<String>,
    /// Pods on nodes that are gone.
    lost: BTreeSet<String>,
    /// Workers that ended and were not told to, by the UID of their job.
    pub(crate) ended_workers: BTreeMap<String, BTreeSet<String>>,
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
            launchers: Launchers::default(),
            retried: BTreeSet::new(),
            lost: BTreeSet::new(),
            ended_workers: BTreeMap::new(),
        }
    }

    /// What comes of an order.
    pub(crate) fn obey(&mut self, order: Order) -> Vec<Due> {
        if self.lost.contains(&order.pod().uid) {
            return Vec::new();
        }
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
            if let Some(policy) = Policy::of(&object["spec"]["containers"][0]) {
                self.launchers.begin(&job, pod, container, policy);
            }
            due.push(self.program(&job, pod, container, began));
        }
        due
    }

    /// How and when the program ends.
    fn program(&mut self, job: &str, pod: &PodRef, container: &str, began: u64) -> Due {
        let failed = self.failures.contains_key(job) || self.retried.contains(job);
        let code = match self.fate {
            Fate::Succeeds | Fate::Stuck => 0,
            Fate::FailsOnce if failed => 0,
            Fate::FailsOnce | Fate::Fails => 1,
        };
        let took = began + self.random.skewed(20, 30_000);
        self.due(took, exited(pod.clone(), container.to_owned(), code))
    }

    /// The program failed, and its launcher starts it again: nobody else notices.
    pub(crate) fn starts_again(&mut self, report: &PodReport) -> bool {
        let PodReport::Exited { pod, code, .. } = report else {
            return false;
        };
        let Some(job) = self.launchers.job_of(pod) else {
            return false;
        };
        let by_itself = *code != 0 && !self.stopped.contains(&pod.uid);
        let again = by_itself && self.launchers.attempt_ended(&job, End::Failed) == Some(true);
        if again {
            self.retried.insert(job);
        }
        again
    }

    /// A worker of a job ended, or leaves: the program ends, and waits for another worker or gives up.
    fn worker_ended(&mut self, job: &str, end: End) -> Vec<Due> {
        let launcher = self.launchers.of(job);
        let Some((pod, container)) = launcher
            .filter(|launcher| !self.stopped.contains(&launcher.pod.uid))
            .map(|launcher| (launcher.pod.clone(), launcher.container.clone()))
        else {
            return Vec::new();
        };
        let Some(goes_on) = self.launchers.attempt_ended(job, end) else {
            return Vec::new();
        };
        // The program does not end by itself any more.
        *self.life(&pod, &container) += 1;
        let after_ms = match goes_on {
            true => PATIENCE_MS,
            false => self.random.skewed(5, 1_000),
        };
        vec![self.due(after_ms, exited(pod, container, 1))]
    }

    /// The programs of jobs whose workers are all there again.
    pub(crate) fn resume(&mut self, is_complete: impl Fn(&str) -> bool) -> Vec<Due> {
        let mut due = Vec::new();
        for job in self.launchers.waiting() {
            let launcher = self.launchers.of(&job).filter(|_| is_complete(&job));
            let Some((pod, container)) =
                launcher.map(|launcher| (launcher.pod.clone(), launcher.container.clone()))
            else {
                continue;
            };
            self.launchers.resumed(&job);
            if !self.stopped.contains(&pod.uid) {
                *self.life(&pod, &container) += 1;
                due.push(self.program(&job, &pod, &container, 0));
            }
        }
        due
    }

    /// The node of a worker is gone.
    pub(crate) fn lose(&mut self, pod: &Value) -> Vec<Due> {
        self.lost.insert(objects::uid(pod).to_owned());
        self.worker_ended(objects::job_uid(pod), End::WorkerLost)
    }

    /// The node of a pod is back.
    pub(crate) fn find(&mut self, uid: &str) {
        self.lost.remove(uid);
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
        if self.lost.contains(&due.report.pod().uid) {
            return false;
        }
        let life = concerned(&due.report).and_then(|key| self.lives.get(&key));
        life.copied().unwrap_or_default() == due.life
    }

    /// A report reaches the cluster, which knows the pod as `object`. Returns what comes of it.
    pub(crate) fn reported(&mut self, report: &PodReport, object: Option<&Value>) -> Vec<Due> {
        let PodReport::Exited {
            pod,
            container,
            code,
            ..
        } = report
        else {
            return Vec::new();
        };
        *self.life(pod, container) += 1;
        let Some(object) = object else {
            return Vec::new();
        };
        let job = objects::job_uid(object).to_owned();
        let is_launcher = objects::is_launcher(object);
        let first = object["spec"]["containers"][0]["name"] == container.as_str();
        let by_itself =
            !self.stopped.contains(&pod.uid) && object["metadata"]["deletionTimestamp"].is_null();
        if is_launcher && first && *code == 0 {
            self.exited_zero.insert(job.clone());
        }
        let mut due = Vec::new();
        if first && is_launcher {
            self.launchers.ended(pod);
        } else if first {
            let end = if by_itself {
                End::WorkerLost
            } else {
                End::WorkerLeaves
            };
            due = self.worker_ended(&job, end);
        }
        if !first || !by_itself {
            return due;
        }
        if !is_launcher {
            let ended = self.ended_workers.entry(job.clone()).or_default();
            ended.insert(pod.uid.clone());
        }
        if *code != 0 {
            *self.failed_pods.entry(job.clone()).or_default() += 1;
        }
        match code {
            _ if !is_launcher => {}
            0 => _ = self.succeeded.insert(job),
            _ => *self.failures.entry(job).or_default() += 1,
        }
        due
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
