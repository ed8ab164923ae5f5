//! Everything a decision may depend on, as a value: the job, what exists for it, what was
//! recorded, what was refused, the site's settings, and the time.
//!
//! The controller fills this in; nothing here depends on how.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

use crate::action::Kind;
use crate::fingerprint::Fingerprint;
use crate::job::Job;
use crate::launcher_run::LauncherRun;
use crate::pod_start::PodStart;
use crate::recorded::Recorded;
use crate::site::Site;
use crate::worker_selection::WorkerSelection;

/// One look at one job.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// When this look was taken. The only clock there is.
    pub now: Timestamp,
    /// Settings of the operator.
    pub site: Site,
    /// What was asked for.
    pub job: Job,
    /// What the job's status records.
    pub recorded: Recorded,
    /// The headless Service.
    pub service: Slot<ServiceState>,
    /// The ConfigMap with the host list.
    pub config: Slot<ConfigState>,
    /// The Secret with the job's keys, which is never read.
    pub key: Slot<Key>,
    /// Letters and digits that nobody can guess, for a name that nobody may take before us.
    pub nonce: String,
    /// The job's account with the API server; looked at only where the job has one.
    pub account: AccountSlots,
    /// The NetworkPolicy; looked at only where the job asks for one, or did.
    pub network_policy: Slot<NetworkPolicyState>,
    /// The PodGroup; looked at only where the site has a gang scheduler.
    pub pod_group: Slot<PodGroup>,
    /// The workers' StatefulSet, where they have one.
    pub worker_set: Slot<WorkerSet>,
    /// The launcher's Job.
    pub launcher: Slot<LauncherJob>,
    /// Pods that the launcher's Job made, and only those; or the launcher, where it is a pod.
    pub launcher_pods: Vec<Pod>,
    /// Pods that stand under a worker's name or label and are this job's own.
    pub workers: Vec<Pod>,
    /// Names of workers, and of a launcher that is a pod, that are held by pods that are not ours.
    pub foreign_pods: Vec<String>,
    /// Pods match the collection selector that are not ours: collection deletes are off.
    pub foreign_in_selection: bool,
    /// What the API server refused to create, until it is worth another try.
    pub refused: Vec<Refusal>,
    /// Values of the priority classes that the templates name, where they exist.
    pub priorities: BTreeMap<String, i32>,
}

impl Observed {
    /// A job for which nothing exists yet.
    pub fn alone(job: Job, site: Site, now: Timestamp) -> Self {
        Self {
            now,
            site,
            job,
            recorded: Recorded::default(),
            service: Slot::Absent,
            config: Slot::Absent,
            account: AccountSlots::default(),
            key: Slot::Absent,
            network_policy: Slot::Absent,
            nonce: String::new(),
            pod_group: Slot::Absent,
            worker_set: Slot::Absent,
            launcher: Slot::Absent,
            launcher_pods: Vec::new(),
            workers: Vec::new(),
            foreign_pods: Vec::new(),
            foreign_in_selection: false,
            refused: Vec::new(),
            priorities: BTreeMap::new(),
        }
    }
}

/// A name that the job needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Slot<T> {
    /// Nobody holds it.
    #[default]
    Absent,
    /// The job's own object holds it.
    Ours(T),
    /// Somebody else's object holds it. Hands off.
    Foreign,
}

impl<T> Slot<T> {
    /// The object, if it is ours.
    pub fn ours(&self) -> Option<&T> {
        match self {
            Self::Ours(object) => Some(object),
            Self::Absent | Self::Foreign => None,
        }
    }

    /// Nobody holds the name.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }

    /// Somebody else holds the name.
    pub fn is_foreign(&self) -> bool {
        matches!(self, Self::Foreign)
    }
}

/// What matters of the headless Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceState {
    /// UID, for patches that must not hit a successor.
    pub uid: String,
    /// Selector as it stands.
    pub selector: BTreeMap<String, String>,
    /// Whether names resolve before pods are Ready.
    pub publish_not_ready: bool,
}

/// What matters of the ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigState {
    /// UID, for patches that must not hit a successor.
    pub uid: String,
    /// Of its data as it stands, which may be large and anybody's.
    pub data: Fingerprint,
    /// The names of its files, or the first [`Self::FILES_MAX`] of them: what the job does not have
    /// is removed by name.
    pub files: Vec<String>,
}

