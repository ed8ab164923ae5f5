//! Reads objects of any shape by path: what has the expected type is returned, what has another
//! becomes an error that names the path, null counts as absent. Knows no field by name.

use serde_json::{Map, Value};

use crate::FieldError;

/// A place in an object, whether or not anything is there.
#[derive(Clone, Debug)]
pub(crate) struct Place<'v> {
    value: Option<&'v Value>,
    path: String,
}

impl<'v> Place<'v> {
    /// The whole object.
    pub(crate) fn root(object: &'v Value) -> Self {
        Self {
            value: Some(object),
            path: String::new(),
        }
    }

    /// A field of the object here.
    pub(crate) fn field(&self, name: &str) -> Self {
        // Not `format!`, which takes ten times as long: every pass reads a hundred fields.
        let mut path = String::with_capacity(self.path.len() + 1 + name.len());
        path.push_str(&self.path);
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(name);
        self.below(name, path)
    }

    /// An entry of the map here.
    pub(crate) fn entry(&self, key: &str) -> Self {
        self.below(key, format!("{}[{key}]", self.path))
    }

    /// An item of the list here, if it is there and an object.
    pub(crate) fn item(&self, index: usize) -> Option<Self> {
        let value = self.value?.get(index).filter(|item| item.is_object())?;
        Some(Self {
            value: Some(value),
            path: format!("{}[{index}]", self.path),
        })
    }

    /// The path, as errors spell it.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// What is here, if anything is.
    pub(crate) fn value(&self) -> Option<&'v Value> {
        self.value.filter(|value| !value.is_null())
    }

    fn below(&self, key: &str, path: String) -> Self {
        Self {
            value: self.value.and_then(|value| value.get(key)),
            path,
        }
    }
}

/// An object of a megabyte could have many more errors, which would help nobody.
const ERRORS_MAX: usize = 100;

/// Reads places and remembers what had the wrong shape.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    errors: Vec<FieldError>,
}

impl Reader {
    /// Everything that had the wrong shape so far.
    pub(crate) fn into_errors(self) -> Vec<FieldError> {
        self.errors
    }

    /// A string; empty when absent, because the Kubernetes API does not distinguish the two.
    pub(crate) fn string(&mut self, place: &Place<'_>) -> String {
        self.optional_string(place).unwrap_or_default()
    }

    /// A string, where absent and empty differ.
    pub(crate) fn optional_string(&mut self, place: &Place<'_>) -> Option<String> {
        self.shaped(place, "a string", Value::as_str)
            .map(str::to_owned)
    }

    pub(crate) fn boolean(&mut self, place: &Place<'_>) -> Option<bool> {
        self.shaped(place, "true or false", Value::as_bool)
    }

    /// An integer of at most `max`. The caller checks the minimum.
    pub(crate) fn integer(&mut self, place: &Place<'_>, max: i64) -> Option<i64> {
        let value = place.value()?;
        if value.as_i64().map_or(value.is_u64(), |number| number > max) {
            self.refuse(
                place.path(),
                value,
                &format!("must be less than or equal to {max}"),
            );
            return None;
        }
        self.shaped(place, "an integer", Value::as_i64)
    }

    /// An integer of 32 bits.
    pub(crate) fn int32(&mut self, place: &Place<'_>) -> Option<i64> {
        self.integer(place, i32::MAX.into())
    }

    pub(crate) fn object<'v>(&mut self, place: &Place<'v>) -> Option<&'v Map<String, Value>> {
        self.shaped(place, "an object", Value::as_object)
    }

    /// The place of a field that groups others. If it holds no object, all of them are absent.
    pub(crate) fn group<'v>(&mut self, parent: &Place<'v>, name: &str) -> Place<'v> {
        let place = parent.field(name);
        self.object(&place);
        place
    }

    pub(crate) fn list<'v>(&mut self, place: &Place<'v>) -> Option<&'v Vec<Value>> {
        self.shaped(place, "a list", Value::as_array)
    }

    /// A list whose items all satisfy `fits`. Only the first misfit is named: a list may be
    /// long, and one is enough to find it.
    pub(crate) fn list_of<'v>(
        &mut self,
        place: &Place<'v>,
        expected: &str,
        fits: fn(&Value) -> bool,
    ) -> Option<&'v Vec<Value>> {
        let items = self.list(place)?;
        if let Some((index, item)) = items.iter().enumerate().find(|(_, item)| !fits(item)) {
            let path = format!("{}[{index}]", place.path());
            self.refuse(&path, item, &format!("must be {expected}"));
        }
        Some(items)
    }

    /// A map whose values all satisfy `fits`; the first misfit is named.
    pub(crate) fn map_of<'v>(
        &mut self,
        place: &Place<'v>,
        expected: &str,
        fits: fn(&Value) -> bool,
    ) -> Option<&'v Map<String, Value>> {
        let entries = self.object(place)?;
        if let Some((key, value)) = entries.iter().find(|(_, value)| !fits(value)) {
            let path = format!("{}[{key}]", place.path());
            self.refuse(&path, value, &format!("must be {expected}"));
        }
        Some(entries)
    }

    fn shaped<'v, T>(
        &mut self,
        place: &Place<'v>,
        expected: &str,
        as_shape: fn(&'v Value) -> Option<T>,
    ) -> Option<T> {
        let value = place.value()?;
        let shaped = as_shape(value);
        if shaped.is_none() {
            self.refuse(place.path(), value, &format!("must be {expected}"));
        }
        shaped
    }

    fn refuse(&mut self, path: &str, value: &Value, detail: &str) {
        if self.errors.len() < ERRORS_MAX {
            self.errors.push(FieldError::invalid(path, value, detail));
        }
    }
}
