//! The custom resource definition of a resource, made from its row and from the field lists of its
//! dialects. Decides how a list of paths becomes a structural schema. The paths, and the rules that bind
//! several of them, are in the `fields.rs` of each dialect.

use serde_json::{Map, Value, json};

use crate::field::{Field, FieldType, INT64, OBJECT, Shape, TEXT, TIME, fields};
use crate::{Dialect, Resource, muster_status};

/// What a definition holds besides names and fields.
#[derive(Clone, Copy, Debug)]
pub struct Definition {
    /// What an object of this kind is, for people.
    pub description: &'static str,
    /// The one-file install includes it.
    pub is_installed: bool,
    /// Labels of the definition.
    pub labels: &'static [(&'static str, &'static str)],
    /// Short names of the resource.
    pub short_names: &'static [&'static str],
    /// Paths of the subresource `scale`: wanted replicas and current replicas.
    pub scale: Option<(&'static str, &'static str)>,
    /// The first column of `kubectl get`.
    pub state_column: Column,
    /// Further columns of `kubectl get -o wide`.
    pub wide_columns: &'static [Column],
    /// Fields of `status` that not every resource has.
    pub status: &'static [&'static [Field]],
    /// Conditions that no shape can express.
    pub rules: fn() -> Vec<Rule>,
}

/// A column of `kubectl get`: name, type, path.
pub type Column = (&'static str, &'static str, &'static str);

/// A condition on an object, in the Common Expression Language.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Path of the object that `self` stands for; empty for the whole object.
    pub on: &'static str,
    /// What must hold.
    pub rule: String,
    /// What is wrong otherwise: the path of a field, a colon, and a sentence.
    pub message: String,
    /// The rule also holds for new objects, for which `oldSelf` has no value.
    pub has_optional_old_self: bool,
}

impl Rule {
    /// A rule that compares nothing, or that holds for updates only.
    pub(crate) fn new(on: &'static str, rule: impl Into<String>, message: &str) -> Self {
        Self {
            on,
            rule: rule.into(),
            message: message.to_owned(),
            has_optional_old_self: false,
        }
    }

    /// A rule for new objects and for updates, in which `oldSelf` is optional.
    pub(crate) fn with_optional_old(on: &'static str, rule: String, message: &str) -> Self {
        Self {
            has_optional_old_self: true,
            ..Self::new(on, rule, message)
        }
    }
}

/// Labels of definitions that no other operator has.
pub(crate) const LABELS: &[(&str, &str)] = &[("app.kubernetes.io/name", "muster")];

/// What every object has.
const COMMON: &[Field] = fields! {
    "apiVersion": TEXT => "";
    "kind": TEXT => "";
    "metadata": OBJECT => "";
    "spec": OBJECT.required() => "";
    "status.conditions": Shape::of(FieldType::ListByType) => "";
    "status.conditions[].type": TEXT.required() => "";
    "status.conditions[].status": TEXT.required() => "";
    "status.conditions[].reason": TEXT => "";
    "status.conditions[].message": TEXT => "";
    "status.conditions[].lastTransitionTime": TIME => "";
};

/// What most statuses have besides.
pub(crate) const TIMES: &[Field] = fields! {
    "status.conditions[].lastUpdateTime": TIME => "";
    "status.startTime": TIME => "";
    "status.completionTime": TIME => "";
    "status.observedGeneration": INT64 => "";
};

/// The whole definition. `pod_template` is the schema of a pod template.
pub fn definition(resource: &Resource, pod_template: &Value) -> Value {
    let (kind, plural, definition) = (resource.kind, resource.plural, &resource.definition);
    let labels = definition.labels.iter();
    let labels: Map<_, _> = labels
        .map(|(name, value)| ((*name).to_owned(), Value::from(*value)))
        .collect();
    let mut names = json!({
        "kind": kind,
        "listKind": format!("{kind}List"),
        "plural": plural,
        "singular": kind.to_lowercase(),
        "categories": ["mpi"],
    });
    if !definition.short_names.is_empty() {
        names["shortNames"] = json!(definition.short_names);
    }
    let versions = resource.dialects.iter();
    let versions = versions.map(|dialect| version(resource, dialect, pod_template));
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{}", resource.group), "labels": labels},
        "spec": {
            "group": resource.group,
            "scope": "Namespaced",
            "names": names,
            "versions": versions.collect::<Vec<_>>(),
            // All versions of a resource have the same fields, so nothing is lost between them.
            "conversion": {"strategy": "None"},
        },
    })
}

