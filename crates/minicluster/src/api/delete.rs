//! Deleting, one or many. Decides whether an object goes at once, waits for its finalizers, or is
//! given time to stop.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{Call, Outcome, present, request, success};
use crate::resource::Resource;
use crate::schema::format;
use crate::server::Server;
use crate::status::Refusal;
use crate::store::{Key, KindId};
use crate::value::{items, text};

/// Finalizers of the garbage collector.
pub(crate) const ORPHAN: &str = "orphan";
pub(crate) const FOREGROUND: &str = "foregroundDeletion";

/// What becomes of the dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Propagation {
    Background,
    Foreground,
    Orphan,
}

/// How to delete.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    pub(crate) grace: Option<i64>,
    pub(crate) propagation: Option<Propagation>,
    pub(crate) uid: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) dry_run: bool,
}

/// An object after its deletion.
#[derive(Debug)]
pub(crate) struct Deleted {
    pub(crate) object: Arc<Value>,
    pub(crate) gone: bool,
}

impl Options {
    fn of(call: &Call) -> Result<Self, Refusal> {
        let body = if call.body.is_empty() {
            json!({})
        } else {
            request::body(&call.body, &call.content_type, "DeleteOptions")?
        };
        let propagation = match text(&body["propagationPolicy"]) {
            "" => call.params.text("propagationPolicy"),
            named => named,
        };
        let orphans = body["orphanDependents"].as_bool().or_else(|| {
            call.params
                .has("orphanDependents")
                .then(|| call.params.flag("orphanDependents"))
        });
        let propagation = match (propagation, orphans) {
            ("Orphan", _) | ("", Some(true)) => Some(Propagation::Orphan),
            ("Foreground", _) => Some(Propagation::Foreground),
            ("Background", _) | ("", Some(false)) => Some(Propagation::Background),
            ("", None) => None,
            (other, _) => {
                let supported = ["Foreground", "Background", "Orphan", "nil"].map(Value::from);
                let cause = crate::status::Cause::unsupported(
                    "propagationPolicy",
                    &json!(other),
                    &supported,
                );
                return Err(Refusal::invalid(
                    "meta.k8s.io",
                    "DeleteOptions",
                    "",
                    vec![cause],
                ));
            }
        };
        let precondition = |field: &str| body["preconditions"][field].as_str().map(str::to_owned);
        let grace = body["gracePeriodSeconds"].as_i64();
        let from_query = call.params.text("gracePeriodSeconds").parse().ok();
        Ok(Self {
            grace: grace.or(from_query),
            propagation,
            uid: precondition("uid"),
            version: precondition("resourceVersion"),
            dry_run: call.is_dry_run() || !items(&body["dryRun"]).is_empty(),
        })
    }
}

impl Server {
    /// Deletes an object of any kind; one that is gone already is none of our business.
    pub(crate) fn delete_any(&mut self, now: Timestamp, key: &Key, options: &Options) {
        if let Some(resource) = self.kinds.of_id(&key.kind).cloned() {
            drop(self.delete_object(now, &resource, key, options));
        }
    }

    pub(crate) fn delete(&mut self, call: &mut Call) -> Result<Outcome, Refusal> {
        let options = Options::of(call)?;
        let resource = Arc::clone(&call.resource);
        if resource.is("Job") && options.propagation.is_none() {
            call.warnings.push(
                "child pods are preserved by default when jobs are deleted; set \
                 propagationPolicy=Background to remove them or set propagationPolicy=Orphan to \
                 suppress this warning"
                    .to_owned(),
            );
        }
        let deleted = self.delete_object(call.now, &resource, &call.key(), &options)?;
        let shows = matches!(
            resource.kind.as_str(),
            "Pod" | "Namespace" | "Service" | "ServiceAccount"
        ) && resource.custom.is_none();
        if deleted.gone && !shows {
            let uid = text(&deleted.object["metadata"]["uid"]).to_owned();
            return Ok(Outcome::Plain(200, success(call, &uid)));
        }
        Ok(Outcome::Object(200, deleted.object))
    }

    pub(crate) fn delete_collection(&mut self, call: &mut Call) -> Result<Outcome, Refusal> {
        if matches!(call.resource.kind.as_str(), "Namespace" | "Service")
            && call.resource.custom.is_none()
            && call.resource.kind == "Namespace"
        {
            return Err(Refusal::method_not_allowed());
        }
        let options = Options::of(call)?;
        let page = self.page(call)?;
        let resource = Arc::clone(&call.resource);
        for object in &page.objects {
            let key = key_of(&resource.id, object);
            match self.delete_object(call.now, &resource, &key, &options) {
                Err(refusal) if refusal.code != 404 => return Err(refusal),
                Ok(_) | Err(_) => {}
            }
        }
        // The answer shows what was found, not what became of it.
        let text = present::list(call, &page.objects, page.revision, page.more);
        Ok(Outcome::Written(200, text))
    }

