//! One container's life on the node, and one pod's. Decides when a container is started again and
//! how long that waits; knows neither the store nor orders.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::value::{items, text};

/// First wait before a container that crashed again is started.
const BACKOFF_SECS: i64 = 10;
/// Longest such wait.
const BACKOFF_MAX_SECS: i64 = 300;
/// A container that ran this long has not crashed at once.
const FORGIVEN_AFTER_SECS: i64 = 600;

/// How a container's process ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct End {
    pub(crate) code: i32,
    pub(crate) signal: Option<i32>,
    pub(crate) reason: String,
    pub(crate) message: String,
    pub(crate) started: Option<Timestamp>,
    pub(crate) finished: Timestamp,
}

/// Where a container is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum State {
    /// Not started yet, or not again.
    Waiting {
        reason: String,
        message: String,
    },
    /// Ordered, and not yet heard of.
    Starting,
    Running {
        since: Timestamp,
    },
    Ended(End),
}

#[derive(Clone, Debug)]
pub(crate) struct Container {
    pub(crate) name: String,
    pub(crate) init: bool,
    /// An init container that goes on running.
    pub(crate) sidecar: bool,
    pub(crate) has_readiness: bool,
    pub(crate) has_startup: bool,
    pub(crate) state: State,
    pub(crate) last: Option<End>,
    pub(crate) restarts: u32,
    /// The startup probe, if any, has succeeded.
    pub(crate) started: bool,
    pub(crate) ready: bool,
    /// Crashes in a row.
    crashes: u32,
    pub(crate) start_at: Option<Timestamp>,
    /// The grace that the runner was told last.
    pub(crate) stopping: Option<u64>,
}

/// A pod on the node.
#[derive(Clone, Debug)]
pub(crate) struct Life {
    pub(crate) uid: String,
    pub(crate) ip: Option<String>,
    pub(crate) start_time: Timestamp,
    /// Init containers first, in order.
    pub(crate) containers: Vec<Container>,
    /// No container is started any more; with which grace they end.
    pub(crate) stopping: Option<u64>,
    /// The pod itself failed, whatever its containers say.
    pub(crate) failed: Option<(String, String)>,
    pub(crate) place_again_at: Option<Timestamp>,
    /// When the pod has been active for too long.
    pub(crate) deadline_at: Option<Timestamp>,
    /// Why it has no address yet.
    pub(crate) trouble: Option<(String, String)>,
}

impl Container {
    fn new(spec: &Value, init: bool) -> Self {
        Self {
            name: text(&spec["name"]).to_owned(),
            init,
            sidecar: init && spec["restartPolicy"] == "Always",
            has_readiness: spec.get("readinessProbe").is_some(),
            has_startup: spec.get("startupProbe").is_some(),
            state: State::Waiting {
                reason: if init {
                    "PodInitializing"
                } else {
                    "ContainerCreating"
                }
                .to_owned(),
                message: String::new(),
            },
            last: None,
            restarts: 0,
            started: false,
            ready: false,
            crashes: 0,
            start_at: None,
            stopping: None,
        }
    }

    /// Its process may be there.
    pub(crate) fn is_up(&self) -> bool {
        matches!(self.state, State::Running { .. } | State::Starting)
    }

    /// How it ended, if it has.
    pub(crate) fn end(&self) -> Option<&End> {
        match &self.state {
            State::Ended(end) => Some(end),
            _ => None,
        }
    }

    /// Its process runs.
    pub(crate) fn run(&mut self, now: Timestamp) {
        self.state = State::Running { since: now };
        self.started = !self.has_startup;
        self.ready = !self.has_readiness && self.started;
    }

    /// Its process ended.
    pub(crate) fn finish(&mut self, end: End) {
        let lived = end
            .started
            .map_or(0, |since| end.finished.as_second() - since.as_second());
        self.crashes = if lived >= FORGIVEN_AFTER_SECS {
            1
        } else {
            self.crashes + 1
        };
        self.state = State::Ended(end);
        self.ready = false;
        self.started = false;
        self.stopping = None;
    }

