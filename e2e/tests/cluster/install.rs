//! What `deploy/` installs, as an administrator would: the one file for the whole cluster, and the overlay for
//! one namespace, which has no right outside of it. Each runs jobs and leaves nothing behind.

use std::fs;

use anyhow::{Context, Result, ensure};
use e2e::cluster_fixture::deployed::{
    self, DEPLOYMENT, KINDS, NAMESPACE, SELECTOR, with_test_images,
};
use e2e::cluster_fixture::{ClusterFixture, PATIENCE, repository};
use e2e::{Cluster, condition, wait_for};
use serde_json::{Value, json};

use crate::openmpi::{Job, make_keys, mpiexec};
use crate::t9k::{T9k, job as t9k_job};
use crate::with_cluster_alone;

/// Names of what the one file defines, spelled so that no other group's can be meant.
const CRDS: [&str; 2] = ["mpijobs.kubeflow.org", "openmpis.muster.dev"];

/// Applies or deletes a manifest, about which kubectl must have nothing to complain.
fn send(cluster: &Cluster, verb: &str, manifest: &str) -> Result<()> {
    let sent = cluster.kubectl_unwarned(&[verb, "--filename=-"], manifest);
    sent.with_context(|| format!("kubectl {verb}")).map(drop)
}

fn rolled_out(cluster: &Cluster, namespace: &str) -> Result<()> {
    let words = ["rollout", "status", DEPLOYMENT, "--timeout=90s", "-n"];
    cluster.kubectl(&[&words[..], &[namespace]].concat())?;
    Ok(())
}

/// The objects of an install that exist, but for CRDs and Namespaces.
fn installed(cluster: &Cluster) -> Result<String> {
    cluster.kubectl(&["get", KINDS, "--all-namespaces", "--output=name", SELECTOR])
}

fn assert_nothing_is_left(cluster: &Cluster) -> Result<()> {
    wait_for("everything to go", PATIENCE, || {
        Ok(installed(cluster)?.is_empty().then_some(()))
    })
}

/// A job of `kubeflow.org/v1`, whose image needs no sshd.
fn job_of_v1(name: &str) -> Value {
    let replica = |count: u32, command: &[&str]| {
        let container = json!({"name": "mpi", "image": "muster.test/openmpi4-nossh:1",
            "command": command});
        json!({"replicas": count, "restartPolicy": "Never",
            "template": {"spec": {"containers": [container]}}})
    };
    let mpirun = ["mpirun", "--allow-run-as-root", "-n", "2", "hostname"];
    json!({
        "apiVersion": "kubeflow.org/v1",
        "kind": "MPIJob",
        "metadata": {"name": name},
        "spec": {"mpiReplicaSpecs": {"Launcher": replica(1, &mpirun), "Worker": replica(2, &[])}},
    })
}

fn v1_succeeds(fixture: &ClusterFixture) -> Result<()> {
    fixture.create(&job_of_v1("old"))?;
    wait_for("the job of v1 to succeed", PATIENCE, || {
        let job = fixture
            .cluster
            .get(&fixture.namespace, "mpijobs.v1.kubeflow.org", "old")?;
        Ok(job.filter(|job| condition(job, "Succeeded") == Some("True")))
    })?;
    Ok(())
}

/// One job of each API that the one file defines, and one of T9k's, whose definition is there as well.
fn jobs_of_all_dialects_succeed(fixture: &ClusterFixture) -> Result<()> {
    fixture.submit_example("pi")?.succeeded_on_workers(2)?;
    v1_succeeds(fixture)?;
    T9k::submit(fixture, &t9k_job("t9k", &["hostname"]))?.phase("Succeeded")?;
    make_keys(fixture, &fixture.namespace, "keys")?;
    let hello = json!({"exec": mpiexec(2, "hostname")});
    Job::submit(fixture, "openmpi", hello)?.ended("Succeeded")?;
    Ok(())
}

#[test]
fn the_one_file_runs_jobs_of_all_dialects_and_leaves_nothing() -> Result<()> {
    with_cluster_alone("install", |fixture| {
        let cluster = &fixture.cluster;
        let file = fs::read_to_string(repository().join("deploy/muster.yaml"))?;
        let file = with_test_images(&file);
        deployed::without_operator(cluster, || {
            // What is there from before: CRDs and Namespace.
            cluster.kubectl_with(&["delete", "--ignore-not-found", "--filename=-"], &file)?;
            send(cluster, "apply", &file)?;
            rolled_out(cluster, NAMESPACE)?;
            let pods = cluster.list(NAMESPACE, "pods", "app.kubernetes.io/name=muster")?;
            ensure!(pods.len() == 2, "{} operators run", pods.len());
            let nodes: Vec<_> = pods.iter().map(|pod| &pod["spec"]["nodeName"]).collect();
            ensure!(nodes[0] != nodes[1], "both are on {}", nodes[0]);
            jobs_of_all_dialects_succeed(fixture)?;

            send(cluster, "delete", &file)?;
            assert_nothing_is_left(cluster)?;
            for (kind, name) in CRDS
                .map(|crd| ("crd", crd))
                .into_iter()
                .chain([("namespace", NAMESPACE)])
            {
                ensure!(
                    cluster.get("", kind, name)?.is_none(),
                    "{kind} {name} is left"
                );
            }
            // T9k's definition, and so its job, belong to nobody's install.
            let remove = [
                "delete",
                "-n",
                &fixture.namespace,
                "mpijobs.batch.tensorstack.dev",
                "t9k",
            ];
            cluster.kubectl(&remove)?;
            wait_for("the pods of all jobs to go", PATIENCE, || {
                Ok(cluster
                    .list(&fixture.namespace, "pods", "")?
                    .is_empty()
                    .then_some(()))
            })
        })
    })
}

