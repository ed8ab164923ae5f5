//! Walks of objects along their types, for server-side apply: which fields there are, what
//! differs, merging, removing. Decides by list keys and atomic marks; who owns what is not known
//! here.

use serde_json::{Map, Value};

use super::fields::{Element, Fields};
use crate::schema::{Kind, ListKind, Schema};

/// How two objects differ.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct FieldChanges {
    pub(crate) added: Fields,
    pub(crate) modified: Fields,
    pub(crate) removed: Fields,
}

impl FieldChanges {
    /// Leaves out a path and everything below.
    pub(crate) fn exclude(&mut self, path: &[&str]) {
        for fields in [&mut self.added, &mut self.modified, &mut self.removed] {
            *fields = std::mem::take(fields).without(path);
        }
    }
}

/// What a value is for merging: its own shape counts where the type is not known.
enum Shape<'a> {
    Map(Option<&'a Map<String, Value>>),
    List(Option<&'a Vec<Value>>),
    Leaf,
}

impl Shape<'_> {
    fn emptied(self) -> Self {
        match self {
            Self::Map(_) => Self::Map(None),
            Self::List(_) => Self::List(None),
            Self::Leaf => Self::Leaf,
        }
    }
}

fn shape<'a>(value: Option<&'a Value>, schema: &Schema) -> Shape<'a> {
    match value {
        Some(Value::Object(fields)) if !schema.atomic_map => match schema.kind {
            Kind::Object | Kind::Any => Shape::Map(Some(fields)),
            _ => Shape::Leaf,
        },
        Some(Value::Array(items)) if schema.list != ListKind::Atomic => Shape::List(Some(items)),
        None | Some(Value::Null) => match schema.kind {
            Kind::Object if !schema.atomic_map => Shape::Map(None),
            Kind::Array if schema.list != ListKind::Atomic => Shape::List(None),
            _ => Shape::Leaf,
        },
        Some(_) => Shape::Leaf,
    }
}

fn below<'a>(schema: &'a Schema, name: &str) -> &'a Schema {
    static ANY: std::sync::LazyLock<Schema> = std::sync::LazyLock::new(Schema::default);
    schema.field(name).map_or(&ANY, |field| field)
}

fn item_type(schema: &Schema) -> &Schema {
    static ANY: std::sync::LazyLock<Schema> = std::sync::LazyLock::new(Schema::default);
    schema.items.as_deref().unwrap_or(&ANY)
}

/// The step from a list to one of its items.
fn element(item: &Value, index: usize, schema: &Schema) -> Element {
    match &schema.list {
        ListKind::Set => Element::Value(item.to_string()),
        ListKind::Map(keys) => {
            let of = item_type(schema);
            let keys: Map<String, Value> = keys
                .iter()
                .filter_map(|key| {
                    let default = of.fields.get(key).and_then(|field| field.default.clone());
                    let value = item.get(key).cloned().or(default)?;
                    Some((key.clone(), value))
                })
                .collect();
            Element::Key(Value::Object(keys).to_string())
        }
        ListKind::Atomic => Element::Index(index as u64),
    }
}

fn elements(items: Option<&Vec<Value>>, schema: &Schema) -> Vec<Element> {
    let items = items.map(Vec::as_slice).unwrap_or_default();
    items
        .iter()
        .enumerate()
        .map(|(index, item)| element(item, index, schema))
        .collect()
}

/// The first item of a keyed list that lacks all its keys, as the API server words it.
pub(crate) fn missing_key(value: &Value, schema: &Schema, path: &str) -> Option<String> {
    match value {
        Value::Object(fields) => fields.iter().find_map(|(name, value)| {
            missing_key(value, below(schema, name), &format!("{path}.{name}"))
        }),
        Value::Array(items) => items.iter().enumerate().find_map(|(index, item)| {
            let of = item_type(schema);
            if let ListKind::Map(keys) = &schema.list {
                let known = |key: &String| {
                    let field = of.fields.get(key);
                    item.get(key).is_some() || field.is_some_and(|field| field.default.is_some())
                };
                if !keys.iter().any(known) {
                    let keys: Vec<String> = keys.iter().map(|key| format!("{key:?}")).collect();
                    return Some(format!(
                        "{path}: element {index}: associative list with keys has an element that \
                         omits all key fields [{}] (and doesn't have default values for any key \
                         fields)",
                        keys.join(" ")
                    ));
                }
            }
            missing_key(item, of, path)
        }),
        _ => None,
    }
}

