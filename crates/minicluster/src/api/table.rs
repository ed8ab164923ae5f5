//! Rows for people: the columns that `kubectl get` shows. Decides columns and cells per kind.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::conditions;
use crate::resource::Resource;
use crate::value::{items, text};

/// The columns of a built-in kind. `kubectl get` shows those with a star for `-o wide` only.
fn known(resource: &Resource) -> &'static str {
    match resource.kind.as_str() {
        "Pod" => {
            "Name, Ready, Status, Restarts, Age, IP*, Node*, Nominated Node*, Readiness Gates*"
        }
        "Job" => "Name, Status, Completions, Duration, Age, Containers*, Images*, Selector*",
        "Service" => "Name, Type, Cluster-IP, External-IP, Port(s), Age, Selector*",
        "ConfigMap" => "Name, Data, Age",
        "ServiceAccount" => "Name, Age",
        "Secret" => "Name, Type, Data, Age",
        "Namespace" => "Name, Status, Age",
        "Event" => {
            "Last Seen, Type, Reason, Object, Subobject*, Source*, Message, First Seen*, Count*, Name*"
        }
        "Lease" => "Name, Holder, Age",
        "StatefulSet" => "Name, Ready, Age, Containers*, Images*",
        "Node" => "Name, Status, Roles, Age, Version",
        "PriorityClass" => "Name, Value, Global-Default, Age, PreemptionPolicy",
        _ => "Name, Created At",
    }
}

/// The column definitions of a kind.
pub(crate) fn columns(resource: &Resource) -> Value {
    let definition = |name: &str, kind: &str, priority: i64, format: &str, description: &str| {
        json!({
            "name": name,
            "type": kind,
            "format": format,
            "description": description,
            "priority": priority,
        })
    };
    let name = definition("Name", "string", 0, "name", "Name of the object");
    let Some(custom) = &resource.custom else {
        let columns = known(resource).split(", ").map(|column| {
            let (name, priority) = match column.strip_suffix('*') {
                Some(name) => (name, 1),
                None => (column, 0),
            };
            let (kind, format) = match name {
                "Name" => ("string", "name"),
                "Value" => ("integer", ""),
                "Global-Default" => ("boolean", ""),
                "Created At" => ("date", ""),
                _ => ("string", ""),
            };
            definition(name, kind, priority, format, "")
        });
        return columns.collect();
    };
    if custom.columns.is_empty() {
        let age = definition("Age", "date", 0, "", "");
        return json!([name, age]);
    }
    let mut columns = vec![name];
    for column in &custom.columns {
        columns.push(definition(
            text(&column["name"]),
            text(&column["type"]),
            column["priority"].as_i64().unwrap_or(0),
            text(&column["format"]),
            text(&column["description"]),
        ));
    }
    Value::Array(columns)
}

/// The cells of one row.
pub(crate) fn cells(resource: &Resource, object: &Value, now: Timestamp) -> Value {
    let name = &object["metadata"]["name"];
    let created = &object["metadata"]["creationTimestamp"];
    let age = || since(created, now);
    if let Some(custom) = &resource.custom {
        if custom.columns.is_empty() {
            return json!([name, age()]);
        }
        let mut cells = vec![name.clone()];
        for column in &custom.columns {
            let value = at(object, text(&column["jsonPath"]));
            cells.push(match (text(&column["type"]), value) {
                ("date", Some(time)) => since(time, now).into(),
                (_, Some(value)) => value.clone(),
                (_, None) => Value::Null,
            });
        }
        return Value::Array(cells);
    }
    let size = |field: &str| object[field].as_object().map_or(0, serde_json::Map::len);
    match resource.kind.as_str() {
        "Pod" => pod(object, now),
        "Job" => job(object, now),
        "Service" => service(object, now),
        "ConfigMap" => json!([name, size("data") + size("binaryData"), age()]),
        "ServiceAccount" => json!([name, age()]),
        "Secret" => json!([name, object["type"], size("data"), age()]),
        "Namespace" => json!([name, object["status"]["phase"], age()]),
        "Event" => event(object, now),
        "Lease" => json!([name, text(&object["spec"]["holderIdentity"]), age()]),
        "StatefulSet" => {
            let ready = object["status"]["readyReplicas"].as_i64().unwrap_or(0);
            let wanted = object["spec"]["replicas"].as_i64().unwrap_or(0);
            let (names, images) = containers(&object["spec"]["template"]["spec"]);
            json!([name, format!("{ready}/{wanted}"), age(), names, images])
        }
        "Node" => {
            let ready = conditions::is_true(&object["status"], "Ready");
            let status = if ready { "Ready" } else { "NotReady" };
            let version = text(&object["status"]["nodeInfo"]["kubeletVersion"]);
            json!([name, status, "<none>", age(), version])
        }
        "PriorityClass" => json!([
            name,
            object["value"],
            object["globalDefault"].as_bool().unwrap_or(false),
            age(),
            object["preemptionPolicy"]
        ]),
        _ => json!([name, created]),
    }
}

