//! When a pod got how far, as its status has it. There may be thousands of pods, so a time is kept as the whole
//! seconds since the pod was made, which is all that pods' times have.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time as StoredTime;
use planner::PodStart;

use super::{ContainerStatus, PodStatus, containers};

/// Seconds after the pod was made; the largest number stands for no time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct After(u32);

impl After {
    fn of(time: Option<&StoredTime>, created_at: Timestamp) -> Self {
        let Some(time) = time else {
            return Self(u32::MAX);
        };
        let seconds = time.0.duration_since(created_at).as_secs();
        // Clocks differ; and a time that is not possible is none.
        Self(u32::try_from(seconds.max(0)).unwrap_or(u32::MAX))
    }

    fn at(self, created_at: Timestamp) -> Option<Timestamp> {
        let after = SignedDuration::from_secs(i64::from(self.0));
        let is_known = self.0 != u32::MAX;
        is_known.then(|| created_at.checked_add(after).ok())?
    }
}

/// When the pod got how far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PodTimes {
    scheduled: After,
    sandbox: After,
    first_begun: After,
    initialized: After,
    begun: After,
    ready: After,
}

impl PodTimes {
    pub(super) fn of(status: &PodStatus, created_at: Timestamp) -> Self {
        let after = |time: Option<&StoredTime>| After::of(time, created_at);
        let since = |kind: &str| after(status.since(kind));
        Self {
            scheduled: since("PodScheduled"),
            sandbox: since("PodReadyToStartContainers"),
            first_begun: after(
                containers(status)
                    .filter_map(ContainerStatus::begun_at)
                    .min(),
            ),
            initialized: since("Initialized"),
            begun: after(begun_at(status)),
            ready: since("Ready"),
        }
    }

    pub(super) fn start(&self, created_at: Timestamp) -> PodStart {
        PodStart {
            scheduled_at: self.scheduled.at(created_at),
            sandbox_at: self.sandbox.at(created_at),
            first_begun_at: self.first_begun.at(created_at),
            initialized_at: self.initialized.at(created_at),
            begun_at: self.begun.at(created_at),
            ready_at: self.ready.at(created_at),
        }
    }
}

/// When the last of its containers began, init containers aside; nothing while one has not.
fn begun_at(status: &PodStatus) -> Option<&StoredTime> {
    let containers = status.container_statuses.as_ref()?.iter();
    let times: Option<Vec<&StoredTime>> = containers.map(ContainerStatus::begun_at).collect();
    times?.into_iter().max()
}