/// Every field of an object.
pub(crate) fn fields_of(value: &Value, schema: &Schema) -> Fields {
    let mut fields = Fields::default();
    match shape(Some(value), schema) {
        Shape::Map(Some(map)) => {
            for (name, value) in map {
                let element = Element::Field(name.clone());
                let of = below(schema, name);
                let empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
                let leaf = matches!(shape(Some(value), of), Shape::Leaf);
                if leaf || empty || !schema.fields.contains_key(name) {
                    fields.insert_member(element.clone());
                }
                if !leaf {
                    fields.insert_below(element, fields_of(value, of));
                }
            }
        }
        Shape::List(Some(items)) => {
            for (index, item) in items.iter().enumerate() {
                let element = element(item, index, schema);
                fields.insert_member(element.clone());
                fields.insert_below(element, fields_of(item, item_type(schema)));
            }
        }
        _ => {}
    }
    fields
}

/// How `after` differs from `before`.
pub(crate) fn compare(before: &Value, after: &Value, schema: &Schema) -> FieldChanges {
    let mut change = FieldChanges::default();
    walk(
        Some(before),
        Some(after),
        schema,
        &mut Vec::new(),
        &mut change,
    );
    change
}

fn walk(
    before: Option<&Value>,
    after: Option<&Value>,
    schema: &Schema,
    path: &mut Vec<Element>,
    change: &mut FieldChanges,
) {
    if before == after {
        return;
    }
    // Absence takes whatever shape the other side has.
    let (old, new) = match (before, after) {
        (None, _) => (shape(after, schema).emptied(), shape(after, schema)),
        (_, None) => (shape(before, schema), shape(before, schema).emptied()),
        _ => (shape(before, schema), shape(after, schema)),
    };
    match (old, new) {
        (Shape::Map(old), Shape::Map(new)) if !both_empty(old.map(Map::len), new.map(Map::len)) => {
            let empty = Map::new();
            let (old, new) = (old.unwrap_or(&empty), new.unwrap_or(&empty));
            let names = old
                .keys()
                .chain(new.keys().filter(|name| !old.contains_key(*name)));
            for name in names {
                path.push(Element::Field(name.clone()));
                walk(
                    old.get(name),
                    new.get(name),
                    below(schema, name),
                    path,
                    change,
                );
                path.pop();
            }
        }
        (Shape::List(old), Shape::List(new))
            if !both_empty(old.map(Vec::len), new.map(Vec::len)) =>
        {
            walk_items(old, new, schema, path, change);
        }
        (Shape::Leaf, Shape::Leaf)
        | (Shape::Map(_), Shape::Map(_))
        | (Shape::List(_), Shape::List(_)) => {
            leaf(before, after, path, change);
            return;
        }
        // The shape itself changed: one goes, the other comes.
        _ => {
            if before.is_some_and(|value| !value.is_null()) {
                walk(before, None, schema, path, change);
            }
            walk(None, after, schema, path, change);
            return;
        }
    }
    if before.is_none() {
        change.added.insert(path);
    } else if after.is_none() {
        change.removed.insert(path);
    }
}

fn both_empty(old: Option<usize>, new: Option<usize>) -> bool {
    old.unwrap_or(0) == 0 && new.unwrap_or(0) == 0
}

fn leaf(
    before: Option<&Value>,
    after: Option<&Value>,
    path: &[Element],
    change: &mut FieldChanges,
) {
    match (before, after) {
        (None, _) => change.added.insert(path),
        (_, None) => change.removed.insert(path),
        _ => change.modified.insert(path),
    }
}

