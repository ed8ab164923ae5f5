//! Sets of field paths, and their written form (`FieldsV1`). Decides set algebra only.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::schema::Schema;

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Element {
    /// A field or a map's key.
    Field(String),
    /// An item of a list, by its keys, as JSON.
    Key(String),
    /// An item of a set, as JSON.
    Value(String),
    /// An item of a list, by position.
    Index(u64),
}

/// A set of paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fields {
    members: BTreeSet<Element>,
    children: BTreeMap<Element, Fields>,
}

impl Element {
    fn parse(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_at_checked(2)?;
        match kind {
            "f:" => Some(Self::Field(rest.to_owned())),
            "k:" => Some(Self::Key(canonical(rest)?)),
            "v:" => Some(Self::Value(canonical(rest)?)),
            "i:" => rest.parse().ok().map(Self::Index),
            _ => None,
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Key(keys) => format!("k:{keys}"),
            Self::Value(value) => format!("v:{value}"),
            Self::Index(index) => format!("i:{index}"),
        }
    }

    /// As conflicts name it.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Field(name) => format!(".{name}"),
            Self::Key(keys) => {
                let keys: Map<String, Value> = serde_json::from_str(keys).unwrap_or_default();
                let pairs: Vec<String> = keys
                    .iter()
                    .map(|(key, value)| format!("{key}={value}"))
                    .collect();
                format!("[{}]", pairs.join(","))
            }
            Self::Value(value) => format!("[={value}]"),
            Self::Index(index) => format!("[{index}]"),
        }
    }
}

fn canonical(text: &str) -> Option<String> {
    let value: Value = serde_json::from_str(text).ok()?;
    Some(value.to_string())
}

impl Fields {
    /// From `FieldsV1`.
    pub(crate) fn parse(body: &Value) -> Option<Self> {
        let mut fields = Self::default();
        for (text, below) in body.as_object().into_iter().flatten() {
            if text == "." {
                continue;
            }
            let element = Element::parse(text)?;
            let children = Self::parse(below)?;
            let alone = below.as_object().is_none_or(Map::is_empty);
            if alone || below.get(".").is_some() {
                fields.members.insert(element.clone());
            }
            if !children.is_empty() {
                fields.children.insert(element, children);
            }
        }
        Some(fields)
    }

    /// As `FieldsV1`.
    pub(crate) fn body(&self) -> Value {
        let mut body = Map::new();
        for element in &self.members {
            body.insert(element.text(), Value::Object(Map::new()));
        }
        for (element, fields) in &self.children {
            let mut below = fields.body();
            if self.members.contains(element) {
                below["."] = Value::Object(Map::new());
            }
            body.insert(element.text(), below);
        }
        Value::Object(body)
    }

    pub(crate) fn of_paths(paths: &[&[&str]]) -> Self {
        let mut fields = Self::default();
        for path in paths {
            let path: Vec<Element> = path
                .iter()
                .map(|name| Element::Field((*name).to_owned()))
                .collect();
            fields.insert(&path);
        }
        fields
    }

    /// Adds a path; the empty one is no path.
    pub(crate) fn insert(&mut self, path: &[Element]) {
        match path {
            [] => {}
            [last] => {
                self.members.insert(last.clone());
            }
            [first, rest @ ..] => self.children.entry(first.clone()).or_default().insert(rest),
        }
    }

    /// Takes a whole set in, below an element.
    pub(crate) fn insert_below(&mut self, element: Element, fields: Self) {
        if !fields.is_empty() {
            self.children.insert(element, fields);
        }
    }

    /// Adds one step.
    pub(crate) fn insert_member(&mut self, element: Element) {
        self.members.insert(element);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty() && self.children.values().all(Self::is_empty)
    }

    pub(crate) fn has(&self, element: &Element) -> bool {
        self.members.contains(element)
    }

    pub(crate) fn below(&self, element: &Element) -> Option<&Self> {
        self.children
            .get(element)
            .filter(|fields| !fields.is_empty())
    }

    pub(crate) fn union(&self, other: &Self) -> Self {
        let mut all = self.clone();
        all.members.extend(other.members.iter().cloned());
        for (element, fields) in &other.children {
            let merged = match all.children.get(element) {
                Some(mine) => mine.union(fields),
                None => fields.clone(),
            };
            all.children.insert(element.clone(), merged);
        }
        all
    }

    pub(crate) fn difference(&self, other: &Self) -> Self {
        let members = self.members.difference(&other.members).cloned().collect();
        let children = self.children.iter().filter_map(|(element, fields)| {
            let left = match other.children.get(element) {
                Some(others) => fields.difference(others),
                None => fields.clone(),
            };
            (!left.is_empty()).then(|| (element.clone(), left))
        });
        Self {
            members,
            children: children.collect(),
        }
    }

    pub(crate) fn intersection(&self, other: &Self) -> Self {
        let members = self.members.intersection(&other.members).cloned().collect();
        let children = self.children.iter().filter_map(|(element, fields)| {
            let both = fields.intersection(other.children.get(element)?);
            (!both.is_empty()).then(|| (element.clone(), both))
        });
        Self {
            members,
            children: children.collect(),
        }
    }

    /// Without a path and everything below it.
    pub(crate) fn without(mut self, path: &[&str]) -> Self {
        self.cut(path);
        self
    }

    fn cut(&mut self, path: &[&str]) {
        let Some((first, rest)) = path.split_first() else {
            return;
        };
        let element = Element::Field((*first).to_owned());
        if rest.is_empty() {
            self.members.remove(&element);
            self.children.remove(&element);
        } else if let Some(fields) = self.children.get_mut(&element) {
            fields.cut(rest);
        }
    }

    /// With every struct field that leads to a member.
    pub(crate) fn with_named(&self, schema: &Schema) -> Self {
        let mut members = self.members.clone();
        let mut children = BTreeMap::new();
        for (element, fields) in &self.children {
            let below = match element {
                Element::Field(name) => {
                    if schema.fields.contains_key(name) {
                        members.insert(element.clone());
                    }
                    schema.field(name)
                }
                _ => schema.items.as_ref(),
            };
            let fields = match below {
                Some(schema) => fields.with_named(schema),
                None => fields.clone(),
            };
            children.insert(element.clone(), fields);
        }
        Self { members, children }
    }

    /// Every path, in order.
    pub(crate) fn paths(&self) -> Vec<Vec<Element>> {
        let mut paths = Vec::new();
        for element in &self.members {
            paths.push(vec![element.clone()]);
        }
        for (element, fields) in &self.children {
            for below in fields.paths() {
                let mut path = vec![element.clone()];
                path.extend(below);
                paths.push(path);
            }
        }
        paths
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_written_form_is_read_back() {
        let body = json!({
            "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
            "f:spec": {"f:containers": {"k:{\"name\":\"a\"}": {".": {}, "f:image": {}}}},
            "f:finalizers": {"v:\"x\"": {}},
        });
        let fields = Fields::parse(&body).expect("it is well formed");
        assert_eq!(fields.body(), body);
        assert_eq!(fields.paths().len(), 5);
        assert!(fields.difference(&fields).is_empty());
        assert_eq!(fields.intersection(&fields), fields);
    }
}
