//! Checks a pod template only as far as the planner builds on it: the parts that the planner adds to or
//! reads must have the shape they have in a Pod. The API server checks the rest when it creates the
//! pod.

use serde_json::Value;

use crate::reader::{Place, Reader};

/// Reports every part of the template that has another shape than in a Pod.
pub(crate) fn check_shape(reader: &mut Reader, template: &Place<'_>) {
    if reader.object(template).is_none() {
        return;
    }
    let metadata = reader.group(template, "metadata");
    for key in ["labels", "annotations"] {
        reader.map_of(&metadata.field(key), "a string", Value::is_string);
    }
    let spec = reader.group(template, "spec");
    check_spec(reader, &spec);
}

fn check_spec(reader: &mut Reader, spec: &Place<'_>) {
    let containers = spec.field("containers");
    let items = reader.list_of(&containers, "an object", Value::is_object);
    for index in 0..items.map_or(0, Vec::len) {
        check_container(reader, &containers, index);
    }
    for list in ["volumes", "tolerations", "schedulingGates"] {
        reader.list_of(&spec.field(list), "an object", Value::is_object);
    }
    reader.map_of(&spec.field("nodeSelector"), "a string", Value::is_string);
    reader.boolean(&spec.field("hostNetwork"));
    reader.optional_string(&spec.field("priorityClassName"));
    reader.optional_string(&spec.field("schedulerName"));
    let affinity = reader.group(spec, "affinity");
    reader.object(&affinity.field("nodeAffinity"));
    let dns = reader.group(spec, "dnsConfig");
    reader.list_of(&dns.field("searches"), "a string", Value::is_string);
}

fn check_container(reader: &mut Reader, containers: &Place<'_>, index: usize) {
    let Some(container) = containers.item(index) else {
        return;
    };
    for key in ["command", "args"] {
        reader.list_of(&container.field(key), "a string", Value::is_string);
    }
    for key in ["env", "volumeMounts"] {
        reader.list_of(&container.field(key), "an object", Value::is_object);
    }
    let resources = reader.group(&container, "resources");
    for key in ["limits", "requests"] {
        reader.map_of(&resources.field(key), "a quantity", is_quantity_shaped);
    }
}

/// The containers of a template of any shape.
pub(crate) fn containers(template: &Value) -> impl Iterator<Item = &Value> {
    let containers = template.pointer("/spec/containers");
    containers.and_then(Value::as_array).into_iter().flatten()
}

/// Quantities are written as text or as plain numbers.
pub(crate) fn is_quantity_shaped(value: &Value) -> bool {
    value.is_string() || value.is_number()
}
