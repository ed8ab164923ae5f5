//! What an MPIJob means where it is silent, and everything that can be wrong with one, in the
//! words and the order that Kubeflow's users know.

use dialects::kubeflow_v2beta1::types::{MpiJob, ReplicaSpec};
use dialects::kubeflow_v2beta1::{DIALECT, defaults, lower, types};
use dialects::{FieldError, aggregate};
use serde_json::{Value, json};

fn read(job: &Value) -> MpiJob {
    let (job, errors) = types::read(job);
    assert_eq!(errors, [], "the sample has a wrong shape");
    job
}

fn filled(job: &Value) -> MpiJob {
    let mut job = read(job);
    defaults::fill(&mut job);
    job
}

fn template() -> Value {
    json!({"spec": {"containers": [{"name": "main", "image": "pi"}]}})
}

/// A complete spec: nothing is left to defaults.
fn complete(implementation: &str) -> Value {
    json!({
        "metadata": {"name": "foo", "namespace": "bar", "uid": "u"},
        "spec": {
            "slotsPerWorker": 2,
            "runPolicy": {"cleanPodPolicy": "Running"},
            "sshAuthMountPath": "/home/mpiuser/.ssh",
            "mpiImplementation": implementation,
            "launcherCreationPolicy": "AtStartup",
            "mpiReplicaSpecs": {
                "Launcher": {"replicas": 1, "restartPolicy": "Never", "template": template()},
            },
        },
    })
}

fn with_workers(mut job: Value) -> Value {
    job["spec"]["mpiReplicaSpecs"]["Worker"] =
        json!({"replicas": 3, "restartPolicy": "OnFailure", "template": template()});
    job
}

/// Errors without defaults filled in first.
fn errors_of(job: &Value) -> Vec<String> {
    lower::validate(&read(job))
        .iter()
        .map(ToString::to_string)
        .collect()
}

fn refusals(job: &Value) -> Vec<String> {
    let errors = (DIALECT.lower)(job).expect_err("the job is wrong");
    errors.iter().map(ToString::to_string).collect()
}

fn replica<'a>(job: &'a MpiJob, key: &str) -> &'a ReplicaSpec {
    &job.spec.replicas.as_ref().expect("there are replica specs")[key]
}

const DNS_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";

// Defaulting.

#[test]
fn an_empty_job_gets_every_default() {
    let spec = filled(&json!({"spec": {}})).spec;
    assert_eq!(spec.slots_per_worker, Some(1));
    assert_eq!(spec.run_launcher_as_worker, Some(false));
    assert_eq!(spec.run_policy.clean_pod_policy.as_deref(), Some("None"));
    assert_eq!(spec.run_policy.suspend, Some(false));
    assert_eq!(spec.ssh_auth_mount_path, "/root/.ssh");
    assert_eq!(spec.mpi_implementation, "OpenMPI");
    assert_eq!(spec.launcher_creation_policy, "AtStartup");
    assert_eq!(spec.replicas, None);
}

fn keeps_what_is_written(implementation: &str) {
    let written = json!({"spec": {
        "slotsPerWorker": 5,
        "runLauncherAsWorker": true,
        "runPolicy": {"cleanPodPolicy": "Running", "suspend": true, "ttlSecondsAfterFinished": 2,
            "activeDeadlineSeconds": 3, "backoffLimit": 4},
        "sshAuthMountPath": "/home/mpiuser/.ssh",
        "mpiImplementation": implementation,
        "launcherCreationPolicy": "WaitForWorkersReady",
        "muster": {"dialect": "v2beta1"},
    }});
    assert_eq!(filled(&written), read(&written));
}

#[test]
fn what_an_intel_job_says_is_kept() {
    keeps_what_is_written("Intel");
}

#[test]
fn what_an_mpich_job_says_is_kept() {
    keeps_what_is_written("MPICH");
}

#[test]
fn a_launcher_is_one_and_restarts_on_failure() {
    let job = filled(&json!({"spec": {"mpiReplicaSpecs": {"Launcher": {}}}}));
    let launcher = replica(&job, "Launcher");
    assert_eq!(
        (launcher.replicas, launcher.restart_policy.as_str()),
        (Some(1), "OnFailure")
    );
}

#[test]
fn workers_are_none_and_never_restart() {
    let job = filled(&json!({"spec": {"mpiReplicaSpecs": {"Worker": {}}}}));
    let worker = replica(&job, "Worker");
    assert_eq!(
        (worker.replicas, worker.restart_policy.as_str()),
        (Some(0), "Never")
    );
}

// Validation.

#[test]
fn a_launcher_alone_is_valid_for_intel_and_mpich() {
    assert_eq!(errors_of(&complete("Intel")), [""; 0]);
    assert_eq!(errors_of(&complete("MPICH")), [""; 0]);
}

#[test]
fn workers_are_valid_for_intel_and_mpich() {
    assert_eq!(errors_of(&with_workers(complete("Intel"))), [""; 0]);
    assert_eq!(errors_of(&with_workers(complete("MPICH"))), [""; 0]);
}