fn version(resource: &Resource, dialect: &Dialect, pod_template: &Value) -> Value {
    let definition = &resource.definition;
    let mut subresources = json!({"status": {}});
    if let Some((wanted, current)) = definition.scale {
        subresources["scale"] = json!({"specReplicasPath": wanted, "statusReplicasPath": current});
    }
    json!({
        "name": dialect.version,
        "served": true,
        "storage": dialect.version == resource.version,
        "additionalPrinterColumns": columns(definition),
        "subresources": subresources,
        "schema": {"openAPIV3Schema": schema(resource, dialect, pod_template)},
    })
}

fn columns(definition: &Definition) -> Vec<Value> {
    let column = |(name, kind, path): Column| json!({"name": name, "type": kind, "jsonPath": path});
    let wide = |given: Column| {
        let mut column = column(given);
        column["priority"] = 1.into();
        column
    };
    let narrow = [
        definition.state_column,
        ("Ready", "string", ".status.muster.ready"),
        ("Reason", "string", ".status.muster.reason"),
        ("Age", "date", ".metadata.creationTimestamp"),
    ];
    let message = ("Message", "string", ".status.muster.message");
    let last = definition.wide_columns.iter().copied().chain([message]);
    narrow
        .into_iter()
        .map(column)
        .chain(last.map(wide))
        .collect()
}

fn schema(resource: &Resource, dialect: &Dialect, pod_template: &Value) -> Value {
    let Definition {
        description,
        status,
        rules,
        ..
    } = resource.definition;
    let mut schema = json!({"type": "object", "description": description});
    let lists = [COMMON, muster_status::FIELDS].into_iter();
    let lists = lists
        .chain(status.iter().copied())
        .chain(dialect.fields.iter().copied());
    for field in lists.clone().flatten() {
        add(&mut schema, field, pod_template);
    }
    if resource.dialects.len() > 1 {
        let names: Vec<&str> = resource
            .dialects
            .iter()
            .map(|dialect| dialect.name)
            .collect();
        let field = at(&mut schema, "spec.muster.dialect");
        field["enum"] = json!(names);
        field["default"] = dialect.name.into();
    }
    let immutable = lists.flatten().filter(|field| field.shape.is_immutable);
    for rule in rules().into_iter().chain(immutable.map(immutability)) {
        let mut written = json!({"rule": rule.rule, "message": rule.message});
        if rule.has_optional_old_self {
            written["optionalOldSelf"] = true.into();
        }
        append(
            at(&mut schema, rule.on),
            "x-kubernetes-validations",
            written,
        );
    }
    schema
}

/// Adds a field to the schema of the whole object.
fn add(root: &mut Value, field: &Field, pod_template: &Value) {
    let (parent, name) = split(field.path);
    if field.shape.is_required {
        append(at(root, parent), "required", name.into());
    }
    let place = at(root, field.path);
    for (keyword, value) in field.shape.schema(pod_template) {
        place[keyword] = value;
    }
    if field.meaning.is_empty() {
        return;
    }
    // Entries of a map share one schema, so its description names them.
    let entry = field
        .path
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'));
    let meaning = match entry {
        Some((role @ ("Launcher" | "Worker"), _)) => format!("{role}: {}", field.meaning),
        _ => field.meaning.to_owned(),
    };
    place["description"] = match place.get("description").and_then(Value::as_str) {
        Some(first) => format!("{first} {meaning}").into(),
        None => meaning.into(),
    };
}

/// The place of a path in a schema, whether or not it was there before.
fn at<'s>(schema: &'s mut Value, path: &str) -> &'s mut Value {
    let parts = path.split('.').filter(|part| !part.is_empty());
    parts.fold(schema, |place, part| {
        let (name, entry) = part.split_once('[').unwrap_or((part, ""));
        let place = &mut typed(place, "object")["properties"][name];
        match entry {
            "" => place,
            "]" => &mut typed(place, "array")["items"],
            _ => &mut typed(place, "object")["additionalProperties"],
        }
    })
}

fn typed<'s>(place: &'s mut Value, kind: &str) -> &'s mut Value {
    if place.get("type").is_none() {
        place["type"] = kind.into();
    }
    place
}

/// Adds an item to a list of a schema, once.
fn append(place: &mut Value, keyword: &str, item: Value) {
    match &mut place[keyword] {
        Value::Array(items) if items.contains(&item) => {}
        Value::Array(items) => items.push(item),
        absent => *absent = json!([item]),
    }
}

fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('.').unwrap_or(("", path))
}

fn immutability(field: &'static Field) -> Rule {
    let (on, name) = split(field.path);
    // The rules escape their keywords with underscores.
    let field = match name {
        "namespace" => "__namespace__",
        _ => name,
    };
    let message = format!(
        "{on}.{name}: cannot be changed, as the pods cannot; delete the job and create it again"
    );
    let rule = format!(
        "has(self.{field}) == has(oldSelf.{field}) && \
         (!has(self.{field}) || self.{field} == oldSelf.{field})"
    );
    Rule::new(on, rule, &message)
}
