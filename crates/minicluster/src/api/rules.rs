//! Rules of a write that need no store: where an object belongs, which of its fields only the
//! server writes, what a status write may change. Decides about two values at a time.

use serde_json::{Value, json};

use super::Call;
use crate::builtin;
use crate::resource::Resource;
use crate::status::{Cause, Refusal};
use crate::value::{items, set_or_remove, text};

/// The object belongs where the request points.
pub(crate) fn place(call: &Call, resource: &Resource, object: &mut Value) -> Result<(), Refusal> {
    let namespace = text(&object["metadata"]["namespace"]).to_owned();
    if !resource.namespaced {
        if !namespace.is_empty() {
            return Err(Refusal::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        return Ok(());
    }
    if call.namespace.is_empty() {
        return Err(Refusal::bad_request(
            "an empty namespace may not be set during creation",
        ));
    }
    if !namespace.is_empty() && namespace != call.namespace {
        return Err(Refusal::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    object["metadata"]["namespace"] = call.namespace.as_str().into();
    Ok(())
}

pub(crate) fn check_type(resource: &Resource, body: &Value) -> Result<(), Refusal> {
    let (version, kind) = (text(&body["apiVersion"]), text(&body["kind"]));
    let wanted = resource.api_version();
    let unrecognized = format!(
        "the object provided is unrecognized (must be of type {})",
        resource.kind
    );
    if !body.is_object() {
        let found = if body.is_array() { "array" } else { "string" };
        return Err(Refusal::bad_request(format!(
            "{unrecognized}: couldn't get version/kind; json parse error: json: cannot unmarshal \
             {found} into Go value of type struct"
        )));
    }
    if resource.custom.is_some() && kind.is_empty() {
        return Err(Refusal::bad_request(format!(
            "{unrecognized}: Object 'Kind' is missing in '{body}'"
        )));
    }
    let shown = format!(
        "{} in version \"{}\" cannot be handled as a {}",
        if kind.is_empty() {
            &resource.kind
        } else {
            kind
        },
        version
            .rsplit('/')
            .next()
            .filter(|text| !text.is_empty())
            .unwrap_or(&resource.version),
        resource.kind
    );
    if !version.is_empty() && version != wanted {
        return Err(Refusal::bad_request(format!(
            "{shown}: no kind \"{kind}\" is registered for version \"{version}\" in scheme \
             \"pkg/runtime/scheme.go:111\""
        )));
    }
    if !kind.is_empty() && kind != resource.kind {
        return Err(Refusal::bad_request(format!(
            "{shown}: converting (v1.{kind}) to (core.{}): unknown conversion",
            resource.kind
        )));
    }
    Ok(())
}

/// Unknown fields are an error, a warning or nothing, as the request wishes.
pub(crate) fn complain(
    call: &mut Call,
    resource: &Resource,
    unknown: Vec<String>,
) -> Result<(), Refusal> {
    if unknown.is_empty() {
        return Ok(());
    }
    let said: Vec<String> = unknown
        .iter()
        .map(|path| format!("unknown field \"{path}\""))
        .collect();
    match call.params.text("fieldValidation") {
        "Strict" => {
            let said = said.join(", ");
            let prefix = format!(
                "{} in version \"{}\" cannot be handled as a {}: ",
                resource.kind, resource.version, resource.kind
            );
            Err(Refusal::bad_request(format!(
                "{prefix}strict decoding error: {said}"
            )))
        }
        "Ignore" => Ok(()),
        _ => {
            call.warnings.extend(said);
            Ok(())
        }
    }
}

/// Where the API server would keep the object.
fn storage_key(call: &Call) -> String {
    let resource = &call.resource;
    let place = match (resource.custom.is_some(), resource.kind.as_str()) {
        (true, _) => format!("{}/{}", resource.group, resource.plural),
        (false, "Service") => "services/specs".to_owned(),
        (false, _) => resource.plural.clone(),
    };
    match call.namespace.as_str() {
        "" => format!("/registry/{place}/{}", call.name),
        namespace => format!("/registry/{place}/{namespace}/{}", call.name),
    }
}

/// The sender knew the object as it is.
pub(crate) fn check_versions(
    call: &Call,
    before: &Value,
    object: &mut Value,
    by_patch: bool,
) -> Result<(), Refusal> {
    let (old, new) = (&before["metadata"], &mut object["metadata"]);
    let uid = text(&new["uid"]);
    if !uid.is_empty() && uid != text(&old["uid"]) {
        let resource = &call.resource;
        // The status of a custom resource is taken without a look at its metadata.
        let ignored = by_patch && resource.custom.is_some() && call.sub == "status";
        if by_patch && !ignored {
            let cause = Cause::invalid("metadata.uid", &new["uid"], "field is immutable");
            let causes = vec![cause];
            return Err(Refusal::invalid(
                &resource.group,
                &resource.kind,
                &call.name,
                causes,
            ));
        } else if !ignored {
            let why = format!(
                "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, \
                 AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in \
                 object meta: {}",
                storage_key(call),
                text(&old["uid"])
            );
            return Err(Refusal::conflict(resource.of(), &call.name, &why));
        }
    }
    let version = text(&new["resourceVersion"]);
    if version.is_empty() {
        if call.resource.custom.is_some() {
            let cause = Cause::new(
                "FieldValueInvalid",
                "metadata.resourceVersion",
                "Invalid value: 0: must be specified for an update".to_owned(),
            );
            return Err(Refusal::invalid(
                &call.resource.group,
                &call.resource.plural,
                &call.name,
                vec![cause],
            ));
        }
    } else if version.parse::<u64>().is_err() {
        return Err(Refusal::internal(format!(
            "strconv.ParseUint: parsing {version:?}: invalid syntax"
        )));
    } else if version != text(&old["resourceVersion"]) {
        let why = "the object has been modified; please apply your changes to the latest version \
                   and try again";
        return Err(Refusal::conflict(call.resource.of(), &call.name, why));
    }
    new["resourceVersion"] = old["resourceVersion"].clone();
    Ok(())
}

/// What only the server writes stays; a write to the status changes nothing else, and the other
/// way round.
pub(crate) fn keep_server_fields(call: &Call, before: &Value, object: &mut Value) {
    let resource = &call.resource;
    let old = &before["metadata"];
    for field in [
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "selfLink",
    ] {
        set_or_remove(&mut object["metadata"], field, &old[field]);
    }
    if object["metadata"]["generateName"].is_null() {
        set_or_remove(
            &mut object["metadata"],
            "generateName",
            &old["generateName"],
        );
    }
    if call.sub == "status" {
        let status = object["status"].take();
        let mut whole = before.clone();
        if resource.custom.is_none() {
            // Labels and the like may be written along with a built-in kind's status.
            let managed = object["metadata"]["managedFields"].clone();
            whole["metadata"] = object["metadata"].take();
            set_or_remove(&mut whole["metadata"], "managedFields", &managed);
        }
        set_or_remove(&mut whole, "status", &status);
        *object = whole;
    } else if resource.status {
        set_or_remove(object, "status", &before["status"]);
    }
    if resource.is("Service") {
        builtin::service::keep_address(object, before);
    }
}

pub(crate) fn clear_status(resource: &Resource, object: &mut Value, now: &str) {
    if resource.custom.is_some() {
        set_or_remove(object, "status", &Value::Null);
        return;
    }
    object["status"] = json!({});
    match resource.kind.as_str() {
        "Pod" => {
            let quality = builtin::defaults::quality(&object["spec"]);
            object["status"] = json!({"phase": "Pending", "qosClass": quality});
            if !items(&object["spec"]["schedulingGates"]).is_empty() {
                let message = "Scheduling is blocked due to non-empty scheduling gates";
                let why = Some(("SchedulingGated", message));
                crate::conditions::set(&mut object["status"], "PodScheduled", "False", why, now);
            }
        }
        "Namespace" => object["status"] = json!({"phase": "Active"}),
        "Service" => object["status"] = json!({"loadBalancer": {}}),
        "StatefulSet" => object["status"] = json!({"replicas": 0, "availableReplicas": 0}),
        _ => {}
    }
}

/// Anything but metadata and status is spec, for counting generations.
pub(crate) fn spec_changed(resource: &Resource, before: &Value, object: &Value) -> bool {
    fn rest(object: &Value, without_status: bool) -> impl Iterator<Item = (&String, &Value)> {
        let fields = object.as_object().into_iter().flatten();
        fields.filter(move |(name, _)| match name.as_str() {
            "metadata" => false,
            "status" => !without_status,
            _ => true,
        })
    }
    let without_status = resource.status || resource.custom.is_none();
    let deletion = before["metadata"]["deletionTimestamp"].is_null()
        && !object["metadata"]["deletionTimestamp"].is_null();
    deletion || !rest(before, without_status).eq(rest(object, without_status))
}
