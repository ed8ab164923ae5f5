//! Files of objects as people write them: jobs and the objects beside them. Decides where the text
//! comes from and which document is a job in which API; does not validate.

use std::io::Read as _;
use std::sync::LazyLock;

use anyhow::{Context as _, Result};
use dialects::{Dialect, FieldError, RESOURCES};
use planner::Job;
use serde_json::Value;

use crate::yaml::{self, Document, Malformed};

/// A file and its documents.
#[derive(Debug)]
pub(crate) struct Manifest {
    /// As the user named it; `-` is called `stdin`.
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
            .with_context(|| format!("{name} is not UTF-8 text, so it cannot be YAML"))?;
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
            match document.value["items"].as_array() {
                Some(items) if is_list(&document.value) => objects.extend(items.iter().cloned()),
                _ => objects.push(document.value.clone()),
            }
        }
        objects
    }
}

/// Whether an object is only there to hold others, as `v1 List` and `MPIJobList` are.
pub(crate) fn is_list(object: &Value) -> bool {
    text(object, "kind").ends_with("List") && object.get("items").is_some_and(Value::is_array)
}

/// An API that a job may be written in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Api {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) plural: &'static str,
    /// The version that jobs are read in, whatever they were written in.
    pub(crate) is_stored: bool,
    dialect: &'static Dialect,
}

static APIS: LazyLock<Vec<Api>> = LazyLock::new(|| {
    let of = |resource: &'static dialects::Resource| {
        resource.dialects.iter().map(|dialect| {
            let version = dialect.version;
            Api {
                group: resource.group,
                version,
                kind: resource.kind,
                plural: resource.plural,
                is_stored: version == resource.version,
                dialect,
            }
        })
    };
    RESOURCES.iter().flat_map(of).collect()
});

/// Every API that jobs may be written in.
pub(crate) fn apis() -> &'static [Api] {
    &APIS
}

/// The API that an object is written in.
pub(crate) fn api(object: &Value) -> Option<&'static Api> {
    let (version, kind) = (text(object, "apiVersion"), text(object, "kind"));
    APIS.iter()
        .find(|api| kind == api.kind && version == api_version(api))
}

/// What an object asks for, or what is wrong with it; nothing when it is not a job. One that leaves its
/// name to the API server is judged with a name as the server would give it.
pub(crate) fn lower(object: &Value) -> Option<Result<Job, Vec<FieldError>>> {
    let dialect = dialect(object)?;
    let prefix = object
        .pointer("/metadata/generateName")
        .and_then(Value::as_str);
    let Some(prefix) = prefix.filter(|_| name(object).is_empty()) else {
        return Some((dialect.lower)(object));
    };
    let mut named = object.clone();
    named["metadata"]["name"] = format!("{prefix}xxxxx").into();
    Some((dialect.lower)(&named))
}

/// The dialect of a job; none when the object is not a job.
pub(crate) fn dialect(object: &Value) -> Option<&'static Dialect> {
    let api = api(object)?;
    let named = ["/spec/muster/dialect", "/status/muster/dialect"]
        .iter()
        .any(|pointer| object.pointer(pointer).is_some());
    let resource = RESOURCES
        .iter()
        .find(|resource| resource.group == api.group && resource.kind == api.kind);
    Some(match resource {
        Some(resource) if named => resource.dialect_of(object),
        _ => api.dialect,
    })
}

/// `GROUP/VERSION`.
pub(crate) fn api_version(api: &Api) -> String {
    format!("{}/{}", api.group, api.version)
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

/// `metadata.namespace`, if it is set.
pub(crate) fn namespace(object: &Value) -> Option<&str> {
    object.pointer("/metadata/namespace")?.as_str()
}

/// `TYPE/NAME`, as kubectl prints it.
pub(crate) fn typed_name(object: &Value) -> String {
    let kind = text(object, "kind").to_lowercase();
    let version = text(object, "apiVersion");
    let group = version
        .split_once('/')
        .map(|(group, _)| format!(".{group}"));
    format!("{kind}{}/{}", group.unwrap_or_default(), name(object))
}
