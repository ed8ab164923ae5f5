//! What reads people's files, for the fuzz targets (`fuzz/`). Decides nothing.

use serde_json::Value;

use crate::yaml::{self, Mark};

/// A place in a text: line and column, from 1.
pub type Place = (usize, usize);

/// A document, with the places of its nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Read {
    /// What it says.
    pub value: Value,
    /// Where it says what.
    pub places: Vec<(String, Option<Place>, Option<Place>)>,
    /// Keys that their map has already.
    pub repeated: Vec<String>,
}

/// The documents of a text; or what is wrong with it, and where.
pub fn documents(text: &str) -> Result<Vec<Read>, (String, Option<Place>)> {
    let documents = yaml::documents(text);
    let documents = documents.map_err(|error| (error.message, error.mark.map(place)))?;
    let read = |document: yaml::Document| {
        let mut pointers = Vec::new();
        pointers_of(&document.value, String::new(), &mut pointers);
        let places = pointers.into_iter().map(|pointer| {
            let (key, value) = (document.key_mark(&pointer), document.value_mark(&pointer));
            (pointer, key.map(place), value.map(place))
        });
        Read {
            places: places.collect(),
            repeated: document
                .repeated()
                .map(|(pointer, _)| pointer.to_owned())
                .collect(),
            value: document.value,
        }
    };
    Ok(documents.into_iter().map(read).collect())
}

/// A value, as YAML.
pub fn text(value: &Value) -> String {
    yaml::text(value)
}

fn place(mark: Mark) -> Place {
    (mark.line, mark.column)
}

/// JSON pointers of a value and of everything in it.
fn pointers_of(value: &Value, here: String, found: &mut Vec<String>) {
    match value {
        Value::Object(entries) => {
            for (key, value) in entries {
                pointers_of(value, format!("{here}/{}", yaml::escaped(key)), found);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                pointers_of(value, format!("{here}/{index}"), found);
            }
        }
        _ => {}
    }
    found.push(here);
}
