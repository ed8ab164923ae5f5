//! Policy: Service, ConfigMap and key must exist before any pod, and follow the job when it is edited.

use serde_json::{Map, Value, json};

use super::merge_patch;
use crate::action::{Action, Kind};
use crate::job::HostNames;
use crate::keys::Keys;
use crate::observed::{ConfigState, Observed};
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
        return Some(Action::Create(render::service(observed, reach)));
    }
    let service = observed.service.ours()?;
    let selector = render::service_selector(observed, reach);
    let publish = render::publish_not_ready(job);
    let drifted = service.selector != selector || service.publish_not_ready != publish;
    drifted.then(|| {
        let merge = json!({"spec": {
            "selector": merge_patch::replacing(&json!(service.selector), &json!(selector)),
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
    let (job, site) = (&observed.job, &observed.site);
    let data = render::config_data(job, site, reach, || render::discoverable(observed));
    let texts = data
        .iter()
        .map(|(name, text)| (name.as_str(), text.as_str()));
    let wanted = ConfigState::new(String::new(), texts);
    (config.data != wanted.data).then(|| {
        let name = &observed.job.names.config;
        let old: Map<String, Value> = config
            .files
            .iter()
            .map(|name| (name.clone(), Value::Null))
            .collect();
        let data = merge_patch::replacing(&Value::Object(old), &json!(data));
        Action::patch(Kind::ConfigMap, name, &config.uid, json!({"data": data}))
    })
}

fn key(observed: &Observed) -> Option<Action> {
    let (job, site) = (&observed.job, &observed.site);
    let (keys, name) = job.keys(site)?;
    // Keys of transport Agent are for one start of the job; a suspended one has none.
    let waits = matches!(keys, Keys::Agent { .. }) && job.lifecycle.suspended;
    let missing = observed.key.is_absent() && !waits;
    missing.then(|| Action::CreateKey {
        secret: render::key(job, name, &keys),
        keys,
    })
}

/// Keys of transport Agent outlive no start of the job: the next one gets its own.
pub(super) fn remove_agent_keys(observed: &Observed) -> Option<Action> {
    let (job, site) = (&observed.job, &observed.site);
    let key = observed.key.ours()?;
    let (keys, name) = job.keys(site)?;
    let for_one_start = matches!(keys, Keys::Agent { .. });
    for_one_start.then(|| Action::delete(Kind::Secret, name, &key.uid))
}
