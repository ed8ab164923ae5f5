//! One field of an API: its path, what it may hold, what becomes of it, and what it means. A dialect's
//! list of fields is the only source: the custom resource definition, `docs/dialects.md`,
//! `muster fields`, `muster generate`, `muster lint` and the tests all read the list. Decides nothing.

use serde_json::{Map, Value, json};

/// A field of `spec` or of `status`.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Path, with `[]` for an item of a list, and `[Name]` or `[*]` for an entry of a map.
    pub path: &'static str,
    /// What it may hold.
    pub shape: Shape,
    /// What becomes of it; none for an object that only groups fields, and in a `status`.
    pub handling: Option<Handling>,
    /// A value, as JSON, that shows how it is handled: it changes the job, routes it, or is refused.
    pub sample: &'static str,
    /// What it means, for people.
    pub meaning: &'static str,
}

/// What becomes of a field that users write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handling {
    /// It changes the job.
    Honoured,
    /// It has one legal value, which other fields decide. Any other value is refused by the field's
    /// name.
    Checked,
    /// It decides which controller or which dialect handles the job.
    Routes,
}

impl Handling {
    /// The word that the documentation uses.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Honoured => "honoured",
            Self::Checked => "checked",
            Self::Routes => "routes",
        }
    }
}

/// Makes a list of fields from lines of the form `Handling "path": SHAPE, "sample" => "meaning";`. Handling
/// and sample are left out for objects that only group fields, and in a `status`. A second line for a
/// path adds to the shape of the first.
macro_rules! fields {
    (@handling) => { None };
    (@handling $handling:ident) => { Some($crate::field::Handling::$handling) };
    ($($($handling:ident)? $path:literal: $shape:expr $(, $sample:literal)? => $meaning:expr;)*) => {
        &[$($crate::field::Field {
            path: $path,
            shape: $shape,
            handling: $crate::field::fields!(@handling $($handling)?),
            sample: concat!($($sample)?),
            meaning: $meaning,
        }),*]
    };
}
pub(crate) use fields;

/// What a field may hold, in the terms of a structural schema.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// The type.
    pub field_type: FieldType,
    minimum: Option<i64>,
    maximum: Option<i64>,
    min_length: Option<i64>,
    max_length: Option<i64>,
    max_items: Option<i64>,
    pattern: &'static str,
    words: &'static [&'static str],
    default: Option<Literal>,
    /// The object that holds the field must have it.
    pub is_required: bool,
    /// The field cannot be changed after the job was created.
    pub is_immutable: bool,
}

