//! Leader election on a `coordination.k8s.io/v1` Lease. Decides who leads, and when to stop. Two leaders
//! do no harm; the lease only saves work.
//!
//! Whether another operator's lease has expired is judged by how long *we* have seen it unchanged, not
//! by its times: the clocks of two machines may differ.

use std::time::Duration;

use anyhow::{Context as _, bail};
use jiff::Timestamp;
use kube::core::ApiResource;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::api::{Api, Target};
use crate::api_error::ApiError;
use crate::error::chain;
use crate::tenure::Tenure;
use crate::wire::named_resource;

/// Name of the Lease, as the Kubeflow operator has it: the two never lead at the same time.
pub(crate) const LEASE_NAME: &str = contract::labels::OPERATOR_NAME;
/// A leader that does not renew for this long has lost the lease.
const DURATION: Duration = Duration::from_secs(17);
/// How often a leader renews: an idle operator sends little else.
const RENEW_EVERY: Duration = Duration::from_secs(10);
/// A leader that cannot renew for this long gives up, before others may take over.
const RENEW_DEADLINE: Duration = Duration::from_secs(15);
/// How often a leader retries a failed renewal.
const RENEW_RETRY: Duration = Duration::from_secs(1);
/// How often a standby reads the lease, and so how late it sees a renewal.
const STANDBY_EVERY: Duration = Duration::from_secs(2);
/// One request may take this long.
const REQUEST_MAX: Duration = Duration::from_secs(4);

/// A contender for the lease.
pub(crate) struct Lease {
    api: Api,
    resource: ApiResource,
    namespace: String,
    identity: String,
    seen: Option<LastSeen>,
    tenure: Tenure,
    /// When we asked for the lease that we have.
    asked_at: Option<Instant>,
}

/// The lease as last seen.
#[derive(Clone, Debug, PartialEq)]
struct LastSeen {
    stored: StoredLease,
    whole: Value,
    /// When we first saw this version.
    since: Instant,
}

/// What matters of a stored Lease.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
struct StoredLease {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    resource_version: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    holder_identity: Option<String>,
    lease_duration_seconds: Option<u64>,
    acquire_time: Option<String>,
    lease_transitions: Option<i64>,
}

/// What to do about a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LeaseAction {
    /// It is ours already.
    Renew,
    /// Nobody holds it, or its holder stopped renewing it.
    Take,
    /// Another operator holds it, and may be alive.
    Wait,
}

/// The whole policy, without a clock.
fn decide(spec: &Spec, unchanged_for: Duration, me: &str) -> LeaseAction {
    let holder = spec.holder_identity.as_deref().unwrap_or_default();
    if holder == me {
        LeaseAction::Renew
    } else if holder.is_empty() || unchanged_for > spec.term() {
        LeaseAction::Take
    } else {
        LeaseAction::Wait
    }
}

/// How long a standby waits before it looks again: until the lease has expired, if that is soon.
fn pause(spec: &Spec, unchanged_for: Duration) -> Duration {
    match spec.term().checked_sub(unchanged_for) {
        Some(left) => STANDBY_EVERY.min(left + Duration::from_millis(1)),
        None => STANDBY_EVERY,
    }
}

impl Spec {
    fn term(&self) -> Duration {
        let secs = self.lease_duration_seconds;
        secs.map_or(DURATION, Duration::from_secs)
    }
}

impl Lease {
    /// A contender with an identity of its own.
    pub(crate) fn new(api: Api, namespace: String) -> anyhow::Result<Self> {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let mut random = [0; 16];
        getrandom::fill(&mut random).context("the system has no random numbers")?;
        let hex: Vec<String> = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let parts = [&hex[..4], &hex[4..6], &hex[6..8], &hex[8..10], &hex[10..]];
        let identity = format!(
            "{}_{}",
            host.trim(),
            parts.map(<[String]>::concat).join("-")
        );
        let resource = named_resource("coordination.k8s.io", "v1", "Lease", "leases");
        Ok(Self {
            api,
            resource,
            namespace,
            identity,
            seen: None,
            tenure: Tenure::default(),
            asked_at: None,
        })
    }

    /// Until when we may act as the leader, once we lead.
    pub(crate) fn tenure(&self) -> Tenure {
        self.tenure.clone()
    }

