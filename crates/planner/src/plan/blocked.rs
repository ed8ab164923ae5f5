//! Policy: what stands in the way of a job from outside, and how creates respect it.

use crate::observed::{Observed, Refusal};
use crate::plan::{Action, Kind, Object};

/// What stands in the way.
#[derive(Debug)]
pub(crate) enum Block<'a> {
    /// Somebody else's object holds this name.
    Name { kind: Kind, name: String },
    /// The API server refused this object, and it is too early to try again.
    Refused(&'a Refusal),
}

/// The first thing that stands in the way, if any does.
pub(crate) fn by(observed: &Observed) -> Option<Block<'_>> {
    foreign(observed).or_else(|| {
        observed
            .refused
            .iter()
            .find(|refusal| refusal.retry_at > observed.now)
            .map(Block::Refused)
    })
}

fn foreign(observed: &Observed) -> Option<Block<'_>> {
    let job = &observed.job;
    let gang = observed.site.gang.as_ref();
    let names = [
        (
            observed.launcher.is_foreign(),
            Kind::Job,
            job.launcher_name(),
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
        (observed.key.is_foreign(), Kind::Secret, job.key_name()),
        (
            observed.pod_group.is_foreign() && gang.is_some(),
            gang.map_or(Kind::VolcanoPodGroup, Kind::pod_group),
            job.pod_group_name(),
        ),
    ];
    let taken = names.into_iter().find(|(foreign, _, _)| *foreign);
    taken
        .map(|(_, kind, name)| Block::Name { kind, name })
        .or_else(|| {
            let name = observed.foreign_workers.first()?.clone();
            Some(Block::Name {
                kind: Kind::Pod,
                name,
            })
        })
}

/// Creates the object, unless the API server just refused it.
pub(crate) fn create(observed: &Observed, object: Object) -> Option<Action> {
    let refused = observed.refused.iter().any(|refusal| {
        refusal.kind == object.kind
            && refusal.name == object.name
            && refusal.retry_at > observed.now
    });
    (!refused).then_some(Action::Create(object))
}
