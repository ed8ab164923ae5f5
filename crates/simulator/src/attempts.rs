//! What the agent in a launcher does whose job recovers, as far as the cluster notices it: after a failure it
//! starts the program again in its pod, and after the loss of a worker only when another one is Ready. Decides
//! how many attempts there are; knows nothing of how long they take.

use std::collections::BTreeMap;

use contract::{Reason, env};
use minicluster::kubelet::PodRef;
use serde_json::Value;

/// What the operator tells a launcher.
#[derive(Clone, Debug)]
pub(crate) struct Policy {
    restarts: u32,
    on: Vec<Reason>,
}

impl Policy {
    /// As the agent reads it; none where the program is never started again.
    pub(crate) fn of(container: &Value) -> Option<Self> {
        let variable = |name: &str| {
            let variables = container["env"].as_array();
            let mut variables = variables.into_iter().flatten();
            variables.find(|one| one["name"] == name)?["value"].as_str()
        };
        let on = variable(env::RESTART_ON)?.split(',');
        Some(Self {
            restarts: variable(env::RESTARTS)?.parse().ok()?,
            on: on.filter_map(Reason::from_text).collect(),
        })
    }
}

/// A launcher whose program may be started again.
#[derive(Debug)]
pub(crate) struct Attempts {
    pub(crate) pod: PodRef,
    pub(crate) container: String,
    policy: Policy,
    /// Restarts that are used up.
    spent: u32,
    /// The program has ended, and its launcher waits until all workers are there again.
    pub(crate) waits: bool,
}

/// Why an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The program failed by itself.
    Failed,
    /// A worker ended.
    WorkerLost,
    /// A worker was told to leave, and told the launcher.
    WorkerLeaves,
}

impl Attempts {
    fn may_go_on(&mut self, end: End) -> bool {
        let reason = match end {
            End::Failed => Reason::CommandFailed,
            End::WorkerLost | End::WorkerLeaves => Reason::WorkerLost,
        };
        let is_free = end == End::WorkerLeaves;
        let policy = &self.policy;
        let may = policy.on.contains(&reason) && (is_free || self.spent < policy.restarts);
        self.spent += u32::from(may && !is_free);
        may
    }
}

/// The launchers that run, by the UID of their job.
#[derive(Debug, Default)]
pub(crate) struct Launchers(BTreeMap<String, Attempts>);

impl Launchers {
    /// A launcher starts its program.
    pub(crate) fn begin(&mut self, job: &str, pod: &PodRef, container: &str, policy: Policy) {
        let attempts = Attempts {
            pod: pod.clone(),
            container: container.to_owned(),
            policy,
            spent: 0,
            waits: false,
        };
        self.0.insert(job.to_owned(), attempts);
    }

    /// The launcher is no more.
    pub(crate) fn ended(&mut self, pod: &PodRef) {
        self.0.retain(|_, attempts| attempts.pod != *pod);
    }

    /// The launcher of a job, if it runs and its program may be started again.
    pub(crate) fn of(&self, job: &str) -> Option<&Attempts> {
        self.0.get(job)
    }

    /// The job of a launcher that runs.
    pub(crate) fn job_of(&self, pod: &PodRef) -> Option<String> {
        let mut known = self.0.iter();
        let (job, _) = known.find(|(_, attempts)| attempts.pod == *pod)?;
        Some(job.clone())
    }

    /// An attempt of a job ended. Says whether another one follows; none where the launcher knows nothing of
    /// attempts, or has none that runs.
    pub(crate) fn attempt_ended(&mut self, job: &str, end: End) -> Option<bool> {
        let attempts = self.0.get_mut(job).filter(|attempts| !attempts.waits)?;
        let goes_on = attempts.may_go_on(end);
        attempts.waits = goes_on;
        Some(goes_on)
    }

    /// Launchers that wait, and their jobs.
    pub(crate) fn waiting(&self) -> Vec<String> {
        let waiting = self.0.iter().filter(|(_, attempts)| attempts.waits);
        waiting.map(|(job, _)| job.clone()).collect()
    }

    /// All workers are there.
    pub(crate) fn resumed(&mut self, job: &str) {
        if let Some(attempts) = self.0.get_mut(job) {
            attempts.waits = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_failure_uses_up_a_restart_and_a_worker_that_leaves_does_not() {
        let pod = PodRef {
            namespace: "default".to_owned(),
            name: "ring-launcher".to_owned(),
            uid: "u".to_owned(),
        };
        let container = json!({"env": [
            {"name": "MUSTER_RESTARTS", "value": "1"},
            {"name": "MUSTER_RESTART_ON", "value": "WorkerLost"},
        ]});
        let policy = Policy::of(&container).expect("it has both variables");
        assert!(Policy::of(&json!({"env": []})).is_none());
        let mut launchers = Launchers::default();
        assert_eq!(launchers.attempt_ended("job", End::Failed), None);
        launchers.begin("job", &pod, "main", policy);
        let mut ends = |end| {
            let goes_on = launchers.attempt_ended("job", end);
            launchers.resumed("job");
            goes_on
        };
        assert_eq!(ends(End::WorkerLeaves), Some(true));
        assert_eq!(ends(End::WorkerLost), Some(true));
        assert_eq!(ends(End::WorkerLeaves), Some(true));
        assert_eq!(ends(End::WorkerLost), Some(false), "it is used up");
        assert_eq!(ends(End::Failed), Some(false), "the job does not name it");
    }
}
