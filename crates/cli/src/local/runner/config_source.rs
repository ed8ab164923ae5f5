//! ConfigMaps and Secrets, as pods refer to them. Decides how their data looks as bytes, and what an
//! absent object or key means.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use super::pod::Pod;

/// What a pod may refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConfigSource {
    ConfigMap,
    Secret,
}

impl ConfigSource {
    /// The kind, as messages have it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
        }
    }
}

/// Finds an object by kind, namespace and name.
pub(crate) type ConfigLookup = dyn Fn(ConfigSource, &str, &str) -> Option<Value> + Send + Sync;

/// What a reference leads to.
pub(crate) struct Referenced {
    kind: ConfigSource,
    name: String,
    is_optional: bool,
    /// Empty where the object is absent and may be.
    pub(crate) data: BTreeMap<String, Vec<u8>>,
}

impl Referenced {
    /// Follows a reference of a pod.
    pub(crate) fn find(
        kind: ConfigSource,
        pod: Pod<'_>,
        reference: &Value,
        lookup: &ConfigLookup,
    ) -> Result<Self> {
        let name = reference["name"].as_str();
        let name = name.or(reference["secretName"].as_str()).unwrap_or("");
        let is_optional = reference["optional"] == true;
        let data = match lookup(kind, pod.meta("namespace"), name) {
            Some(object) => data(kind, &object),
            None if is_optional => BTreeMap::new(),
            None => bail!("{} {name:?} not found", kind.as_str()),
        };
        Ok(Self {
            kind,
            name: name.to_owned(),
            is_optional,
            data,
        })
    }

    /// The bytes under a key; none where the key is absent and may be.
    pub(crate) fn get(&self, key: &str) -> Result<Option<&Vec<u8>>> {
        match self.data.get(key) {
            None if !self.is_optional => {
                bail!("{} {:?} has no key {key:?}", self.kind.as_str(), self.name)
            }
            bytes => Ok(bytes),
        }
    }
}

fn data(kind: ConfigSource, object: &Value) -> BTreeMap<String, Vec<u8>> {
    let decoded = |text: &str| BASE64_STANDARD.decode(text).unwrap_or_default();
    let plain = |text: &str| text.as_bytes().to_vec();
    let entries = |field: &str, bytes: &dyn Fn(&str) -> Vec<u8>| {
        let entries = object[field].as_object().into_iter().flatten();
        let texts = entries.filter_map(|(key, value)| Some((key.clone(), bytes(value.as_str()?))));
        texts.collect::<Vec<_>>()
    };
    match kind {
        ConfigSource::ConfigMap => {
            let both = [entries("data", &plain), entries("binaryData", &decoded)];
            both.into_iter().flatten().collect()
        }
        ConfigSource::Secret => entries("data", &decoded).into_iter().collect(),
    }
}
