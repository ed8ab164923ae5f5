//! A stored object may have any shape. Every node of a rich sample is replaced by values of other
//! shapes, one at a time: nothing panics, and what is refused is named by a path.

use dialects::{
    Dialect, Finding, Report, bdap_v1, kubeflow_v1, kubeflow_v2beta1, openmpi_v1alpha1, t9k_v1beta1,
};
use jiff::Timestamp;
use planner::fixtures::{job, world};
use serde_json::{Value, json};

fn sample() -> Value {
    let template = json!({
        "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
        "spec": {
            "hostNetwork": true,
            "priorityClassName": "high",
            "restartPolicy": "Always",
            "nodeSelector": {"disk": "ssd"},
            "tolerations": [{"operator": "Exists"}],
            "schedulingGates": [{"name": "gate"}],
            "affinity": {"nodeAffinity": {}},
            "dnsConfig": {"searches": ["example"]},
            "volumes": [{"name": "data", "emptyDir": {}}],
            "containers": [{
                "name": "main",
                "image": "pi",
                "command": ["mpirun"],
                "args": ["-n", "2"],
                "env": [{"name": "A", "value": "discover_hosts.sh"}],
                "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                "resources": {"limits": {"cpu": 1}, "requests": {"cpu": "500m"}},
            }],
        },
    });
    let time = "2026-11-15T12:00:00Z";
    let condition = |name: &str, status: &str| {
        json!({"type": name, "status": status, "reason": "R", "message": "M",
            "lastUpdateTime": time, "lastTransitionTime": time})
    };
    json!({
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {
            "name": "pi", "namespace": "team-a", "uid": "u", "generation": 3,
            "annotations": {"scheduling.volcano.sh/queue-name": "q"},
        },
        "spec": {
            "slotsPerWorker": 2,
            "runLauncherAsWorker": true,
            "sshAuthMountPath": "/root/.ssh",
            "launcherCreationPolicy": "AtStartup",
            "mpiImplementation": "OpenMPI",
            "cleanPodPolicy": "Running",
            "mainContainer": "main",
            "muster": {"dialect": "v2beta1", "elastic": true},
            "runPolicy": {
                "cleanPodPolicy": "All", "ttlSecondsAfterFinished": 1, "activeDeadlineSeconds": 2,
                "backoffLimit": 3, "suspend": false, "managedBy": "kubeflow.org/mpi-operator",
                "schedulingPolicy": {
                    "minAvailable": 1, "queue": "q", "minResources": {"cpu": 1},
                    "priorityClass": "p", "scheduleTimeoutSeconds": 4,
                },
            },
            "mpiReplicaSpecs": {
                "Launcher": {"replicas": 1, "restartPolicy": "Never", "template": template},
                "Worker": {"replicas": 2, "restartPolicy": "Never", "template": template},
            },
        },
        "status": {
            "startTime": time,
            "completionTime": time,
            "observedGeneration": 3,
            "conditions": [condition("Created", "True"), condition("Succeeded", "True")],
            "replicaStatuses": {"Launcher": {"succeeded": 1}, "Worker": {}},
            "muster": {
                "phase": "Succeeded", "ready": "2/2", "finished": true,
                "conditions": [condition("Accepted", "True")],
            },
        },
    })
}

/// JSON pointers of every node.
fn pointers(value: &Value, here: &str, all: &mut Vec<String>) {
    all.push(here.to_owned());
    let escaped = |key: &str| key.replace('~', "~0").replace('/', "~1");
    match value {
        Value::Object(entries) => {
            for (key, value) in entries {
                pointers(value, &format!("{here}/{}", escaped(key)), all);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                pointers(value, &format!("{here}/{index}"), all);
            }
        }
        _ => {}
    }
}

fn other_shapes() -> Vec<Value> {
    vec![
        Value::Null,
        json!(true),
        json!(""),
        json!("text"),
        json!("ü\u{0}\n\""),
        json!(0),
        json!(-1),
        json!(1.5),
        json!(i64::MIN),
        json!(i64::MAX),
        json!(u64::MAX),
        json!(1e300),
        json!([]),
        json!([null, 1, "a", {}, []]),
        json!({}),
        json!({"": null, "a": [{}], "spec": {"containers": [7]}}),
    ]
}

const DIALECTS: [Dialect; 2] = [kubeflow_v2beta1::DIALECT, kubeflow_v1::DIALECT];

fn exercise(object: &Value) {
    DIALECTS
        .iter()
        .for_each(|dialect| exercise_one(dialect, object));
}

