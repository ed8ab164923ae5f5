//! Jobs in which a field can make a difference. Decides what stands around each field of each dialect.

use dialects::Dialect;
use serde_json::{Value, json};

/// A job of a dialect in which the field at this path can make a difference.
pub(crate) fn base(dialect: &Dialect, path: &str) -> Value {
    match dialect.name {
        "v2beta1" | "v1" => kubeflow(path),
        "t9k" => t9k(path),
        "bdap" => bdap(),
        "openmpi" => openmpi(),
        other => panic!("write a job of dialect {other} here"),
    }
}

/// A job of Kubeflow in which this field can make a difference.
fn kubeflow(path: &str) -> Value {
    let template = json!({"spec": {"containers": [
        {"name": "mpi", "image": "a"}, {"name": "other", "image": "a"}]}});
    let mut job = json!({"metadata": {"name": "a", "namespace": "n", "uid": "u"},
        "spec": {"mpiReplicaSpecs": {"Launcher": {"template": template},
            "Worker": {"replicas": 2, "template": template}}}});
    if path == "spec.muster.slotsPerWorker" {
        let container =
            &mut job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0];
        container["resources"] = json!({"limits": {"nvidia.com/gpu": 2}});
    }
    if path.contains(".recovery") {
        let launcher = &mut job["spec"]["mpiReplicaSpecs"]["Launcher"];
        launcher["template"]["spec"]["containers"][0]["command"] = json!(["mpirun"]);
        job["spec"]["muster"] = recovering();
    }
    job
}

/// What a job needs that may be restarted.
fn recovering() -> Value {
    json!({"transport": "Agent", "recovery": {"restarts": 1}})
}

/// A job of T9k in which this field can make a difference.
fn t9k(path: &str) -> Value {
    let template = |container: &str| {
        json!({"spec": {"initContainers": [{"name": "i", "image": "i"}],
            "containers": [{"name": container, "image": "a"}]}})
    };
    let mut worker = json!({"replicas": 2, "cmd": ["a"], "template": template("mpi-worker")});
    if path.contains(".process") {
        worker["processesPerWorker"] = 2.into();
        worker["processRecovery"] = json!({"enable": true});
    }
    let mut job = json!({"metadata": {"name": "a", "namespace": "n", "uid": "u"},
        "spec": {"worker": worker}});
    if path.contains(".mpiConfig") || path.starts_with("spec.replicaSpecs") {
        let policy = json!({"policy": "OnFailure", "limit": 1});
        let worker = json!({"type": "worker", "replicas": 2, "restartPolicy": policy,
            "template": template("worker")});
        let mut replicas = vec![worker.clone()];
        if path.ends_with("replicaSpecs[].type") {
            let launcher = json!({"type": "launcher", "template": template("worker")});
            replicas.insert(0, launcher);
        }
        job["spec"] = json!({"mpiConfig": {"script": ["a"]}, "replicaSpecs": replicas});
    }
    if path.contains(".recovery") {
        job["spec"]["muster"] = recovering();
    }
    if path.contains("t9kScheduler.priority") {
        job["spec"]["scheduler"] = json!({"t9kScheduler": {"queue": "q"}});
    }
    let given = json!([{"type": "worker", "command": ["a"]}]);
    if path.contains("debug.replicaSpecs") {
        job["spec"]["runMode"] = json!({"debug": {"enabled": true, "replicaSpecs": given}});
    }
    if path.contains("pause.resumeSpecs") {
        job["spec"]["runMode"] = json!({"pause": {"resumeSpecs": given}});
        job["status"] = json!({"conditions": [{"type": "Paused", "status": "False"}]});
    }
    job
}

fn bdap() -> Value {
    let template = json!({"spec": {"containers": [{"name": "a", "image": "a"}]}});
    json!({"metadata": {"name": "a", "namespace": "n", "uid": "u"}, "spec": {"numWorkers": 2,
        "launcherTemplate": template, "workerTemplate": template}})
}

/// An OpenMPI with both transfers, so that every parameter of theirs can make a difference.
fn openmpi() -> Value {
    json!({"metadata": {"name": "a", "namespace": "n", "uid": "u"}, "spec": {
        "image": "a", "secret": "a", "s3Secret": "a",
        "downloadDataFrom": "s3://a/in", "downloadDataTo": "in",
        "uploadDataFrom": "out", "uploadDataTo": "s3://a/out"}})
}

/// Sets a field, where lists have one item.
pub(crate) fn set(job: &mut Value, path: &str, value: Value) {
    let path = path.replace("[]", ".0").replace('[', ".").replace(']', "");
    let mut place = job;
    for name in path.split('.') {
        place = match name.parse::<usize>() {
            Ok(index) => &mut place[index],
            Err(_) => &mut place[name],
        };
    }
    *place = value;
}
