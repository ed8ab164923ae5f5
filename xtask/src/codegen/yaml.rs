//! Spells JSON values as YAML that every parser reads the same way: block style, keys in order,
//! and quotes around every string that an older YAML could take for something else.

use std::fmt::Write as _;

use serde_json::{Map, Value};

/// Words that YAML 1.1, which kubectl reads, does not take for strings.
const NOT_STRINGS: [&str; 12] = [
    "true", "false", "yes", "no", "on", "off", "null", "y", "n", "~", ".inf", ".nan",
];

/// The document, with a newline at its end.
pub(crate) fn written(value: &Value) -> String {
    let mut text = String::new();
    block(value, 0, &mut text);
    text.trim_start_matches('\n').to_owned()
}

/// Writes what follows a `key:` or a `-`, its line end included.
fn block(value: &Value, indent: usize, out: &mut String) {
    match value {
        Value::Object(entries) if !entries.is_empty() => {
            out.push('\n');
            object(entries, indent, false, out);
        }
        Value::Array(items) if !items.is_empty() => {
            out.push('\n');
            for item in items {
                push_indent(indent, out);
                out.push('-');
                match item {
                    Value::Object(entries) if !entries.is_empty() => {
                        out.push(' ');
                        object(entries, indent + 2, true, out);
                    }
                    _ => block(item, indent + 2, out),
                }
            }
        }
        _ => {
            out.push(' ');
            out.push_str(&scalar(value));
            out.push('\n');
        }
    }
}

fn object(entries: &Map<String, Value>, indent: usize, inline_first: bool, out: &mut String) {
    // The order of a map depends on how serde_json was built; ours must not.
    let mut entries: Vec<_> = entries.iter().collect();
    entries.sort_by_key(|(key, _)| *key);
    for (index, (key, value)) in entries.into_iter().enumerate() {
        if index > 0 || !inline_first {
            push_indent(indent, out);
        }
        write!(out, "{}:", string(key)).expect("a string takes every line");
        let deeper = if value.is_array() { indent } else { indent + 2 };
        block(value, deeper, out);
    }
}

fn push_indent(indent: usize, out: &mut String) {
    out.extend(std::iter::repeat_n(' ', indent));
}

fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => string(text),
        other => other.to_string(),
    }
}

fn string(text: &str) -> String {
    let plain = text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c))
        && !NOT_STRINGS.contains(&text.to_ascii_lowercase().as_str());
    // A JSON string is a YAML string.
    if plain {
        text.to_owned()
    } else {
        Value::from(text).to_string()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_keep_their_types() {
        let value = json!({
            "b": [{"x": 1, "y": []}, "True", "1", "plain", "a: b", ["deep"]],
            "a": {"empty": {}, "none": null, "no": "n", "$ref": "^x"},
        });
        assert_eq!(
            written(&value),
            concat!(
                "a:\n",
                "  \"$ref\": \"^x\"\n",
                "  empty: {}\n",
                "  \"no\": \"n\"\n",
                "  none: null\n",
                "b:\n",
                "- x: 1\n",
                "  \"y\": []\n",
                "- \"True\"\n",
                "- \"1\"\n",
                "- plain\n",
                "- \"a: b\"\n",
                "-\n",
                "  - deep\n",
            )
        );
    }
}
