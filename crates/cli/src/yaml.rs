//! YAML with the place of every node. The only file that knows the YAML library: the rest sees
//! JSON values, and a table from JSON pointers to lines and columns.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::{Error, Location, Spanned};

/// How much aliases may repeat, in values. Nobody writes so many jobs by alias, and a few lines can ask for billions.
const REPEATED_MAX: usize = 20_000;

/// A place in a text; lines and columns count from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mark {
    pub(crate) line: usize,
    pub(crate) column: usize,
    /// Characters.
    pub(crate) width: usize,
}

/// One document of a file.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    pub(crate) value: Value,
    marks: BTreeMap<String, Marks>,
    repeated: Vec<(String, Mark)>,
}

#[derive(Clone, Copy, Debug)]
struct Marks {
    key: Option<Mark>,
    value: Mark,
}

/// Why a text is not YAML, and where.
#[derive(Clone, Debug)]
pub(crate) struct Malformed {
    pub(crate) message: String,
    pub(crate) mark: Option<Mark>,
}

impl Document {
    /// Keys that their map has already, with their places. The last one counts.
    pub(crate) fn repeated(&self) -> impl Iterator<Item = (&str, Mark)> {
        self.repeated
            .iter()
            .map(|(pointer, mark)| (&**pointer, *mark))
    }

    /// The key at a JSON pointer, or of the nearest thing around it that was written.
    pub(crate) fn key_mark(&self, pointer: &str) -> Option<Mark> {
        self.nearest(pointer)
            .map(|marks| marks.key.unwrap_or(marks.value))
    }

    /// The value at a JSON pointer, or the key of the nearest thing around it that was written.
    pub(crate) fn value_mark(&self, pointer: &str) -> Option<Mark> {
        match self.marks.get(pointer) {
            Some(marks) if marks.value.width > 0 => Some(marks.value),
            _ => self.key_mark(pointer),
        }
    }

    /// What lies at a JSON pointer, as a document of its own.
    pub(crate) fn within(&self, pointer: &str) -> Option<Self> {
        let value = self.value.pointer(pointer)?.clone();
        let below = |(place, marks): (&String, &Marks)| {
            let rest = place.strip_prefix(pointer)?;
            let inside = rest.is_empty() || rest.starts_with('/');
            inside.then(|| (rest.to_owned(), *marks))
        };
        // Only those that begin alike: lists are long.
        let alike = self.marks.range(pointer.to_owned()..);
        let alike = alike.take_while(|(place, _)| place.starts_with(pointer));
        let marks = alike.filter_map(below).collect();
        let repeated = self.repeated.iter().filter_map(|(place, mark)| {
            let rest = place.strip_prefix(pointer)?;
            rest.starts_with('/').then(|| (rest.to_owned(), *mark))
        });
        Some(Self {
            value,
            marks,
            repeated: repeated.collect(),
        })
    }

    fn nearest(&self, pointer: &str) -> Option<&Marks> {
        let mut pointer = pointer;
        loop {
            if let Some(marks) = self.marks.get(pointer) {
                return Some(marks);
            }
            pointer = &pointer[..pointer.rfind('/')?];
        }
    }
}

/// All documents of a text, read as kubectl reads them; empty ones are left out.
pub(crate) fn documents(text: &str) -> Result<Vec<Document>, Malformed> {
    let options = serde_saphyr::options! {
        // `defaultMode: 0644` is octal.
        legacy_octal_numbers: true,
        duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy::LastWins,
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: REPEATED_MAX },
    };
    let nodes: Vec<Spanned<Node>> =
        serde_saphyr::from_multiple_with_options(text, options).map_err(malformed)?;
    let documents = nodes.into_iter().map(|node| {
        let mut places = Places::default();
        let value = places.placed(node, None, String::new());
        Document {
            value,
            marks: places.marks,
            repeated: places.repeated,
        }
    });
    Ok(documents
        .filter(|document| !document.value.is_null())
        .collect())
}