fn walk_items(
    old: Option<&Vec<Value>>,
    new: Option<&Vec<Value>>,
    schema: &Schema,
    path: &mut Vec<Element>,
    change: &mut FieldChanges,
) {
    let (old_at, new_at) = (elements(old, schema), elements(new, schema));
    let find = |items: Option<&Vec<Value>>, at: &[Element], element: &Element| {
        let index = at.iter().position(|one| one == element)?;
        items.and_then(|items| items.get(index)).cloned()
    };
    let all = old_at
        .iter()
        .chain(new_at.iter().filter(|one| !old_at.contains(one)));
    for element in all {
        let (before, after) = (find(old, &old_at, element), find(new, &new_at, element));
        path.push(element.clone());
        walk(
            before.as_ref(),
            after.as_ref(),
            item_type(schema),
            path,
            change,
        );
        path.pop();
    }
}

/// `config` laid over `live`.
pub(crate) fn merge(live: &Value, config: &Value, schema: &Schema) -> Value {
    match (shape(Some(live), schema), shape(Some(config), schema)) {
        (Shape::Map(Some(old)), Shape::Map(Some(new))) => {
            let mut merged = old.clone();
            for (name, value) in new {
                let value = match old.get(name) {
                    Some(before) => merge(before, value, below(schema, name)),
                    None => value.clone(),
                };
                merged.insert(name.clone(), value);
            }
            Value::Object(merged)
        }
        (Shape::List(Some(old)), Shape::List(Some(new))) => merge_items(old, new, schema),
        _ => config.clone(),
    }
}

/// The order of the configuration holds; what only the live object has keeps its place between.
fn merge_items(old: &Vec<Value>, new: &Vec<Value>, schema: &Schema) -> Value {
    let (old_at, new_at) = (elements(Some(old), schema), elements(Some(new), schema));
    let of = item_type(schema);
    let mut shared: std::collections::VecDeque<&Element> =
        new_at.iter().filter(|one| old_at.contains(one)).collect();
    let mut done: Vec<&Element> = Vec::new();
    let mut merged = Vec::new();
    let (mut left, mut right) = (0, 0);
    while left < old_at.len() || right < new_at.len() {
        if let (Some(mine), Some(theirs)) = (old_at.get(left), new_at.get(right)) {
            if mine == theirs {
                merged.push(merge(&old[left], &new[right], of));
                done.push(theirs);
                if shared.front() == Some(&theirs) {
                    shared.pop_front();
                }
                left += 1;
                right += 1;
                continue;
            }
            let wait = shared.front().is_some_and(|next| *next != mine);
            if new_at.contains(mine) && wait {
                left += 1;
                continue;
            }
        }
        if let Some(mine) = old_at.get(left) {
            if !new_at.contains(mine) {
                merged.push(old[left].clone());
                left += 1;
                continue;
            } else if done.contains(&mine) {
                left += 1;
            }
        }
        if let Some(theirs) = new_at.get(right) {
            let before = old_at.iter().position(|one| one == theirs);
            merged.push(match before {
                Some(index) => merge(&old[index], &new[right], of),
                None => new[right].clone(),
            });
            done.push(theirs);
            if shared.front() == Some(&theirs) {
                shared.pop_front();
            }
            right += 1;
        }
    }
    Value::Array(merged)
}

/// An object without these fields.
pub(crate) fn remove(value: &Value, fields: &Fields, schema: &Schema) -> Value {
    remove_from(value, fields, schema).unwrap_or_else(|| Value::Object(Map::new()))
}

fn remove_from(value: &Value, fields: &Fields, schema: &Schema) -> Option<Value> {
    match shape(Some(value), schema) {
        Shape::Map(Some(map)) => {
            let mut left = Map::new();
            for (name, value) in map {
                let element = Element::Field(name.clone());
                if fields.has(&element) {
                    continue;
                }
                let kept = match fields.below(&element) {
                    Some(fields) => remove_from(value, fields, below(schema, name)),
                    None => Some(value.clone()),
                };
                left.extend(kept.map(|kept| (name.clone(), kept)));
            }
            (!left.is_empty()).then_some(Value::Object(left))
        }
        Shape::List(Some(items)) => {
            let mut left = Vec::new();
            for (index, item) in items.iter().enumerate() {
                let element = element(item, index, schema);
                if fields.has(&element) {
                    continue;
                }
                match fields.below(&element) {
                    Some(fields) => left.extend(remove_from(item, fields, item_type(schema))),
                    None => left.push(item.clone()),
                }
            }
            (!left.is_empty()).then_some(Value::Array(left))
        }
        _ => None,
    }
}
