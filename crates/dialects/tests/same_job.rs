//! The same job, written in every API, is the same job in the hub, but for the facts in which the APIs
//! differ. Those are listed here; a difference that is not listed is a mistake.

use dialects::{kubeflow_v1, kubeflow_v2beta1, openmpi_v1alpha1, t9k_v1beta1};
use planner::Job;
use planner::job::{Access, End, Login, RestartPolicy, WorkerPods, Workers};
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

fn pods(job: &mut Job) -> &mut WorkerPods {
    match &mut job.workers {
        Workers::Pods(pods) => pods,
        Workers::StatefulSet(_) => panic!("its workers are pods"),
    }
}

fn login(job: &mut Job) -> &mut Login {
    match &mut pods(job).access {
        Access::Ssh(login) => login,
        other => panic!("it says that it is reached by ssh: {other:?}"),
    }
}

/// The one with the facts of the other in which their APIs differ.
fn as_in(mut job: Job, other: &Job) -> Job {
    job.launcher.kind = other.launcher.kind;
    let labels = &other.launcher.role.labels;
    job.launcher.role.labels.clone_from(labels);
    let labels = &other.workers.role().labels;
    pods(&mut job).role.labels.clone_from(labels);
    pods(&mut job).drops_bare_args = false;
    if let End::WithLauncher(limits) = &mut job.lifecycle.end {
        limits.failed_worker_is_fatal = false;
        limits.deleted_launcher_is_fatal = false;
    }
    job
}

#[test]
fn a_job_of_v1_is_the_same_job_in_v2beta1() {
    let second = lowered(&kubeflow_v2beta1::DIALECT, &kubeflow());
    let first = lowered(&kubeflow_v1::DIALECT, &kubeflow());
    assert_ne!(first, second, "the versions differ");
    let mut first = as_in(first, &second);
    let login = login(&mut first);
    assert!(
        login.discovery_has_slots && login.exec_script,
        "v1 promises more files"
    );
    (login.discovery_has_slots, login.exec_script) = (false, false);
    assert_eq!(first, second);
}

#[test]
fn a_job_of_t9k_is_the_same_job_in_v2beta1() {
    let kubeflow = lowered(&kubeflow_v2beta1::DIALECT, &kubeflow());
    let mut job = as_in(lowered(&t9k_v1beta1::DIALECT, &t9k()), &kubeflow);
    job.owner = kubeflow.owner.clone();
    job.reports_pods = kubeflow.reports_pods;
    pods(&mut job).role.container = None;
    assert_eq!(job, kubeflow);
}

/// The component's pods bring everything themselves, and that is one fact of the hub.
#[test]
fn a_component_openmpi_is_the_same_job_in_v2beta1() {
    let mut kubeflow = lowered(&kubeflow_v2beta1::DIALECT, &kubeflow());
    let component = json!({"metadata": metadata(), "spec": {
        "image": "pi", "secret": "s", "workers": 3, "gpu": 2, "exec": "mpirun pi"}});
    let mut job = as_in(lowered(&openmpi_v1alpha1::DIALECT, &component), &kubeflow);
    let access = pods(&mut kubeflow).access.clone();
    let provided = std::mem::replace(&mut pods(&mut job).access, access);
    assert!(matches!(provided, Access::Provided(own) if own.account.is_some()));
    job.owner = kubeflow.owner.clone();
    job.names = kubeflow.names.clone();
    job.launcher.role.template = kubeflow.launcher.role.template.clone();
    pods(&mut job).role.template = kubeflow.workers.role().template.clone();
    job.launcher.start = kubeflow.launcher.start;
    job.lifecycle.clean_up = kubeflow.lifecycle.clean_up;
    assert_eq!(job, kubeflow);
}

#[test]
fn restart_policies_of_every_api_mean_what_they_say() {
    let with = |policy: &str| {
        let mut job = kubeflow();
        job["spec"]["mpiReplicaSpecs"]["Worker"]["restartPolicy"] = policy.into();
        job
    };
    for (policy, meant) in [
        ("Never", RestartPolicy::Never),
        ("OnFailure", RestartPolicy::OnFailure),
        ("Always", RestartPolicy::Always),
        ("ExitCode", RestartPolicy::ExitCode),
    ] {
        let mut job = lowered(&kubeflow_v1::DIALECT, &with(policy));
        assert_eq!(pods(&mut job).restart, meant, "{policy}");
    }
    assert!((kubeflow_v2beta1::DIALECT.lower)(&with("Always")).is_err());
}
