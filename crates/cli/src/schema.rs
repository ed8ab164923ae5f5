//! What fields there are, read from the custom resource definitions that are compiled in. Decides
//! nothing: it finds a schema by path, and says what it says.

use std::sync::LazyLock;

use serde_json::Value;

/// The fields of every object's metadata, which no CRD lists.
pub(crate) const METADATA: [&str; 15] = [
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "managedFields",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// Every definition that muster installs.
const DEFINITIONS: &str = include_str!(concat!(env!("OUT_DIR"), "/definitions.json"));

static PARSED: LazyLock<Vec<Value>> = LazyLock::new(|| {
    serde_json::from_str(DEFINITIONS).expect("the definitions were written by the build script")
});

/// The definitions themselves.
pub(crate) fn definitions() -> &'static [Value] {
    &PARSED
}

/// The schema of one place in an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schema(&'static Value);

pub(crate) fn of(group: &str, version: &str, kind: &str) -> Option<Schema> {
    let definition = PARSED.iter().find(|definition| {
        definition["spec"]["group"] == group && definition["spec"]["names"]["kind"] == kind
    })?;
    let versions = definition["spec"]["versions"].as_array()?;
    let found = versions.iter().find(|entry| entry["name"] == version)?;
    Some(Schema(&found["schema"]["openAPIV3Schema"]))
}

impl Schema {
    /// Fields by name, in the order of the definition.
    pub(crate) fn fields(self) -> impl Iterator<Item = (&'static str, Schema)> {
        let fields = self.0["properties"].as_object().into_iter().flatten();
        fields.map(|(name, schema)| (name.as_str(), Self(schema)))
    }

    /// The field, entry or item under a key.
    pub(crate) fn below(self, key: &str) -> Option<Schema> {
        let named = self.0["properties"].get(key);
        named
            .or_else(|| {
                self.0
                    .get("additionalProperties")
                    .filter(|any| any.is_object())
            })
            .or_else(|| self.0.get("items"))
            .map(Self)
    }

    /// Any key will do.
    pub(crate) fn is_map(self) -> bool {
        self.0
            .get("additionalProperties")
            .is_some_and(Value::is_object)
    }

    /// Fields that the schema does not name are kept.
    pub(crate) fn takes_anything(self) -> bool {
        self.0["x-kubernetes-preserve-unknown-fields"] == true
            || self.0["x-kubernetes-embedded-resource"] == true
            // An object without any word about its fields, as `metadata` is.
            || (self.kind() == "object" && self.0.get("properties").is_none() && !self.is_map())
    }

    /// `string`, `integer`, `object`…; `int-or-string`; empty when anything goes.
    pub(crate) fn kind(self) -> &'static str {
        if self.0["x-kubernetes-int-or-string"] == true {
            return "int-or-string";
        }
        self.0["type"].as_str().unwrap_or("")
    }

    /// Fields that must be written.
    pub(crate) fn required(self) -> impl Iterator<Item = &'static str> {
        let names = self.0["required"].as_array().into_iter().flatten();
        names.filter_map(Value::as_str)
    }

    /// An amount such as `500m` or `1Gi`.
    pub(crate) fn is_quantity(self) -> bool {
        let pattern = self.0["pattern"].as_str().unwrap_or("");
        self.kind() == "int-or-string" && pattern.contains("[KMGTPE]i") && !pattern.contains("null")
    }

    /// What its text must match, unless it is an amount.
    pub(crate) fn pattern(self) -> Option<&'static str> {
        let pattern = self.0["pattern"].as_str()?;
        (!self.is_quantity()).then_some(pattern)
    }

    /// Whether null may be written.
    pub(crate) fn is_nullable(self) -> bool {
        self.0["nullable"] == true
    }

    /// What it is for, if that is written down.
    pub(crate) fn description(self) -> &'static str {
        self.0["description"].as_str().unwrap_or("")
    }

    /// The value when none is written.
    pub(crate) fn default(self) -> Option<&'static Value> {
        self.0.get("default")
    }

    /// The words that it may be; empty ones are left out.
    pub(crate) fn words(self) -> Vec<&'static str> {
        let words = self.0["enum"].as_array().into_iter().flatten();
        words
            .filter_map(Value::as_str)
            .filter(|word| !word.is_empty())
            .collect()
    }

    /// In which fields the items of this list must differ; none where they need not.
    pub(crate) fn item_keys(self) -> Vec<&'static str> {
        let keys = self.0["x-kubernetes-list-map-keys"].as_array();
        let keys = keys.filter(|_| self.0["x-kubernetes-list-type"] == "map");
        keys.into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect()
    }

    /// What an item of this list, or an entry of this map, looks like.
    pub(crate) fn element(self) -> Option<Schema> {
        let any = self
            .0
            .get("additionalProperties")
            .filter(|any| any.is_object());
        any.or_else(|| self.0.get("items")).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_resource_has_a_definition() {
        assert_eq!(definitions()[0]["spec"]["group"], "kubeflow.org");
        for resource in dialects::RESOURCES {
            let schema = of(resource.group, resource.version, resource.kind);
            assert!(schema.is_some(), "{}", resource.group);
        }
    }
}
