//! The children of a job with two workers, two slots and every default, byte for byte.

use planner::fixtures::{job, world};
use planner::{Kind, plan};
use serde_json::{Value, json};

use super::created_one;

fn demo() -> planner::Observed {
    world(job("demo").workers(2).with(|job| job.slots = 2))
}

fn child(name: &str) -> Value {
    json!({
        "name": name,
        "namespace": "team-a",
        "labels": {
            "app": "demo",
            "app.kubernetes.io/managed-by": "muster",
            "muster.dev/job-uid": "uid-demo",
        },
        "ownerReferences": [owner()],
    })
}

fn owner() -> Value {
    json!({
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "name": "demo",
        "uid": "uid-demo",
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

fn key_volume() -> Value {
    json!({"name": "ssh-auth", "secret": {
        "secretName": "demo-ssh",
        "defaultMode": 384,
        "items": [
            {"key": "ssh-privatekey", "path": "id_rsa"},
            {"key": "ssh-publickey", "path": "id_rsa.pub"},
            {"key": "ssh-publickey", "path": "authorized_keys"},
        ],
    }})
}

#[test]
fn the_service_names_the_pods_without_an_address() {
    let expected = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": child("demo"),
        "spec": {
            "clusterIP": "None",
            "selector": {
                "training.kubeflow.org/operator-name": "mpi-operator",
                "training.kubeflow.org/job-name": "demo",
                "muster.dev/job-uid": "uid-demo",
            },
            "publishNotReadyAddresses": false,
        },
    });
    assert_eq!(created_one(&plan(&demo()), Kind::Service, "demo"), expected);
}

#[test]
fn the_config_map_lists_the_hosts() {
    let expected = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": child("demo-config"),
        "data": {
            "hostfile": "demo-worker-0.demo.team-a.svc slots=2\n\
                         demo-worker-1.demo.team-a.svc slots=2\n",
            "discover_hosts.sh": "#!/bin/sh\n\
                                  echo demo-worker-0.demo.team-a.svc\n\
                                  echo demo-worker-1.demo.team-a.svc\n",
        },
    });
    assert_eq!(
        created_one(&plan(&demo()), Kind::ConfigMap, "demo-config"),
        expected
    );
}

#[test]
fn the_secret_is_asked_for_without_its_key() {
    let expected = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": child("demo-ssh"),
        "type": "kubernetes.io/ssh-auth",
    });
    assert_eq!(
        created_one(&plan(&demo()), Kind::Secret, "demo-ssh"),
        expected
    );
}

#[test]
fn a_worker_runs_sshd_under_its_own_name() {
    let expected = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "demo-worker-1",
            "namespace": "team-a",
            "labels": {
                "training.kubeflow.org/operator-name": "mpi-operator",
                "training.kubeflow.org/job-name": "demo",
                "training.kubeflow.org/job-role": "worker",
                "training.kubeflow.org/replica-index": "1",
                "muster.dev/job-uid": "uid-demo",
            },
            "ownerReferences": [owner()],
        },
        "spec": {
            "hostname": "demo-worker-1",
            "subdomain": "demo",
            "restartPolicy": "Never",
            "dnsConfig": {"searches": ["demo.team-a.svc.cluster.local"]},
            "containers": [{
                "name": "main",
                "image": "pi",
                "command": ["/usr/sbin/sshd", "-De"],
                "env": [{"name": "K_MPI_JOB_ROLE", "value": "worker"}],
                "volumeMounts": [{"name": "ssh-auth", "mountPath": "/root/.ssh"}],
            }],
            "volumes": [key_volume()],
            "automountServiceAccountToken": false,
        },
    });
    assert_eq!(
        created_one(&plan(&demo()), Kind::Pod, "demo-worker-1"),
        expected
    );
}

#[test]
fn the_launcher_job_finds_the_hosts_with_open_mpi_4_and_5() {
    let variable = |name: &str, value: &str| json!({"name": name, "value": value});
    let expected = json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": child("demo-launcher"),
        "spec": {
            "podReplacementPolicy": "Failed",
            "template": {
                "metadata": {"labels": {
                    "training.kubeflow.org/operator-name": "mpi-operator",
                    "training.kubeflow.org/job-name": "demo",
                    "training.kubeflow.org/job-role": "launcher",
                    "muster.dev/job-uid": "uid-demo",
                }},
                "spec": {
                    "hostname": "demo-launcher",
                    "subdomain": "demo",
                    "restartPolicy": "OnFailure",
                    "automountServiceAccountToken": false,
                    "containers": [{
                        "name": "main",
                        "image": "pi",
                        "env": [
                            variable("K_MPI_JOB_ROLE", "launcher"),
                            variable("OMPI_MCA_orte_keep_fqdn_hostnames", "true"),
                            variable("OMPI_MCA_orte_default_hostfile", "/etc/mpi/hostfile"),
                            variable("OMPI_MCA_plm_rsh_args", "-o ConnectionAttempts=10"),
                            variable("OMPI_MCA_orte_set_default_slots", "2"),
                            variable("NVIDIA_VISIBLE_DEVICES", ""),
                            variable("NVIDIA_DRIVER_CAPABILITIES", ""),
                            variable("PRTE_MCA_prte_default_hostfile", "/etc/mpi/hostfile"),
                            variable("PRTE_MCA_plm_ssh_args", "-o ConnectionAttempts=10"),
                            variable("PRTE_MCA_prte_set_default_slots", "2"),
                        ],
                        "volumeMounts": [
                            {"name": "ssh-auth", "mountPath": "/root/.ssh"},
                            {"name": "mpi-job-config", "mountPath": "/etc/mpi"},
                        ],
                    }],
                    "volumes": [key_volume(), {"name": "mpi-job-config", "configMap": {
                        "name": "demo-config",
                        "items": [
                            {"key": "hostfile", "path": "hostfile", "mode": 292},
                            {"key": "discover_hosts.sh", "path": "discover_hosts.sh", "mode": 365},
                        ],
                    }}],
                },
            },
        },
    });
    assert_eq!(
        created_one(&plan(&demo()), Kind::Job, "demo-launcher"),
        expected
    );
}
