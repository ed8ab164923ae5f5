//! Refusals: the `Status` objects of the API server, with its codes, reasons and words. Decides
//! how an error is told, not when.

use serde_json::{Map, Value, json};

/// A refused request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Refusal {
    pub(crate) code: u16,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    pub(crate) details: Option<Box<Details>>,
}

/// What a refusal is about.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Details {
    pub(crate) name: String,
    pub(crate) group: String,
    pub(crate) kind: String,
    pub(crate) uid: String,
    pub(crate) causes: Vec<Cause>,
    /// Seconds.
    pub(crate) retry_after: u32,
}

/// One thing that is wrong with an object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cause {
    reason: &'static str,
    message: String,
    field: String,
}

/// The plural and group of what a refusal is about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Of<'a> {
    pub(crate) group: &'a str,
    pub(crate) plural: &'a str,
}

impl Of<'_> {
    fn qualified(&self) -> String {
        if self.group.is_empty() {
            self.plural.to_owned()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }

    fn details(&self, name: &str) -> Option<Box<Details>> {
        Some(Box::new(Details {
            name: name.to_owned(),
            group: self.group.to_owned(),
            kind: self.plural.to_owned(),
            ..Details::default()
        }))
    }
}

impl Refusal {
    fn new(
        code: u16,
        reason: &'static str,
        message: String,
        details: Option<Box<Details>>,
    ) -> Self {
        Self {
            code,
            reason,
            message,
            details,
        }
    }

    pub(crate) fn not_found(of: Of<'_>, name: &str) -> Self {
        let message = format!("{} \"{name}\" not found", of.qualified());
        Self::new(404, "NotFound", message, of.details(name))
    }

    pub(crate) fn no_such_path() -> Self {
        let message = "the server could not find the requested resource".to_owned();
        Self::new(404, "NotFound", message, Some(Box::default()))
    }

    pub(crate) fn already_exists(of: Of<'_>, name: &str) -> Self {
        let message = format!("{} \"{name}\" already exists", of.qualified());
        Self::new(409, "AlreadyExists", message, of.details(name))
    }

    pub(crate) fn conflict(of: Of<'_>, name: &str, why: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} \"{name}\": {why}",
            of.qualified()
        );
        Self::new(409, "Conflict", message, of.details(name))
    }

    /// Another's fields would be overwritten by an apply.
    pub(crate) fn apply_conflict(message: String, causes: Vec<Cause>) -> Self {
        let details = Details {
            causes,
            ..Details::default()
        };
        Self::new(409, "Conflict", message, Some(Box::new(details)))
    }

    pub(crate) fn forbidden(of: Of<'_>, name: &str, why: &str, causes: Vec<Cause>) -> Self {
        let subject = if name.is_empty() {
            of.qualified()
        } else {
            format!("{} \"{name}\"", of.qualified())
        };
        let mut refusal = Self::new(
            403,
            "Forbidden",
            format!("{subject} is forbidden: {why}"),
            of.details(name),
        );
        if let Some(details) = &mut refusal.details {
            details.causes = causes;
        }
        refusal
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message.into(), None)
    }

    pub(crate) fn invalid(group: &str, kind: &str, name: &str, causes: Vec<Cause>) -> Self {
        let said: Vec<String> = causes
            .iter()
            .map(|cause| format!("{}: {}", cause.field, cause.message))
            .collect();
        let said = match said.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let qualified = if group.is_empty() {
            kind.to_owned()
        } else {
            format!("{kind}.{group}")
        };
        let details = Details {
            name: name.to_owned(),
            group: group.to_owned(),
            kind: kind.to_owned(),
            causes,
            ..Details::default()
        };
        let message = format!("{qualified} \"{name}\" is invalid: {said}");
        Self::new(422, "Invalid", message, Some(Box::new(details)))
    }

    /// A patch that cannot be carried out.
    pub(crate) fn unprocessable(message: String) -> Self {
        Self::new(422, "Invalid", message, None)
    }

    pub(crate) fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource".to_owned();
        Self::new(405, "MethodNotAllowed", message, Some(Box::default()))
    }

    pub(crate) fn unsupported_media(message: String) -> Self {
        Self::new(415, "UnsupportedMediaType", message, None)
    }

    /// A patch of a kind that is none.
    pub(crate) fn unsupported_patch() -> Self {
        let message = "415: Unsupported Media Type".to_owned();
        Self::new(415, "UnsupportedMediaType", message, Some(Box::default()))
    }

    pub(crate) fn not_acceptable(message: String) -> Self {
        Self::new(406, "NotAcceptable", message, Some(Box::default()))
    }

    /// The patch makes something of the object that cannot be read.
    pub(crate) fn bad_patch(object: &Value, why: &str) -> Self {
        let cause = Cause::invalid("patch", &object.to_string().into(), why);
        Self::invalid("", "", "", vec![cause])
    }

    pub(crate) fn expired(message: String) -> Self {
        Self::new(410, "Expired", message, None)
    }

    pub(crate) fn internal(message: String) -> Self {
        Self::new(500, "", message, None)
    }

    pub(crate) fn too_large_version(wanted: u64, current: u64) -> Self {
        let message = format!("Too large resource version: {wanted}, current: {current}");
        let details = Details {
            retry_after: 1,
            causes: vec![Cause::new(
                "ResourceVersionTooLarge",
                "",
                "Too large resource version".to_owned(),
            )],
            ..Details::default()
        };
        Self::new(
            504,
            "Timeout",
            format!("Timeout: {message}"),
            Some(Box::new(details)),
        )
    }

    /// The `Status` object.
    pub(crate) fn body(&self) -> Value {
        let mut body = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "code": self.code,
        });
        if !self.reason.is_empty() {
            body["reason"] = self.reason.into();
        }
        if let Some(details) = &self.details {
            body["details"] = details.body();
        }
        body
    }
}

