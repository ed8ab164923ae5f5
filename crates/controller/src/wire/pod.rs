//! Pods. There are many, and they change often, so they are read directly into these types. The API
//! server validates pods against the same types, so reading cannot fail for their shape. It stores any
//! number that fits its type, also a negative one.

mod runs;
mod times;

use contract::labels;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time as StoredTime;
use planner::observed::{self, Exit, PodPhase, Waiting};
use planner::{EarlierAttempt, Fingerprint, LauncherRun, RunEnd, read_agent_report};
use serde::Deserialize;

use self::times::PodTimes;
use super::metadata::{Sentence, Short};
use super::{Child, Facts, IntoChild, Metadata, RawObject, assemble};
use crate::protobuf::Field;
use crate::protobuf::FieldKind::{Message, Messages, Number, Text, Time};
use crate::protobuf::field;

/// core/v1 Pod.
pub(super) type Pod = RawObject<PodSpec, PodStatus>;

/// The reasons of containers that are starting normally.
const ORDINARY_WAITS: [&str; 2] = ["ContainerCreating", "PodInitializing"];

/// The same, by the numbers of `k8s.io/api/core/v1/generated.proto`.
const POD: &[Field] = &[
    field(1, "metadata", Message(super::metadata::METADATA)),
    field(2, "spec", Message(&[field(10, "nodeName", Text)])),
    field(3, "status", Message(POD_STATUS)),
];
const POD_STATUS: &[Field] = &[
    field(1, "phase", Text),
    field(2, "conditions", Messages(CONDITION)),
    field(3, "message", Text),
    field(4, "reason", Text),
    field(6, "podIP", Text),
    field(8, "containerStatuses", Messages(CONTAINER_STATUS)),
    field(10, "initContainerStatuses", Messages(CONTAINER_STATUS)),
];
const CONDITION: &[Field] = &[
    field(1, "type", Text),
    field(2, "status", Text),
    field(4, "lastTransitionTime", Time),
    field(5, "reason", Text),
    field(6, "message", Text),
];
const CONTAINER_STATUS: &[Field] = &[
    field(1, "name", Text),
    field(2, "state", Message(CONTAINER_STATE)),
    field(3, "lastState", Message(CONTAINER_STATE)),
    field(5, "restartCount", Number),
];
const CONTAINER_STATE: &[Field] = &[
    field(
        1,
        "waiting",
        Message(&[field(1, "reason", Text), field(2, "message", Text)]),
    ),
    field(2, "running", Message(&[field(1, "startedAt", Time)])),
    field(3, "terminated", Message(TERMINATED)),
];
const TERMINATED: &[Field] = &[
    field(1, "exitCode", Number),
    field(3, "reason", Text),
    field(4, "message", Text),
    field(5, "startedAt", Time),
    field(6, "finishedAt", Time),
];

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PodSpec {
    node_name: Option<Short>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PodStatus {
    phase: Option<Short>,
    #[serde(rename = "podIP")]
    pod_ip: Option<Short>,
    reason: Option<Short>,
    message: Option<Sentence>,
    conditions: Option<Vec<Condition>>,
    init_container_statuses: Option<Vec<ContainerStatus>>,
    container_statuses: Option<Vec<ContainerStatus>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Condition {
    #[serde(rename = "type")]
    kind: Short,
    status: Short,
    last_transition_time: Option<StoredTime>,
    reason: Option<Short>,
    message: Option<Sentence>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ContainerStatus {
    name: Short,
    restart_count: i64,
    state: Option<ContainerState>,
    last_state: Option<ContainerState>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ContainerState {
    waiting: Option<ContainerWaiting>,
    running: Option<Running>,
    terminated: Option<Terminated>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Running {
    started_at: Option<StoredTime>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ContainerWaiting {
    reason: Option<Short>,
    message: Option<Sentence>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Terminated {
    exit_code: i32,
    reason: Option<Short>,
    message: Option<Sentence>,
    started_at: Option<StoredTime>,
    finished_at: Option<StoredTime>,
}

/// The role of a pod, by label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Launcher,
    Worker,
    Neither,
}

/// What matters of a pod. There may be thousands, and few of them need `more`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodFacts {
    pub(crate) role: Role,
    replica_index: Option<i64>,
    phase: PodPhase,
    begun: bool,
    ready: bool,
    pub(crate) deleting: bool,
    ends_by: Option<Timestamp>,
    stopped: bool,
    created_at: Timestamp,
    times: PodTimes,
    node: Box<str>,
    address: Box<str>,
    hosts: Fingerprint,
    discovery: Fingerprint,
    told_end: bool,
    restarts: u32,
    more: Option<Box<More>>,
}

/// What only a pod in trouble, or one that ended, has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct More {
    waiting: Option<Waiting>,
    reason: String,
    message: String,
    finished_at: Option<Timestamp>,
    exit: Option<Exit>,
    recovered: Option<String>,
    /// Of a launcher only.
    runs: Vec<LauncherRun>,
}

impl Condition {
    fn is(&self, kind: &str, status: &str) -> bool {
        self.kind.as_str() == kind && self.status.as_str() == status
    }
}

impl PodFacts {
    /// What it holds besides itself.
    pub(super) fn bytes(&self) -> usize {
        let more = self.more.as_deref().map_or(0, |more| {
            let waiting = more.waiting.as_ref();
            let waiting = waiting.map_or(0, |wait| wait.reason.len() + wait.message.len());
            let exit = more.exit.as_ref();
            let exit = exit.map_or(0, |exit| exit.reason.len() + exit.message.len());
            let recovered = more.recovered.as_ref().map_or(0, String::len);
            let own = more.reason.len() + more.message.len();
            let runs = more.runs.iter().map(|run| {
                let end = run.end.as_ref();
                let earlier = end.map_or(0, |end| end.earlier.len());
                size_of::<LauncherRun>()
                    + size_of::<RunEnd>()
                    + earlier * size_of::<EarlierAttempt>()
            });
            let runs: usize = runs.sum();
            size_of::<More>() + waiting + exit + recovered + own + runs
        });
        self.node.len() + self.address.len() + more
    }

    /// The pod as the planner sees it.
    pub(crate) fn pod(&self, child: &Child, delete_requested: bool) -> observed::Pod {
        let More {
            waiting,
            reason,
            message,
            finished_at,
            exit,
            recovered,
            runs,
        } = self.more.as_deref().cloned().unwrap_or_default();
        observed::Pod {
            name: child.key.name.as_ref().to_owned(),
            uid: child.uid.as_ref().to_owned(),
            labelled: self.role == Role::Worker
                && child
                    .job_label
                    .as_deref()
                    .is_some_and(|uid| child.is_owned_by(uid)),
            replica_index: self.replica_index,
            created_at: self.created_at,
            start: self.times.start(self.created_at),
            deleting: self.deleting || delete_requested,
            ends_by: self.ends_by,
            stopped: self.stopped,
            phase: self.phase,
            begun: self.begun,
            ready: self.ready,
            waiting,
            reason,
            message,
            node: self.node.as_ref().to_owned(),
            address: self.address.as_ref().to_owned(),
            hosts: self.hosts,
            discovery: self.discovery,
            told_end: self.told_end,
            restarts: self.restarts,
            finished_at,
            exit,
            recovered,
            runs,
        }
    }
}

impl IntoChild for Pod {
    const PROTOBUF: &'static [Field] = POD;

    fn child(self) -> Child {
        let RawObject {
            metadata,
            spec,
            status,
            data: _,
        } = self;
        let role = match metadata.role() {
            Some(labels::WORKER_ROLE) => Role::Worker,
            Some(role) if dialects::is_launcher_role(role) => Role::Launcher,
            Some(_) | None => Role::Neither,
        };
        let ready = |condition: &Condition| condition.is("Ready", "True");
        let begun = containers(&status).any(has_begun);
        let created_at = metadata.created_at();
        let facts = PodFacts {
            role,
            replica_index: metadata.replica_index(),
            phase: phase(status.phase.as_ref().map(Short::as_str)),
            begun,
            ready: status.conditions.iter().flatten().any(ready),
            deleting: metadata.deleting(),
            // One that was to go at once is held by a finalizer.
            ends_by: metadata
                .deletion()
                .filter(|(_, grace)| *grace > 0)
                .map(|(due, _)| due),
            stopped: stopped(&metadata, &status),
            created_at,
            times: PodTimes::of(&status, created_at),
            node: spec.node_name.unwrap_or_default().0.into(),
            address: status.pod_ip.clone().unwrap_or_default().0.into(),
            hosts: metadata.hosts(),
            discovery: metadata.discovery(),
            told_end: metadata.told_end(),
            restarts: containers(&status)
                .map(|container| u32::try_from(container.restart_count).unwrap_or_default())
                .sum(),
            more: more(status, role),
        };
        assemble(&metadata, Facts::Pod(facts))
    }
}

fn more(status: PodStatus, role: Role) -> Option<Box<More>> {
    let ends = ended(&status).filter_map(|(_, end)| end.finished_at.as_ref());
    let more = More {
        waiting: waiting(&status),
        finished_at: ends.map(|time| time.0).max(),
        exit: exit(&status),
        recovered: recovered(&status),
        runs: match role {
            Role::Launcher => runs::runs(&status),
            Role::Worker | Role::Neither => Vec::new(),
        },
        reason: status.reason.unwrap_or_default().0,
        message: status.message.unwrap_or_default().0,
    };
    (more != More::default()).then(|| Box::new(more))
}

/// The last container ended after somebody asked for the pod's deletion. The API server sets the
/// deletion's time to the end of the grace period. Times have whole seconds, so one second decides
/// nothing; a node whose clock is behind can still hide that its containers were stopped.
fn stopped(metadata: &Metadata, status: &PodStatus) -> bool {
    let Some((deletion, grace)) = metadata.deletion() else {
        return false;
    };
    let asked_at = deletion.checked_sub(SignedDuration::from_secs(grace));
    let ends = ended(status).filter_map(|(_, end)| end.finished_at.as_ref());
    match (ends.map(|time| time.0).max(), asked_at) {
        (Some(ended_at), Ok(asked_at)) => ended_at >= asked_at,
        // Nothing proves that they ended by themselves.
        (None, _) | (_, Err(_)) => true,
    }
}

impl PodStatus {
    /// Since when a condition of this type is True, if it is.
    fn since(&self, kind: &str) -> Option<&StoredTime> {
        let mut conditions = self.conditions.iter().flatten();
        let condition = conditions.find(|condition| condition.is(kind, "True"))?;
        condition.last_transition_time.as_ref()
    }
}

impl ContainerStatus {
    /// When its run, or its last one, began.
    fn begun_at(&self) -> Option<&StoredTime> {
        let state = self.state.as_ref()?;
        let running = state.running.as_ref().map(|running| &running.started_at);
        let ended = || state.terminated.as_ref().map(|ended| &ended.started_at);
        running.or_else(ended)?.as_ref()
    }
}

fn phase(word: Option<&str>) -> PodPhase {
    match word {
        None | Some("" | "Pending") => PodPhase::Pending,
        Some("Running") => PodPhase::Running,
        Some("Succeeded") => PodPhase::Succeeded,
        Some("Failed") => PodPhase::Failed,
        Some(_) => PodPhase::Unknown,
    }
}

/// The scheduler's reason comes first: before a pod has a node, no kubelet reports anything.
fn waiting(status: &PodStatus) -> Option<Waiting> {
    let unplaced = |condition: &&Condition| condition.is("PodScheduled", "False");
    if let Some(condition) = status.conditions.iter().flatten().find(unplaced) {
        return Some(Waiting {
            reason: condition.reason.clone().unwrap_or_default().0,
            message: condition.message.clone().unwrap_or_default().0,
            since: Timestamp::UNIX_EPOCH,
            ..Waiting::default()
        });
    }
    containers(status).find_map(|container| {
        let waiting = container.state.as_ref()?.waiting.as_ref()?;
        let reason = waiting.reason.clone().unwrap_or_default().0;
        if reason.is_empty() || ORDINARY_WAITS.contains(&reason.as_str()) {
            return None;
        }
        Some(Waiting {
            container: container.name.0.clone(),
            reason,
            message: waiting.message.clone().unwrap_or_default().0,
            since: Timestamp::UNIX_EPOCH,
            ..Waiting::default()
        })
    })
}

/// The first failure in time is the cause; later ones often follow from it.
fn exit(status: &PodStatus) -> Option<Exit> {
    let failed = ended(status).filter(|(_, end)| end.exit_code != 0);
    let first = failed.min_by_key(|(_, end)| end.finished_at.as_ref().map(|at| at.0));
    let (container, end) = first.or_else(|| restarted(status))?;
    Some(Exit {
        container: container.name.0.clone(),
        code: end.exit_code,
        reason: end.reason.clone().unwrap_or_default().0,
        message: end.message.clone().unwrap_or_default().0,
    })
}

/// What the agent says of a command that succeeded after it had been started again in its container. Of
/// all others it need not be kept.
fn recovered(status: &PodStatus) -> Option<String> {
    let mut succeeded = ended(status).filter(|(_, end)| end.exit_code == 0);
    succeeded.find_map(|(_, end)| {
        let report = read_agent_report(end.message.as_ref()?.as_str())?;
        (report.attempts > 1).then_some(report.message)
    })
}

/// A container that failed and was started again.
fn restarted(status: &PodStatus) -> Option<(&ContainerStatus, &Terminated)> {
    let earlier = status.container_statuses.iter().flatten();
    let earlier = earlier.filter_map(|container| {
        let end = container.last_state.as_ref()?.terminated.as_ref()?;
        Some((container, end))
    });
    let failed = earlier.filter(|(_, end)| end.exit_code != 0);
    failed.max_by_key(|(_, end)| end.finished_at.as_ref().map(|at| at.0))
}

fn ended(status: &PodStatus) -> impl Iterator<Item = (&ContainerStatus, &Terminated)> {
    containers(status)
        .filter_map(|container| Some((container, container.state.as_ref()?.terminated.as_ref()?)))
}

fn has_begun(container: &ContainerStatus) -> bool {
    let state = container.state.as_ref();
    state.is_some_and(|state| state.running.is_some() || state.terminated.is_some())
}

fn containers(status: &PodStatus) -> impl Iterator<Item = &ContainerStatus> {
    let init = status.init_container_statuses.iter().flatten();
    init.chain(status.container_statuses.iter().flatten())
}

#[cfg(test)]
mod tests;
