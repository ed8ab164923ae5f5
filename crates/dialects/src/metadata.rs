//! `metadata` of a job, as far as every dialect needs it. Judges no name.

use planner::job::Owner;

use crate::reader::{Place, Reader};

/// What matters of `metadata`. Texts are empty where absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// `name`.
    pub name: String,
    /// `namespace`.
    pub namespace: String,
    /// `uid`.
    pub uid: String,
    /// `generation`.
    pub generation: i64,
    /// `deletionTimestamp` is set.
    pub deleting: bool,
}

impl Metadata {
    /// Reads it from a stored object.
    pub(crate) fn read(reader: &mut Reader, root: &Place<'_>) -> Self {
        let place = reader.group(root, "metadata");
        let generation = reader.integer(&place.field("generation"), i64::MAX);
        Self {
            name: reader.string(&place.field("name")),
            namespace: reader.string(&place.field("namespace")),
            uid: reader.string(&place.field("uid")),
            generation: generation.unwrap_or_default(),
            deleting: place.field("deletionTimestamp").value().is_some(),
        }
    }

    /// The job as the owner of its children.
    pub(crate) fn owner(&self, api_version: &str, kind: &str) -> Owner {
        Owner {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            uid: self.uid.clone(),
            generation: self.generation,
            deleting: self.deleting,
        }
    }
}
