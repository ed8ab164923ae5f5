//! What hangs below an object besides its status: logs, bindings, evictions, finalizing of
//! namespaces. Decides which exist.

use std::sync::Arc;

use serde_json::{Value, json};

use super::LogQuery;
use super::{Call, Outcome, request};
use crate::api::delete::Options;
use crate::pod_ref::PodRef;
use crate::server::Server;
use crate::status::{Cause, Refusal};
use crate::value::set_or_remove;
use crate::value::{items, text};

impl Server {
    pub(crate) fn subresource(
        &mut self,
        method: &http::Method,
        call: &mut Call,
    ) -> Result<Outcome, Refusal> {
        let kind = if call.resource.custom.is_some() {
            ""
        } else {
            call.resource.kind.as_str()
        };
        match (method.as_str(), kind, call.sub.as_str()) {
            ("GET", "Pod", "log") => self.log(call),
            ("POST", "Pod", "binding") => self.bind(call),
            ("POST", "Pod", "eviction") => {
                let resource = Arc::clone(&call.resource);
                let now = call.now;
                self.delete_object(now, &resource, &call.key(), &Options::default())?;
                Ok(done())
            }
            ("PUT", "Namespace", "finalize") => {
                let body = request::body(&call.body, &call.content_type, &call.resource.kind)?;
                let key = call.key();
                let before = self.stored(call)?;
                let mut object = (*before).clone();
                set_or_remove(
                    &mut object["spec"],
                    "finalizers",
                    &body["spec"]["finalizers"],
                );
                Ok(Outcome::Object(200, self.settle(&key, object)))
            }
            ("GET", "Pod", "exec" | "attach" | "portforward")
            | ("POST", "Pod", "exec" | "attach" | "portforward") => Err(Refusal::bad_request(
                "this cluster runs pods as processes of this machine and cannot attach to them",
            )),
            _ if call.resource.custom.is_some() => Err(call.not_found()),
            _ => Err(Refusal::no_such_path()),
        }
    }

    fn log(&self, call: &Call) -> Result<Outcome, Refusal> {
        let pod = self.stored(call)?;
        let container = log_container(call, &pod)?;
        let spec = &pod["spec"];
        if text(&spec["nodeName"]).is_empty() {
            return Ok(Outcome::Written(204, Vec::new()));
        }
        let statuses = ["containerStatuses", "initContainerStatuses"];
        let status = statuses
            .iter()
            .flat_map(|list| items(&pod["status"][*list]))
            .find(|one| one["name"] == container.as_str());
        let previous = call.params.flag("previous");
        let waiting = status.is_none_or(|one| {
            one["state"].get("waiting").is_some() && one["lastState"].get("terminated").is_none()
        });
        if waiting {
            let reason = status.map_or("ContainerCreating", |one| {
                text(&one["state"]["waiting"]["reason"])
            });
            return Err(Refusal::bad_request(format!(
                "container \"{container}\" in pod \"{}\" is waiting to start: {reason}",
                call.name
            )));
        }
        if previous && status.is_some_and(|one| one["restartCount"].as_i64().unwrap_or(0) == 0) {
            return Err(Refusal::bad_request(format!(
                "previous terminated container \"{container}\" in pod \"{}\" not found",
                call.name
            )));
        }
        Ok(Outcome::Log(LogQuery {
            pod: PodRef::of(&pod),
            container,
            follow: call.params.flag("follow"),
            previous,
            timestamps: call.params.flag("timestamps"),
            tail_lines: call.params.number("tailLines"),
            since_seconds: call.params.number("sinceSeconds"),
            since: call.params.text("sinceTime").parse().ok(),
            limit_bytes: call.params.number("limitBytes"),
        }))
    }

    fn bind(&mut self, call: &Call) -> Result<Outcome, Refusal> {
        let body = request::body(&call.body, &call.content_type, &call.resource.kind)?;
        let named = text(&body["metadata"]["name"]);
        if named != call.name {
            return Err(Refusal::bad_request(
                "name in URL does not match name in Binding object",
            ));
        }
        let node = text(&body["target"]["name"]).to_owned();
        let key = call.key();
        let before = self.stored(call)?;
        if node.is_empty() {
            let cause = Cause::required("target.name", "");
            return Err(Refusal::invalid("", "Binding", &call.name, vec![cause]));
        }
        let bound = text(&before["spec"]["nodeName"]);
        if !bound.is_empty() {
            let why = format!("pod {} is already assigned to node \"{bound}\"", call.name);
            let of = crate::status::Of {
                group: "",
                plural: "pods/binding",
            };
            return Err(Refusal::conflict(of, &call.name, &why));
        }
        self.bind_pod(call.now, &key, &before, &node);
        Ok(done())
    }

    /// Puts a pod on a node.
    pub(crate) fn bind_pod(
        &mut self,
        now: jiff::Timestamp,
        key: &crate::store::Key,
        before: &Value,
        node: &str,
    ) {
        let mut object = before.clone();
        object["spec"]["nodeName"] = node.into();
        let now = crate::schema::format::seconds(now);
        crate::conditions::set(&mut object["status"], "PodScheduled", "True", None, &now);
        self.store.put(key, object);
    }
}

/// The answer to a request that left no object to show.
fn done() -> Outcome {
    let status = json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "code": 201,
    });
    Outcome::Plain(201, status)
}

/// The container that is meant: the named one, or the only one.
fn log_container(call: &Call, pod: &Value) -> Result<String, Refusal> {
    let spec = &pod["spec"];
    let names = |list: &str| -> Vec<String> {
        let list = items(&spec[list]).iter();
        list.map(|one| text(&one["name"]).to_owned()).collect()
    };
    let marked = text(&pod["metadata"]["annotations"]["kubectl.kubernetes.io/default-container"]);
    let main = names("containers");
    let container = match (call.params.text("container"), main.as_slice()) {
        ("", [one]) => one.clone(),
        ("", _) if !marked.is_empty() => marked.to_owned(),
        ("", _) => {
            let mut said = format!(
                "a container name must be specified for pod {}, choose one of: [{}]",
                call.name,
                main.join(" ")
            );
            let init = names("initContainers");
            if !init.is_empty() {
                said = format!("{said} or one of the init containers: [{}]", init.join(" "));
            }
            return Err(Refusal::bad_request(said));
        }
        (named, _) => named.to_owned(),
    };
    let all = ["containers", "initContainers", "ephemeralContainers"];
    if !all.iter().any(|list| names(list).contains(&container)) {
        return Err(Refusal::bad_request(format!(
            "container {container} is not valid for pod {}",
            call.name
        )));
    }
    Ok(container)
}
