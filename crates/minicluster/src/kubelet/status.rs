//! A pod's status out of its life. Decides phases and conditions as the kubelet does.

use serde_json::{Map, Value, json};

use super::life::{Container, End, Life, State};
use crate::builtin::defaults;
use crate::conditions;
use crate::schema::format::seconds;
use crate::value::{items, text};

/// The status to store; `node_ip` is the node's address.
pub(crate) fn compose(pod: &Value, life: &Life, node_ip: &str, now: &str) -> Value {
    let before = &pod["status"];
    let policy = text(&pod["spec"]["restartPolicy"]);
    let mut status = json!({
        "phase": phase(life, policy),
        "conditions": items(&before["conditions"]),
        "hostIP": node_ip,
        "hostIPs": [{"ip": node_ip}],
        "startTime": seconds(life.start_time),
        "qosClass": defaults::quality(&pod["spec"]),
    });
    if let Some(generation) = pod["metadata"]["generation"].as_i64() {
        status["observedGeneration"] = generation.into();
    }
    if let Some(ip) = &life.ip {
        status["podIP"] = ip.as_str().into();
        status["podIPs"] = json!([{"ip": ip}]);
    }
    if let Some((reason, message)) = &life.failed {
        status["reason"] = reason.as_str().into();
        status["message"] = message.as_str().into();
    } else if let Some((reason, message)) = &life.trouble {
        status["reason"] = reason.as_str().into();
        status["message"] = message.as_str().into();
    }
    for (list, init) in [
        ("initContainerStatuses", true),
        ("containerStatuses", false),
    ] {
        let specs = items(&pod["spec"][if init { "initContainers" } else { "containers" }]);
        let statuses: Vec<Value> = life
            .containers
            .iter()
            .filter(|one| one.init == init)
            .zip(specs)
            .map(|(one, spec)| container(one, spec, &life.uid))
            .collect();
        if !statuses.is_empty() {
            status[list] = Value::Array(statuses);
        }
    }
    set_conditions(&mut status, life, now);
    status
}

fn phase(life: &Life, policy: &str) -> &'static str {
    if life.failed.is_some() && !life.any_up() {
        return "Failed";
    }
    if life.is_decided(policy) && !life.any_up() {
        let bad = |one: &Container| one.end().is_none_or(|end| end.code != 0);
        return if life.main().any(bad) {
            "Failed"
        } else {
            "Succeeded"
        };
    }
    if life.stopping.is_some() && !life.any_up() {
        return "Failed";
    }
    let initialized = is_initialized(life);
    let begun = |one: &Container| {
        matches!(one.state, State::Running { .. } | State::Ended(_)) || one.restarts > 0
    };
    if initialized && life.main().any(begun) {
        "Running"
    } else {
        "Pending"
    }
}

fn is_initialized(life: &Life) -> bool {
    life.containers.iter().filter(|one| one.init).all(|one| {
        if one.sidecar {
            one.started || one.restarts > 0
        } else {
            one.end().is_some_and(|end| end.code == 0)
        }
    })
}

fn set_conditions(status: &mut Value, life: &Life, now: &str) {
    let phase = text(&status["phase"]).to_owned();
    let over = phase == "Succeeded" || phase == "Failed";
    let placed = if life.ip.is_some() && !over {
        "True"
    } else {
        "False"
    };
    conditions::set(status, "PodReadyToStartContainers", placed, None, now);

    let names = |filter: &dyn Fn(&Container) -> bool| {
        let names: Vec<&str> = life
            .containers
            .iter()
            .filter(|one| filter(one))
            .map(|one| one.name.as_str())
            .collect();
        names.join(" ")
    };
    if is_initialized(life) || phase == "Succeeded" {
        let why = (phase == "Succeeded").then_some(("PodCompleted", ""));
        conditions::set(status, "Initialized", "True", why, now);
    } else {
        let undone =
            names(&|one| one.init && !one.sidecar && one.end().is_none_or(|end| end.code != 0));
        let message = format!("containers with incomplete status: [{undone}]");
        conditions::set(
            status,
            "Initialized",
            "False",
            Some(("ContainersNotInitialized", &message)),
            now,
        );
    }
    let unready = names(&|one| (!one.init || one.sidecar) && !one.ready);
    let message = format!("containers with unready status: [{unready}]");
    for kind in ["Ready", "ContainersReady"] {
        match phase.as_str() {
            "Succeeded" => conditions::set(status, kind, "False", Some(("PodCompleted", "")), now),
            "Failed" => conditions::set(status, kind, "False", Some(("PodFailed", "")), now),
            _ if unready.is_empty() => conditions::set(status, kind, "True", None, now),
            _ => conditions::set(
                status,
                kind,
                "False",
                Some(("ContainersNotReady", &message)),
                now,
            ),
        }
    }
}

fn container(one: &Container, spec: &Value, pod_uid: &str) -> Value {
    let id = format!("minicluster://{pod_uid}/{}/{}", one.name, one.restarts);
    let image = text(&spec["image"]);
    let mut status = json!({
        "name": one.name,
        "image": image,
        "imageID": "",
        "ready": one.ready,
        "restartCount": one.restarts,
        "started": one.started,
        "state": {},
        "lastState": {},
    });
    match &one.state {
        State::Waiting { reason, message } => {
            let mut waiting = Map::new();
            waiting.insert("reason".to_owned(), reason.as_str().into());
            if !message.is_empty() {
                waiting.insert("message".to_owned(), message.as_str().into());
            }
            status["state"]["waiting"] = Value::Object(waiting);
        }
        State::Starting => {
            let reason = if one.init {
                "PodInitializing"
            } else {
                "ContainerCreating"
            };
            status["state"]["waiting"] = json!({"reason": reason});
        }
        State::Running { since } => {
            status["state"]["running"] = json!({"startedAt": seconds(*since)});
            status["containerID"] = id.as_str().into();
            status["imageID"] = image.into();
        }
        State::Ended(end) => {
            status["state"]["terminated"] = terminated(end, &id);
            status["containerID"] = id.as_str().into();
            status["imageID"] = image.into();
        }
    }
    if one.init && !one.sidecar {
        // An init container that did its work counts as ready.
        status["ready"] = one.end().is_some_and(|end| end.code == 0).into();
    }
    if let Some(end) = &one.last {
        let id = format!(
            "minicluster://{pod_uid}/{}/{}",
            one.name,
            one.restarts.saturating_sub(1)
        );
        status["lastState"]["terminated"] = terminated(end, &id);
    }
    status
}

fn terminated(end: &End, id: &str) -> Value {
    let mut status = json!({
        "exitCode": end.code,
        "reason": end.reason,
        "startedAt": end.started.map_or(Value::Null, |at| seconds(at).into()),
        "finishedAt": seconds(end.finished),
        "containerID": id,
    });
    if let Some(signal) = end.signal {
        status["signal"] = signal.into();
    }
    if !end.message.is_empty() {
        status["message"] = end.message.as_str().into();
    }
    status
}
