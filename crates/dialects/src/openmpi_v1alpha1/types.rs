//! The wire: the parameters of the component, each a string, a number or a list. The string `null`
//! means that a parameter is not set; strings may be written as numbers and numbers as strings. What has
//! another shape is an error that names its path. Sets no defaults and checks no values.

use serde_json::Value;

use crate::FieldError;
use crate::metadata::Metadata;
use crate::reader::{Place, Reader};

/// How the component spelled a parameter that is not set.
pub(super) const UNSET: &str = "null";

/// An OpenMPI object.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct OpenMpi {
    pub(super) metadata: Metadata,
    pub(super) spec: Parameters,
}

/// `spec`: the parameters, each under its own name. What they mean is in `fields.rs`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Parameters {
    pub(super) name: Option<String>,
    pub(super) namespace: Option<String>,
    pub(super) image: Option<String>,
    pub(super) secret: Option<String>,
    pub(super) workers: Option<i64>,
    pub(super) init: Option<String>,
    pub(super) exec: Option<String>,
    pub(super) image_pull_policy: Option<String>,
    pub(super) image_pull_secrets: Option<String>,
    pub(super) gpu: Option<i64>,
    pub(super) cpu: Option<String>,
    pub(super) memory: Option<String>,
    pub(super) custom_resources: Option<String>,
    pub(super) service_account_name: Option<String>,
    pub(super) scheduler_name: Option<String>,
    pub(super) controller_image: Option<String>,
    pub(super) init_timeout: Option<i64>,
    pub(super) node_selector: Option<String>,
    pub(super) s3_secret: Option<String>,
    pub(super) download_data_from: Option<String>,
    pub(super) download_data_to: Option<String>,
    pub(super) upload_data_from: Option<String>,
    pub(super) upload_data_to: Option<String>,
    pub(super) run_as_user: Option<i64>,
    pub(super) run_as_group: Option<i64>,
    pub(super) supplemental_groups: Option<String>,
    pub(super) volumes: Vec<Value>,
    pub(super) volume_mounts: Vec<Value>,
    pub(super) use_host_network: Option<bool>,
}

/// Reads a stored object, with everything in it that has the wrong shape.
pub(super) fn read(job: &Value) -> (OpenMpi, Vec<FieldError>) {
    let mut reader = Reader::default();
    let root = Place::root(job);
    let mut errors = Vec::new();
    let read = OpenMpi {
        spec: parameters(&mut reader, &root, &mut errors),
        metadata: Metadata::read(&mut reader, &root),
    };
    errors.extend(reader.into_errors());
    (read, errors)
}

fn parameters(reader: &mut Reader, root: &Place<'_>, errors: &mut Vec<FieldError>) -> Parameters {
    let place = reader.group(root, "spec");
    let mut text = |name: &str| text(reader, &place.field(name));
    let mut read = Parameters {
        name: text("name"),
        namespace: text("namespace"),
        image: text("image"),
        secret: text("secret"),
        init: text("init"),
        exec: text("exec"),
        image_pull_policy: text("imagePullPolicy"),
        image_pull_secrets: text("imagePullSecrets"),
        cpu: text("cpu"),
        memory: text("memory"),
        custom_resources: text("customResources"),
        service_account_name: text("serviceAccountName"),
        scheduler_name: text("schedulerName"),
        controller_image: text("controllerImage"),
        node_selector: text("nodeSelector"),
        s3_secret: text("s3Secret"),
        download_data_from: text("downloadDataFrom"),
        download_data_to: text("downloadDataTo"),
        upload_data_from: text("uploadDataFrom"),
        upload_data_to: text("uploadDataTo"),
        supplemental_groups: text("supplementalGroups"),
        ..Parameters::default()
    };
    let mut number = |name: &str| number(&place.field(name), errors);
    read.workers = number("workers");
    read.gpu = number("gpu");
    read.init_timeout = number("initTimeout");
    read.run_as_user = number("runAsUser");
    read.run_as_group = number("runAsGroup");
    read.use_host_network = truth(&place.field("useHostNetwork"), errors);
    let mut objects = |name: &str| {
        let items = reader.list_of(&place.field(name), "an object", Value::is_object);
        items.cloned().unwrap_or_default()
    };
    read.volumes = objects("volumes");
    read.volume_mounts = objects("volumeMounts");
    read
}

/// A string, which may be written as a number.
fn text(reader: &mut Reader, place: &Place<'_>) -> Option<String> {
    match place.value() {
        Some(Value::Number(number)) => Some(number.to_string()),
        _ => reader.optional_string(place).filter(|text| text != UNSET),
    }
}

/// A whole number, which may be written as a string.
fn number(place: &Place<'_>, errors: &mut Vec<FieldError>) -> Option<i64> {
    let value = place.value()?;
    let number = match value {
        Value::String(text) if text == UNSET => return None,
        Value::String(text) => text.parse().ok(),
        other => other.as_i64(),
    };
    if number.is_none() {
        let detail = "must be a whole number, or null";
        errors.push(FieldError::invalid(place.path(), value, detail));
    }
    number
}

/// As the component took it: true, "true" in any case, or a number other than 0.
fn truth(place: &Place<'_>, errors: &mut Vec<FieldError>) -> Option<bool> {
    let value = place.value()?;
    match value {
        Value::Bool(truth) => return Some(*truth),
        Value::Number(number) => return Some(number.as_f64() != Some(0.0)),
        Value::String(text) if text.eq_ignore_ascii_case("true") => return Some(true),
        Value::String(text) if text.eq_ignore_ascii_case("false") => return Some(false),
        Value::String(text) if text == UNSET => return None,
        _ => {}
    }
    let detail = "must be true or false";
    errors.push(FieldError::invalid(place.path(), value, detail));
    None
}
