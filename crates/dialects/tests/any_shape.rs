//! A stored object may have any shape. Every node of a rich sample is replaced by values of other
//! shapes, one at a time: nothing panics, and what is refused is named by a path.

use dialects::{Dialect, Finding, Report, kubeflow_v1, kubeflow_v2beta1};
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

#[test]
fn any_node_may_have_any_shape() {
    let sample = sample();
    let mut places = Vec::new();
    pointers(&sample, "", &mut places);
    assert!(places.len() > 100, "the sample is rich");
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
