//! Policy: what stands in the way of a job from outside, and what may be tried all the same.

use super::account;
use crate::action::{Action, Kind};
use crate::observed::{Observed, Refusal};
use crate::site::Transport;

/// What stands in the way.
#[derive(Debug)]
pub(super) enum Block<'a> {
    /// Somebody else's object holds this name.
    Name { kind: Kind, name: String },
    /// The API server refused this object, and it is too early to try again.
    Refused(&'a Refusal),
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
    foreign(observed)
        .or_else(|| no_agent(observed))
        .or_else(|| refused().map(Block::Refused))
}

fn no_agent<'a>(observed: &Observed) -> Option<Block<'a>> {
    let job = &observed.job;
    let attends = job
        .bootstrap
        .as_ref()
        .is_some_and(|own| own.attendant.is_some());
    let wanted = attends || job.transport(&observed.site) != Transport::Ssh;
    (wanted && observed.site.agent_image.is_none()).then_some(Block::NoAgent)
}

/// Something of this kind was refused, and it is too early to try again.
fn is_waiting(observed: &Observed, kind: &Kind) -> bool {
    let mut refused = observed.refused.iter();
    refused.any(|refusal| refusal.kind == *kind && refusal.retry_at > observed.now)
}

/// The action was not just refused.
pub(super) fn may_try(observed: &Observed, action: &Action) -> bool {
    let (kind, name) = match action {
        Action::Create(object) | Action::CreateKey { secret: object, .. } => {
            return !is_waiting(observed, &object.kind);
        }
        Action::Patch { kind, name, .. } | Action::Delete { kind, name, .. } => (kind, name),
        Action::DeleteWorkers { labels, .. } => (&Kind::Pod, labels),
        Action::DeleteJob { .. } => return true,
    };
    let mut refused = observed.refused.iter();
    !refused.any(|r| r.kind == *kind && r.name == *name && r.retry_at > observed.now)
}

fn foreign(observed: &Observed) -> Option<Block<'_>> {
    let job = &observed.job;
    let gang = job.gang_scheduler(&observed.site);
    let names = [
        (
            observed.launcher.is_foreign(),
            Kind::Job,
            job.launcher_name(),
        ),
        (
            observed.worker_set.is_foreign(),
            Kind::StatefulSet,
            job.worker_set_name(),
        ),
        (
            observed.service.is_foreign(),
            Kind::Service,
            job.service_name(),
        ),
        (
            observed.config.is_foreign(),
            Kind::ConfigMap,
            job.config_name(),
        ),
        (
            observed.key.is_foreign(),
            Kind::Secret,
            job.key_name(&observed.site),
        ),
        (
            observed.pod_group.is_foreign() && gang.is_some(),
            gang.map_or(Kind::VolcanoPodGroup, Kind::pod_group),
            job.pod_group_name(),
        ),
    ];
    let taken = names.into_iter().find(|(foreign, _, _)| *foreign);
    taken
        .map(|(_, kind, name)| (kind, name))
        .or_else(|| account::foreign(observed))
        .map(|(kind, name)| Block::Name { kind, name })
        .or_else(|| {
            let name = observed.foreign_pods.first()?.clone();
            Some(Block::Name {
                kind: Kind::Pod,
                name,
            })
        })
}