#[test]
fn an_empty_job_lacks_everything_in_order() {
    assert_eq!(
        errors_of(&json!({})),
        [
            format!("metadata.name: Invalid value: \"\": will not able to create pod and service with invalid DNS label \"-worker-0\": {DNS_1035}"),
            "spec.mpiReplicaSpecs: Required value: must have replica specs".to_owned(),
            "spec.slotsPerWorker: Required value: must have number of slots per worker".to_owned(),
            "spec.runPolicy.cleanPodPolicy: Required value: must have clean Pod policy".to_owned(),
            "spec.sshAuthMountPath: Required value: must have a mount path for SSH credentials".to_owned(),
            "spec.mpiImplementation: Unsupported value: \"\": supported values: \"Intel\", \"MPICH\", \"OpenMPI\"".to_owned(),
        ]
    );
}

#[test]
fn every_wrong_field_is_named() {
    let mut job = with_workers(complete("foo"));
    let name = "this-name-is-waaaaaaaay-too-long-for-a-worker-hostname";
    job["metadata"]["name"] = name.into();
    job["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] = 1000.into();
    job["spec"]["slotsPerWorker"] = (-2).into();
    job["spec"]["runPolicy"] = json!({
        "cleanPodPolicy": "unknown", "ttlSecondsAfterFinished": -1, "activeDeadlineSeconds": -1,
        "backoffLimit": -1, "managedBy": "other.domain/job",
    });
    let words = r#"supported values: "kubeflow.org/mpi-operator", "kueue.x-k8s.io/multikueue""#;
    assert_eq!(
        errors_of(&job),
        [
            format!("metadata.name: Invalid value: \"{name}\": will not able to create pod and service with invalid DNS label \"{name}-worker-999\": must be no more than 63 characters"),
            "spec.slotsPerWorker: Invalid value: -2: must be greater than or equal to 0".to_owned(),
            r#"spec.runPolicy.cleanPodPolicy: Unsupported value: "unknown": supported values: "All", "None", "Running""#.to_owned(),
            "spec.runPolicy.ttlSecondsAfterFinished: Invalid value: -1: must be greater than or equal to 0".to_owned(),
            "spec.runPolicy.activeDeadlineSeconds: Invalid value: -1: must be greater than or equal to 0".to_owned(),
            "spec.runPolicy.backoffLimit: Invalid value: -1: must be greater than or equal to 0".to_owned(),
            format!("spec.runPolicy.managedBy: Unsupported value: \"other.domain/job\": {words}"),
            r#"spec.mpiImplementation: Unsupported value: "foo": supported values: "Intel", "MPICH", "OpenMPI""#.to_owned(),
        ]
    );
}

#[test]
fn a_job_without_replica_specs_lacks_its_launcher() {
    let mut job = complete("OpenMPI");
    job["spec"]["mpiReplicaSpecs"] = json!({});
    assert_eq!(
        errors_of(&job),
        ["spec.mpiReplicaSpecs[Launcher]: Required value: must have Launcher replica spec"]
    );
}

#[test]
fn replica_specs_that_say_nothing_lack_three_fields_each() {
    let mut job = complete("OpenMPI");
    job["spec"]["mpiReplicaSpecs"] = json!({"Launcher": {}, "Worker": {}});
    let lacking = |role: &str| {
        [
            format!(
                "spec.mpiReplicaSpecs[{role}].replicas: Required value: must define number of replicas"
            ),
            format!(
                "spec.mpiReplicaSpecs[{role}].restartPolicy: Unsupported value: \"\": supported values: \"Never\", \"OnFailure\""
            ),
            format!(
                "spec.mpiReplicaSpecs[{role}].template.spec.containers: Required value: must define at least one container"
            ),
        ]
    };
    assert_eq!(
        errors_of(&job),
        [lacking("Launcher"), lacking("Worker")].concat()
    );
}

#[test]
fn wrong_restart_policies_and_counts_are_named() {
    let mut job = with_workers(complete("OpenMPI"));
    let replicas = &mut job["spec"]["mpiReplicaSpecs"];
    replicas["Launcher"]["restartPolicy"] = "Always".into();
    replicas["Launcher"]["replicas"] = 2.into();
    replicas["Worker"]["restartPolicy"] = "Invalid".into();
    replicas["Worker"]["replicas"] = 0.into();
    assert_eq!(
        errors_of(&job),
        [
            r#"spec.mpiReplicaSpecs[Launcher].restartPolicy: Unsupported value: "Always": supported values: "Never", "OnFailure""#,
            "spec.mpiReplicaSpecs[Launcher].replicas: Invalid value: 2: must be 1",
            r#"spec.mpiReplicaSpecs[Worker].restartPolicy: Unsupported value: "Invalid": supported values: "Never", "OnFailure""#,
            "spec.mpiReplicaSpecs[Worker].replicas: Invalid value: 0: must be greater than or equal to 1",
        ]
    );
}

#[test]
fn a_name_that_begins_with_a_digit_is_no_service_name() {
    let mut job = with_workers(complete("OpenMPI"));
    job["metadata"]["name"] = "1-foo".into();
    assert_eq!(
        errors_of(&job),
        [format!(
            "metadata.name: Invalid value: \"1-foo\": will not able to create pod and service with invalid DNS label \"1-foo-worker-2\": {DNS_1035}"
        )]
    );
}

// The edges of names and numbers, and what the peer lets pass.

#[test]
fn a_name_fits_if_its_last_worker_fits() {
    for (workers, longest) in [
        (1, 54),
        (10, 54),
        (11, 53),
        (100, 53),
        (101, 52),
        (10_000, 51),
    ] {
        for (length, valid) in [(longest, true), (longest + 1, false)] {
            let mut job = with_workers(complete("OpenMPI"));
            job["metadata"]["name"] = "a".repeat(length).into();
            job["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] = workers.into();
            assert_eq!(
                (DIALECT.lower)(&job).is_ok(),
                valid,
                "{workers} workers, {length} letters"
            );
        }
    }
}

#[test]
fn a_worker_entry_without_a_count_is_refused() {
    let mut job = with_workers(complete("OpenMPI"));
    job["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] = Value::Null;
    assert_eq!(
        refusals(&job),
        [
            "spec.mpiReplicaSpecs[Worker].replicas: Invalid value: 0: must be greater than or equal to 1"
        ]
    );
}

#[test]
fn what_the_peer_lets_pass_in_silence_is_named_after_its_own_errors() {
    let mut job = with_workers(complete("OpenMPI"));
    job["spec"]["mpiReplicaSpecs"]["Master"] = json!({"replicas": 1, "template": template()});
    job["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] = 10_001.into();
    job["spec"]["launcherCreationPolicy"] = "WaitForWorkers".into();
    job["spec"]["slotsPerWorker"] = (-1).into();
    job["spec"]["muster"] = json!({"dialect": "v3"});
    job["spec"]["runPolicy"]["schedulingPolicy"] =
        json!({"minAvailable": -1, "scheduleTimeoutSeconds": -1});
    assert_eq!(
        refusals(&job),
        [
            "spec.slotsPerWorker: Invalid value: -1: must be greater than or equal to 0",
            r#"spec.mpiReplicaSpecs[Master]: Unsupported value: "Master": supported values: "Launcher", "Worker""#,
            "spec.mpiReplicaSpecs[Worker].replicas: Invalid value: 10001: must be less than or equal to 10000",
            r#"spec.launcherCreationPolicy: Unsupported value: "WaitForWorkers": supported values: "AtStartup", "WaitForWorkersReady""#,
            "spec.runPolicy.schedulingPolicy.minAvailable: Invalid value: -1: must be greater than or equal to 0",
            "spec.runPolicy.schedulingPolicy.scheduleTimeoutSeconds: Invalid value: -1: must be greater than or equal to 0",
            r#"spec.muster.dialect: Unsupported value: "v3": supported values: "v2beta1", "v1""#,
        ]
    );
}

#[test]
fn a_wrong_shape_is_named_once_and_not_called_missing_too() {
    let mut job = with_workers(complete("OpenMPI"));
    job["spec"]["slotsPerWorker"] = "two".into();
    job["spec"]["runPolicy"] = json!([]);
    job["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] = 99_999_999_999_i64.into();
    job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"] = "busybox".into();
    job["metadata"]["name"] = 7.into();
    assert_eq!(
        refusals(&job),
        [
            "metadata.name: Invalid value: 7: must be a string",
            r#"spec.mpiReplicaSpecs[Launcher].template: Invalid value: "busybox": must be an object"#,
            "spec.mpiReplicaSpecs[Worker].replicas: Invalid value: 99999999999: must be less than or equal to 2147483647",
            r#"spec.slotsPerWorker: Invalid value: "two": must be an integer"#,
            r#"spec.runPolicy: Invalid value: "array": must be an object"#,
        ]
    );
}

#[test]
fn zero_slots_are_valid() {
    let mut job = complete("OpenMPI");
    job["spec"]["slotsPerWorker"] = 0.into();
    assert_eq!((DIALECT.lower)(&job).expect("the job is valid").slots, 0);
}

#[test]
fn one_error_stands_alone_and_several_stand_in_brackets_without_repeats() {
    let error = |path: &str| FieldError {
        path: path.to_owned(),
        problem: "is wrong".to_owned(),
    };
    assert_eq!(aggregate(&[error("a")]), "a: is wrong");
    assert_eq!(aggregate(&[error("a"), error("a")]), "a: is wrong");
    assert_eq!(
        aggregate(&[error("b"), error("a"), error("b")]),
        "[b: is wrong, a: is wrong]"
    );
}

#[test]
fn a_job_is_ours_unless_another_controller_is_named() {
    let managed = |value: Value| {
        (DIALECT.managed_elsewhere)(&json!({"spec": {"runPolicy": {"managedBy": value}}}))
    };
    assert!(!managed(Value::Null));
    assert!(!managed("kubeflow.org/mpi-operator".into()));
    assert!(managed("kueue.x-k8s.io/multikueue".into()));
    assert!(managed("anything".into()));
    assert!(managed("".into()));
    assert!(!managed(7.into()), "no name at all is an error to report");
    assert!(!(DIALECT.managed_elsewhere)(&json!({})));
}
