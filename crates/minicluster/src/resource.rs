//! A kind in one version, as the API serves it. Decides nothing: `kinds` says which there are.

use std::sync::Arc;

use serde_json::Value;

use crate::schema::Schema;
use crate::schema::rules::Rules;
use crate::status::Of;
use crate::store::KindId;

/// A kind in one version.
#[derive(Debug)]
pub(crate) struct Resource {
    pub(crate) id: KindId,
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    pub(crate) list_kind: String,
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) namespaced: bool,
    pub(crate) schema: Arc<Schema>,
    /// It has a `status` subresource.
    pub(crate) status: bool,
    /// Of a built-in kind: the name of its type.
    pub(crate) type_name: String,
    /// Of a defined kind.
    pub(crate) custom: Option<Custom>,
}

/// What a definition says of a kind beyond names.
#[derive(Debug)]
pub(crate) struct Custom {
    pub(crate) rules: Option<Rules>,
    /// `additionalPrinterColumns`.
    pub(crate) columns: Vec<Value>,
    /// The schema document as written.
    pub(crate) document: Value,
    /// Fields that objects may be selected by.
    pub(crate) selectable: Vec<String>,
    /// The version that objects are stored in.
    pub(crate) storage: String,
    pub(crate) deprecated: Option<String>,
    /// Name of the definition.
    pub(crate) definition: String,
}

impl Resource {
    /// `group/version`, or the version alone.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// It is this built-in kind.
    pub(crate) fn is(&self, kind: &str) -> bool {
        self.custom.is_none() && self.kind == kind
    }

    /// For refusals.
    pub(crate) fn of(&self) -> Of<'_> {
        Of {
            group: &self.group,
            plural: &self.plural,
        }
    }

    /// Changes of its spec are counted in `metadata.generation`.
    pub(crate) fn counts_generations(&self) -> bool {
        self.custom.is_some()
            || matches!(
                self.kind.as_str(),
                "Pod"
                    | "Job"
                    | "StatefulSet"
                    | "CustomResourceDefinition"
                    | "NetworkPolicy"
                    | "PriorityClass"
            )
    }
}
