//! Which names Kubernetes accepts for objects that become host names. Decides only whether a name is
//! well formed.

/// Everything that is wrong with a DNS-1035 label, in the messages of Kubernetes.
pub(crate) fn dns_1035_problems(label: &str) -> Vec<&'static str> {
    let mut problems = Vec::new();
    if label.len() > 63 {
        problems.push("must be no more than 63 characters");
    }
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let well_formed = label.bytes().all(inner)
        && label.starts_with(|first: char| first.is_ascii_lowercase())
        && !label.ends_with('-');
    if !well_formed {
        problems.push(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start \
             with an alphabetic character, and end with an alphanumeric character (e.g. \
             'my-name',  or 'abc-123', regex used for validation is \
             '[a-z]([-a-z0-9]*[a-z0-9])?')",
        );
    }
    problems
}