    /// It will be started again: at once the first time, then after longer and longer waits.
    pub(crate) fn again(&mut self, now: Timestamp) {
        let State::Ended(end) = &self.state else {
            return;
        };
        self.last = Some(end.clone());
        self.restarts += 1;
        let wait = match self.crashes {
            0 | 1 => 0,
            crashes => {
                let doublings = (crashes - 2).min(10);
                (BACKOFF_SECS << doublings).min(BACKOFF_MAX_SECS)
            }
        };
        self.start_at = Some(later(now, wait));
        if wait > 0 {
            self.state = State::Waiting {
                reason: "CrashLoopBackOff".to_owned(),
                message: format!("back-off {wait}s restarting failed container={}", self.name),
            };
        } else {
            self.state = State::Waiting {
                reason: if self.init {
                    "PodInitializing"
                } else {
                    "ContainerCreating"
                }
                .to_owned(),
                message: String::new(),
            };
        }
    }

    /// It could not be started, and will be tried again.
    pub(crate) fn hold(&mut self, now: Timestamp, reason: &str, message: &str) {
        self.state = State::Waiting {
            reason: reason.to_owned(),
            message: message.to_owned(),
        };
        self.start_at = Some(later(now, BACKOFF_SECS));
    }

    /// It may be started now.
    pub(crate) fn is_due(&self, now: Timestamp) -> bool {
        matches!(self.state, State::Waiting { .. }) && self.start_at.is_none_or(|at| at <= now)
    }
}

impl Life {
    pub(crate) fn new(pod: &Value, now: Timestamp) -> Self {
        let spec = &pod["spec"];
        let init = items(&spec["initContainers"])
            .iter()
            .map(|one| Container::new(one, true));
        let main = items(&spec["containers"])
            .iter()
            .map(|one| Container::new(one, false));
        Self {
            uid: text(&pod["metadata"]["uid"]).to_owned(),
            ip: None,
            start_time: now,
            containers: init.chain(main).collect(),
            stopping: None,
            failed: None,
            place_again_at: None,
            deadline_at: None,
            trouble: None,
        }
    }

    pub(crate) fn container(&mut self, name: &str) -> Option<&mut Container> {
        self.containers.iter_mut().find(|one| one.name == name)
    }

    /// Containers that decide the pod's outcome.
    pub(crate) fn main(&self) -> impl Iterator<Item = &Container> {
        self.containers.iter().filter(|one| !one.init)
    }

    /// A process may be there.
    pub(crate) fn any_up(&self) -> bool {
        self.containers.iter().any(Container::is_up)
    }

    /// A container that ended this way is started again.
    pub(crate) fn restarts(&self, container: &Container, policy: &str) -> bool {
        let Some(end) = container.end() else {
            return false;
        };
        if self.stopping.is_some() {
            return false;
        }
        match policy {
            _ if container.sidecar => true,
            "Always" => !container.init || end.code != 0,
            "OnFailure" => end.code != 0,
            _ => false,
        }
    }

    /// All main containers ended for good, or an init container did, badly.
    pub(crate) fn is_decided(&self, policy: &str) -> bool {
        let for_good = |one: &Container| one.end().is_some() && !self.restarts(one, policy);
        let broken = |one: &Container| {
            one.init && !one.sidecar && for_good(one) && one.end().is_some_and(|end| end.code != 0)
        };
        self.failed.is_some() || self.main().all(for_good) || self.containers.iter().any(broken)
    }

    /// When something is due although nothing happens.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        let starts = self
            .containers
            .iter()
            .filter(|one| matches!(one.state, State::Waiting { .. }))
            .filter_map(|one| one.start_at);
        starts
            .chain(self.place_again_at)
            .chain(self.deadline_at)
            .min()
    }
}

/// Seconds later.
pub(crate) fn later(now: Timestamp, secs: i64) -> Timestamp {
    now.checked_add(SignedDuration::from_secs(secs))
        .unwrap_or(now)
}

/// All pods on the node, by namespace and name.
pub(crate) type Lives = BTreeMap<(String, String), Life>;
