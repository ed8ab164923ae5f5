//! PATCH: from a patch to a whole object that takes the way of any update. Decides by media type;
//! server-side apply has a way of its own, because it also decides who owns what.

use std::sync::Arc;

use serde_json::{Value, json};

use super::write::writer;
use super::{Call, Outcome, convert, request};
use crate::apply::{Managed, typed};
use crate::patch::{self, json::Failure, strategic};
use crate::schema::go;
use crate::server::Server;
use crate::status::{Cause, Refusal};
use crate::value::set_or_remove;
use crate::value::text;

impl Server {
    pub(crate) fn patch(&mut self, call: &mut Call) -> Result<Outcome, Refusal> {
        let media = call
            .content_type
            .split(';')
            .next()
            .unwrap_or_default()
            .trim()
            .to_owned();
        if media == "application/apply-patch+yaml" || media == "application/apply-patch+cbor" {
            return self.apply_patch(call);
        }
        let custom = call.resource.custom.is_some();
        let call_is_builtin = !custom;
        let known = [
            "application/merge-patch+json",
            "application/json-patch+json",
        ];
        let strategic = media == "application/strategic-merge-patch+json";
        if !known.contains(&media.as_str()) && (custom || !strategic) {
            if custom && strategic {
                return Err(Refusal::unsupported_media(
                    "the body of the request was in an unknown format - accepted media types \
                     include: application/json-patch+json, application/merge-patch+json, \
                     application/apply-patch+yaml"
                        .to_owned(),
                ));
            }
            return Err(Refusal::unsupported_patch());
        }
        let patch: Value = serde_json::from_slice(&call.body)
            .map_err(|_| Refusal::bad_request("invalid JSON patch"))?;
        let before = self.stored(call)?;
        let mut object = convert::from_stored(&call.resource, &before);
        match media.as_str() {
            "application/json-patch+json" => {
                patch::json::apply(&mut object, &patch).map_err(unfit)?;
            }
            "application/merge-patch+json" => {
                if !patch.is_object() {
                    return Err(Refusal::bad_request(
                        "error decoding patch: json: cannot unmarshal array into Go value of type \
                         map[string]interface {}",
                    ));
                }
                patch::merge(&mut object, &patch);
            }
            _ => strategic::apply(&mut object, &patch, &call.resource.schema)
                .map_err(Refusal::internal)?,
        }
        call.check_name(text(&object["metadata"]["name"]))?;
        let patched = object.clone();
        let kind = call.resource.kind.clone();
        let object = self
            .read(call, object)
            .map_err(|refusal| match refusal.code {
                400 if call_is_builtin => unreadable(&patched, &kind, &refusal.message),
                _ => refusal,
            })?;
        let stored = self.update(call, &before, object, true)?;
        Ok(Outcome::Object(200, stored))
    }

