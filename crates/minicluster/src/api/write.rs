//! Creating, replacing and patching. Decides the order in which the API server looks at a write:
//! decoding, defaults, admission, validation, ownership of fields, storing.

use std::sync::Arc;

use serde_json::{Value, json};

use super::admission;
use super::rules::{
    check_type, check_versions, clear_status, complain, keep_server_fields, place, spec_changed,
};
use super::{Call, Outcome, convert, request};
use crate::apply::{Managed, Writer, same_but_times};
use crate::builtin;
use crate::resource::Resource;
use crate::schema::{defaulting, format, go, pruning, validation};
use crate::server::Server;
use crate::status::{Cause, Refusal};
use crate::store::Key;
use crate::value::{items, text};

/// Paths that a write to the object itself, or to its status, never changes.
const STATUS: &[&[&str]] = &[&["status"]];
const SPEC: &[&[&str]] = &[&["spec"]];
const ALL_BUT_STATUS: &[&[&str]] = &[&["spec"], &["metadata"]];

impl Server {
    /// Creates an object as a controller of the cluster.
    pub(crate) fn create_as_controller(
        &mut self,
        now: jiff::Timestamp,
        (group, version, plural): (&str, &str, &str),
        namespace: &str,
        object: Value,
        manager: &str,
    ) -> Result<Arc<Value>, Refusal> {
        let resource = self.kinds.get(group, version, plural).cloned();
        let resource = resource.ok_or_else(Refusal::no_such_path)?;
        let mut call = Call {
            api_version: resource.api_version(),
            resource,
            namespace: namespace.to_owned(),
            name: String::new(),
            sub: String::new(),
            params: request::Params::default(),
            form: request::Form::Whole,
            now,
            manager: manager.to_owned(),
            body: Vec::new(),
            content_type: String::new(),
            warnings: Vec::new(),
        };
        let object = self.read(&mut call, object)?;
        self.create_object(&mut call, object)
    }

    pub(crate) fn create(&mut self, call: &mut Call) -> Result<Outcome, Refusal> {
        let body = request::body(&call.body, &call.content_type, &call.resource.kind)?;
        let object = self.read(call, body)?;
        let object = self.create_object(call, object)?;
        Ok(Outcome::Object(201, object))
    }

