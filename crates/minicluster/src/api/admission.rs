//! What the API server does to an object with a look at others: namespaces that must exist,
//! priorities, default service accounts and tolerations, addresses. Decides at the gate only.

use serde_json::{Value, json};

use crate::api::Call;
use crate::builtin;
use crate::server::Server;
use crate::status::{Cause, Refusal};
use crate::store::{Key, KindId};
use crate::value::{fill, items, text};

/// Completes a new object, or refuses it.
pub(crate) fn on_create(
    server: &mut Server,
    call: &Call,
    object: &mut Value,
) -> Result<(), Refusal> {
    if call.resource.custom.is_some() {
        return Ok(());
    }
    match call.resource.kind.as_str() {
        "Pod" => pod(server, call, object)?,
        "Job" => builtin::job::generate_selector(object),
        "Service" => {
            server.addresses += 1;
            builtin::service::address(object, server.addresses);
        }
        "Namespace" => fill(&mut object["spec"], "finalizers", json!(["kubernetes"])),
        _ => {}
    }
    Ok(())
}

fn pod(server: &Server, call: &Call, object: &mut Value) -> Result<(), Refusal> {
    let spec = &mut object["spec"];
    fill(spec, "serviceAccountName", "default");
    let account = spec["serviceAccountName"].clone();
    let key = Key::new(
        &KindId::new("", "serviceaccounts"),
        &call.namespace,
        text(&account),
    );
    if server.config.service_accounts && server.store.get(&key).is_none() {
        let why = format!(
            "error looking up service account {}/{}: serviceaccount \"{}\" not found",
            call.namespace,
            text(&account),
            text(&account)
        );
        return Err(Refusal::forbidden(
            call.resource.of(),
            &call.name,
            &why,
            Vec::new(),
        ));
    }
    spec["serviceAccount"] = account;
    priority(server, call, spec)?;
    for key in [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ] {
        let tolerated = items(&spec["tolerations"]).iter().any(|one| {
            let any = text(&one["key"]).is_empty() && one["operator"] == "Exists";
            let effect = text(&one["effect"]);
            (any || text(&one["key"]) == key) && (effect.is_empty() || effect == "NoExecute")
        });
        if !tolerated {
            fill(spec, "tolerations", json!([]));
            let toleration = json!({
                "key": key,
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": server.config.toleration_secs,
            });
            if let Some(list) = spec["tolerations"].as_array_mut() {
                list.push(toleration);
            }
        }
    }
    Ok(())
}

fn priority(server: &Server, call: &Call, spec: &mut Value) -> Result<(), Refusal> {
    let kind = KindId::new("scheduling.k8s.io", "priorityclasses");
    let name = text(&spec["priorityClassName"]).to_owned();
    let system = match name.as_str() {
        "system-node-critical" => Some(2_000_001_000_i64),
        "system-cluster-critical" => Some(2_000_000_000),
        _ => None,
    };
    let class = if name.is_empty() {
        let mut classes = server.store.list(&kind, None, None);
        classes
            .find(|class| class["globalDefault"] == true)
            .cloned()
    } else {
        server.store.get(&Key::new(&kind, "", &name)).cloned()
    };
    let (value, policy) = match (&class, system) {
        (Some(class), _) => {
            spec["priorityClassName"] = class["metadata"]["name"].clone();
            (class["value"].clone(), class["preemptionPolicy"].clone())
        }
        (None, Some(value)) => (value.into(), json!("PreemptLowerPriority")),
        (None, None) if name.is_empty() => (0.into(), json!("PreemptLowerPriority")),
        (None, None) => {
            let why = format!("no PriorityClass with name {name} was found");
            return Err(Refusal::forbidden(
                call.resource.of(),
                &call.name,
                &why,
                Vec::new(),
            ));
        }
    };
    let written = spec["priority"].as_i64();
    if written.is_some_and(|written| Some(written) != value.as_i64()) {
        let why = format!(
            "the integer value of priority ({}) must not be provided in pod spec; priority \
             admission controller computed {value} from the given PriorityClass name",
            written.unwrap_or_default()
        );
        return Err(Refusal::forbidden(
            call.resource.of(),
            &call.name,
            &why,
            Vec::new(),
        ));
    }
    spec["priority"] = value;
    fill(spec, "preemptionPolicy", policy);
    Ok(())
}

impl Server {
    /// New objects need a namespace that is there to stay.
    pub(crate) fn check_namespace(&self, call: &Call) -> Result<(), Refusal> {
        if !call.resource.namespaced {
            return Ok(());
        }
        let namespaces = KindId::new("", "namespaces");
        let key = Key::new(&namespaces, "", &call.namespace);
        let Some(namespace) = self.store.get(&key) else {
            let of = crate::status::Of {
                group: "",
                plural: "namespaces",
            };
            return Err(Refusal::not_found(of, &call.namespace));
        };
        if namespace["metadata"]["deletionTimestamp"].is_null() {
            return Ok(());
        }
        let why = format!(
            "unable to create new content in namespace {} because it is being terminated",
            call.namespace
        );
        let cause = Cause::new(
            "NamespaceTerminating",
            "metadata.namespace",
            format!("namespace {} is being terminated", call.namespace),
        );
        Err(Refusal::forbidden(
            call.resource.of(),
            &call.name,
            &why,
            vec![cause],
        ))
    }
}
