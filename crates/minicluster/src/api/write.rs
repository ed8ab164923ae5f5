//! Creating, replacing and patching. Decides the order in which the API server looks at a write:
//! decoding, defaults, admission, validation, ownership of fields, storing.

use std::sync::Arc;

use serde_json::{Value, json};

use super::status::{Cause, Refusal};
use super::store::Key;
use super::{Call, Outcome, convert, request};
use crate::apply::{Managed, Writer, same_but_times};
use crate::builtin::{self, text};
use crate::kinds::Resource;
use crate::schema::{defaulting, format, go, pruning, validation};
use crate::{Cluster, admission};

/// Paths that a write to the object itself, or to its status, never changes.
const STATUS: &[&[&str]] = &[&["status"]];
const SPEC: &[&[&str]] = &[&["spec"]];
const ALL_BUT_STATUS: &[&[&str]] = &[&["spec"], &["metadata"]];

impl Cluster {
    pub(crate) fn create(&mut self, call: &mut Call) -> Result<Outcome, Refusal> {
        let body = request::body(&call.body, &call.content_type)?;
        let object = self.read(call, body)?;
        let object = self.create_object(call, object)?;
        Ok(Outcome::Object(201, object))
    }

    /// Decodes an object and fills it in.
    pub(crate) fn read(&self, call: &mut Call, mut body: Value) -> Result<Value, Refusal> {
        let resource = Arc::clone(&call.resource);
        if !body.is_object() {
            let found = if body.is_array() { "array" } else { "value" };
            return Err(Refusal::bad_request(format!(
                "couldn't get version/kind; json parse error: json: cannot unmarshal {found} into \
                 Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; \
                 Kind string \"json:\\\"kind,omitempty\\\"\" }}"
            )));
        }
        check_type(&resource, &body)?;
        body["apiVersion"] = resource.api_version().into();
        body["kind"] = resource.kind.as_str().into();
        let mut unknown = Vec::new();
        self.shape(&resource, &mut body, &mut unknown)
            .map_err(|why| {
                Refusal::bad_request(format!(
                    "{} in version \"{}\" cannot be handled as a {}: {why}",
                    resource.kind, resource.version, resource.kind
                ))
            })?;
        complain(call, &resource, unknown)?;
        Ok(convert::to_stored(&resource, body))
    }

    /// Gives an object the shape of its type: unknown fields go, defaults come.
    pub(crate) fn shape(
        &self,
        resource: &Resource,
        object: &mut Value,
        unknown: &mut Vec<String>,
    ) -> Result<(), String> {
        if resource.custom.is_some() {
            let mut metadata = object["metadata"].take();
            if metadata.is_null() {
                metadata = json!({});
            }
            let mut within = Vec::new();
            go::decode(&mut metadata, self.kinds.metadata(), &mut within)?;
            unknown.extend(within.into_iter().map(|path| format!("metadata.{path}")));
            let (version, kind) = (object["apiVersion"].clone(), object["kind"].clone());
            if let Some(fields) = object.as_object_mut() {
                for field in ["metadata", "apiVersion", "kind"] {
                    fields.remove(field);
                }
            }
            pruning::prune(object, &resource.schema, "", unknown);
            defaulting::drop_nulls(object, &resource.schema);
            defaulting::fill(object, &resource.schema);
            object["metadata"] = metadata;
            object["apiVersion"] = version;
            object["kind"] = kind;
            return Ok(());
        }
        go::decode(object, &resource.schema, unknown)?;
        if resource.kind == "Secret"
            && let Some(bad) = builtin::simple::bad_base64(object)
        {
            let at = bad
                .bytes()
                .position(|byte| !byte.is_ascii_alphanumeric())
                .unwrap_or(0);
            return Err(format!("illegal base64 data at input byte {at}"));
        }
        builtin::default(resource, object);
        Ok(())
    }

