//! Label and field selectors. Decides which objects a selector means, and which fields of a kind
//! may be selected by.

use serde_json::Value;

/// What a list, watch or collection delete is limited to.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Selector {
    labels: Vec<Label>,
    fields: Vec<Field>,
}

#[derive(Clone, Debug, PartialEq)]
enum Label {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Absent(String),
    Above(String, i64),
    Below(String, i64),
}

#[derive(Clone, Debug, PartialEq)]
struct Field {
    path: String,
    value: String,
    equal: bool,
}

impl Selector {
    /// From the two parameters of a request; the error is a sentence.
    pub(crate) fn parse(labels: &str, fields: &str) -> Result<Self, String> {
        Ok(Self {
            labels: parse_labels(labels)?,
            fields: parse_fields(fields)?,
        })
    }

    /// Selects everything.
    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// The first field that objects of this kind cannot be selected by.
    pub(crate) fn unsupported_field(&self, plural: &str, extra: &[String]) -> Option<&str> {
        let known = supported_fields(plural);
        self.fields
            .iter()
            .map(|field| field.path.as_str())
            .find(|path| {
                let of_all = matches!(*path, "metadata.name" | "metadata.namespace");
                !of_all && !known.contains(path) && !extra.iter().any(|one| one == path)
            })
    }

    /// The object is meant.
    pub(crate) fn matches(&self, object: &Value) -> bool {
        let labels = &object["metadata"]["labels"];
        self.labels.iter().all(|label| label.holds(labels))
            && self.fields.iter().all(|field| {
                let value = field_value(object, &field.path);
                (value == field.value) == field.equal
            })
    }
}

impl Label {
    fn holds(&self, labels: &Value) -> bool {
        let get = |key: &str| labels.get(key).and_then(Value::as_str);
        let number = |key: &str| get(key).and_then(|text| text.parse::<i64>().ok());
        match self {
            Self::In(key, values) => {
                get(key).is_some_and(|value| values.iter().any(|one| one == value))
            }
            Self::NotIn(key, values) => {
                get(key).is_none_or(|value| values.iter().all(|one| one != value))
            }
            Self::Exists(key) => get(key).is_some(),
            Self::Absent(key) => get(key).is_none(),
            Self::Above(key, least) => number(key).is_some_and(|value| value > *least),
            Self::Below(key, most) => number(key).is_some_and(|value| value < *most),
        }
    }
}

fn supported_fields(plural: &str) -> &'static [&'static str] {
    match plural {
        "pods" => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        ],
        "events" => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "regarding.apiVersion",
            "regarding.resourceVersion",
            "regarding.fieldPath",
            "reportingController",
        ],
        "jobs" => &["status.successful"],
        "secrets" => &["type"],
        "namespaces" => &["status.phase", "name"],
        "nodes" => &["spec.unschedulable"],
        "services" => &["spec.clusterIP", "spec.type"],
        _ => &[],
    }
}

fn field_value(object: &Value, path: &str) -> String {
    let path = match path {
        "source" => "source.component",
        "status.successful" => "status.succeeded",
        "reportingController" => "reportingComponent",
        "name" => "metadata.name",
        path => path,
    };
    let path = path.replace("regarding.", "involvedObject.");
    let mut value = object;
    for part in path.trim_start_matches('.').split('.') {
        value = &value[part];
    }
    match (value, path.as_str()) {
        (Value::String(text), _) => text.clone(),
        (Value::Null, "status.succeeded") => "0".to_owned(),
        (Value::Null, "spec.hostNetwork" | "spec.unschedulable") => "false".to_owned(),
        (Value::Null, _) => String::new(),
        (other, _) => other.to_string(),
    }
}

fn parse_fields(text: &str) -> Result<Vec<Field>, String> {
    let mut fields = Vec::new();
    for term in text.split(',').filter(|term| !term.is_empty()) {
        let (path, value, equal) = if let Some((path, value)) = term.split_once("!=") {
            (path, value, false)
        } else if let Some((path, value)) = term.split_once("==") {
            (path, value, true)
        } else if let Some((path, value)) = term.split_once('=') {
            (path, value, true)
        } else {
            return Err(format!(
                "invalid selector: '{text}'; can't understand '{term}'"
            ));
        };
        fields.push(Field {
            path: path.to_owned(),
            value: value.to_owned(),
            equal,
        });
    }
    Ok(fields)
}

