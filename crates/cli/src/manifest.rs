//! Files of objects as people write them: jobs, and what comes with them. Decides where the text
//! comes from and which document is a job in which dialect; judges nothing.

use std::io::Read as _;

use anyhow::{Context as _, Result};
use dialects::{DIALECTS, Dialect};
use serde_json::Value;

use crate::yaml::{self, Document, Malformed};

/// A file and its documents.
#[derive(Debug)]
pub(crate) struct Manifest {
    /// As it was named; `-` is called `stdin`.
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) documents: Result<Vec<Document>, Malformed>,
}

/// Reads a file, or stdin when it is called `-`.
pub(crate) fn read(name: &str) -> Result<Manifest> {
    let (name, text) = if name == "-" {
        let mut text = String::new();
        std::io::stdin()
            .read_to_string(&mut text)
            .context("cannot read stdin")?;
        ("stdin".to_owned(), text)
    } else {
        let bytes = std::fs::read(name).with_context(|| format!("cannot read {name}"))?;
        let text = String::from_utf8(bytes)
            .ok()
            .with_context(|| format!("{name} is no text in UTF-8, so it is no YAML"))?;
        (name.to_owned(), text)
    };
    let documents = yaml::documents(&text);
    Ok(Manifest {
        name,
        text,
        documents,
    })
}

impl Manifest {
    /// Objects in the order in which they were written; lists are taken apart.
    pub(crate) fn objects(&self) -> Vec<Value> {
        let mut objects = Vec::new();
        for document in self.documents.iter().flatten() {
            match document.value.get("items").and_then(Value::as_array) {
                Some(items) if is_list(&document.value) => objects.extend(items.iter().cloned()),
                _ => objects.push(document.value.clone()),
            }
        }
        objects
    }
}

fn is_list(object: &Value) -> bool {
    text(object, "kind").ends_with("List")
}

/// The dialect that an object is written in.
pub(crate) fn dialect(object: &Value) -> Option<&'static Dialect> {
    let (version, kind) = (text(object, "apiVersion"), text(object, "kind"));
    DIALECTS
        .iter()
        .find(|dialect| kind == dialect.kind && version == api_version(dialect))
}

/// `GROUP/VERSION`.
pub(crate) fn api_version(dialect: &Dialect) -> String {
    format!("{}/{}", dialect.group, dialect.version)
}

/// A field that is a string; empty when it is not there.
pub(crate) fn text<'v>(object: &'v Value, field: &str) -> &'v str {
    object.get(field).and_then(Value::as_str).unwrap_or("")
}

/// `metadata.name`.
pub(crate) fn name(object: &Value) -> &str {
    let name = object.pointer("/metadata/name").and_then(Value::as_str);
    name.unwrap_or("")
}

/// `metadata.namespace`, if it is said.
pub(crate) fn namespace(object: &Value) -> Option<&str> {
    object.pointer("/metadata/namespace")?.as_str()
}