/// All four functions of a dialect on one object, as the controller calls them.
fn exercise_one(dialect: &Dialect, object: &Value) {
    let now: Timestamp = "2026-11-15T12:34:56.7Z"
        .parse()
        .expect("this is a timestamp");
    (dialect.managed_elsewhere)(object);
    let recorded = (dialect.recorded)(object);
    let report = match (dialect.lower)(object) {
        Ok(lowered) => {
            let mut observed = world(lowered);
            observed.recorded = recorded;
            let plan = planner::plan(&observed);
            (dialect.report)(object, &Finding::Planned(&plan.status), now)
        }
        Err(errors) => {
            assert!(!errors.is_empty(), "a refusal without a reason: {object}");
            for error in &errors {
                let named = error.path.starts_with("spec") || error.path.starts_with("metadata");
                assert!(
                    named && !error.problem.is_empty(),
                    "no field is named: {error}"
                );
            }
            (dialect.report)(object, &Finding::Invalid(&errors), now)
        }
    };
    assert_fits(&report);
    let plan = planner::plan(&world(job("pi").workers(2)));
    assert_fits(&(dialect.report)(
        object,
        &Finding::Planned(&plan.status),
        now,
    ));
}

fn assert_fits(report: &Report) {
    assert!(report.status.is_object());
    assert!(
        report
            .events
            .iter()
            .all(|event| event.message.len() <= 1024)
    );
}

#[test]
fn the_sample_itself_is_valid_and_over() {
    for dialect in DIALECTS {
        let lowered = (dialect.lower)(&sample()).expect("the sample is valid");
        assert_eq!(lowered.worker_count(), 2);
        assert!((dialect.recorded)(&sample()).outcome.is_some());
    }
}

/// A job of T9k; with the fields of its third shape it is refused, and must be so by name.
fn t9k_sample(third: bool) -> Value {
    let template = |name: &str| {
        json!({"spec": {
            "initContainers": [{"name": "i", "image": "i"}],
            "containers": [{"name": name, "image": "w", "env": [{"name": "A", "value": "b"}],
                "command": ["c"], "args": ["d"]}],
        }})
    };
    let time = "2026-11-15T12:00:00Z";
    let condition = |name: &str| {
        json!({"type": name, "status": "True", "reason": "R", "message": "M",
            "lastTransitionTime": time})
    };
    let overrides =
        json!([{"type": "worker", "skipInitContainer": true, "command": ["c"], "args": ["d"]}]);
    let mut job = json!({
        "metadata": {"name": "walk", "namespace": "team-a", "uid": "u", "generation": 3},
        "spec": {
            "worker": {
                "replicas": 2, "extraMPIArgs": ["-N", "3"], "cmd": ["walk"],
                "template": template("mpi-worker"),
            },
            "mca": {"btl": "x"}, "mpiHome": "/usr",
            "ssh": {"sshAuthMountPath": "/k", "authMountPath": "/k", "sshdPath": "/s"},
            "runPolicy": {"cleanUpWorkers": true},
            "runMode": {
                "debug": {"enabled": false, "replicaSpecs": overrides},
                "pause": {"enabled": false, "resumeSpecs": overrides},
            },
            "muster": {"transport": "SSH", "sshPort": 22},
        },
        "status": {
            "phase": "Succeeded",
            "conditions": [condition("Paused"), condition("Completed")],
            "tasks": [{"type": "worker", "restartCount": 0, "status": [
                {"phase": "Running", "name": "walk-worker-0", "uid": "u", "containers": []}]}],
            "aggregate": {"running": 1},
            "muster": {"phase": "Succeeded", "finished": true, "startTime": time},
        },
    });
    if third {
        job["spec"]["mpiConfig"] = json!({"mca": {}, "home": "", "extraArgs": [], "script": ["s"]});
        job["spec"]["replicaSpecs"] = json!([{"type": "worker", "replicas": 1,
            "restartPolicy": {"policy": "Never", "limit": 1}, "template": template("worker")}]);
        let spec = job["spec"].as_object_mut().expect("it has a spec");
        spec.retain(|field, _| !["worker", "mca", "mpiHome"].contains(&field.as_str()));
    }
    job
}

#[test]
fn any_node_may_have_any_shape() {
    every_shape(&sample(), 100, exercise);
}

