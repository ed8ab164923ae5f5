//! Policy: Service, ConfigMap and key must exist before any pod, and say what the job says now.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::action::{Action, Keys, Kind};
use crate::job::HostNames;
use crate::observed::Observed;
use crate::render::identity as render;
use crate::site::Transport;

/// What is missing or has drifted.
pub(super) fn ensure(observed: &Observed) -> Vec<Action> {
    [service(observed), config(observed), key(observed)]
        .into_iter()
        .flatten()
        .collect()
}

fn service(observed: &Observed) -> Option<Action> {
    let job = &observed.job;
    if job.host_names == HostNames::Pods {
        return None;
    }
    if observed.service.is_absent() {
        return Some(Action::Create(render::service(job)));
    }
    let service = observed.service.ours()?;
    let (selector, publish) = (
        render::service_selector(job),
        render::publish_not_ready(job),
    );
    let drifted = service.selector != selector || service.publish_not_ready != publish;
    drifted.then(|| {
        let merge = json!({"spec": {
            "selector": replacing(&service.selector, &selector),
            "publishNotReadyAddresses": publish,
        }});
        Action::patch(Kind::Service, &job.service_name(), &service.uid, merge)
    })
}

fn config(observed: &Observed) -> Option<Action> {
    if observed.config.is_absent() {
        return Some(Action::Create(render::config(observed)));
    }
    let config = observed.config.ours()?;
    let data = render::config_data(observed);
    (config.data != data).then(|| {
        let name = observed.job.config_name();
        let merge = json!({"data": replacing(&config.data, &data)});
        Action::patch(Kind::ConfigMap, &name, &config.uid, merge)
    })
}

fn key(observed: &Observed) -> Option<Action> {
    let (job, site) = (&observed.job, &observed.site);
    if !job.needs_key(site) {
        return None;
    }
    let keys = match job.transport(site) {
        Transport::Ssh => Keys::SshPair,
        Transport::Exec => return None,
        // Certificates are for one start of the job; a suspended one has none.
        Transport::Agent if job.policy.suspended => return None,
        Transport::Agent => Keys::Certificates {
            job: job.owner.uid.clone(),
        },
    };
    let missing = observed.key.is_absent();
    missing.then(|| Action::CreateKey {
        secret: render::key(job, site),
        keys,
    })
}

/// Certificates outlive no start of the job: the next one gets its own.
pub(super) fn remove_certificates(observed: &Observed) -> Vec<Action> {
    let (job, site) = (&observed.job, &observed.site);
    let key = observed.key.ours();
    let key = key.filter(|_| job.transport(site) == Transport::Agent);
    key.map(|key| Action::delete(Kind::Secret, &job.key_name(site), &key.uid))
        .into_iter()
        .collect()
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
