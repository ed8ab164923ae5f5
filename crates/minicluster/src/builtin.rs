//! Built-in kinds: what the API server fills in, refuses and keeps for itself. Decides per kind;
//! the way of a request is the same for all.

use serde_json::Value;

use crate::resource::Resource;
use crate::status::Cause;

pub(crate) mod defaults;
pub(crate) mod definition;
pub(crate) mod job;
pub(crate) mod metadata;
pub(crate) mod pod;
pub(crate) mod service;
pub(crate) mod simple;
pub(crate) mod types;

/// Fills in what a user left out.
pub(crate) fn default(resource: &Resource, object: &mut Value) {
    match resource.kind.as_str() {
        "Pod" => defaults::pod(object),
        "Service" => service::default(object),
        "Job" => job::default(object),
        "StatefulSet" => simple::default_stateful_set(object),
        "Namespace" => simple::default_namespace(object),
        "Secret" => simple::default_secret(object),
        "RoleBinding" | "ClusterRoleBinding" => simple::default_binding(object),
        "NetworkPolicy" => simple::default_network_policy(object),
        "PriorityClass" => simple::default_priority_class(object),
        "CustomResourceDefinition" => definition::default(object),
        _ => {}
    }
}

/// What is wrong with an object that is to be created, or to replace `before`.
pub(crate) fn validate(resource: &Resource, object: &Value, before: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    match resource.kind.as_str() {
        "Pod" => pod::validate(object, before, &mut causes),
        "Service" => service::validate(object, before, &mut causes),
        "Job" => job::validate(object, before, &mut causes),
        "StatefulSet" => simple::validate_stateful_set(object, before, &mut causes),
        "ConfigMap" => simple::validate_config_map(object, before, &mut causes),
        "Secret" => simple::validate_secret(object, before, &mut causes),
        "Role" | "ClusterRole" => {}
        "RoleBinding" | "ClusterRoleBinding" => {
            simple::validate_binding(object, before, &mut causes);
        }
        "PriorityClass" => simple::validate_priority_class(object, before, &mut causes),
        "Lease" => simple::validate_lease(object, &mut causes),
        "CustomResourceDefinition" => definition::validate(object, before, &mut causes),
        _ => {}
    }
    causes
}
