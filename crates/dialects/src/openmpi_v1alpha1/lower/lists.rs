//! Parameters that hold several values in one string, separated by commas and, as the component had it,
//! nothing else: spaces belong to the values. What cannot be a value is named, by its parameter.

use quantity::Quantity;

use crate::FieldError;

fn items(given: &Option<String>) -> impl Iterator<Item = &str> {
    given.iter().flat_map(|list| list.split(','))
}

fn refuse(path: &str, given: &Option<String>, detail: &str, errors: &mut Vec<FieldError>) {
    let given = given.as_deref().unwrap_or_default().into();
    errors.push(FieldError::invalid(path, &given, detail));
}

/// Names of objects.
pub(super) fn names<'a>(
    path: &str,
    given: &'a Option<String>,
    errors: &mut Vec<FieldError>,
) -> Vec<&'a str> {
    let names: Vec<&str> = items(given).collect();
    if !names.iter().all(|name| is_name(name)) {
        refuse(
            path,
            given,
            "must be names, separated by commas without spaces",
            errors,
        );
    }
    names
}

fn is_name(name: &str) -> bool {
    let inner =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    let edge = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    let bytes = name.as_bytes();
    name.bytes().all(inner) && edge(bytes.first()) && edge(bytes.last())
}

/// Numbers of groups.
pub(super) fn numbers(
    path: &str,
    given: &Option<String>,
    errors: &mut Vec<FieldError>,
) -> Vec<i64> {
    let numbers: Option<Vec<i64>> = items(given)
        .map(|item| item.parse().ok().filter(|number: &i64| *number >= 0))
        .collect();
    numbers.unwrap_or_else(|| {
        refuse(
            path,
            given,
            "must be whole numbers, separated by commas",
            errors,
        );
        Vec::new()
    })
}

/// `key=value`; a value may have more of them.
pub(super) fn pairs<'a>(
    path: &str,
    given: &'a Option<String>,
    errors: &mut Vec<FieldError>,
) -> Vec<(&'a str, &'a str)> {
    let pairs: Option<Vec<_>> = items(given)
        .map(|item| item.split_once('=').filter(|(key, _)| !key.is_empty()))
        .collect();
    pairs.unwrap_or_else(|| {
        refuse(
            path,
            given,
            "must be key=value, separated by commas",
            errors,
        );
        Vec::new()
    })
}

/// `resource=amount`.
pub(super) fn amounts<'a>(
    path: &str,
    given: &'a Option<String>,
    errors: &mut Vec<FieldError>,
) -> Vec<(&'a str, &'a str)> {
    let pairs = pairs(path, given, errors);
    if !pairs.iter().all(|(_, amount)| is_amount(amount)) {
        refuse(
            path,
            given,
            "must be resource=amount, separated by commas",
            errors,
        );
    }
    pairs
}

/// Kubernetes would take it for an amount of something. What has a sign is an amount of nothing here.
pub(super) fn is_amount(text: &str) -> bool {
    !text.starts_with(['-', '+']) && Quantity::parse(text).is_some()
}