    /// Stores a new object.
    pub(crate) fn create_object(
        &mut self,
        call: &mut Call,
        mut object: Value,
    ) -> Result<Arc<Value>, Refusal> {
        let resource = Arc::clone(&call.resource);
        place(call, &resource, &mut object)?;
        if let Some(metadata) = object["metadata"].as_object_mut() {
            for field in [
                "resourceVersion",
                "deletionTimestamp",
                "deletionGracePeriodSeconds",
                "selfLink",
            ] {
                if field == "resourceVersion"
                    && metadata
                        .get(field)
                        .is_some_and(|value| !text(value).is_empty())
                {
                    return Err(Refusal::bad_request(
                        "resourceVersion should not be set on objects to be created",
                    ));
                }
                metadata.remove(field);
            }
        }
        self.check_namespace(call)?;
        let generated = text(&object["metadata"]["name"]).is_empty();
        if generated && !text(&object["metadata"]["generateName"]).is_empty() {
            let base: String = text(&object["metadata"]["generateName"])
                .chars()
                .take(58)
                .collect();
            object["metadata"]["name"] = format!("{base}{}", self.seed.suffix()).into();
        }
        call.name = text(&object["metadata"]["name"]).to_owned();
        if resource.status && resource.kind != "Node" {
            clear_status(&resource, &mut object);
        }
        object["metadata"]["uid"] = self.seed.uid().into();
        object["metadata"]["creationTimestamp"] = format::seconds(call.now).into();
        if resource.counts_generations() {
            object["metadata"]["generation"] = 1.into();
        } else if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("generation");
        }
        admission::on_create(self, call, &mut object)?;
        self.validate(&resource, &object, None)?;
        let key = call.key();
        if self.store.get(&key).is_some() {
            return Err(Refusal::already_exists(resource.of(), &call.name));
        }
        let mut managed = Managed::of(&object).unwrap_or_default();
        if managed.is_empty() {
            let empty = json!({});
            managed.update(
                &empty,
                &object,
                &self.typed(&resource),
                writer(call, &resource),
            );
        }
        managed.write(&mut object);
        self.finish_create(call, &key, object)
    }

    /// What every object has beyond its own type, for merging.
    pub(crate) fn typed(&self, resource: &Resource) -> Arc<crate::schema::Schema> {
        if resource.custom.is_none() {
            return Arc::clone(&resource.schema);
        }
        let own = &resource.schema;
        let mut fields = own.fields.clone();
        fields.insert("metadata".to_owned(), Arc::clone(self.kinds.metadata()));
        Arc::new(crate::schema::Schema {
            kind: own.kind,
            fields,
            values: own.values.clone(),
            open: own.open,
            ..crate::schema::Schema::default()
        })
    }

    fn finish_create(
        &mut self,
        call: &Call,
        key: &Key,
        mut object: Value,
    ) -> Result<Arc<Value>, Refusal> {
        if call.resource.is("CustomResourceDefinition") {
            builtin::definition::established(&mut object, &format::seconds(call.now));
        }
        if call.is_dry_run() {
            return Ok(Arc::new(object));
        }
        if call.resource.is("CustomResourceDefinition") {
            self.kinds.define(&object);
        }
        let stored = self.store.put(key, object);
        if call.resource.is("Namespace") {
            self.furnish_namespace(call.now, &call.name);
        }
        Ok(stored)
    }

    /// Everything that is wrong with an object.
    fn validate(
        &self,
        resource: &Resource,
        object: &Value,
        before: Option<&Value>,
    ) -> Result<(), Refusal> {
        let mut causes = Vec::new();
        builtin::metadata::validate(resource, object, &mut causes);
        if let Some(before) = before {
            builtin::metadata::validate_update(object, before, &mut causes);
        }
        match &resource.custom {
            None => causes.extend(builtin::validate(resource, object, before)),
            Some(custom) => {
                validation::check(object, &resource.schema, "", &mut causes);
                if causes.is_empty()
                    && let Some(rules) = &custom.rules
                {
                    causes.extend(rules.check(object, before));
                }
            }
        }
        if causes.is_empty() {
            return Ok(());
        }
        let name = text(&object["metadata"]["name"]);
        Err(Refusal::invalid(
            &resource.group,
            &resource.kind,
            name,
            causes,
        ))
    }

    pub(crate) fn replace(&mut self, call: &mut Call) -> Result<Outcome, Refusal> {
        let body = request::body(&call.body, &call.content_type)?;
        let object = self.read(call, body)?;
        let named = text(&object["metadata"]["name"]);
        if named.is_empty() {
            return Err(Refusal::bad_request("name must be provided"));
        }
        if named != call.name {
            return Err(Refusal::bad_request(format!(
                "the name of the object ({named}) does not match the name on the URL ({})",
                call.name
            )));
        }
        let Some(before) = self.store.get(&call.key()).cloned() else {
            let upsert = matches!(call.resource.kind.as_str(), "Lease" | "Event");
            if upsert && call.resource.custom.is_none() && call.sub.is_empty() {
                let object = self.create_object(call, object)?;
                return Ok(Outcome::Object(201, object));
            }
            return Err(call.not_found());
        };
        let stored = self.update(call, &before, object)?;
        Ok(Outcome::Object(200, stored))
    }

    /// Stores a changed object. `object` is whole, shaped and defaulted.
    pub(crate) fn update(
        &mut self,
        call: &mut Call,
        before: &Arc<Value>,
        mut object: Value,
    ) -> Result<Arc<Value>, Refusal> {
        let resource = Arc::clone(&call.resource);
        place(call, &resource, &mut object)?;
        check_versions(call, before, &mut object)?;
        keep_server_fields(call, before, &mut object);
        let managed = written_managers(before, &object);
        self.update_managed(
            call,
            before,
            object,
            |managed_fields, cluster, object| {
                let schema = cluster.typed(&resource);
                managed_fields.update(before, object, &schema, writer(call, &resource));
            },
            managed,
        )
    }

    /// The common end of updates and applies.
    pub(crate) fn update_managed(
        &mut self,
        call: &Call,
        before: &Arc<Value>,
        mut object: Value,
        own: impl FnOnce(&mut Managed, &Self, &Value),
        mut managed: Managed,
    ) -> Result<Arc<Value>, Refusal> {
        let resource = &call.resource;
        if call.sub.is_empty() {
            admission::on_update(self, call, before, &mut object)?;
        }
        let changed = spec_changed(resource, before, &object);
        if resource.counts_generations() {
            let generation = before["metadata"]["generation"].as_i64().unwrap_or(1);
            object["metadata"]["generation"] = (generation + i64::from(changed)).into();
        }
        self.validate(resource, &object, Some(before))?;
        own(&mut managed, self, &object);
        managed.write(&mut object);
        if same_but_times(before, &object) {
            return Ok(Arc::clone(before));
        }
        if call.is_dry_run() {
            return Ok(Arc::new(object));
        }
        if resource.is("CustomResourceDefinition") {
            builtin::definition::established(&mut object, &format::seconds(call.now));
            self.kinds.define(&object);
        }
        Ok(self.settle(&call.key(), object))
    }

    /// Stores an object, unless it was only waiting for its last finalizer.
    pub(crate) fn settle(&mut self, key: &Key, object: Value) -> Arc<Value> {
        let metadata = &object["metadata"];
        let over = !metadata["deletionTimestamp"].is_null()
            && builtin::items(&metadata["finalizers"]).is_empty()
            && metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) == 0
            && builtin::items(&object["spec"]["finalizers"]).is_empty();
        let stored = self.store.put(key, object);
        if over {
            return self.erase(key).unwrap_or(stored);
        }
        stored
    }
}