fn parse_labels(text: &str) -> Result<Vec<Label>, String> {
    let mut labels = Vec::new();
    for term in split_terms(text) {
        labels.push(parse_label(term.trim())?);
    }
    Ok(labels)
}

/// Splits at commas that are not within brackets.
fn split_terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let (mut depth, mut start) = (0_i32, 0);
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                terms.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    if text.trim().is_empty() {
        return Vec::new();
    }
    terms
}

fn parse_label(term: &str) -> Result<Label, String> {
    if let Some(key) = term.strip_prefix('!') {
        return Ok(Label::Absent(label_key(key)?));
    }
    if let Some((key, value)) = term.split_once("!=") {
        return Ok(Label::NotIn(label_key(key)?, vec![label_value(value)?]));
    }
    if let Some((key, value)) = term.split_once("==").or_else(|| term.split_once('=')) {
        return Ok(Label::In(label_key(key)?, vec![label_value(value)?]));
    }
    for (mark, above) in [('>', true), ('<', false)] {
        if let Some((key, value)) = term.split_once(mark) {
            let key = label_key(key)?;
            let value = value.trim();
            let value = value.parse().map_err(|_| no_integer(value))?;
            return Ok(if above {
                Label::Above(key, value)
            } else {
                Label::Below(key, value)
            });
        }
    }
    let Some(open) = term.find('(') else {
        if term.split_whitespace().count() != 1 {
            return Err(cannot_parse(term));
        }
        return Ok(Label::Exists(label_key(term)?));
    };
    let inside = term[open + 1..]
        .strip_suffix(')')
        .ok_or_else(|| cannot_parse(term))?;
    let values = inside
        .split(',')
        .map(label_value)
        .collect::<Result<_, _>>()?;
    let mut words = term[..open].split_whitespace();
    match (words.next(), words.next(), words.next()) {
        (Some(key), Some("in"), None) => Ok(Label::In(label_key(key)?, values)),
        (Some(key), Some("notin"), None) => Ok(Label::NotIn(label_key(key)?, values)),
        _ => Err(cannot_parse(term)),
    }
}

fn cannot_parse(term: &str) -> String {
    let found = term.split_whitespace().nth(1).unwrap_or_default();
    format!("unable to parse requirement: found '{found}', expected: in, notin, =, ==, !=, gt, lt")
}

fn no_integer(value: &str) -> String {
    format!(
        "unable to parse requirement: values[0]: Invalid value: \"{value}\": \
         for 'Gt', 'Lt' operators, the value must be an integer"
    )
}

fn label_key(text: &str) -> Result<String, String> {
    let text = text.trim();
    match crate::names::qualified(text) {
        None => Ok(text.to_owned()),
        Some(why) => Err(format!(
            "unable to parse requirement: <nil>: Invalid value: \"{text}\": {why}"
        )),
    }
}

fn label_value(text: &str) -> Result<String, String> {
    let text = text.trim();
    if let Some(more) = text.split_whitespace().nth(1) {
        return Err(format!("found '{more}', expected: ',' or 'end of string'"));
    }
    match crate::names::label_value(text) {
        None => Ok(text.to_owned()),
        Some(why) => Err(format!(
            "unable to parse requirement: <nil>: Invalid value: \"{text}\": {why}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn labels_select_as_kubectl_users_write_them() {
        let pod = json!({"metadata": {"labels": {"app": "ring", "rank": "3"}}});
        let yes = [
            "",
            "app=ring",
            "app==ring",
            "app",
            "!gone",
            "app!=other",
            "rank>2",
            "rank<4",
            "app in (ring, pi)",
            "app notin (pi)",
            "gone notin (x)",
            "app=ring,rank=3",
        ];
        for text in yes {
            let selector = Selector::parse(text, "").expect(text);
            assert!(selector.matches(&pod), "{text}");
        }
        let no = [
            "app=pi",
            "gone",
            "!app",
            "app!=ring",
            "app in (pi)",
            "rank>3",
            "gone=x",
        ];
        for text in no {
            let selector = Selector::parse(text, "").expect(text);
            assert!(!selector.matches(&pod), "{text}");
        }
        for text in ["app in ring", "a b", "=x", "app=(", "app in (x"] {
            assert!(Selector::parse(text, "").is_err(), "{text}");
        }
    }
}