    /// Returns once we lead.
    pub(crate) async fn acquire(&mut self) -> anyhow::Result<()> {
        tracing::info!(identity = self.identity, "waiting to lead");
        loop {
            let asked_at = Instant::now();
            match self.try_once().await {
                Ok(true) => {
                    self.tenure.extend(asked_at + RENEW_DEADLINE);
                    self.asked_at = Some(asked_at);
                    return Ok(());
                }
                Ok(false) => {}
                Err(ApiError::Answered {
                    code: 404, message, ..
                }) => bail!(
                    "the namespace of the lock is missing ({message}): create namespace {} or \
                     name another one with --lock-namespace",
                    self.namespace
                ),
                Err(error) => tracing::warn!(error = chain(&error), "cannot read the lease"),
            }
            let pause = self.seen.as_ref().map_or(STANDBY_EVERY, |seen| {
                pause(&seen.stored.spec, seen.since.elapsed())
            });
            tokio::time::sleep(pause).await;
        }
    }

    /// Keeps the lease; returns once it is lost.
    pub(crate) async fn keep(&mut self, renewed: impl Fn()) {
        // Others count from when the API server has stored a renewal, which is not before we asked for it.
        let asked_at = self.asked_at.unwrap_or_else(Instant::now);
        let mut give_up = asked_at + RENEW_DEADLINE;
        let mut next = asked_at + RENEW_EVERY;
        loop {
            tokio::time::sleep_until(next.min(give_up)).await;
            let asked_at = Instant::now();
            match tokio::time::timeout_at(give_up, self.try_once()).await {
                Ok(Ok(true)) => {
                    give_up = asked_at + RENEW_DEADLINE;
                    self.tenure.extend(give_up);
                    renewed();
                    next = asked_at + RENEW_EVERY;
                    continue;
                }
                Ok(Ok(false)) => {
                    tracing::error!("another operator took the lease");
                    return;
                }
                Ok(Err(error)) => tracing::warn!(error = chain(&error), "cannot renew the lease"),
                Err(_) => {}
            }
            if Instant::now() >= give_up {
                tracing::error!(
                    secs = RENEW_DEADLINE.as_secs(),
                    "the lease was not renewed in time"
                );
                return;
            }
            next = Instant::now() + RENEW_RETRY;
        }
    }

    /// Releases the lease, so that a standby need not wait until it expires.
    pub(crate) async fn release(&mut self) {
        let mut released = self.try_release().await;
        if let Err(ApiError::Answered { code: 409, .. }) = released {
            // A renewal was interrupted before its answer arrived.
            self.seen = None;
            released = match self.within(self.api.get(self.target())).await {
                Ok(text) => self.remember(&text),
                Err(error) => Err(error),
            };
            if released.is_ok() {
                released = self.try_release().await;
            }
        }
        match released {
            Ok(()) => tracing::info!("lease released"),
            Err(error) => tracing::warn!(error = chain(&error), "cannot release the lease"),
        }
    }

    async fn try_release(&self) -> Result<(), ApiError> {
        let Some(seen) = self.seen.as_ref().filter(|seen| self.holds(seen)) else {
            return Ok(());
        };
        let mut whole = seen.whole.clone();
        whole["spec"]["holderIdentity"] = "".into();
        // As client-go does: a lease that nobody holds expires soon.
        whole["spec"]["leaseDurationSeconds"] = 1.into();
        whole["spec"]["renewTime"] = now().into();
        self.within(self.api.replace(self.target(), &whole))
            .await
            .map(drop)
    }

    fn holds(&self, seen: &LastSeen) -> bool {
        seen.stored.spec.holder_identity.as_deref() == Some(self.identity.as_str())
    }

    /// True if we lead now. A conflicting write may not come from a contender, so one conflict is
    /// retried.
    async fn try_once(&mut self) -> Result<bool, ApiError> {
        match self.look_and_write().await {
            Err(ApiError::Answered { code: 409, .. }) => {
                self.seen = None;
                self.look_and_write().await
            }
            other => other,
        }
    }

    async fn look_and_write(&mut self) -> Result<bool, ApiError> {
        // A leader renews the version that it wrote last, without reading it again.
        if !self.seen.as_ref().is_some_and(|seen| self.holds(seen)) {
            match self.within(self.api.get(self.target())).await {
                Ok(text) => self.remember(&text)?,
                Err(ApiError::Answered { code: 404, .. }) => return self.create().await,
                Err(error) => return Err(error),
            }
        }
        let seen = self.seen.clone().expect("the lease was just seen");
        let action = decide(&seen.stored.spec, seen.since.elapsed(), &self.identity);
        if action == LeaseAction::Wait {
            return Ok(false);
        }
        let mut whole = seen.whole;
        self.sign(&mut whole["spec"], &seen.stored.spec, action);
        let text = self.within(self.api.replace(self.target(), &whole)).await?;
        self.remember(&text)?;
        Ok(true)
    }