    fn apply_patch(&mut self, call: &mut Call) -> Result<Outcome, Refusal> {
        if call.params.text("fieldManager").is_empty() {
            let cause = Cause::required("fieldManager", "is required for apply patch");
            return Err(Refusal::invalid(
                "meta.k8s.io",
                "PatchOptions",
                "",
                vec![cause],
            ));
        }
        let mut config = request::parse(&call.body).map_err(Refusal::bad_request)?;
        self.check_config(call, &config)?;
        let unnamed = text(&config["metadata"]["name"]).is_empty();
        config["metadata"]["name"] = call.name.as_str().into();
        if call.resource.namespaced {
            config["metadata"]["namespace"] = call.namespace.as_str().into();
        }
        let schema = self.typed(&call.resource);
        let force = call.params.flag("force");
        let Some(before) = self.store.get(&call.key()).cloned() else {
            if !call.sub.is_empty() {
                return Err(call.not_found());
            }
            if !text(&config["metadata"]["uid"]).is_empty() {
                let why = "uid mismatch: the provided object specified uid, and no existing object was found";
                return Err(Refusal::conflict(call.resource.of(), &call.name, why));
            }
            if unnamed {
                return Err(Refusal::bad_request(format!(
                    "the name of the object ({} based on URL) was undeterminable: name must be \
                     provided",
                    call.name
                )));
            }
            let mut managed = Managed::default();
            let resource = Arc::clone(&call.resource);
            let object =
                managed.apply(&json!({}), &config, &schema, writer(call, &resource), force)?;
            let mut object = self.read(call, object)?;
            managed.write(&mut object);
            let object = self.create_object(call, object)?;
            return Ok(Outcome::Object(201, object));
        };
        let live = convert::from_stored(&call.resource, &before);
        let mut managed = Managed::of(&before).unwrap_or_default();
        let resource = Arc::clone(&call.resource);
        if call.sub == "status" {
            // Only the status is applied; a spec in the configuration counts for nothing.
            set_or_remove(&mut config, "spec", &Value::Null);
        } else if call.resource.status {
            set_or_remove(&mut config, "status", &Value::Null);
        }
        let merged = managed.apply(&live, &config, &schema, writer(call, &resource), force)?;
        let mut object = self.read(call, merged)?;
        for field in [
            "uid",
            "creationTimestamp",
            "generation",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
        ] {
            set_or_remove(&mut object["metadata"], field, &before["metadata"][field]);
        }
        let version = text(&config["metadata"]["resourceVersion"]);
        if !version.is_empty() && version != text(&before["metadata"]["resourceVersion"]) {
            let why = "the object has been modified; please apply your changes to the latest \
                       version and try again";
            return Err(Refusal::conflict(call.resource.of(), &call.name, why));
        }
        object["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"].clone();
        let stored = self.update_managed(call, &before, object, |_, _, _| {}, managed)?;
        Ok(Outcome::Object(200, stored))
    }

    fn check_config(&self, call: &mut Call, config: &Value) -> Result<(), Refusal> {
        if !config.is_object() {
            return Err(Refusal::bad_request(
                "error decoding YAML: the patch is no object",
            ));
        }
        let resource = Arc::clone(&call.resource);
        let (version, kind) = (text(&config["apiVersion"]), text(&config["kind"]));
        if version.is_empty() || kind.is_empty() {
            return Err(Refusal::bad_request(format!(
                "invalid object type: /{version}, Kind={kind}"
            )));
        }
        if version != call.api_version || kind != resource.kind {
            return Err(Refusal::bad_request(format!(
                "Incorrect version specified in apply patch. Specified patch version: {version}, \
                 expected: {}",
                call.api_version
            )));
        }
        if config["metadata"]
            .get("managedFields")
            .is_some_and(|entries| !entries.is_null())
        {
            return Err(Refusal::bad_request("metadata.managedFields must be nil"));
        }
        let named = text(&config["metadata"]["name"]);
        if !named.is_empty() {
            call.check_name(named)?;
        }
        let schema = self.typed(&resource);
        let shown = format!(
            "failed to create typed patch object ({}/{}; {}/{}, Kind={}): ",
            text(&config["metadata"]["namespace"]),
            call.name,
            resource.group,
            resource.version,
            resource.kind
        );
        if let Some(why) = typed::missing_key(config, &schema, "") {
            return Err(Refusal::internal(format!("{shown}{why}")));
        }
        if resource.custom.is_none() {
            let mut unknown = Vec::new();
            let mut copy = config.clone();
            let decoded = go::decode(&mut copy, &schema, &mut unknown);
            if let Some(path) = unknown.first() {
                let why = format!("{shown}.{path}: field not declared in schema");
                return Err(Refusal::internal(why));
            }
            decoded.map_err(Refusal::bad_request)?;
        }
        Ok(())
    }
}

/// What a patch made cannot be read. The API server leaves out which kind it was read as.
fn unreadable(patched: &Value, kind: &str, message: &str) -> Refusal {
    let read_as = format!(" cannot be handled as a {kind}: ");
    let why = message.split_once(&read_as).map_or(message, |(_, why)| why);
    Refusal::bad_patch(patched, why)
}

fn unfit(failure: Failure) -> Refusal {
    match failure {
        Failure::Malformed(why) => Refusal::bad_request(why),
        // The server keeps to itself what did not fit.
        Failure::Unfit => {
            let mut refusal = Refusal::unprocessable(
                "the server rejected our request due to an error in our request".to_owned(),
            );
            refusal.details = Some(Box::default());
            refusal
        }
    }
}