fn containers(spec: &Value) -> (String, String) {
    let of = |field: &str| {
        let all: Vec<&str> = items(&spec["containers"])
            .iter()
            .map(|one| text(&one[field]))
            .collect();
        all.join(",")
    };
    (of("name"), of("image"))
}

fn labels(map: &Value) -> String {
    let pairs = map.as_object().into_iter().flatten();
    let pairs: Vec<_> = pairs
        .map(|(key, value)| format!("{key}={}", text(value)))
        .collect();
    pairs.join(",")
}

fn or_none(text: &str) -> &str {
    if text.is_empty() { "<none>" } else { text }
}

/// What a pod is doing, in a word.
fn pod_word(pod: &Value) -> String {
    let status = &pod["status"];
    let mut word = match text(&status["reason"]) {
        "" => text(&status["phase"]).to_owned(),
        reason => reason.to_owned(),
    };
    let started = |one: &Value| one["started"] == true && one["ready"] == true;
    for (index, one) in items(&status["initContainerStatuses"]).iter().enumerate() {
        let state = &one["state"];
        if state["terminated"]["exitCode"] == 0 || started(one) {
            continue;
        }
        let total = items(&pod["spec"]["initContainers"]).len();
        return match (state.get("terminated"), text(&state["waiting"]["reason"])) {
            (Some(end), _) if !text(&end["reason"]).is_empty() => {
                format!("Init:{}", text(&end["reason"]))
            }
            (None, reason) if !reason.is_empty() && reason != "PodInitializing" => {
                format!("Init:{reason}")
            }
            _ => format!("Init:{index}/{total}"),
        };
    }
    for one in items(&status["containerStatuses"]).iter().rev() {
        let state = &one["state"];
        if let Some(reason) = state["waiting"]["reason"].as_str() {
            word = reason.to_owned();
        } else if let Some(reason) = state["terminated"]["reason"].as_str() {
            word = reason.to_owned();
        }
    }
    if !pod["metadata"]["deletionTimestamp"].is_null() {
        word = "Terminating".to_owned();
    }
    word
}

fn pod(object: &Value, now: Timestamp) -> Value {
    let statuses = items(&object["status"]["containerStatuses"]);
    let ready = statuses.iter().filter(|one| one["ready"] == true).count();
    let total = items(&object["spec"]["containers"]).len();
    let restarts: i64 = statuses
        .iter()
        .filter_map(|one| one["restartCount"].as_i64())
        .sum();
    json!([
        object["metadata"]["name"],
        format!("{ready}/{total}"),
        pod_word(object),
        restarts.to_string(),
        since(&object["metadata"]["creationTimestamp"], now),
        or_none(text(&object["status"]["podIP"])),
        or_none(text(&object["spec"]["nodeName"])),
        "<none>",
        "<none>",
    ])
}