/// Who writes, as managed fields have it.
pub(crate) fn writer<'a>(call: &'a Call, resource: &'a Resource) -> Writer<'a> {
    let ignores = match (
        call.sub.as_str(),
        resource.custom.is_some(),
        resource.status,
    ) {
        ("status", true, _) => ALL_BUT_STATUS,
        ("status", false, _) => SPEC,
        (_, _, true) => STATUS,
        _ => &[],
    };
    Writer {
        name: &call.manager,
        version: &call.api_version,
        subresource: &call.sub,
        now: call.now,
        ignores,
    }
}

fn written_managers(before: &Value, object: &Value) -> Managed {
    let sent = &object["metadata"]["managedFields"];
    if sent.as_array().is_some_and(|entries| !entries.is_empty())
        && let Some(managed) = Managed::of(object)
        && !managed.is_empty()
    {
        return managed;
    }
    Managed::of(before).unwrap_or_default()
}

/// The object belongs where the request points.
fn place(call: &Call, resource: &Resource, object: &mut Value) -> Result<(), Refusal> {
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

fn check_type(resource: &Resource, body: &Value) -> Result<(), Refusal> {
    let (version, kind) = (text(&body["apiVersion"]), text(&body["kind"]));
    let wanted = resource.api_version();
    if (!version.is_empty() && version != wanted) || (!kind.is_empty() && kind != resource.kind) {
        let shown = if version == wanted || version.is_empty() {
            format!(
                "{} in version \"{}\" cannot be handled as a {}: no kind \"{kind}\" is registered \
                 for version \"{wanted}\"",
                kind, resource.version, resource.kind
            )
        } else {
            format!(
                "the API version in the data ({version}) does not match the expected API version \
                 ({wanted})"
            )
        };
        return Err(Refusal::bad_request(shown));
    }
    Ok(())
}

/// Unknown fields are an error, a warning or nothing, as the request wishes.
fn complain(call: &mut Call, resource: &Resource, unknown: Vec<String>) -> Result<(), Refusal> {
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
            let prefix = if resource.custom.is_some() {
                String::new()
            } else {
                format!(
                    "{} in version \"{}\" cannot be handled as a {}: ",
                    resource.kind, resource.version, resource.kind
                )
            };
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

/// The sender knew the object as it is.
fn check_versions(call: &Call, before: &Value, object: &mut Value) -> Result<(), Refusal> {
    let (old, new) = (&before["metadata"], &mut object["metadata"]);
    let uid = text(&new["uid"]);
    if !uid.is_empty() && uid != text(&old["uid"]) {
        let why = format!(
            "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
            text(&old["uid"])
        );
        return Err(Refusal::conflict(call.resource.of(), &call.name, &why));
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
                &call.resource.kind,
                &call.name,
                vec![cause],
            ));
        }
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
fn keep_server_fields(call: &Call, before: &Value, object: &mut Value) {
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
        if !resource.custom.is_some() {
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

/// Null means absent.
pub(crate) fn set_or_remove(object: &mut Value, field: &str, value: &Value) {
    let Some(fields) = object.as_object_mut() else {
        return;
    };
    if value.is_null() {
        fields.remove(field);
    } else {
        fields.insert(field.to_owned(), value.clone());
    }
}

fn clear_status(resource: &Resource, object: &mut Value) {
    if resource.custom.is_some() {
        set_or_remove(object, "status", &Value::Null);
        return;
    }
    object["status"] = json!({});
    match resource.kind.as_str() {
        "Pod" => {
            let quality = builtin::defaults::quality(&object["spec"]);
            object["status"] = json!({"phase": "Pending", "qosClass": quality});
        }
        "Namespace" => object["status"] = json!({"phase": "Active"}),
        "Service" => object["status"] = json!({"loadBalancer": {}}),
        "StatefulSet" => object["status"] = json!({"replicas": 0, "availableReplicas": 0}),
        _ => {}
    }
}

/// Anything but metadata and status is spec, for counting generations.
fn spec_changed(resource: &Resource, before: &Value, object: &Value) -> bool {
    let of = |object: &Value| {
        let mut rest = object.as_object().cloned().unwrap_or_default();
        rest.remove("metadata");
        if resource.status || resource.custom.is_none() {
            rest.remove("status");
        }
        rest
    };
    let deletion = before["metadata"]["deletionTimestamp"].is_null()
        && !object["metadata"]["deletionTimestamp"].is_null();
    deletion || before["spec"] != object["spec"] || of(before) != of(object)
}
