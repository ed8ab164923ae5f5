//! How objects are written into answers. Decides the form: whole, metadata alone, or a table;
//! items of built-in lists go without their kind, as the API server has it.

use std::sync::Arc;

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::request::Form;
use super::{Call, convert, table as tables};
use crate::resource::Resource;

/// An object without the fields that say its kind.
struct Bare<'a>(&'a Value);

impl Serialize for Bare<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Some(fields) = self.0.as_object() else {
            return self.0.serialize(serializer);
        };
        let mut map = serializer.serialize_map(None)?;
        for (name, value) in fields {
            if name != "apiVersion" && name != "kind" {
                map.serialize_entry(name, value)?;
            }
        }
        map.end()
    }
}

/// One object.
pub(crate) fn object(resource: &Resource, object: &Arc<Value>, form: Form, call: &Call) -> Vec<u8> {
    let text = match form {
        Form::Whole if convert::is_plain(resource) => serde_json::to_vec(&**object),
        Form::Whole => serde_json::to_vec(&convert::from_stored(resource, object)),
        Form::Metadata => serde_json::to_vec(&metadata(object)),
        Form::Table => {
            let revision = crate::store::revision_of(object);
            serde_json::to_vec(&table(
                call,
                std::slice::from_ref(object),
                revision,
                None,
                false,
            ))
        }
    };
    text.expect("a JSON value can be written")
}

fn metadata(object: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": object["metadata"],
    })
}

fn list_metadata(revision: u64, more: Option<(String, Option<u64>)>) -> Map<String, Value> {
    let mut metadata = Map::new();
    metadata.insert("resourceVersion".to_owned(), revision.to_string().into());
    if let Some((token, left)) = more {
        metadata.insert("continue".to_owned(), token.into());
        if let Some(left) = left {
            metadata.insert("remainingItemCount".to_owned(), left.into());
        }
    }
    metadata
}

/// A page of a list.
pub(crate) fn list(
    call: &Call,
    page: &[Arc<Value>],
    revision: u64,
    more: Option<(String, Option<u64>)>,
) -> Vec<u8> {
    let resource = &call.resource;
    if call.form == Form::Table {
        let table = table(call, page, revision, more, false);
        return serde_json::to_vec(&table).expect("a JSON value can be written");
    }
    let (kind, version) = match call.form {
        Form::Metadata => (
            "PartialObjectMetadataList".to_owned(),
            "meta.k8s.io/v1".to_owned(),
        ),
        _ => (resource.list_kind.clone(), resource.api_version()),
    };
    let mut about = list_metadata(revision, more);
    if resource.custom.is_some() && call.form == Form::Whole {
        about.entry("continue").or_insert_with(|| "".into());
    }
    let head = json!({"kind": kind, "apiVersion": version, "metadata": about});
    let mut text = serde_json::to_vec(&head).expect("a JSON value can be written");
    text.pop();
    text.extend_from_slice(b",\"items\":[");
    let plain = convert::is_plain(resource);
    for (index, object) in page.iter().enumerate() {
        if index > 0 {
            text.push(b',');
        }
        let written = match call.form {
            Form::Metadata => serde_json::to_writer(&mut text, &metadata(object)),
            _ if resource.custom.is_none() && plain => {
                serde_json::to_writer(&mut text, &Bare(object))
            }
            _ if plain => serde_json::to_writer(&mut text, &**object),
            _ => {
                let converted = convert::from_stored(resource, object);
                if resource.custom.is_none() {
                    serde_json::to_writer(&mut text, &Bare(&converted))
                } else {
                    serde_json::to_writer(&mut text, &converted)
                }
            }
        };
        written.expect("a JSON value can be written");
    }
    text.extend_from_slice(b"]}");
    text
}

/// Objects as rows.
pub(crate) fn table(
    call: &Call,
    page: &[Arc<Value>],
    revision: u64,
    more: Option<(String, Option<u64>)>,
    bookmark: bool,
) -> Value {
    let columns = tables::columns(&call.resource);
    let whole = call.params.text("includeObject") == "Object";
    let none = call.params.text("includeObject") == "None";
    let rows: Vec<Value> = page
        .iter()
        .map(|object| {
            let cells = if bookmark {
                json!([])
            } else {
                tables::cells(&call.resource, object, call.now)
            };
            let mut row = json!({"cells": cells});
            if whole {
                row["object"] = convert::from_stored(&call.resource, object);
            } else if !none {
                row["object"] = metadata(object);
            }
            row
        })
        .collect();
    json!({
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": list_metadata(revision, more),
        "columnDefinitions": columns,
        "rows": rows,
    })
}
