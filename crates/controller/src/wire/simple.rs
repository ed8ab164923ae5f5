//! Services, ConfigMaps, NetworkPolicies and PodGroups: few per job, read part by part.

use std::collections::BTreeMap;

use planner::observed::{self, ConfigState};
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

use super::metadata::Short;
use super::{Child, Facts, IntoChild, Metadata, Part, RawObject, assemble};

/// core/v1 Service.
pub(super) type Service = RawObject<Part<ServiceSpec>, IgnoredAny>;
/// core/v1 ConfigMap.
pub(super) type ConfigMap = RawObject<IgnoredAny, IgnoredAny, Files>;
/// networking.k8s.io/v1 NetworkPolicy.
#[derive(Debug, Deserialize)]
pub(super) struct NetworkPolicy {
    metadata: Metadata,
    #[serde(default)]
    spec: Value,
}

/// A PodGroup of any scheduler.
pub(super) type PodGroup = RawObject<Value, IgnoredAny>;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ServiceSpec {
    selector: Option<BTreeMap<String, String>>,
    publish_not_ready_addresses: Option<bool>,
}

/// The data of a ConfigMap, of which no text is kept.
#[derive(Debug)]
pub(super) struct Files {
    state: ConfigState,
    unreadable: bool,
}

impl Default for Files {
    fn default() -> Self {
        Self {
            state: ConfigState::new(String::new(), []),
            unreadable: false,
        }
    }
}

impl<'de> Deserialize<'de> for Files {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // The API server stores a map of texts, or nothing.
        let Some(text) = Option::<&serde_json::value::RawValue>::deserialize(deserializer)? else {
            return Ok(Self::default());
        };
        let mut files = serde_json::Deserializer::from_str(text.get());
        Ok(files
            .deserialize_map(FilesVisitor)
            .unwrap_or_else(|_| Self {
                unreadable: true,
                ..Self::default()
            }))
    }
}

struct FilesVisitor;

impl<'de> Visitor<'de> for FilesVisitor {
    type Value = Files;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a map of texts")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Files, A::Error> {
        let mut files = Files::default();
        while let Some(name) = map.next_key::<Short>()? {
            // One file at a time, and none of them stays.
            let text: String = map.next_value()?;
            files.state.add(name.as_str(), &text);
        }
        Ok(files)
    }
}

impl IntoChild for Service {
    fn unreadable(&self) -> bool {
        self.spec.unreadable()
    }

    fn child(self) -> Child {
        let spec = self.spec.or_default();
        let facts = Facts::Service(observed::ServiceState {
            uid: self.metadata.uid(),
            selector: spec.selector.unwrap_or_default(),
            publish_not_ready: spec.publish_not_ready_addresses.unwrap_or(false),
        });
        assemble(&self.metadata, facts)
    }
}

impl IntoChild for ConfigMap {
    fn unreadable(&self) -> bool {
        self.data.unreadable
    }

    fn child(self) -> Child {
        let uid = self.metadata.uid();
        let facts = Facts::Config(ConfigState {
            uid,
            ..self.data.state
        });
        assemble(&self.metadata, facts)
    }
}

impl IntoChild for NetworkPolicy {
    fn child(self) -> Child {
        let facts = Facts::NetworkPolicy(Box::new(observed::NetworkPolicyState {
            uid: self.metadata.uid(),
            spec: self.spec,
        }));
        assemble(&self.metadata, facts)
    }
}

impl IntoChild for PodGroup {
    fn child(self) -> Child {
        let facts = Facts::PodGroup(Box::new(observed::PodGroup {
            uid: self.metadata.uid(),
            spec: self.spec,
            deleting: self.metadata.deleting(),
        }));
        assemble(&self.metadata, facts)
    }
}