impl ConfigState {
    /// More files than any job has. Of more, the rest shows once these are gone.
    pub const FILES_MAX: usize = 64;

    /// Of a ConfigMap with these files.
    pub fn new<'a>(uid: String, data: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut state = Self {
            uid,
            data: Fingerprint::default(),
            files: Vec::new(),
        };
        for (name, text) in data {
            state.add(name, text);
        }
        state
    }

    /// It has this file, too.
    pub fn add(&mut self, name: &str, text: &str) {
        self.data = self.data.with(name, text);
        if self.files.len() < Self::FILES_MAX {
            self.files.push(name.to_owned());
        }
    }
}

/// The key Secret: nothing of it matters but that it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key;

/// The objects of a job's account.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AccountSlots {
    /// The ServiceAccount.
    pub service_account: Slot<AccountObject>,
    /// The Role.
    pub role: Slot<AccountObject>,
    /// The RoleBinding.
    pub binding: Slot<AccountObject>,
}

/// What matters of an object of a job's account.
#[derive(Clone, Debug, PartialEq)]
pub struct AccountObject {
    /// UID, for patches that must not hit a successor.
    pub uid: String,
    /// Of a Role: its `rules` as they stand, or null.
    pub rules: Value,
    /// Of a RoleBinding: its `subjects` as they stand, or null.
    pub subjects: Value,
}

/// What matters of the NetworkPolicy.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkPolicyState {
    /// UID, for patches and deletes.
    pub uid: String,
    /// Its spec as it stands.
    pub spec: Value,
}

/// What matters of the PodGroup.
#[derive(Clone, Debug, PartialEq)]
pub struct PodGroup {
    /// UID, for deletes and patches.
    pub uid: String,
    /// Its spec as it stands.
    pub spec: Value,
    /// It is being deleted.
    pub deleting: bool,
}

/// What matters of the workers' StatefulSet.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerSet {
    /// UID, for patches, and to know its pods.
    pub uid: String,
    /// `spec.replicas`.
    pub replicas: u32,
    /// Its pod template as it stands, with what the API server filled in.
    pub template: Value,
    /// What tells the template that was last written from another, or empty.
    pub fingerprint: String,
    /// Its controller has seen all of this, and every pod is as it says, and Ready.
    pub rolled_out: bool,
    /// It is being deleted.
    pub deleting: bool,
}

/// What matters of the launcher's Job.
#[derive(Clone, Debug, PartialEq)]
pub struct LauncherJob {
    /// UID, for patches, and to know its pods.
    pub uid: String,
    /// `spec.suspend`.
    pub suspended: bool,
    /// `status.startTime`: while it is set, the API refuses changes of the template.
    pub started_at: Option<Timestamp>,
    /// It is being deleted.
    pub deleting: bool,
    /// Its controller has stopped its pods: its `Suspended` condition. How it ended after that tells
    /// nothing of the program.
    pub held: bool,
    /// `status.failed`: launcher pods that failed.
    pub failed_pods: u32,
    /// How it ended, if it has.
    pub end: Option<LauncherEnd>,
    /// `spec.ttlSecondsAfterFinished`.
    pub ttl_secs: Option<u32>,
    /// The gang scheduler that it was made for, or empty. Kubernetes lets nobody change that.
    pub gang: String,
    /// The part of its pod template that may change while it is suspended.
    pub directives: Directives,
}

/// How the launcher's Job ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LauncherEnd {
    /// Its `Complete` condition.
    Complete {
        /// `status.completionTime`.
        at: Option<Timestamp>,
    },
    /// Its `Failed` condition.
    Failed {
        /// Reason of the condition, may be empty.
        reason: String,
        /// Message of the condition, may be empty.
        message: String,
    },
}

/// The part of a pod template that decides where pods may run: all that Kubernetes lets one change
/// on a suspended Job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Directives {
    /// Labels of the pod template.
    pub labels: BTreeMap<String, String>,
    /// Annotations of the pod template.
    pub annotations: BTreeMap<String, String>,
    /// `nodeSelector`, or null.
    pub node_selector: Value,
    /// `tolerations`, or null.
    pub tolerations: Value,
    /// `schedulingGates`, or null.
    pub scheduling_gates: Value,
    /// `affinity.nodeAffinity`, or null.
    pub node_affinity: Value,
}