/// A value as YAML.
pub(crate) fn text(value: &Value) -> String {
    serde_saphyr::to_string(value).expect("JSON is YAML")
}

fn malformed(error: serde_saphyr::Error) -> Malformed {
    let mark = error.location().map(|location| mark(&location));
    let message = error.without_snippet().to_string();
    let message = match (own_words(&error), message.find(" at line ")) {
        (Some(words), _) => words.to_owned(),
        // The place is shown beside the text; the library repeats it at the end.
        (None, Some(cut)) if cut > 0 => message[..cut].to_owned(),
        (None, _) => message,
    };
    Malformed { message, mark }
}

/// What the library says in words for those who call it.
fn own_words(error: &Error) -> Option<&'static str> {
    match error {
        Error::NullIntoString { .. } => {
            Some("a key is null; in quotes, \"null\" and \"~\" are words")
        }
        Error::AliasReplayLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. }
        | Error::Budget {
            breach: BudgetBreach::AliasAnchorRatio { .. } | BudgetBreach::Aliases { .. },
            ..
        } => Some("its aliases (*NAME) repeat more than muster reads"),
        Error::Budget {
            breach: BudgetBreach::Depth { .. },
            ..
        } => Some("it is nested more deeply than muster reads"),
        Error::Budget { .. } => Some("it has more values than muster reads from one file"),
        Error::AliasError { error, .. } | Error::WithSnippet { error, .. } => own_words(error),
        _ => None,
    }
}

fn mark(location: &Location) -> Mark {
    let size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    Mark {
        line: size(location.line()),
        column: size(location.column()),
        width: location.span().len() as usize,
    }
}

/// What is known of the places of a document, so far.
#[derive(Default)]
struct Places {
    marks: BTreeMap<String, Marks>,
    repeated: Vec<(String, Mark)>,
}

impl Places {
    fn placed(&mut self, node: Spanned<Node>, key: Option<Mark>, pointer: String) -> Value {
        let value = match node.value {
            Node::Scalar(value) => value,
            Node::List(items) => {
                let items = items.into_iter().enumerate();
                let item = |(index, item)| self.placed(item, None, format!("{pointer}/{index}"));
                Value::Array(items.map(item).collect())
            }
            Node::Map(entries) => {
                let mut map = Map::new();
                for (name, value) in entries {
                    let below = format!("{pointer}/{}", escaped(&name.value));
                    let key = mark(&name.referenced);
                    if map.contains_key(&name.value) {
                        self.repeated.push((below.clone(), key));
                    }
                    map.insert(name.value, self.placed(value, Some(key), below));
                }
                Value::Object(map)
            }
        };
        let place = mark(&node.referenced);
        self.marks.insert(pointer, Marks { key, value: place });
        value
    }
}

/// A key as a step of a JSON pointer.
pub(crate) fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// Above this, not every whole number is a float.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