    /// Decodes an object and fills it in.
    pub(crate) fn read(&self, call: &mut Call, mut body: Value) -> Result<Value, Refusal> {
        let resource = Arc::clone(&call.resource);
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
            pruning::prune(object, &resource.schema, unknown);
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
                    return Err(Refusal::internal(
                        "resourceVersion should not be set on objects to be created".to_owned(),
                    ));
                }
                metadata.remove(field);
            }
        }
        self.check_namespace(call)?;
        let generated = text(&object["metadata"]["name"]).is_empty();
        if generated && !text(&object["metadata"]["generateName"]).is_empty() {
            let base = text(&object["metadata"]["generateName"]).chars().take(58);
            let base: String = base.collect();
            object["metadata"]["name"] = format!("{base}{}", self.seed.suffix()).into();
        }
        call.name = text(&object["metadata"]["name"]).to_owned();
        object["metadata"]["uid"] = self.seed.uid().into();
        object["metadata"]["creationTimestamp"] = format::seconds(call.now).into();
        // Who wrote what is settled before the server adds its own part.
        if self.config.managed_fields {
            self.own_all(call, &mut object)?;
        }
        admission::on_create(self, call, &mut object)?;
        if resource.status && resource.kind != "Node" {
            clear_status(&resource, &mut object, &format::seconds(call.now));
        }
        if resource.counts_generations() {
            object["metadata"]["generation"] = 1.into();
        }
        self.validate(call, &object, None)?;
        let key = call.key();
        if let Some(there) = self.store.get(&key) {
            let mut refusal = Refusal::already_exists(resource.of(), &call.name);
            if !there["metadata"]["deletionTimestamp"].is_null() {
                refusal.message = format!("object is being deleted: {}", refusal.message);
            }
            return Err(refusal);
        }
        self.finish_create(call, &key, object)
    }

    /// Whoever creates an object owns all of it, unless it says otherwise.
    fn own_all(&self, call: &Call, object: &mut Value) -> Result<(), Refusal> {
        let resource = &call.resource;
        let mut managed = Managed::of(object).unwrap_or_default();
        if managed.is_empty() {
            let mut empty = json!({});
            if resource.custom.is_none() {
                go::decode(&mut empty, &resource.schema, &mut Vec::new())
                    .map_err(Refusal::bad_request)?;
            }
            let as_sent = convert::from_stored(resource, object);
            managed.update(
                &empty,
                &as_sent,
                &self.typed(resource),
                writer(call, resource),
            );
        }
        managed.write(object);
        Ok(())
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
            self.create_default_account(call.now, &call.name);
        }
        Ok(stored)
    }

    /// Everything that is wrong with an object.
    fn validate(&self, call: &Call, object: &Value, before: Option<&Value>) -> Result<(), Refusal> {
        let resource = &call.resource;
        let mut causes = Vec::new();
        builtin::metadata::validate(resource, object, &mut causes);
        if let Some(before) = before {
            builtin::metadata::validate_update(object, before, &mut causes);
        }
        match &resource.custom {
            None => causes.extend(builtin::validate(resource, object, before)),
            Some(custom) => {
                let status = resource.schema.fields.get("status");
                match status.filter(|_| call.sub == "status") {
                    Some(schema) => {
                        let mut within = Vec::new();
                        validation::check(&object["status"], schema, &mut within);
                        causes.extend(within.into_iter().map(|cause| cause.within("status")));
                    }
                    None => validation::check(object, &resource.schema, &mut causes),
                }
                if let Some(rules) = &custom.rules {
                    let concerned = call.sub != "status" || rules.reads_status;
                    if causes.iter().any(Cause::is_blocking) {
                        causes.push(Cause::unchecked());
                    } else if concerned {
                        causes.extend(rules.check(object, before));
                    }
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
        let body = request::body(&call.body, &call.content_type, &call.resource.kind)?;
        let object = self.read(call, body)?;
        let named = text(&object["metadata"]["name"]);
        if named.is_empty() {
            return Err(Refusal::bad_request(format!(
                "the name of the object ({} based on URL) was undeterminable: name must be provided",
                call.name
            )));
        }
        call.check_name(named)?;
        let Some(before) = self.store.get(&call.key()).cloned() else {
            let upsert = matches!(call.resource.kind.as_str(), "Lease" | "Event");
            if upsert && call.resource.custom.is_none() && call.sub.is_empty() {
                let object = self.create_object(call, object)?;
                return Ok(Outcome::Object(201, object));
            }
            return Err(call.not_found());
        };
        let stored = self.update(call, &before, object, false)?;
        Ok(Outcome::Object(200, stored))
    }

    /// Stores a changed object. `object` is whole, shaped and defaulted.
    pub(crate) fn update(
        &mut self,
        call: &mut Call,
        before: &Arc<Value>,
        mut object: Value,
        by_patch: bool,
    ) -> Result<Arc<Value>, Refusal> {
        let resource = Arc::clone(&call.resource);
        place(call, &resource, &mut object)?;
        check_versions(call, before, &mut object, by_patch)?;
        keep_server_fields(call, before, &mut object);
        let managed = match self.config.managed_fields {
            true => written_managers(before, &object),
            false => Managed::default(),
        };
        self.update_managed(
            call,
            before,
            object,
            |managed_fields, server, object| {
                if server.config.managed_fields {
                    let schema = server.typed(&resource);
                    managed_fields.update(before, object, &schema, writer(call, &resource));
                }
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
        let changed = spec_changed(resource, before, &object);
        if resource.counts_generations() {
            let generation = before["metadata"]["generation"].as_i64().unwrap_or(1);
            object["metadata"]["generation"] = (generation + i64::from(changed)).into();
        }
        self.validate(call, &object, Some(before))?;
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
            && items(&metadata["finalizers"]).is_empty()
            && metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) == 0
            && items(&object["spec"]["finalizers"]).is_empty();
        if over {
            // It goes as it was stored last, with this change told to the sender alone.
            self.erase(key);
            return Arc::new(object);
        }
        self.store.put(key, object)
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
