//! Policy: what stands in the way of a job from outside, and what may be tried all the same.

use super::{account, size};
use crate::action::{Action, Kind};
use crate::observed::{Observed, Refusal};
use crate::reach::Reach;

/// What stands in the way.
#[derive(Debug)]
pub(super) enum Block<'a> {
    /// Somebody else's object holds this name.
    Name { kind: Kind, name: String },
    /// The API server refused this object, and it is too early to try again.
    Refused(&'a Refusal),
    /// The job is in the operator's own namespace.
    Namespace,
    /// The job is larger than anything that can run.
    TooLarge(String),
    /// The job wants muster's agent in its pods, and the operator was not told its image.
    NoAgent,
}

/// The first thing that stands in the way, if any does. Refusals of one kind count as one until
/// the last may be tried again: what a burst of creates was told differs in names only.
pub(super) fn by(observed: &Observed) -> Option<Block<'_>> {
    let refused = || {
        let mut refused = observed.refused.iter();
        refused.find(|refusal| is_waiting(observed, &refusal.kind))
    };
    // Without an answer, nobody knows whether the name of the Secret is free.
    let unanswered = || {
        let mut refused = observed.refused.iter();
        let refused = refused.find(|refusal| refusal.kind == Kind::Secret);
        refused.filter(|_| observed.key.is_foreign())
    };
    let refused_namespace = observed.site.refused_namespace.as_ref();
    let is_refused = refused_namespace.is_some_and(|name| *name == observed.job.owner.namespace);
    let reach = Reach::of(observed);
    let no_agent = || reach.is_none().then_some(Block::NoAgent);
    let too_large = || size::excess(observed, reach?).map(Block::TooLarge);
    is_refused
        .then_some(Block::Namespace)
        .or_else(|| unanswered().map(Block::Refused))
        .or_else(|| foreign(observed))
        .or_else(no_agent)
        .or_else(too_large)
        .or_else(|| refused().map(Block::Refused))
}

/// Something of this kind was refused, and it is too early to try again.
fn is_waiting(observed: &Observed, kind: &Kind) -> bool {
    let mut refused = observed.refused.iter();
    refused.any(|refusal| refusal.kind == *kind && refusal.retry_at > observed.now)
}

/// The action was not just refused.
pub(super) fn may_try(observed: &Observed, action: &Action) -> bool {
    let collection;
    let (kind, name) = match action {
        Action::Create(object) | Action::CreateKey { secret: object, .. } => {
            return !is_waiting(observed, &object.kind);
        }
        Action::CreateWorkers(_) => return !is_waiting(observed, &Kind::Pod),
        Action::Patch { kind, name, .. } | Action::Delete { kind, name, .. } => (kind, name),
        Action::ForgetPod { name, .. } => (&Kind::Pod, name),
        Action::DeleteKey { name } => (&Kind::Secret, name),
        Action::DeleteWorkers { selection, .. } => {
            collection = selection.labels();
            (&Kind::Pod, &collection)
        }
        Action::DeleteJob { .. } => return true,
    };
    let mut refused = observed.refused.iter();
    !refused.any(|r| r.kind == *kind && r.name == *name && r.retry_at > observed.now)
}

fn foreign(observed: &Observed) -> Option<Block<'_>> {
    let (job, names) = (&observed.job, &observed.job.names);
    let gang = job.gang_scheduler(&observed.site);
    let gang = gang.map(|scheduler| Kind::PodGroup(scheduler.api()));
    let key = job.keys(&observed.site).map(|_| names.ssh_key.as_str());
    let slots = [
        (
            observed.launcher.is_foreign(),
            Some(Kind::Job),
            names.launcher.as_str(),
        ),
        (
            observed.worker_set.is_foreign(),
            Some(Kind::StatefulSet),
            &names.worker,
        ),
        (
            observed.service.is_foreign(),
            Some(Kind::Service),
            &names.service,
        ),
        (
            observed.config.is_foreign(),
            Some(Kind::ConfigMap),
            &names.config,
        ),
        (
            observed.key.is_foreign(),
            key.map(|_| Kind::Secret),
            key.unwrap_or_default(),
        ),
        (observed.pod_group.is_foreign(), gang, &names.pod_group),
        (
            observed.network_policy.is_foreign(),
            job.isolated.then_some(Kind::NetworkPolicy),
            &job.owner.name,
        ),
    ];
    let taken = |(is_foreign, kind, name): (bool, Option<Kind>, &str)| {
        let kind = kind.filter(|_| is_foreign)?;
        Some((kind, name.to_owned()))
    };
    let pod = || Some((Kind::Pod, observed.foreign_pods.first()?.clone()));
    slots
        .into_iter()
        .find_map(taken)
        .or_else(|| account::foreign(observed))
        .or_else(pod)
        .map(|(kind, name)| Block::Name { kind, name })
}
