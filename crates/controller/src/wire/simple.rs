//! Services, ConfigMaps, NetworkPolicies and PodGroups: few per job, read part by part.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use planner::observed;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::{Child, Facts, IntoChild, Part, RawObject, assemble, lean_metadata, uid};

/// core/v1 Service.
pub(crate) type Service = RawObject<Part<ServiceSpec>, IgnoredAny>;
/// core/v1 ConfigMap.
pub(crate) type ConfigMap = RawObject<IgnoredAny, IgnoredAny, Part<BTreeMap<String, String>>>;
/// networking.k8s.io/v1 NetworkPolicy.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct NetworkPolicy {
    #[serde(deserialize_with = "lean_metadata")]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Value,
}

dynamic_resource!(NetworkPolicy);

/// A PodGroup of any scheduler.
pub(crate) type PodGroup = RawObject<Value, IgnoredAny>;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ServiceSpec {
    selector: Option<BTreeMap<String, String>>,
    publish_not_ready_addresses: Option<bool>,
}

impl IntoChild for Service {
    fn unreadable(&self) -> bool {
        self.spec.unreadable()
    }

    fn child(self) -> Child {
        let spec = self.spec.or_default();
        let facts = Facts::Service(observed::ServiceState {
            uid: uid(&self.metadata),
            selector: spec.selector.unwrap_or_default(),
            publish_not_ready: spec.publish_not_ready_addresses.unwrap_or(false),
        });
        assemble(&self.metadata, facts)
    }
}

impl IntoChild for ConfigMap {
    fn unreadable(&self) -> bool {
        self.data.unreadable()
    }

    fn child(self) -> Child {
        let facts = Facts::Config(observed::ConfigState {
            uid: uid(&self.metadata),
            data: self.data.or_default(),
        });
        assemble(&self.metadata, facts)
    }
}

impl IntoChild for NetworkPolicy {
    fn child(self) -> Child {
        let facts = Facts::NetworkPolicy(Box::new(observed::NetworkPolicyState {
            uid: uid(&self.metadata),
            spec: self.spec,
        }));
        assemble(&self.metadata, facts)
    }
}

impl IntoChild for PodGroup {
    fn child(self) -> Child {
        let facts = Facts::PodGroup(Box::new(observed::PodGroup {
            uid: uid(&self.metadata),
            spec: self.spec,
            deleting: self.metadata.deletion_timestamp.is_some(),
        }));
        assemble(&self.metadata, facts)
    }
}
