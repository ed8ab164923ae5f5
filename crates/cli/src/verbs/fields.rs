//! `muster fields [DIALECT][.PATH]`: which fields there are, what they hold and what they mean.

use anyhow::Result;
use serde_json::{Value, json};

use crate::args::FieldsArgs;
use crate::exit::Failure;
use crate::manifest::Api;
use crate::schema::{self, Schema};
use crate::{lint, manifest, out};

/// As deep as a tree is shown when everything is asked for.
const DEPTH_MAX: usize = 12;

pub(crate) fn run(args: &FieldsArgs) -> Result<u8> {
    let path = args.path.as_deref().unwrap_or("");
    let (dialect, path) = split(path);
    let Some(mut schema) = schema::of(dialect.group, dialect.version, dialect.kind) else {
        let api = manifest::api_version(dialect);
        return Err(Failure::usage(format!("muster has no schema of {api}")).into());
    };
    let path = if path.is_empty() && is_flat(schema) {
        "spec"
    } else {
        path
    };
    let mut walked = String::new();
    for key in path.split('.').filter(|key| !key.is_empty()) {
        let Some(below) = schema.below(key) else {
            return Err(unknown(dialect, &walked, key, schema).into());
        };
        schema = below;
        if !walked.is_empty() {
            walked.push('.');
        }
        walked.push_str(key);
    }
    out::data(&if args.output.is_some() {
        format!("{:#}\n", as_json(schema, DEPTH_MAX))
    } else {
        as_text(dialect, &walked, schema, args.recursive)
    });
    Ok(0)
}

/// The spec is a list of parameters, so it is what a user wants to see.
fn is_flat(schema: Schema) -> bool {
    let spec = schema.below("spec");
    spec.is_some_and(|spec| {
        spec.fields()
            .all(|(_, field)| field.fields().next().is_none())
    })
}

/// A path may begin with the version of a dialect.
fn split(path: &str) -> (&'static Api, &str) {
    let (first, rest) = path.split_once('.').unwrap_or((path, ""));
    let named = manifest::apis().iter().find(|dialect| {
        let full = format!(
            "{}-{}",
            dialect.group.split('.').next().unwrap_or(""),
            dialect.version
        );
        first == dialect.version || first == full || first.eq_ignore_ascii_case(dialect.kind)
    });
    match named {
        Some(dialect) => (dialect, rest),
        None => (&manifest::apis()[0], path),
    }
}

fn unknown(dialect: &Api, walked: &str, key: &str, schema: Schema) -> Failure {
    let names: Vec<&str> = schema.fields().map(|(name, _)| name).collect();
    let place = if walked.is_empty() { "the top" } else { walked };
    let hint = match lint::nearest(key, &names) {
        Some(name) => format!("did you mean {name}?"),
        None if names.is_empty() => format!("{place} has no fields that are written down"),
        None => format!("known there: {}", names.join(", ")),
    };
    let api = manifest::api_version(dialect);
    Failure {
        code: crate::exit::FAILED,
        text: format!("{api} has no field {key} in {place}: {hint}"),
    }
}

fn as_text(dialect: &Api, path: &str, schema: Schema, recursive: bool) -> String {
    let api = manifest::api_version(dialect);
    let mut text = format!("{api} {}\n", dialect.kind);
    if !path.is_empty() {
        text += &line(path, schema, 0);
    }
    let depth = if recursive { DEPTH_MAX } else { 1 };
    text + &tree(schema, 1, depth)
}

fn tree(schema: Schema, indent: usize, depth: usize) -> String {
    let mut text = String::new();
    if depth == 0 {
        return text;
    }
    // Entries of a map and items of a list have no name of their own.
    let schema = match schema.element() {
        Some(element) if schema.fields().next().is_none() => element,
        _ => schema,
    };
    for (name, field) in schema.fields() {
        text += &line(name, field, indent);
        text += &tree(field, indent + 1, depth - 1);
    }
    text
}

fn line(name: &str, schema: Schema, indent: usize) -> String {
    let mut text = format!("{}{name}  {}", "  ".repeat(indent), kind(schema));
    if let Some(default) = schema.default() {
        text += &format!("  default {default}");
    }
    let words = schema.words();
    if !words.is_empty() {
        text += &format!("  one of {}", words.join(", "));
    }
    text.push('\n');
    if !schema.description().is_empty() {
        text += &format!("{}  {}\n", "  ".repeat(indent + 1), schema.description());
    }
    text
}

fn kind(schema: Schema) -> String {
    match (schema.kind(), schema.element()) {
        ("array", Some(item)) => format!("list of {}", kind(item)),
        ("object", Some(entry)) => format!("map of {}", kind(entry)),
        ("", _) => "any".to_owned(),
        (kind, _) => kind.to_owned(),
    }
}

fn as_json(schema: Schema, depth: usize) -> Value {
    let mut object = json!({
        "type": schema.kind(),
        "description": schema.description(),
        "default": schema.default(),
        "enum": schema.words(),
        "nullable": schema.is_nullable(),
    });
    if depth > 0 {
        let fields = schema
            .fields()
            .map(|(name, field)| (name.to_owned(), as_json(field, depth - 1)));
        object["fields"] = Value::Object(fields.collect());
        if let Some(element) = schema.element() {
            object["element"] = as_json(element, depth - 1);
        }
    }
    object
}
