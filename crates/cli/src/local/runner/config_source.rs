//! ConfigMaps and Secrets, for those who only read them. Decides how their data looks as bytes.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

/// What a pod may refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConfigSource {
    ConfigMap,
    Secret,
}

impl ConfigSource {
    /// The kind, as messages say it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
        }
    }
}

/// Finds an object by kind, namespace and name.
pub(crate) type ConfigLookup = dyn Fn(ConfigSource, &str, &str) -> Option<Value> + Send + Sync;

/// All keys of an object.
pub(crate) fn contents(kind: ConfigSource, object: &Value) -> BTreeMap<String, Vec<u8>> {
    let decoded = |text: &str| BASE64_STANDARD.decode(text).unwrap_or_default();
    let plain = |text: &str| text.as_bytes().to_vec();
    let mut contents = BTreeMap::new();
    let mut take = |field: &str, bytes: &dyn Fn(&str) -> Vec<u8>| {
        for (key, value) in object[field].as_object().into_iter().flatten() {
            if let Some(text) = value.as_str() {
                contents.insert(key.clone(), bytes(text));
            }
        }
    };
    match kind {
        ConfigSource::ConfigMap => {
            take("data", &plain);
            take("binaryData", &decoded);
        }
        ConfigSource::Secret => take("data", &decoded),
    }
    contents
}
