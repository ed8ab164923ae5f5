//! Types of objects, as the API server knows them: structural schemas, of built-in kinds and of
//! CustomResourceDefinitions alike. Decides how a schema document becomes a tree that pruning,
//! defaulting, validation and merging walk; knows nothing of requests.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};

pub(crate) mod defaulting;
pub(crate) mod format;
pub(crate) mod go;
pub(crate) mod path;
pub(crate) mod pruning;
pub(crate) mod rules;
pub(crate) mod validation;

/// A node of a structural schema.
#[derive(Debug, Default)]
pub(crate) struct Schema {
    pub(crate) kind: Kind,
    pub(crate) fields: BTreeMap<String, Arc<Schema>>,
    /// Values of a map with free keys.
    pub(crate) values: Option<Arc<Schema>>,
    pub(crate) items: Option<Arc<Schema>>,
    pub(crate) required: Vec<String>,
    pub(crate) default: Option<Value>,
    pub(crate) nullable: bool,
    /// Unknown fields are kept.
    pub(crate) open: bool,
    /// A whole Kubernetes object lies within.
    pub(crate) embedded: bool,
    pub(crate) list: ListKind,
    /// Replaced whole by server-side apply.
    pub(crate) atomic_map: bool,
    pub(crate) strategy: Strategy,
    /// Constraints on values; not those of the shape.
    pub(crate) limits: Option<Box<Limits>>,
    /// A built-in field that is left out when it is empty.
    pub(crate) omit_empty: bool,
    /// A built-in struct that is written even when it is empty.
    pub(crate) always: bool,
    /// A built-in field that is written as nothing, an empty text or zero when it is missing.
    pub(crate) absent: Option<Value>,
    /// Last part of the name of a built-in type.
    pub(crate) type_name: Option<String>,
}

/// The shape of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Anything.
    #[default]
    Any,
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
    IntOrString,
    /// An amount, written in its shortest form.
    Quantity,
    /// A time, to the second.
    Time,
    /// A time, to the microsecond.
    MicroTime,
}

/// How server-side apply merges a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum ListKind {
    #[default]
    Atomic,
    Set,
    /// By these keys.
    Map(Vec<String>),
}

/// How a strategic merge patch treats a field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Strategy {
    pub(crate) merge: bool,
    pub(crate) retain_keys: bool,
    pub(crate) key: Option<String>,
}

/// Constraints on a value.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    pub(crate) one_of: Vec<Value>,
    pub(crate) pattern: Option<(String, Option<regex::Regex>)>,
    pub(crate) format: Option<String>,
    pub(crate) minimum: Option<(f64, bool)>,
    pub(crate) maximum: Option<(f64, bool)>,
    pub(crate) multiple_of: Option<f64>,
    pub(crate) length: (Option<u64>, Option<u64>),
    pub(crate) items: (Option<u64>, Option<u64>),
    pub(crate) fields: (Option<u64>, Option<u64>),
}

impl Schema {
    /// Of a CRD's `openAPIV3Schema`.
    pub(crate) fn of_custom(document: &Value) -> Arc<Self> {
        Arc::new(Loader::default().node(document))
    }

    /// The type of a field, or of a map's value.
    pub(crate) fn field(&self, name: &str) -> Option<&Arc<Self>> {
        self.fields.get(name).or(self.values.as_ref())
    }
}

/// Reads schema documents; named types are read once.
#[derive(Default)]
pub(crate) struct Loader<'a> {
    types: Option<&'a Map<String, Value>>,
    done: BTreeMap<String, Arc<Schema>>,
}

/// Types that refer to themselves, or hold whatever a user wrote.
const OPAQUE: [&str; 3] = ["JSONSchemaProps", "FieldsV1", "RawExtension"];

impl<'a> Loader<'a> {
    /// Over the types of built-in kinds.
    pub(crate) fn new(types: &'a Map<String, Value>) -> Self {
        Self {
            types: Some(types),
            done: BTreeMap::new(),
        }
    }

    /// A named type.
    pub(crate) fn named(&mut self, name: &str) -> Arc<Schema> {
        if let Some(schema) = self.done.get(name) {
            return Arc::clone(schema);
        }
        let short = name.rsplit('.').next().unwrap_or(name);
        let mut schema = if OPAQUE.contains(&short) {
            Schema {
                kind: Kind::Object,
                open: true,
                ..Schema::default()
            }
        } else {
            let document = self.types.and_then(|types| types.get(name));
            document.map_or_else(Schema::default, |document| self.node(document))
        };
        match short {
            "Quantity" => schema.kind = Kind::Quantity,
            "Time" => schema.kind = Kind::Time,
            "MicroTime" => schema.kind = Kind::MicroTime,
            "IntOrString" => schema.kind = Kind::IntOrString,
            _ => {}
        }
        schema.type_name = Some(short.to_owned());
        let schema = Arc::new(schema);
        self.done.insert(name.to_owned(), Arc::clone(&schema));
        schema
    }

