//! Which kinds the API serves: the built-in ones and those that CustomResourceDefinitions define.
//! Decides names, versions and abilities of each; their objects are elsewhere.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::builtin;
use crate::resource::{Custom, Resource};
use crate::schema::Schema;
use crate::schema::rules::Rules;
use crate::store::KindId;

#[derive(Clone, Debug)]
pub(crate) struct Kinds {
    served: BTreeMap<(String, String, String), Arc<Resource>>,
    metadata: Arc<Schema>,
}

impl Kinds {
    /// The built-in ones.
    pub(crate) fn new() -> Self {
        let types = builtin::types::load();
        let mut served = BTreeMap::new();
        for resource in types.resources {
            let key = (
                resource.group.clone(),
                resource.version.clone(),
                resource.plural.clone(),
            );
            served.insert(key, Arc::new(resource));
        }
        Self {
            served,
            metadata: types.metadata,
        }
    }

    /// The type of `metadata`, for kinds whose own schema does not tell.
    pub(crate) fn metadata(&self) -> &Arc<Schema> {
        &self.metadata
    }

    pub(crate) fn get(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        let key = (group.to_owned(), version.to_owned(), plural.to_owned());
        self.served.get(&key)
    }

    /// Any version of a stored kind; the storage version where there is a choice.
    pub(crate) fn of_id(&self, id: &KindId) -> Option<&Arc<Resource>> {
        let mut versions = self.all().filter(|one| one.id == *id);
        let first = versions.next()?;
        let stored = |one: &&Arc<Resource>| {
            one.custom
                .as_ref()
                .is_none_or(|custom| custom.storage == one.version)
        };
        if stored(&first) {
            return Some(first);
        }
        versions.find(stored).or(Some(first))
    }

    /// Every kind in every version.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.served.values()
    }

    /// Serves what a CustomResourceDefinition defines, instead of what it defined before.
    pub(crate) fn define(&mut self, definition: &Value) {
        let name = definition["metadata"]["name"].as_str().unwrap_or_default();
        self.undefine(name);
        for resource in defined(definition, name) {
            let key = (
                resource.group.clone(),
                resource.version.clone(),
                resource.plural.clone(),
            );
            self.served.insert(key, Arc::new(resource));
        }
    }

    /// Serves it no more.
    pub(crate) fn undefine(&mut self, name: &str) {
        self.served.retain(|_, resource| {
            resource
                .custom
                .as_ref()
                .is_none_or(|custom| custom.definition != name)
        });
    }
}

/// The kind that a definition defines, in each served version.
fn defined(definition: &Value, name: &str) -> Vec<Resource> {
    let spec = &definition["spec"];
    let names = &spec["names"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let texts = |value: &Value| -> Vec<String> {
        let items = value.as_array().into_iter().flatten();
        items.map(text).collect()
    };
    let versions = spec["versions"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let storage = versions
        .iter()
        .find(|version| version["storage"] == true)
        .map(|version| text(&version["name"]))
        .unwrap_or_default();
    let served = versions.iter().filter(|version| version["served"] == true);
    served
        .map(|version| {
            let document = &version["schema"]["openAPIV3Schema"];
            let fields = version["selectableFields"].as_array().into_iter().flatten();
            let selectable = fields
                .map(|field| text(&field["jsonPath"]).trim_start_matches('.').to_owned())
                .collect();
            let deprecated = (version["deprecated"] == true).then(|| {
                let said = text(&version["deprecationWarning"]);
                if said.is_empty() {
                    format!(
                        "{}/{} {} is deprecated",
                        text(&spec["group"]),
                        text(&version["name"]),
                        text(&names["kind"])
                    )
                } else {
                    said
                }
            });
            Resource {
                id: KindId::new(&text(&spec["group"]), &text(&names["plural"])),
                group: text(&spec["group"]),
                version: text(&version["name"]),
                kind: text(&names["kind"]),
                list_kind: text(&names["listKind"]),
                plural: text(&names["plural"]),
                singular: text(&names["singular"]),
                short_names: texts(&names["shortNames"]),
                categories: texts(&names["categories"]),
                namespaced: spec["scope"] == "Namespaced",
                schema: Schema::of_custom(document),
                status: version["subresources"].get("status").is_some(),
                type_name: String::new(),
                custom: Some(Custom {
                    rules: Rules::of(document),
                    columns: version["additionalPrinterColumns"]
                        .as_array()
                        .cloned()
                        .unwrap_or_default(),
                    document: document.clone(),
                    selectable,
                    storage: storage.clone(),
                    deprecated,
                    definition: name.to_owned(),
                }),
            }
        })
        .collect()
}