/// What matters of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// Name.
    pub name: String,
    /// UID, for deletes.
    pub uid: String,
    /// It carries the job's UID as a label, so that a collection delete reaches it.
    pub labelled: bool,
    /// Its place among the job's hosts, by label. Users may change labels.
    pub replica_index: Option<i64>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it got how far.
    pub start: PodStart,
    /// It is being deleted.
    pub deleting: bool,
    /// By when its containers must have ended, where it is being deleted.
    pub ends_by: Option<Timestamp>,
    /// Its containers ended after they were told to: an exit with 0 does not prove that the program got
    /// to its end.
    pub stopped: bool,
    /// Where it is in its life.
    pub phase: PodPhase,
    /// One of its containers has started.
    pub begun: bool,
    /// Its Ready condition.
    pub ready: bool,
    /// What it waits for, when the kubelet or the scheduler reports it.
    pub waiting: Option<Waiting>,
    /// `status.reason`, e.g. `Evicted`; may be empty.
    pub reason: String,
    /// `status.message`; may be empty.
    pub message: String,
    /// Node it is on, or empty.
    pub node: String,
    /// Its address, or empty.
    pub address: String,
    /// Of the list of workers that it was given, which may be large.
    pub hosts: Fingerprint,
    /// Of the discovery script that it was given.
    pub discovery: Fingerprint,
    /// It was told that the job is over.
    pub told_end: bool,
    /// How often its containers were started again.
    pub restarts: u32,
    /// When its last container ended.
    pub finished_at: Option<Timestamp>,
    /// How its first failed container ended; in a pod that goes on, before it was started again.
    pub exit: Option<Exit>,
    /// What the agent says of a command that succeeded, but not at its first attempt in this pod.
    pub recovered: Option<String>,
    /// Of a launcher: the runs of its container of which its status still tells, at most two.
    pub runs: Vec<LauncherRun>,
}

impl Pod {
    /// A request for this selection of its job's workers reaches it.
    pub fn is_in(&self, selection: &WorkerSelection) -> bool {
        let is_above = |index| self.replica_index.is_some_and(|own| own > index);
        self.labelled
            && !(selection.is_unfinished && self.phase.is_over())
            && selection.above.is_none_or(is_above)
    }
}

/// `status.phase` of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodPhase {
    /// Not all containers have run yet.
    Pending,
    /// At least one container runs.
    Running,
    /// All containers ended with 0.
    Succeeded,
    /// All containers ended, one not with 0.
    Failed,
    /// The node does not answer.
    Unknown,
}

impl PodPhase {
    /// Its containers have ended for good.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

/// Why a pod is not further.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Which container waits; empty where the whole pod does.
    pub container: String,
    /// The word of the kubelet or scheduler: `ImagePullBackOff`, `Unschedulable`…
    pub reason: String,
    /// Their sentence, may be empty.
    pub message: String,
    /// What was said since then and gives most hope that the wait ends by itself; empty where
    /// nothing but the message was said.
    pub cause: String,
    /// When it was first seen to wait for this or another reason of the kind.
    pub since: Timestamp,
}

impl Waiting {
    /// The word and the sentences, with `between` after the word.
    pub(crate) fn words(&self, between: &str) -> String {
        let words = format!("{}{between}{}", self.reason, self.message);
        let words = words.trim_end_matches([':', ' ']);
        match self.cause.as_str() {
            cause if cause.is_empty() || cause == self.message => words.to_owned(),
            cause => format!("{words} (earlier: {cause})"),
        }
    }
}

/// How a container ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    /// Which container.
    pub container: String,
    /// Its exit code.
    pub code: i32,
    /// The kubelet's word: `Error`, `OOMKilled`…
    pub reason: String,
    /// What it left behind as its last words, may be empty.
    pub message: String,
}

/// The API server said no to a create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What was to be created.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// HTTP status code of the answer.
    pub code: u16,
    /// The API server's sentence.
    pub message: String,
    /// When another try makes sense.
    pub retry_at: Timestamp,
}

impl Refusal {
    /// The code of a refusal of our own: the namespace has more objects than we keep.
    pub const OVER_BUDGET: u16 = 507;
}
