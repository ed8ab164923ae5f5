//! Everything that is wrong with a file, at once. Decides the order of the checks: is a document a job
//! at all, do its fields exist, do their values have the right type, and does the dialect accept it.
//! How findings look is decided in `lint/show.rs`.

mod command_line;
mod expectations;
mod fields;
mod show;
mod variables;

use serde_json::Value;

use crate::convert;
use crate::manifest::{self, Api, Manifest};
use crate::schema;
use crate::yaml::{Document, Mark};

pub(crate) use fields::nearest;
pub(crate) use show::{as_json, as_text};

/// More repeated keys than this would help nobody.
const REPEATED_MAX: usize = 20;

/// One thing to know about a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) severity: Severity,
    /// `UnknownField`, `Invalid`…
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    pub(crate) mark: Option<Mark>,
    /// What stands beside the mark.
    pub(crate) label: String,
    /// What to do, if the label does not tell.
    pub(crate) advice: String,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Severity {
    /// The job cannot run as written.
    Error,
    /// It can, and probably not as meant.
    Warning,
}

impl Severity {
    /// As printed.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

/// All findings of a file, in the order of its lines.
pub(crate) fn check(manifest: &Manifest) -> Vec<Finding> {
    let documents = match &manifest.documents {
        Ok(documents) => documents,
        Err(malformed) => {
            return vec![Finding {
                severity: Severity::Error,
                reason: "MalformedYaml",
                message: format!("{} is not valid YAML: {}", manifest.name, malformed.message),
                mark: malformed.mark,
                label: "here".to_owned(),
                advice: template_advice(&manifest.text),
            }];
        }
    };
    let objects = documents.iter().flat_map(items);
    let mut findings: Vec<Finding> = objects.flat_map(|object| document(&object)).collect();
    findings.extend(documents.iter().flat_map(repeated_keys));
    if documents.is_empty() {
        let message = format!("{} contains no object", manifest.name);
        findings.push(error("Empty", message, None));
    }
    findings.sort_by_key(|finding| (finding.mark, finding.severity));
    findings
}

/// kubectl takes the last of several equal keys, and says nothing.
fn repeated_keys(document: &Document) -> Vec<Finding> {
    let repeated = document.repeated().take(REPEATED_MAX);
    repeated
        .map(|(pointer, mark)| Finding {
            severity: Severity::Warning,
            label: "this one counts".to_owned(),
            advice: "remove the other one".to_owned(),
            ..error(
                "DuplicateKey",
                format!("{} is written twice", fields::dotted(pointer)),
                Some(mark),
            )
        })
        .collect()
}

/// A list's items, or the document itself.
fn items(document: &Document) -> Vec<Document> {
    if !manifest::is_list(&document.value) {
        return vec![document.clone()];
    }
    let item = |index| document.within(&format!("/items/{index}"));
    (0..).map_while(item).collect()
}

/// Many files that are not YAML are templates that make YAML.
fn template_advice(text: &str) -> String {
    match text.contains("{{") {
        true => "if this is a Helm template, check what `helm template` makes of it".to_owned(),
        false => String::new(),
    }
}

/// Whether any finding keeps the file from running.
pub(crate) fn has_errors(findings: &[Finding]) -> bool {
    findings
        .iter()
        .any(|finding| finding.severity == Severity::Error)
}

fn error(reason: &'static str, message: String, mark: Option<Mark>) -> Finding {
    Finding {
        severity: Severity::Error,
        reason,
        message,
        mark,
        label: String::new(),
        advice: String::new(),
    }
}

fn document(document: &Document) -> Vec<Finding> {
    let object = &document.value;
    if !object.is_object() {
        let message = "a document must be an object with apiVersion and kind".to_owned();
        return vec![error("Invalid", message, document.value_mark(""))];
    }
    for field in ["apiVersion", "kind"] {
        let message = match object.get(field) {
            Some(Value::String(text)) if !text.is_empty() => continue,
            None | Some(Value::Null | Value::String(_)) => format!("{field} is missing"),
            Some(_) => format!("{field} must be a string"),
        };
        let at = format!("/{field}");
        return vec![error("Invalid", message, document.value_mark(&at))];
    }
    match manifest::api(object) {
        Some(dialect) => job(document, dialect),
        None => stranger(document),
    }
}

/// Not a job that muster runs: another object such as a ConfigMap, or a misspelled job.
fn stranger(document: &Document) -> Vec<Finding> {
    let object = &document.value;
    let (version, kind) = (
        manifest::text(object, "apiVersion"),
        manifest::text(object, "kind"),
    );
    let resembles = |known: &str, given: &str| strsim::damerau_levenshtein(known, given) <= 2;
    let known: Vec<String> = manifest::apis()
        .iter()
        .map(|dialect| format!("{} {}", manifest::api_version(dialect), dialect.kind))
        .collect();
    let of_a_job = manifest::apis().iter().any(|dialect| {
        resembles(dialect.kind, kind) || version.split('/').next() == Some(dialect.group)
    });
    if !of_a_job {
        return Vec::new();
    }
    let at = if manifest::apis().iter().any(|dialect| dialect.kind == kind) {
        "/apiVersion"
    } else {
        "/kind"
    };
    let mut finding = error(
        "UnknownKind",
        format!("{version} {kind} is not a job that muster knows"),
        document.value_mark(at),
    );
    finding.label = format!("muster knows {}", known.join(", "));
    if convert::is_old(object) {
        finding.message = format!("{version} is a version that no operator runs any more");
        finding.advice = "`muster convert` writes this job as kubeflow.org/v1".to_owned();
    }
    vec![finding]
}

fn job(document: &Document, dialect: &Api) -> Vec<Finding> {
    let schema = schema::of(dialect.group, dialect.version, dialect.kind);
    let mut findings = match schema {
        Some(schema) => fields::check(document, dialect, schema),
        None => Vec::new(),
    };
    let object = &document.value;
    match manifest::lower(object) {
        Some(Err(errors)) => {
            let told = findings.clone();
            let new = errors.iter().filter_map(|problem| {
                let pointer = pointer(&problem.path);
                let finding = Finding {
                    label: problem.problem.clone(),
                    ..error(
                        "Invalid",
                        format!("{}: {}", problem.path, problem.problem),
                        document.value_mark(&pointer),
                    )
                };
                let said = told.iter().any(|told| told.mark == finding.mark);
                (!said).then_some(finding)
            });
            findings.extend(new);
        }
        // While a field is misspelled, what follows from it is unknown.
        Some(Ok(job)) if findings.is_empty() => {
            findings.extend(command_line::check(document, &job));
            findings.extend(expectations::check(document, &job));
            findings.extend(variables::check(document, &job));
        }
        Some(Ok(_)) | None => {}
    }
    if manifest::name(object).is_empty() && object.pointer("/metadata/generateName").is_none() {
        let message = "metadata.name is missing".to_owned();
        let said = findings
            .iter()
            .any(|finding| finding.message.contains("metadata.name"));
        if !said {
            findings.push(error("Invalid", message, document.key_mark("/metadata")));
        }
    }
    findings
}

/// `spec.mpiReplicaSpecs[Worker].replicas` as a JSON pointer.
fn pointer(path: &str) -> String {
    let mut pointer = String::new();
    for part in path.split('.') {
        let (name, rest) = part
            .split_once('[')
            .map_or((part, ""), |(name, rest)| (name, rest));
        pointer.push('/');
        pointer.push_str(name);
        for key in rest.split('[').filter(|key| !key.is_empty()) {
            pointer.push('/');
            pointer.push_str(&crate::yaml::escaped(key.trim_end_matches(']')));
        }
    }
    pointer
}

fn text_at<'v>(object: &'v Value, pointer: &str) -> &'v str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or("")
}

#[cfg(test)]
mod tests;