    async fn create(&mut self) -> Result<bool, ApiError> {
        let mut lease = json!({
            "apiVersion": self.resource.api_version,
            "kind": self.resource.kind,
            "metadata": {"name": LEASE_NAME, "namespace": self.namespace},
            "spec": {},
        });
        self.sign(&mut lease["spec"], &Spec::default(), LeaseAction::Take);
        match self.within(self.api.create(self.target(), &lease)).await {
            Ok(text) => {
                self.remember(&text)?;
                Ok(true)
            }
            Err(error) if error.is_already_exists() => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn sign(&self, spec: &mut Value, before: &Spec, action: LeaseAction) {
        let now = now();
        let transitions = before.lease_transitions.unwrap_or(0);
        spec["holderIdentity"] = self.identity.as_str().into();
        spec["leaseDurationSeconds"] = DURATION.as_secs().into();
        spec["renewTime"] = now.as_str().into();
        if action == LeaseAction::Take {
            spec["acquireTime"] = now.into();
            let first = before.holder_identity.is_none() && before.acquire_time.is_none();
            spec["leaseTransitions"] = (transitions + i64::from(!first)).into();
        }
    }

    fn remember(&mut self, text: &str) -> Result<(), ApiError> {
        let whole: Value = serde_json::from_str(text).map_err(ApiError::Unreadable)?;
        let stored = StoredLease::deserialize(&whole).map_err(ApiError::Unreadable)?;
        let known = self.seen.as_ref().filter(|seen| seen.stored == stored);
        let since = known.map_or_else(Instant::now, |seen| seen.since);
        self.seen = Some(LastSeen {
            stored,
            whole,
            since,
        });
        Ok(())
    }

    fn target(&self) -> Target<'_> {
        Target {
            resource: &self.resource,
            namespace: &self.namespace,
            name: LEASE_NAME,
        }
    }

    async fn within(
        &self,
        request: impl Future<Output = Result<String, ApiError>>,
    ) -> Result<String, ApiError> {
        let unanswered = ApiError::TimedOut {
            secs: REQUEST_MAX.as_secs(),
        };
        tokio::time::timeout(REQUEST_MAX, request)
            .await
            .unwrap_or(Err(unanswered))
    }
}

/// Leases carry microseconds.
fn now() -> String {
    format!("{:.6}", Timestamp::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held_by(holder: Option<&str>, term: Option<u64>) -> Spec {
        Spec {
            holder_identity: holder.map(str::to_owned),
            lease_duration_seconds: term,
            ..Spec::default()
        }
    }

    #[test]
    fn a_lease_is_taken_when_free_or_unchanged_for_its_term() {
        for (holder, term, unchanged, expected) in [
            (Some("me"), Some(15), 0, LeaseAction::Renew),
            (Some("me"), Some(15), 99, LeaseAction::Renew),
            (Some("you"), Some(15), 0, LeaseAction::Wait),
            (Some("you"), Some(15), 15, LeaseAction::Wait),
            (Some("you"), Some(15), 16, LeaseAction::Take),
            (Some("you"), None, 17, LeaseAction::Wait),
            (Some("you"), None, 18, LeaseAction::Take),
            (Some("you"), Some(60), 16, LeaseAction::Wait),
            (Some(""), Some(15), 0, LeaseAction::Take),
            (None, None, 0, LeaseAction::Take),
        ] {
            let spec = held_by(holder, term);
            let decided = decide(&spec, Duration::from_secs(unchanged), "me");
            assert_eq!(decided, expected, "{spec:?} unchanged for {unchanged} s");
        }
    }

    #[test]
    fn a_standby_looks_when_the_lease_expires() {
        let spec = held_by(Some("you"), Some(17));
        for (unchanged_ms, expected_ms) in
            [(0, 2000), (14_999, 2000), (16_500, 501), (17_001, 2000)]
        {
            let unchanged = Duration::from_millis(unchanged_ms);
            let expected = Duration::from_millis(expected_ms);
            assert_eq!(pause(&spec, unchanged), expected, "after {unchanged_ms} ms");
            let later = unchanged + expected;
            let expired = decide(&spec, later, "me") == LeaseAction::Take;
            assert_eq!(expired, later > Duration::from_secs(17), "after {later:?}");
        }
    }

    #[test]
    fn b17_a_leader_gives_up_before_others_may_take_over_and_they_do_within_20_s() {
        assert!(RENEW_DEADLINE < DURATION);
        assert!(
            RENEW_EVERY + REQUEST_MAX < RENEW_DEADLINE,
            "there is time for another try"
        );
        assert!(DURATION + STANDBY_EVERY < Duration::from_secs(20));
    }

    #[test]
    fn times_have_microseconds() {
        let now = now();
        let (_, fraction) = now.split_once('.').expect("a fraction");
        assert_eq!(fraction.len(), "123456Z".len(), "{now}");
    }
}
