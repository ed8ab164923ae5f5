//! The same job, written in every API, is the same job in the hub, but for the facts in which the APIs
//! differ. Those are listed here; a difference that is not listed is a mistake.

use dialects::{kubeflow_v1, kubeflow_v2beta1, openmpi_v1alpha1, t9k_v1beta1};
use planner::Job;
use planner::job::RestartPolicy;
use serde_json::{Value, json};

const LINE: [&str; 6] = ["/usr/bin/mpirun", "--mca", "btl", "tcp", "-N", "2"];

fn container(name: &str, command: &[&str]) -> Value {
    json!({"spec": {"containers": [{"name": name, "image": "pi", "command": command}]}})
}

fn metadata() -> Value {
    json!({"name": "pi", "namespace": "team-a", "uid": "u", "generation": 2})
}

fn kubeflow() -> Value {
    let line = [&LINE[..], &["pi"]].concat();
    json!({"metadata": metadata(), "spec": {
        "slotsPerWorker": 2,
        "launcherCreationPolicy": "WaitForWorkersReady",
        "runPolicy": {"cleanPodPolicy": "All"},
        "muster": {"transport": "SSH"},
        "mpiReplicaSpecs": {
            "Launcher": {"restartPolicy": "Never", "template": container("mpi-launcher", &line)},
            "Worker": {"replicas": 3, "template": container("mpi-worker", &["/usr/sbin/sshd", "-De"])},
        },
    }})
}

fn t9k() -> Value {
    json!({"metadata": metadata(), "spec": {
        "worker": {"replicas": 3, "cmd": ["pi"], "extraMPIArgs": ["-N", "2"],
            "template": container("mpi-worker", &[])},
        "mca": {"btl": "tcp"},
        "mpiHome": "/usr",
        "runPolicy": {"cleanUpWorkers": true},
    }})
}

fn lowered(dialect: &dialects::Dialect, job: &Value) -> Job {
    (dialect.lower)(job).unwrap_or_else(|errors| panic!("{}: {errors:?}", dialect.name))
}

/// The one with the facts of the other in which their APIs differ.
fn as_in(mut job: Job, other: &Job) -> Job {
    job.launcher_as = other.launcher_as;
    job.launcher_is_indexed = other.launcher_is_indexed;
    job.discovery_tells_slots = other.discovery_tells_slots;
    job.exec_script = other.exec_script;
    job.launcher.labels.clone_from(&other.launcher.labels);
    if let (Some(workers), Some(others)) = (&mut job.workers, &other.workers) {
        workers.role.labels.clone_from(&others.role.labels);
        workers.drops_bare_args = others.drops_bare_args;
    }
    job.policy.clean_covers_launcher = other.policy.clean_covers_launcher;
    job.policy.failed_worker_is_fatal = other.policy.failed_worker_is_fatal;
    job
}

#[test]
fn a_job_of_v1_is_the_same_job_in_v2beta1() {
    let second = lowered(&kubeflow_v2beta1::DIALECT, &kubeflow());
    let first = lowered(&kubeflow_v1::DIALECT, &kubeflow());
    assert_ne!(first, second, "the versions differ");
    assert_eq!(as_in(first, &second), second);
}

#[test]
fn a_job_of_t9k_is_the_same_job_in_v2beta1() {
    let kubeflow = lowered(&kubeflow_v2beta1::DIALECT, &kubeflow());
    let mut job = as_in(lowered(&t9k_v1beta1::DIALECT, &t9k()), &kubeflow);
    job.owner = kubeflow.owner.clone();
    job.tells_of_pods = kubeflow.tells_of_pods;
    if let Some(workers) = &mut job.workers {
        workers.role.container = None;
    }
    assert_eq!(job, kubeflow);
}

/// The component's pods bring everything themselves, and that is one fact of the hub.
#[test]
fn a_component_openmpi_is_the_same_job_in_v2beta1() {
    let kubeflow = lowered(&kubeflow_v2beta1::DIALECT, &kubeflow());
    let component = json!({"metadata": metadata(), "spec": {
        "image": "pi", "secret": "s", "workers": 3, "gpu": 2, "exec": "mpirun pi"}});
    let mut job = as_in(lowered(&openmpi_v1alpha1::DIALECT, &component), &kubeflow);
    assert!(job.bootstrap.take().is_some() && job.account.take().is_some());
    job.owner = kubeflow.owner.clone();
    job.launcher.template = kubeflow.launcher.template.clone();
    if let (Some(workers), Some(others)) = (&mut job.workers, &kubeflow.workers) {
        workers.role.template = others.role.template.clone();
    }
    assert!(
        !job.gate && !job.census,
        "its script asks the workers itself"
    );
    (job.gate, job.census) = (true, true);
    (job.ssh_port, job.ssh_mount_path) = (None, kubeflow.ssh_mount_path.clone());
    job.launcher_start = kubeflow.launcher_start;
    job.policy.clean = kubeflow.policy.clean;
    assert_eq!(job, kubeflow);
}

#[test]
fn restart_policies_of_every_api_mean_what_they_say() {
    let with = |policy: &str| {
        let mut job = kubeflow();
        job["spec"]["mpiReplicaSpecs"]["Worker"]["restartPolicy"] = policy.into();
        job
    };
    let restart = |job: &Job| job.workers.as_ref().map(|workers| workers.role.restart);
    for (policy, meant) in [
        ("Never", RestartPolicy::Never),
        ("OnFailure", RestartPolicy::OnFailure),
        ("Always", RestartPolicy::Always),
        ("ExitCode", RestartPolicy::ExitCode),
    ] {
        let job = lowered(&kubeflow_v1::DIALECT, &with(policy));
        assert_eq!(restart(&job), Some(meant), "{policy}");
    }
    assert!((kubeflow_v2beta1::DIALECT.lower)(&with("Always")).is_err());
}