    /// Deletes as the options say.
    pub(crate) fn delete_object(
        &mut self,
        now: Timestamp,
        resource: &Resource,
        key: &Key,
        options: &Options,
    ) -> Result<Deleted, Refusal> {
        let Some(before) = self.store.get(key).cloned() else {
            return Err(Refusal::not_found(resource.of(), &key.name));
        };
        check(resource, key, &before, options)?;
        let mut object = (*before).clone();
        propagate(resource, &mut object, options);
        let waits = !items(&object["metadata"]["finalizers"]).is_empty()
            || !items(&object["spec"]["finalizers"]).is_empty() && resource.is("Namespace");
        let grace = if resource.is("Pod") {
            pod_grace(&before, options)
        } else {
            0
        };
        let marked = !before["metadata"]["deletionTimestamp"].is_null();
        if grace == 0 && !waits {
            if options.dry_run {
                return Ok(Deleted {
                    object: before,
                    gone: true,
                });
            }
            let object = self.erase(key).unwrap_or(before);
            let object = if resource.is("Pod") {
                Arc::new(stopped(&object, now))
            } else {
                object
            };
            return Ok(Deleted { object, gone: true });
        }
        let earlier = before["metadata"]["deletionGracePeriodSeconds"].as_i64();
        if !marked || earlier.is_some_and(|earlier| grace < earlier) {
            let start = if marked { started(&before) } else { now };
            let end = start
                .checked_add(SignedDuration::from_secs(grace))
                .unwrap_or(start);
            object["metadata"]["deletionTimestamp"] = format::seconds(end).into();
            object["metadata"]["deletionGracePeriodSeconds"] = grace.into();
            if !marked && resource.counts_generations() {
                let generation = object["metadata"]["generation"].as_i64().unwrap_or(0);
                object["metadata"]["generation"] = (generation + 1).into();
            }
            if resource.is("Namespace") {
                object["status"]["phase"] = "Terminating".into();
            }
        }
        if options.dry_run {
            return Ok(Deleted {
                object: Arc::new(object),
                gone: false,
            });
        }
        if object == *before {
            return Ok(Deleted {
                object: before,
                gone: false,
            });
        }
        Ok(Deleted {
            object: self.store.put(key, object),
            gone: false,
        })
    }

    /// Removes an object for good.
    pub(crate) fn erase(&mut self, key: &Key) -> Option<Arc<Value>> {
        let last = self.store.remove(key)?;
        if key.kind == KindId::new("apiextensions.k8s.io", "customresourcedefinitions") {
            let spec = &last["spec"];
            let kind = KindId::new(text(&spec["group"]), text(&spec["names"]["plural"]));
            let objects: Vec<Key> = self
                .store
                .list(&kind, None, None)
                .map(|object| key_of(&kind, object))
                .collect();
            for key in objects {
                self.store.remove(&key);
            }
            self.kinds.undefine(&key.name);
            self.store.forget_kind(&kind);
        }
        Some(last)
    }
}

/// Where a stored object stands.
pub(crate) fn key_of(kind: &KindId, object: &Value) -> Key {
    let metadata = &object["metadata"];
    Key::new(kind, text(&metadata["namespace"]), text(&metadata["name"]))
}

/// A pod that went without having to be given time.
fn stopped(pod: &Value, now: Timestamp) -> Value {
    let mut pod = pod.clone();
    let metadata = &mut pod["metadata"];
    if metadata["deletionTimestamp"].is_null() {
        let generation = metadata["generation"].as_i64().unwrap_or(0);
        metadata["generation"] = (generation + 1).into();
        metadata["deletionTimestamp"] = format::seconds(now).into();
    }
    metadata["deletionGracePeriodSeconds"] = 0.into();
    pod
}

fn started(object: &Value) -> Timestamp {
    let metadata = &object["metadata"];
    let end: Timestamp = text(&metadata["deletionTimestamp"])
        .parse()
        .unwrap_or_default();
    let grace = metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
    end.checked_sub(SignedDuration::from_secs(grace))
        .unwrap_or(end)
}

fn check(resource: &Resource, key: &Key, object: &Value, options: &Options) -> Result<(), Refusal> {
    let metadata = &object["metadata"];
    let facts = [
        ("UID", &options.uid, &metadata["uid"]),
        (
            "ResourceVersion",
            &options.version,
            &metadata["resourceVersion"],
        ),
    ];
    for (what, wanted, found) in facts {
        if let Some(wanted) = wanted
            && wanted != text(found)
        {
            let mut why = format!(
                "the {what} in the precondition ({wanted}) does not match the {what} in record ({})",
                text(found)
            );
            why.push_str(match what {
                "UID" => ". The object might have been deleted and then recreated",
                _ => ". The object might have been modified",
            });
            let of = crate::status::Of {
                group: &resource.group,
                plural: &resource.kind,
            };
            return Err(Refusal::conflict(of, &key.name, &why));
        }
    }
    Ok(())
}

/// The wish about dependents is kept in the object until it is fulfilled.
fn propagate(resource: &Resource, object: &mut Value, options: &Options) {
    // Jobs leave their pods behind unless told otherwise.
    let usual = if resource.is("Job") {
        Propagation::Orphan
    } else {
        Propagation::Background
    };
    let held = items(&object["metadata"]["finalizers"]);
    let has = |name: &str| held.iter().any(|one| one == name);
    let propagation = options.propagation.unwrap_or(if has(ORPHAN) {
        Propagation::Orphan
    } else if has(FOREGROUND) {
        Propagation::Foreground
    } else {
        usual
    });
    let mut finalizers: Vec<Value> = held
        .iter()
        .filter(|one| *one != ORPHAN && *one != FOREGROUND)
        .cloned()
        .collect();
    match propagation {
        Propagation::Background => {}
        Propagation::Foreground => finalizers.push(FOREGROUND.into()),
        Propagation::Orphan => finalizers.push(ORPHAN.into()),
    }
    let list = if finalizers.is_empty() {
        Value::Null
    } else {
        Value::Array(finalizers)
    };
    crate::value::set_or_remove(&mut object["metadata"], "finalizers", &list);
}

/// How long a pod may take to stop.
fn pod_grace(pod: &Value, options: &Options) -> i64 {
    let usual = pod["spec"]["terminationGracePeriodSeconds"]
        .as_i64()
        .unwrap_or(30);
    let grace = options.grace.unwrap_or(usual).max(0);
    let unbound = text(&pod["spec"]["nodeName"]).is_empty();
    let over = matches!(text(&pod["status"]["phase"]), "Succeeded" | "Failed");
    if unbound || over { 0 } else { grace }
}
