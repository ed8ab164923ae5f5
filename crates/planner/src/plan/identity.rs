//! Policy: Service, ConfigMap and key must exist before any pod, and say what the job says now.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::action::{Action, Keys, Kind};
use crate::job::HostNames;
use crate::observed::Observed;
use crate::reach::Reach;
use crate::render::identity as render;

/// What is missing or has drifted.
pub(super) fn ensure(observed: &Observed, reach: Reach<'_>) -> Vec<Action> {
    [
        service(observed, reach),
        config(observed, reach),
        key(observed),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn service(observed: &Observed, reach: Reach<'_>) -> Option<Action> {
    let job = &observed.job;
    if job.host_names() == HostNames::Pods {
        return None;
    }
    if observed.service.is_absent() {
        return Some(Action::Create(render::service(job, reach)));
    }
    let service = observed.service.ours()?;
    let selector = render::service_selector(job, reach);
    let publish = render::publish_not_ready(job);
    let drifted = service.selector != selector || service.publish_not_ready != publish;
    drifted.then(|| {
        let merge = json!({"spec": {
            "selector": replacing(&service.selector, &selector),
            "publishNotReadyAddresses": publish,
        }});
        Action::patch(Kind::Service, &job.names.service, &service.uid, merge)
    })
}

fn config(observed: &Observed, reach: Reach<'_>) -> Option<Action> {
    if observed.config.is_absent() {
        return Some(Action::Create(render::config(observed, reach)));
    }
    let config = observed.config.ours()?;
    let data = render::config_data(observed, reach);
    (config.data != data).then(|| {
        let name = &observed.job.names.config;
        let merge = json!({"data": replacing(&config.data, &data)});
        Action::patch(Kind::ConfigMap, name, &config.uid, merge)
    })
}

fn key(observed: &Observed) -> Option<Action> {
    let (job, site) = (&observed.job, &observed.site);
    let (name, keys) = (job.key_name(site)?, job.keys(site)?);
    // Certificates are for one start of the job; a suspended one has none.
    let waits = matches!(keys, Keys::Certificates { .. }) && job.lifecycle.suspended;
    let missing = observed.key.is_absent() && !waits;
    missing.then(|| Action::CreateKey {
        secret: render::key(job, name, &keys),
        keys,
    })
}

/// Certificates outlive no start of the job: the next one gets its own.
pub(super) fn remove_certificates(observed: &Observed) -> Option<Action> {
    let (job, site) = (&observed.job, &observed.site);
    let key = observed.key.ours()?;
    let is_certificate = matches!(job.keys(site)?, Keys::Certificates { .. });
    is_certificate.then(|| Action::delete(Kind::Secret, &job.names.certificates, &key.uid))
}

/// A merge patch that turns `old` into `new`, leftovers removed.
pub(super) fn replacing(
    old: &BTreeMap<String, String>,
    new: &BTreeMap<String, String>,
) -> Map<String, Value> {
    let gone = old.keys().filter(|key| !new.contains_key(*key));
    let gone = gone.map(|key| (key.clone(), Value::Null));
    let kept = new
        .iter()
        .map(|(key, value)| (key.clone(), Value::from(value.as_str())));
    gone.chain(kept).collect()
}