impl Details {
    /// As JSON, without what is empty.
    pub(crate) fn body(&self) -> Value {
        let mut body = Map::new();
        let texts = [
            ("name", &self.name),
            ("group", &self.group),
            ("kind", &self.kind),
            ("uid", &self.uid),
        ];
        for (field, text) in texts {
            if !text.is_empty() {
                body.insert(field.to_owned(), text.as_str().into());
            }
        }
        if self.retry_after > 0 {
            body.insert("retryAfterSeconds".to_owned(), self.retry_after.into());
        }
        if !self.causes.is_empty() {
            let causes = self.causes.iter().map(Cause::body).collect();
            body.insert("causes".to_owned(), Value::Array(causes));
        }
        Value::Object(body)
    }
}

impl Cause {
    /// The schema's own rules were not looked at.
    pub(crate) fn unchecked() -> Self {
        let message = "Invalid value: null: some validation rules were not checked because the \
                       object was invalid; correct the existing errors to complete validation";
        Self::new("FieldValueInvalid", "<nil>", message.to_owned())
    }

    /// Rules cannot be looked at with this in the way.
    pub(crate) fn is_blocking(&self) -> bool {
        matches!(
            self.reason,
            "FieldValueRequired"
                | "FieldValueNotSupported"
                | "FieldValueTooLong"
                | "FieldValueTooMany"
                | "FieldValueTypeInvalid"
        )
    }

    /// The same, of a part of the object.
    pub(crate) fn within(mut self, part: &str) -> Self {
        self.field = match self.field.as_str() {
            "" => part.to_owned(),
            field => format!("{part}.{field}"),
        };
        self
    }

    /// Anything.
    pub(crate) fn new(reason: &'static str, field: &str, message: String) -> Self {
        Self {
            reason,
            message,
            field: field.to_owned(),
        }
    }

    pub(crate) fn required(field: &str, why: &str) -> Self {
        let message = match why {
            "" => "Required value".to_owned(),
            why => format!("Required value: {why}"),
        };
        Self::new("FieldValueRequired", field, message)
    }

    pub(crate) fn invalid(field: &str, value: &Value, why: &str) -> Self {
        let message = format!("Invalid value: {}: {why}", shown(value));
        Self::new("FieldValueInvalid", field, message)
    }

    pub(crate) fn wrong_type(field: &str, found: &str, why: &str) -> Self {
        let message = format!("Invalid value: \"{found}\": {why}");
        Self::new("FieldValueTypeInvalid", field, message)
    }

    pub(crate) fn unsupported(field: &str, value: &Value, supported: &[Value]) -> Self {
        let supported: Vec<String> = supported.iter().map(shown).collect();
        let message = format!(
            "Unsupported value: {}: supported values: {}",
            shown(value),
            supported.join(", ")
        );
        Self::new("FieldValueNotSupported", field, message)
    }

    pub(crate) fn duplicate(field: &str, value: &Value) -> Self {
        let message = format!("Duplicate value: {}", shown(value));
        Self::new("FieldValueDuplicate", field, message)
    }

    pub(crate) fn forbidden(field: &str, why: &str) -> Self {
        Self::new("FieldValueForbidden", field, format!("Forbidden: {why}"))
    }

    pub(crate) fn too_long(field: &str, most: u64) -> Self {
        let message = format!("Too long: may not be more than {most} bytes");
        Self::new("FieldValueTooLong", field, message)
    }

    pub(crate) fn too_many(field: &str, count: u64, most: u64) -> Self {
        let message = format!("Too many: {count}: must have at most {most} items");
        Self::new("FieldValueTooMany", field, message)
    }

    pub(crate) fn not_found(field: &str, value: &Value) -> Self {
        let message = format!("Not found: {}", shown(value));
        Self::new("FieldValueNotFound", field, message)
    }

    fn body(&self) -> Value {
        let mut body = json!({"reason": self.reason, "message": self.message});
        if !self.field.is_empty() {
            body["field"] = self.field.as_str().into();
        }
        body
    }
}

fn shown(value: &Value) -> String {
    value.to_string()
}
