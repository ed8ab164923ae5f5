//! What a request asks for: path, parameters and the form of the answer, read from an HTTP
//! message. Decides nothing about objects.

use std::collections::BTreeMap;

use percent_encoding::percent_decode_str;
use serde_json::Value;

use crate::status::Refusal;

/// The parameters after the question mark.
#[derive(Clone, Debug, Default)]
pub(crate) struct Params(BTreeMap<String, String>);

/// In which form an answer is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Whole objects.
    Whole,
    /// Rows for people.
    Table,
    /// `PartialObjectMetadata`.
    Metadata,
}

/// Where a request points within a group and version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) namespace: String,
    pub(crate) plural: String,
    pub(crate) name: String,
    pub(crate) sub: String,
}

impl Params {
    pub(crate) fn parse(query: &str) -> Self {
        Self(
            form_urlencoded::parse(query.as_bytes())
                .into_owned()
                .collect(),
        )
    }

    pub(crate) fn text(&self, name: &str) -> &str {
        self.0.get(name).map(String::as_str).unwrap_or_default()
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        matches!(self.text(name), "true" | "1")
    }

    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.0.get(name)?.parse().ok()
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }
}

/// The target of a path below `/api` or `/apis`; none when it is not about objects.
pub(crate) fn target(path: &str) -> Option<Target> {
    let parts = path.trim_matches('/').split('/');
    let parts: Vec<_> = parts
        .map(|part| percent_decode_str(part).decode_utf8_lossy())
        .collect();
    let parts: Vec<&str> = parts.iter().map(|part| &**part).collect();
    let (group, version, rest) = match parts.as_slice() {
        ["api", version, rest @ ..] => ("", *version, rest),
        ["apis", group, version, rest @ ..] => (*group, *version, rest),
        _ => return None,
    };
    let mut target = Target {
        group: group.to_owned(),
        version: version.to_owned(),
        ..Target::default()
    };
    let rest = match rest {
        // A namespace is both a place and an object.
        ["namespaces", name, "status" | "finalize"] if group.is_empty() => {
            target.sub = (*rest.last().expect("three parts were matched")).to_owned();
            &["namespaces", name][..]
        }
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => {
            target.namespace = (*namespace).to_owned();
            rest
        }
        other => other,
    };
    match rest {
        [plural] => target.plural = (*plural).to_owned(),
        [plural, name] => {
            target.plural = (*plural).to_owned();
            target.name = (*name).to_owned();
        }
        [plural, name, sub @ ..] => {
            target.plural = (*plural).to_owned();
            target.name = (*name).to_owned();
            target.sub = sub.join("/");
        }
        [] => return None,
    }
    Some(target)
}

/// The first form in an `Accept` header that can be given.
pub(crate) fn form(accept: &str) -> Result<Form, Refusal> {
    if accept.is_empty() {
        return Ok(Form::Whole);
    }
    for range in accept.split(',') {
        let mut parts = range.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default();
        if !matches!(media, "application/json" | "application/*" | "*/*") {
            continue;
        }
        let options: BTreeMap<&str, &str> = parts.filter_map(|part| part.split_once('=')).collect();
        match options.get("as").copied() {
            None => return Ok(Form::Whole),
            Some("Table") => return Ok(Form::Table),
            Some("PartialObjectMetadata" | "PartialObjectMetadataList") => {
                return Ok(Form::Metadata);
            }
            Some(_) => {}
        }
    }
    Err(Refusal::not_acceptable(
        "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, \
         application/vnd.kubernetes.protobuf"
            .to_owned(),
    ))
}

/// A body as an object.
pub(crate) fn body(bytes: &[u8], content_type: &str, kind: &str) -> Result<Value, Refusal> {
    let media = content_type.split(';').next().unwrap_or_default().trim();
    if !matches!(media, "" | "application/json" | "application/yaml") {
        return Err(Refusal::unsupported_media(
            "the body of the request was in an unknown format - accepted media types include: \
             application/json, application/yaml, application/vnd.kubernetes.protobuf"
                .to_owned(),
        ));
    }
    parse(bytes).map_err(|why| {
        Refusal::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): couldn't get \
             version/kind; json parse error: {why}"
        ))
    })
}

/// JSON, or else YAML.
pub(crate) fn parse(bytes: &[u8]) -> Result<Value, String> {
    match serde_json::from_slice(bytes) {
        Ok(value) => Ok(value),
        Err(error) => {
            let looks_like_json = bytes.trim_ascii_start().first() == Some(&b'{');
            let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
            if looks_like_json || text.trim().is_empty() {
                return Err(format!("error decoding request body: {error}"));
            }
            serde_saphyr::from_str(text).map_err(|error| format!("error parsing YAML: {error}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_their_target() {
        let at = |path: &str| target(path).map(|t| (t.group, t.namespace, t.plural, t.name, t.sub));
        let of = |g: &str, n: &str, p: &str, name: &str, s: &str| {
            Some((
                g.to_owned(),
                n.to_owned(),
                p.to_owned(),
                name.to_owned(),
                s.to_owned(),
            ))
        };
        assert_eq!(at("/api/v1/pods"), of("", "", "pods", "", ""));
        assert_eq!(
            at("/api/v1/namespaces/a"),
            of("", "", "namespaces", "a", "")
        );
        assert_eq!(
            at("/api/v1/namespaces/a/status"),
            of("", "", "namespaces", "a", "status")
        );
        assert_eq!(
            at("/api/v1/namespaces/a/pods/b/log"),
            of("", "a", "pods", "b", "log")
        );
        assert_eq!(
            at("/apis/batch/v1/namespaces/a/jobs/b/status"),
            of("batch", "a", "jobs", "b", "status")
        );
        assert_eq!(at("/apis/batch/v1"), None);
        assert_eq!(at("/version"), None);
    }
}