    fn node(&mut self, document: &Value) -> Schema {
        let mut schema = match document.get("$ref").and_then(Value::as_str) {
            Some(name) => copy(&self.named(name)),
            None => Schema::default(),
        };
        if let Some(kind) = kind(document) {
            schema.kind = kind;
        }
        if let Some(fields) = document.get("properties").and_then(Value::as_object) {
            schema.fields = fields
                .iter()
                .map(|(name, field)| (name.clone(), Arc::new(self.node(field))))
                .collect();
        }
        match document.get("additionalProperties") {
            Some(Value::Bool(true)) => schema.values = Some(Arc::default()),
            Some(values @ Value::Object(_)) => schema.values = Some(Arc::new(self.node(values))),
            _ => {}
        }
        if let Some(items) = document.get("items") {
            schema.items = Some(Arc::new(self.node(items)));
        }
        if let Some(required) = document.get("required") {
            schema.required = texts(required);
        }
        if let Some(default) = document.get("default") {
            schema.default = Some(default.clone());
        }
        let flag = |name: &str| document.get(name) == Some(&Value::Bool(true));
        schema.nullable |= flag("nullable");
        schema.open |= flag("x-kubernetes-preserve-unknown-fields");
        schema.embedded |= flag("x-kubernetes-embedded-resource");
        schema.omit_empty = flag("x-omit");
        schema.always = schema.default == Some(Value::Object(Map::new()));
        schema.absent = match schema.kind {
            _ if flag("x-null") => Some(Value::Null),
            Kind::String if flag("x-always") => Some("".into()),
            Kind::Integer | Kind::IntOrString if flag("x-always") => Some(0.into()),
            Kind::Boolean if flag("x-always") => Some(false.into()),
            _ => None,
        };
        marks(document, &mut schema);
        schema.limits = limits(document).or(schema.limits);
        schema
    }
}

/// A named type, to be given the marks of the field that has it.
fn copy(named: &Schema) -> Schema {
    Schema {
        kind: named.kind,
        fields: named.fields.clone(),
        values: named.values.clone(),
        items: named.items.clone(),
        required: named.required.clone(),
        open: named.open,
        atomic_map: named.atomic_map,
        type_name: named.type_name.clone(),
        ..Schema::default()
    }
}

fn kind(document: &Value) -> Option<Kind> {
    if document.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true)) {
        return Some(Kind::IntOrString);
    }
    match document.get("type")?.as_str()? {
        "object" => Some(Kind::Object),
        "array" => Some(Kind::Array),
        "string" => Some(Kind::String),
        "integer" => Some(Kind::Integer),
        "number" => Some(Kind::Number),
        "boolean" => Some(Kind::Boolean),
        _ => None,
    }
}

/// How the value is merged.
fn marks(document: &Value, schema: &mut Schema) {
    let text = |name: &str| document.get(name).and_then(Value::as_str);
    match text("x-kubernetes-list-type") {
        Some("set") => schema.list = ListKind::Set,
        Some("map") => {
            let keys = document.get("x-kubernetes-list-map-keys");
            schema.list = ListKind::Map(keys.map(texts).unwrap_or_default());
        }
        _ => {}
    }
    if let Some(map) = text("x-kubernetes-map-type") {
        schema.atomic_map = map == "atomic";
    }
    let strategy = text("x-kubernetes-patch-strategy").unwrap_or_default();
    schema.strategy = Strategy {
        merge: strategy.split(',').any(|part| part == "merge"),
        retain_keys: strategy.split(',').any(|part| part == "retainKeys"),
        key: text("x-kubernetes-patch-merge-key").map(str::to_owned),
    };
}

fn limits(document: &Value) -> Option<Box<Limits>> {
    let number = |name: &str| document.get(name).and_then(Value::as_f64);
    let count = |name: &str| document.get(name).and_then(Value::as_u64);
    let flag = |name: &str| document.get(name) == Some(&Value::Bool(true));
    let text = |name: &str| {
        document
            .get(name)
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    let limits = Limits {
        one_of: document
            .get("enum")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default(),
        pattern: text("pattern").map(|pattern| {
            let compiled = regex::Regex::new(&pattern).ok();
            (pattern, compiled)
        }),
        format: text("format"),
        minimum: number("minimum").map(|least| (least, flag("exclusiveMinimum"))),
        maximum: number("maximum").map(|most| (most, flag("exclusiveMaximum"))),
        multiple_of: number("multipleOf"),
        length: (count("minLength"), count("maxLength")),
        items: (count("minItems"), count("maxItems")),
        fields: (count("minProperties"), count("maxProperties")),
    };
    let any = !limits.one_of.is_empty()
        || limits.pattern.is_some()
        || limits.format.is_some()
        || limits.minimum.is_some()
        || limits.maximum.is_some()
        || limits.multiple_of.is_some()
        || limits.length != (None, None)
        || limits.items != (None, None)
        || limits.fields != (None, None);
    any.then(|| Box::new(limits))
}

fn texts(list: &Value) -> Vec<String> {
    let items = list.as_array().map(Vec::as_slice).unwrap_or_default();
    items
        .iter()
        .filter_map(|item| item.as_str().map(str::to_owned))
        .collect()
}
