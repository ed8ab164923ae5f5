//! Policy: Service, ConfigMap and key must exist before any pod, and follow the job when it is edited.

use serde_json::{Map, Value, json};

use super::merge_patch;
use crate::action::{Action, Kind};
use crate::job::{HostNames, Job};
use crate::keys::Keys;
use crate::observed::{ConfigState, Observed};
use crate::reach::Reach;
use crate::recorded::KeyRecord;
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

/// The record of the job's keys: as it stands, or as it must be written before they are made. The name is
/// recorded first, so that a Secret that somebody else made is never taken for ours.
pub(super) fn record(observed: &Observed, is_over: bool) -> Option<KeyRecord> {
    let (job, recorded) = (&observed.job, observed.recorded.keys.as_ref());
    let keys = job.keys(&observed.site)?;
    let is_made = observed.key.ours().is_some();
    let suffices = |record: &&KeyRecord| match &keys {
        Keys::SshPair => record.secret == job.names.ssh_key,
        Keys::Agent { .. } => {
            let covered = record
                .workers
                .is_some_and(|covered| covered >= job.worker_count());
            let is_enough = is_made || is_over || job.lifecycle.suspended || covered;
            is_of_agent(job, record) && is_enough
        }
    };
    if let Some(record) = recorded.filter(suffices) {
        return Some(record.clone());
    }
    if is_over || observed.key.is_foreign() {
        return recorded.cloned();
    }
    // Its launcher's Job mounts it under the recorded name, and cannot be changed.
    let kept = recorded.filter(|record| is_of_agent(job, record));
    let kept = kept.map(|record| record.secret.clone());
    Some(match keys {
        Keys::SshPair => KeyRecord {
            secret: job.names.ssh_key.clone(),
            workers: None,
        },
        Keys::Agent { workers, .. } => KeyRecord {
            secret: kept.unwrap_or_else(|| format!("{}-{}", job.names.agent_keys, observed.nonce)),
            workers: Some(workers),
        },
    })
}

/// The record is of transport Agent: its user may have chosen another one since.
fn is_of_agent(job: &Job, record: &KeyRecord) -> bool {
    let rest = record.secret.strip_prefix(&job.names.agent_keys);
    rest.is_some_and(|rest| rest.starts_with('-'))
}

/// Which Secret it is has been recorded, or nobody needs one: pods may be made that mount it.
pub(super) fn is_recorded(observed: &Observed) -> bool {
    let needs = observed.job.keys(&observed.site).is_some();
    !needs
        || (observed.recorded.keys.is_some() && observed.recorded.keys == record(observed, false))
}

/// The keys are there, or nobody needs any.
pub(super) fn has_keys(observed: &Observed) -> bool {
    let needs = observed.job.keys(&observed.site).is_some();
    !needs || (is_recorded(observed) && observed.key.ours().is_some())
}

/// So many workers have keys; all that may be asked for, where they share them.
pub(super) fn keys_for(observed: &Observed) -> u32 {
    let record = observed.recorded.keys.as_ref();
    record.and_then(|record| record.workers).unwrap_or(u32::MAX)
}

fn key(observed: &Observed) -> Option<Action> {
    let (job, site) = (&observed.job, &observed.site);
    let mut keys = job.keys(site)?;
    // Keys of transport Agent are for one start of the job; a suspended one has none.
    let waits = matches!(keys, Keys::Agent { .. }) && job.lifecycle.suspended;
    if waits || !observed.key.is_absent() || !is_recorded(observed) {
        return None;
    }
    let record = observed.recorded.keys.as_ref()?;
    if let (Keys::Agent { workers, .. }, Some(covered)) = (&mut keys, record.workers) {
        *workers = covered;
    }
    Some(Action::CreateKey {
        secret: render::key(job, &record.secret, &keys),
        keys,
    })
}

/// Keys of transport Agent outlive no start of the job: the next one gets its own.
pub(super) fn remove_agent_keys(observed: &Observed) -> Option<Action> {
    observed.key.ours()?;
    let keys = observed.job.keys(&observed.site)?;
    let record = observed.recorded.keys.as_ref()?;
    let for_one_start = matches!(keys, Keys::Agent { .. }) && is_of_agent(&observed.job, record);
    for_one_start.then(|| Action::DeleteKey {
        name: record.secret.clone(),
    })
}