#[test]
fn the_overlay_for_one_namespace_needs_nothing_of_the_cluster_and_leaves_nothing() -> Result<()> {
    with_cluster_alone("team", |fixture| {
        let cluster = &fixture.cluster;
        let overlay = repository().join("deploy/overlays/one-namespace");
        let overlay = cluster.kubectl(&["kustomize", &overlay.to_string_lossy()])?;
        let overlay = with_test_images(&overlay.replace("team-a", &fixture.namespace));
        let own = format!("muster-{}", fixture.namespace);
        let result = deployed::without_operator(cluster, || {
            cluster.kubectl(&["create", "namespace", &own])?;
            send(cluster, "apply", &overlay)?;
            rolled_out(cluster, &own)?;
            let made = installed(cluster)?;
            ensure!(!made.contains("clusterrole"), "{made}");
            jobs_of_all_dialects_succeed(fixture)?;
            let account = format!("--as=system:serviceaccount:{own}:muster");
            for (namespace, expected) in [(fixture.namespace.as_str(), "yes"), ("default", "no")] {
                let words = ["auth", "can-i", "list", "pods", &account, "-n", namespace];
                // It says no by its exit code too.
                let said = cluster.command(&words).output()?.stdout;
                let said = String::from_utf8_lossy(&said).trim().to_owned();
                ensure!(said == expected, "list pods in {namespace}: {said}");
            }
            send(cluster, "delete", &overlay)?;
            assert_nothing_is_left(cluster)
        });
        // Also after a failure: no second operator meets the next test.
        cluster.kubectl_with(&["delete", "--ignore-not-found", "--filename=-"], &overlay)?;
        cluster.kubectl(&["delete", "namespace", &own, "--wait=false"])?;
        result
    })
}

/// What Kubeflow's MPI operator has under its own names; nothing runs of it here.
fn kubeflows_operator() -> String {
    let labels = json!({"app": "mpi-operator", "app.kubernetes.io/component": "mpijob",
        "app.kubernetes.io/name": "mpi-operator", "kustomize.component": "mpi-operator"});
    let about = json!({"name": "mpi-operator", "namespace": "mpi-operator", "labels": labels});
    let container = json!({"name": "mpi-operator", "image": "mpioperator/mpi-operator:0.8.2",
        "args": ["-alsologtostderr", "--lock-namespace=mpi-operator"]});
    let all = json!([{"apiGroups": ["kubeflow.org"], "resources": ["mpijobs"], "verbs": ["*"]}]);
    let objects = [
        json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": "mpi-operator", "labels": labels}}),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": about}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": "mpi-operator", "labels": labels}, "rules": all}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": "mpi-operator", "labels": labels},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                "name": "mpi-operator"},
            "subjects": [{"kind": "ServiceAccount", "name": "mpi-operator",
                "namespace": "mpi-operator"}]}),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": about,
            "spec": {"replicas": 0, "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {
                    "serviceAccountName": "mpi-operator", "containers": [container]}}}}),
    ];
    objects.map(|object| object.to_string()).join("\n---\n")
}

#[test]
fn the_overlay_takes_the_place_of_kubeflows_operator() -> Result<()> {
    with_cluster_alone("move", |fixture| {
        let cluster = &fixture.cluster;
        let overlay = repository().join("deploy/overlays/mpi-operator");
        let overlay =
            with_test_images(&cluster.kubectl(&["kustomize", &overlay.to_string_lossy()])?);
        let uid = || -> Result<Value> {
            let deployment = cluster.get("mpi-operator", "deployment", "mpi-operator")?;
            let deployment = deployment.context("the Deployment is gone")?;
            Ok(deployment["metadata"]["uid"].clone())
        };
        deployed::without_operator(cluster, || {
            cluster.apply(&kubeflows_operator())?;
            let before = uid()?;
            let words = [
                "apply",
                "--server-side",
                "--force-conflicts",
                "--filename=-",
            ];
            cluster.kubectl_with(&words, &overlay)?;
            let words = [
                "rollout",
                "status",
                "deployment/mpi-operator",
                "--timeout=90s",
            ];
            cluster.kubectl(&[&words[..], &["-n", "mpi-operator"]].concat())?;
            ensure!(uid()? == before, "the Deployment is another one");
            let role = cluster.get("", "clusterrole", "mpi-operator")?;
            let role = role.context("the ClusterRole is gone")?.to_string();
            ensure!(
                !role.contains("\"*\""),
                "rights of the other operator are left: {role}"
            );
            fixture.submit_example("pi")?.succeeded_on_workers(2)?;

            // But for the CRDs, which other tests need.
            let keep = |document: &&str| !document.contains("kind: CustomResourceDefinition");
            let rest: Vec<_> = overlay.split("\n---\n").filter(keep).collect();
            send(cluster, "delete", &rest.join("\n---\n"))
        })
    })
}