enum Node {
    Scalar(Value),
    List(Vec<Spanned<Node>>),
    Map(Vec<(Spanned<String>, Spanned<Node>)>),
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any YAML value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        // Whole numbers are integers in JSON, however they were written.
        if value.fract() == 0.0 && value.abs() < WHOLE_MAX {
            return Ok(Node::Scalar((value as i64).into()));
        }
        Ok(Node::Scalar(
            Number::from_f64(value).map_or(Value::Null, Value::Number),
        ))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        Node::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Node, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Node::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Node::Map(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "a: 1\nb:\n  c: [x, {d: yes}]\n  e/f: \"5\"\n---\n---\ng: null\n";

    #[test]
    fn every_node_has_its_place() {
        let documents = documents(TEXT).unwrap();
        assert_eq!(documents.len(), 2);
        let first = &documents[0];
        assert_eq!(first.value["b"]["c"][1]["d"], true);
        assert_eq!(first.value["b"]["e/f"], "5");
        let place = |mark: Option<Mark>| mark.map(|mark| (mark.line, mark.column, mark.width));
        assert_eq!(place(first.key_mark("/b")), Some((2, 1, 1)));
        assert_eq!(place(first.key_mark("/b/c/1/d")), Some((3, 11, 1)));
        assert_eq!(place(first.value_mark("/b/c/1/d")), Some((3, 14, 3)));
        assert_eq!(place(first.key_mark("/b/e~1f")), Some((4, 3, 3)));
        assert_eq!(place(first.key_mark("/b/missing/deep")), Some((2, 1, 1)));
    }

    #[test]
    fn m05_numbers_are_read_as_kubectl_reads_them() {
        let documents = documents("a: 0644\nb: 2.0\nc: 0.5\nd: 08\n").unwrap();
        let value = &documents[0].value;
        assert_eq!(value["a"], 420);
        assert_eq!(value["b"], 2);
        assert!(value["b"].is_i64());
        assert_eq!(value["c"], 0.5);
        assert_eq!(value["d"], 8);
    }

    #[test]
    fn a_part_of_a_document_keeps_its_places() {
        let documents = documents("items:\n- a: 1\n- b: {c: 2}\n").unwrap();
        let second = documents[0].within("/items/1").unwrap();
        assert_eq!(second.value["b"]["c"], 2);
        let mark = second.key_mark("/b/c").unwrap();
        assert_eq!((mark.line, mark.column), (3, 7));
        assert!(documents[0].within("/items/2").is_none());
    }

    #[test]
    fn what_is_no_yaml_is_said_with_its_place() {
        let error = documents("a: 1\nb: [1, 2\nc: 3\n").unwrap_err();
        assert!(error.mark.is_some_and(|mark| mark.line >= 2), "{error:?}");
        assert!(!error.message.contains(" at line "), "{error:?}");
    }

    #[test]
    fn m12_what_the_library_does_not_read_is_said_in_words_for_users() {
        let mut bomb = "a: &a [x, x, x, x, x, x, x, x, x]\n".to_owned();
        for (before, name) in "abcdefgh".chars().zip("bcdefghi".chars()) {
            let nine = vec![format!("*{before}"); 9].join(", ");
            bomb += &format!("{name}: &{name} [{nine}]\n");
        }
        let deep = format!("a: {}{}", "[".repeat(100), "]".repeat(100));
        // A test has less stack than a program, and 64 levels without optimisation need more.
        let read = |text: String| {
            let reader = std::thread::Builder::new().stack_size(8 << 20);
            reader
                .spawn(move || documents(&text).unwrap_err())
                .unwrap()
                .join()
                .unwrap()
        };
        let many = format!("a: [{}1]", "1, ".repeat(300_000));
        for (text, words) in [
            ("a: {~: 1}\n".to_owned(), "a key is null"),
            (bomb, "aliases (*NAME) repeat"),
            (deep, "nested more deeply"),
            (many, "more values"),
        ] {
            let error = read(text);
            assert!(error.message.contains(words), "{words}: {error:?}");
            assert!(error.mark.is_some(), "{error:?}");
        }
        // As much as people write.
        let few = "a: &a {name: x}\nb: [*a, *a]\nc: {<<: *a}\n";
        assert_eq!(documents(few).unwrap()[0].value["b"][1]["name"], "x");
    }

    #[test]
    fn the_last_of_two_equal_keys_counts_as_for_kubectl() {
        let documents =
            documents("a: 1\nb: {c: &x {k: 1}, c: 2}\na: 3\n---\nd: {<<: {k: 1}, k: 2}\n");
        let documents = documents.unwrap();
        let first = &documents[0];
        assert_eq!(first.value["a"], 3);
        assert_eq!(first.value["b"]["c"], 2);
        let repeated: Vec<_> = first.repeated().map(|(at, mark)| (at, mark.line)).collect();
        assert_eq!(repeated, [("/b/c", 2), ("/a", 3)]);
        // What is merged in gives way to what is written.
        assert_eq!(documents[1].value["d"]["k"], 2);
        assert_eq!(documents[1].repeated().count(), 0);
    }
}