fn job(object: &Value, now: Timestamp) -> Value {
    let status = &object["status"];
    let is = |kind: &str| conditions::is_true(status, kind);
    let word = if is("Complete") {
        "Complete"
    } else if is("Failed") {
        "Failed"
    } else if !object["metadata"]["deletionTimestamp"].is_null() {
        "Terminating"
    } else if is("Suspended") {
        "Suspended"
    } else {
        "Running"
    };
    let done = status["succeeded"].as_i64().unwrap_or(0);
    let wanted = object["spec"]["completions"].as_i64().unwrap_or(1);
    let start = &status["startTime"];
    let duration = match (start.as_str(), status["completionTime"].as_str()) {
        (None, _) => String::new(),
        (_, Some(end)) => since(start, end.parse().unwrap_or(now)),
        (_, None) => since(start, now),
    };
    let (names, images) = containers(&object["spec"]["template"]["spec"]);
    json!([
        object["metadata"]["name"],
        word,
        format!("{done}/{wanted}"),
        duration,
        since(&object["metadata"]["creationTimestamp"], now),
        names,
        images,
        labels(&object["spec"]["selector"]["matchLabels"]),
    ])
}

fn service(object: &Value, now: Timestamp) -> Value {
    let spec = &object["spec"];
    let ports: Vec<String> = items(&spec["ports"])
        .iter()
        .map(|port| format!("{}/{}", port["port"], text(&port["protocol"])))
        .collect();
    json!([
        object["metadata"]["name"],
        spec["type"],
        or_none(text(&spec["clusterIP"])),
        "<none>",
        or_none(&ports.join(",")),
        since(&object["metadata"]["creationTimestamp"], now),
        or_none(&labels(&spec["selector"])),
    ])
}

fn event(object: &Value, now: Timestamp) -> Value {
    let given = |times: &[&'static str]| {
        let mut times = times
            .iter()
            .map(|path| object.pointer(path).unwrap_or(&Value::Null));
        times.find(|time| !time.is_null()).unwrap_or(&Value::Null)
    };
    let first = given(&["/firstTimestamp", "/eventTime"]);
    let last = given(&[
        "/series/lastObservedTime",
        "/lastTimestamp",
        "/firstTimestamp",
        "/eventTime",
    ]);
    let about = &object["involvedObject"];
    let source = match text(&object["source"]["component"]) {
        "" => text(&object["reportingComponent"]),
        component => component,
    };
    let count = object["count"]
        .as_i64()
        .or(object["series"]["count"].as_i64())
        .unwrap_or(1);
    json!([
        since(last, now),
        object["type"],
        object["reason"],
        format!(
            "{}/{}",
            text(&about["kind"]).to_lowercase(),
            text(&about["name"])
        ),
        text(&about["fieldPath"]),
        source,
        text(&object["message"]).trim(),
        since(first, now),
        count.to_string(),
        object["metadata"]["name"],
    ])
}

/// A simple JSON path: fields, indices, and no more.
fn at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    let mut value = object;
    for part in path.split(['.', '[', ']']).filter(|part| !part.is_empty()) {
        value = match value {
            Value::Array(list) => list.get(part.parse::<usize>().ok()?)?,
            other => other.get(part)?,
        };
    }
    Some(value).filter(|value| !value.is_null())
}

/// The time since, in the few letters that kubectl uses.
pub(crate) fn since(time: &Value, now: Timestamp) -> String {
    let Ok(then) = text(time).parse::<Timestamp>() else {
        return "<unknown>".to_owned();
    };
    let secs = now.as_second() - then.as_second();
    let (minutes, hours, days) = (secs / 60, secs / 3600, secs / 86400);
    let pair = |big: i64, unit: &str, small: i64, small_unit: &str| match small {
        0 => format!("{big}{unit}"),
        small => format!("{big}{unit}{small}{small_unit}"),
    };
    match secs {
        ..0 => "<invalid>".to_owned(),
        0..120 => format!("{secs}s"),
        120..600 => pair(minutes, "m", secs % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => pair(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => pair(days, "d", hours % 24, "h"),
        691_200..63_072_000 => format!("{days}d"),
        _ => pair(days / 365, "y", days % 365, "d"),
    }
}
