//! Names that Kubernetes accepts. Decides which are refused, and says why in its words.

const LABEL: &str = "a valid label must be an empty string or consist of alphanumeric characters, \
    '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or \
    'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const NAME_PART: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and \
    must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or \
    '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
    characters, '-' or '.', and must start and end with an alphanumeric character (e.g. \
    'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const DNS_LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric \
    characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or \
    '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
fn too_long(most: usize) -> String {
    format!("must be no more than {most} bytes")
}

fn words(text: &str, middle: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    let ends = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    ends(bytes.first()) && ends(bytes.last()) && bytes.iter().all(|byte| middle(*byte))
}

fn lower(text: &str) -> bool {
    words(text, |byte| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-'
    })
}

/// A label's value.
pub(crate) fn label_value(text: &str) -> Option<String> {
    if text.len() > 63 {
        return Some(too_long(63));
    }
    let fits = text.is_empty()
        || words(text, |byte| {
            byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)
        });
    (!fits).then(|| LABEL.to_owned())
}

/// A label's or annotation's key.
pub(crate) fn qualified(text: &str) -> Option<String> {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    if prefix == Some("") {
        return Some("prefix part must be non-empty".to_owned());
    }
    if let Some(why) = prefix.and_then(subdomain) {
        return Some(format!("prefix part {why}"));
    }
    if name.len() > 63 {
        return Some(format!("name part {}", too_long(63)));
    }
    let fits = words(name, |byte| {
        byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)
    });
    (!fits).then(|| NAME_PART.to_owned())
}

/// Everything that is wrong with a key.
pub(crate) fn wrong_key(text: &str) -> Vec<String> {
    let nameless = text.ends_with('/') || text.is_empty();
    let nameless = nameless.then(|| "name part must be non-empty".to_owned());
    nameless.into_iter().chain(qualified(text)).collect()
}

/// Names of most objects.
pub(crate) fn subdomain(text: &str) -> Option<String> {
    if text.len() > 253 {
        return Some("must be no more than 253 characters".to_owned());
    }
    (!text.split('.').all(lower)).then(|| SUBDOMAIN.to_owned())
}

/// Names of namespaces, containers and volumes.
pub(crate) fn dns_label(text: &str) -> Option<String> {
    if text.len() > 63 {
        return Some(too_long(63));
    }
    (!lower(text)).then(|| DNS_LABEL.to_owned())
}

/// Names that become part of a path and nothing else: roles and their bindings.
pub(crate) fn path_segment(text: &str) -> Option<String> {
    if matches!(text, "." | "..") {
        return Some(format!("may not be '{text}'"));
    }
    ["/", "%"]
        .into_iter()
        .find(|part| text.contains(part))
        .map(|part| format!("may not contain '{part}'"))
}