#[test]
fn any_node_of_a_t9k_job_may_have_any_shape() {
    let t9k = |object: &Value| exercise_one(&t9k_v1beta1::DIALECT, object);
    for third in [false, true] {
        let sample = t9k_sample(third);
        assert!((t9k_v1beta1::DIALECT.lower)(&sample).is_ok());
        every_shape(&sample, 60, t9k);
    }
    other_shapes().iter().for_each(t9k);
}

/// Every parameter of the component, and a status.
fn openmpi_sample() -> Value {
    let time = "2026-11-15T12:00:00Z";
    let condition = json!({"type": "Failed", "status": "True", "reason": "R", "message": "M",
        "lastTransitionTime": time});
    json!({
        "metadata": {"name": "openmpi", "namespace": "kubeflow", "uid": "u", "generation": 1},
        "spec": {
            "name": "openmpi", "namespace": "kubeflow", "image": "i", "secret": "s", "workers": 2,
            "init": "/i", "exec": "e", "imagePullPolicy": "Always", "imagePullSecrets": "a,b",
            "gpu": 1, "cpu": "1", "memory": "1Gi", "customResources": "r=1",
            "serviceAccountName": "a", "schedulerName": "s", "controllerImage": "c",
            "initTimeout": 10, "nodeSelector": "a=b", "s3Secret": "k",
            "downloadDataFrom": "s3://b/i", "downloadDataTo": "i", "uploadDataFrom": "o",
            "uploadDataTo": "s3://b/o", "runAsUser": "1", "runAsGroup": 1,
            "supplementalGroups": "1,2", "volumes": [{"name": "v"}],
            "volumeMounts": [{"name": "v", "mountPath": "/v"}], "useHostNetwork": "true",
        },
        "status": {"conditions": [condition], "startTime": time, "completionTime": time,
            "muster": {"phase": "Failed", "finished": true}},
    })
}

#[test]
fn any_node_of_an_openmpi_may_have_any_shape() {
    let openmpi = |object: &Value| exercise_one(&openmpi_v1alpha1::DIALECT, object);
    assert!((openmpi_v1alpha1::DIALECT.lower)(&openmpi_sample()).is_ok());
    every_shape(&openmpi_sample(), 45, openmpi);
    other_shapes().iter().for_each(openmpi);
}

fn every_shape(sample: &Value, at_least: usize, exercise: impl Fn(&Value)) {
    let mut places = Vec::new();
    pointers(sample, "", &mut places);
    assert!(places.len() > at_least, "the sample is rich");
    for place in &places {
        for shape in other_shapes() {
            let mut object = sample.clone();
            *object
                .pointer_mut(place)
                .expect("the pointer was made from the sample") = shape;
            exercise(&object);
        }
    }
}

#[test]
fn objects_of_no_shape_at_all_are_refused() {
    for shape in other_shapes() {
        for dialect in DIALECTS {
            assert!((dialect.lower)(&shape).is_err(), "{shape}");
        }
        exercise(&shape);
    }
}

fn bdap_sample() -> Value {
    let template = json!({
        "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
        "spec": {
            "restartPolicy": "Never",
            "serviceAccountName": "trainer",
            "serviceAccount": "trainer",
            "containers": [{"name": "main", "image": "pi", "command": ["mpirun"], "args": ["-n"],
                "env": [{"name": "A", "value": "b"}], "volumeMounts": []}],
            "volumes": [{"name": "data", "emptyDir": {}}],
        },
    });
    let time = "2026-11-15T12:00:00Z";
    json!({
        "metadata": {"name": "pi", "namespace": "team-a", "uid": "u", "generation": 3},
        "spec": {
            "numWorkers": 2,
            "launcherTemplate": template,
            "workerTemplate": template,
            "muster": {"cleanPodPolicy": "All"},
        },
        "status": {
            "startTime": time, "completionTime": time, "launcher": "Running", "readyWorkers": 1,
            "conditions": [{"type": "Running", "status": "True", "reason": "R", "message": "M",
                "lastUpdateTime": time, "lastTransitionTime": time}],
            "muster": {"phase": "Running", "conditions": [{"type": "Accepted", "status": "True"}]},
        },
    })
}

#[test]
fn any_node_of_a_bdap_job_may_have_any_shape() {
    let bdap = |object: &Value| exercise_one(&bdap_v1::DIALECT, object);
    let sample = bdap_sample();
    assert!((bdap_v1::DIALECT.lower)(&sample).is_ok());
    every_shape(&sample, 40, bdap);
    other_shapes().iter().for_each(bdap);
}