/// The type of a field.
#[derive(Clone, Copy, Debug)]
pub enum FieldType {
    /// A string.
    Text,
    /// A time in RFC 3339.
    Time,
    /// An integer of 32 bits.
    Int32,
    /// An integer of 64 bits.
    Int64,
    /// An integer, or a string that holds one.
    IntOrText,
    /// True or false.
    Boolean,
    /// An object whose fields have lines of their own.
    Object,
    /// An object that server-side apply replaces as a whole.
    AtomicObject,
    /// An object with any fields.
    AnyObject,
    /// Anything.
    Any,
    /// A list of this, or of objects whose fields have lines of their own.
    List(Option<&'static Shape>),
    /// A list of objects, one for each value of the field `type`.
    ListByType,
    /// A map of this.
    MapOf(&'static Shape),
    /// A pod template. In a partial one nothing is required.
    Template {
        /// It may have no container.
        is_partial: bool,
    },
}

/// A default value.
#[derive(Clone, Copy, Debug)]
pub enum Literal {
    /// A string.
    Text(&'static str),
    /// A number.
    Number(i64),
    /// True or false.
    Boolean(bool),
    /// An object without fields.
    EmptyObject,
    /// A list without items.
    EmptyList,
}

pub(crate) const TEXT: Shape = Shape::of(FieldType::Text);
pub(crate) const TIME: Shape = Shape::of(FieldType::Time);
pub(crate) const INT32: Shape = Shape::of(FieldType::Int32);
pub(crate) const INT64: Shape = Shape::of(FieldType::Int64);
pub(crate) const BOOLEAN: Shape = Shape::of(FieldType::Boolean);
pub(crate) const OBJECT: Shape = Shape::of(FieldType::Object);
pub(crate) const LIST: Shape = Shape::of(FieldType::List(None));
pub(crate) const TEMPLATE: Shape = Shape::of(FieldType::Template { is_partial: false });

impl Shape {
    /// A type without further conditions.
    pub(crate) const fn of(field_type: FieldType) -> Self {
        Self {
            field_type,
            minimum: None,
            maximum: None,
            min_length: None,
            max_length: None,
            max_items: None,
            pattern: "",
            words: &[],
            default: None,
            is_required: false,
            is_immutable: false,
        }
    }

    /// A number of at least this.
    pub(crate) const fn at_least(mut self, minimum: i64) -> Self {
        self.minimum = Some(minimum);
        self
    }

    /// A number from one to the other, inclusive.
    pub(crate) const fn between(mut self, minimum: i64, maximum: i64) -> Self {
        self.maximum = Some(maximum);
        self.at_least(minimum)
    }

    /// A string that is not empty.
    pub(crate) const fn not_empty(mut self) -> Self {
        self.min_length = Some(1);
        self
    }

    /// A string of at most this many characters.
    pub(crate) const fn max_length(mut self, length: i64) -> Self {
        self.max_length = Some(length);
        self
    }

    /// A list or a map of at most this many items.
    pub(crate) const fn max_items(mut self, count: i64) -> Self {
        self.max_items = Some(count);
        self
    }

    /// A string that matches a regular expression.
    pub(crate) const fn matching(mut self, pattern: &'static str) -> Self {
        self.pattern = pattern;
        self
    }

    /// One of these strings.
    pub(crate) const fn one_of(mut self, words: &'static [&'static str]) -> Self {
        self.words = words;
        self
    }

    /// The API server writes this value into jobs that do not set the field.
    pub(crate) const fn or(mut self, default: Literal) -> Self {
        self.default = Some(default);
        self
    }

    /// The object that holds the field must have it.
    pub(crate) const fn required(mut self) -> Self {
        self.is_required = true;
        self
    }

    /// The field cannot be changed after the job was created.
    pub(crate) const fn immutable(mut self) -> Self {
        self.is_immutable = true;
        self
    }

    /// The API server writes a number into jobs that do not set the field.
    pub fn has_default_number(&self) -> bool {
        matches!(self.default, Some(Literal::Number(_)))
    }

    /// As a structural schema. Pod templates are copies of `template`.
    pub(crate) fn schema(&self, template: &Value) -> Map<String, Value> {
        let mut schema = self.field_type.schema(template);
        let items = match self.field_type {
            FieldType::Object => "maxProperties",
            _ => "maxItems",
        };
        for (keyword, number) in [
            ("minimum", self.minimum),
            ("maximum", self.maximum),
            ("minLength", self.min_length),
            ("maxLength", self.max_length),
            (items, self.max_items),
        ] {
            schema.extend(number.map(|number| (keyword.to_owned(), number.into())));
        }
        if !self.pattern.is_empty() {
            schema.insert("pattern".to_owned(), self.pattern.into());
        }
        if !self.words.is_empty() {
            schema.insert("enum".to_owned(), json!(self.words));
        }
        let default = self.default.map(Literal::value);
        schema.extend(default.map(|default| ("default".to_owned(), default)));
        schema
    }
}

impl FieldType {
    fn schema(self, template: &Value) -> Map<String, Value> {
        let schema = match self {
            Self::Text => json!({"type": "string"}),
            Self::Time => json!({"type": "string", "format": "date-time"}),
            Self::Int32 => json!({"type": "integer", "format": "int32"}),
            Self::Int64 => json!({"type": "integer", "format": "int64"}),
            Self::IntOrText => json!({
                "x-kubernetes-int-or-string": true,
                "anyOf": [{"type": "integer"}, {"type": "string"}],
            }),
            Self::Boolean => json!({"type": "boolean"}),
            Self::Object => json!({"type": "object"}),
            Self::AtomicObject => json!({"type": "object", "x-kubernetes-map-type": "atomic"}),
            Self::AnyObject => {
                json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
            }
            Self::Any => json!({"x-kubernetes-preserve-unknown-fields": true}),
            Self::List(None) => json!({"type": "array"}),
            Self::List(Some(item)) => json!({"type": "array", "items": item.schema(template)}),
            Self::ListByType => json!({
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
            }),
            Self::MapOf(entry) => {
                json!({"type": "object", "additionalProperties": entry.schema(template)})
            }
            Self::Template { is_partial: false } => template.clone(),
            Self::Template { is_partial: true } => partial(template.clone()),
        };
        match schema {
            Value::Object(schema) => schema,
            _ => Map::new(),
        }
    }
}

fn partial(mut template: Value) -> Value {
    template["properties"]["spec"]["properties"]["containers"]["minItems"] = 0.into();
    for part in ["", "/properties/spec"] {
        let part = template.pointer_mut(part).and_then(Value::as_object_mut);
        part.map(|part| part.remove("required"));
    }
    template
}

impl Literal {
    fn value(self) -> Value {
        match self {
            Self::Text(text) => text.into(),
            Self::Number(number) => number.into(),
            Self::Boolean(boolean) => boolean.into(),
            Self::EmptyObject => json!({}),
            Self::EmptyList => json!([]),
        }
    }
}
