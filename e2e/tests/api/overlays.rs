//! Each directory that kustomize installs from: its objects fit together, it defines the APIs that it says, and the
//! operator sees no Secret and enters no pod unless bdap's jobs need it.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result, ensure};
use e2e::api_fixture::name;
use e2e::installation::assert_sound;
use e2e::operator::{objects, repository};
use serde_json::json;

use super::fixture::prepared;

const KUBEFLOW: &str = "mpijobs.kubeflow.org";
const OPENMPI: &str = "openmpis.muster.dev";
const T9K: &str = "mpijobs.batch.tensorstack.dev";
const BDAP: &str = "mpijobs.batch.test.bdap.com";

/// The directories below `deploy/`: the namespace of the operator, and the CRDs.
const INSTALLED: [(&str, &str, &[&str]); 7] = [
    ("base", "muster-system", &[KUBEFLOW, OPENMPI]),
    (
        "overlays/bdap",
        "sw-mpi-operator",
        &[BDAP, KUBEFLOW, OPENMPI],
    ),
    ("overlays/kubeflow", "kubeflow", &[KUBEFLOW, OPENMPI]),
    (
        "overlays/mpi-operator",
        "mpi-operator",
        &[KUBEFLOW, OPENMPI],
    ),
    ("overlays/one-namespace", "muster-team-a", &[]),
    ("overlays/t9k", "muster-system", &[T9K, KUBEFLOW, OPENMPI]),
    (
        "overlays/v2beta1-only",
        "muster-system",
        &[KUBEFLOW, OPENMPI],
    ),
];

#[test]
fn every_overlay_fits_together_and_sees_no_secret() -> Result<()> {
    let cluster = &prepared()?.cluster;
    for (directory, namespace, crds) in INSTALLED {
        let path = repository().join("deploy").join(directory);
        let found = objects(cluster, &["-k", &path.to_string_lossy()])?;
        let sound = assert_sound(&found, directory == "overlays/bdap");
        sound.with_context(|| directory.to_owned())?;
        let of_kind = |kind: &str| -> Vec<_> {
            let of_kind = found.iter().filter(|object| object["kind"] == kind);
            of_kind.collect()
        };
        let deployment = &of_kind("Deployment")[0]["metadata"]["namespace"];
        ensure!(deployment == namespace, "{directory}: {deployment}");
        let defined: BTreeSet<&str> = of_kind("CustomResourceDefinition")
            .into_iter()
            .map(name)
            .collect();
        ensure!(
            defined == BTreeSet::from_iter(crds.iter().copied()),
            "{directory} defines {defined:?}"
        );
        let of_cluster = ["Namespace", "ClusterRole", "ClusterRoleBinding"];
        let of_cluster = of_cluster.map(|kind| of_kind(kind).len());
        ensure!(
            of_cluster.iter().all(|count| *count == 0) == crds.is_empty(),
            "{directory}: {of_cluster:?} of the cluster"
        );
    }
    Ok(())
}

#[test]
fn no_overlay_is_forgotten() -> Result<()> {
    let mut there = BTreeSet::from(["base".to_owned()]);
    for entry in fs::read_dir(repository().join("deploy/overlays"))? {
        let entry = entry?.file_name();
        there.insert(format!("overlays/{}", entry.to_string_lossy()));
    }
    let tried: BTreeSet<_> = INSTALLED.map(|(path, ..)| path.to_owned()).into();
    ensure!(there == tried, "{there:?}");
    Ok(())
}

/// The judge is judged: what is broken is found, one thing at a time.
#[test]
fn what_does_not_fit_together_is_found() -> Result<()> {
    let cluster = &prepared()?.cluster;
    let base = repository().join("deploy/base");
    let whole = objects(cluster, &["-k", &base.to_string_lossy()])?;
    let at = |kind: &str, named: &str| {
        let is_it = |object: &serde_json::Value| object["kind"] == kind && name(object) == named;
        let found = whole.iter().position(is_it);
        found.with_context(|| format!("no {kind} {named}"))
    };
    let jobs = at("ClusterRole", "muster-jobs")?;
    let binding = at("ClusterRoleBinding", "muster-jobs")?;
    let deployment = at("Deployment", "muster")?;
    let budget = at("PodDisruptionBudget", "muster")?;
    let wide = json!({"apiGroups": ["*"], "resources": ["pods"], "verbs": ["get"]});
    let secrets = json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]});
    let exec = json!({"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create"]});
    let lock = json!(["--lock-namespace=default"]);
    for (index, place, broken, complaint) in [
        (jobs, "/rules/0", wide, "wildcard"),
        (jobs, "/rules/0", secrets, "sees Secrets"),
        (jobs, "/rules/0", exec, "enters pods"),
        (
            binding,
            "/subjects/0/namespace",
            json!("default"),
            "it is for",
        ),
        (binding, "/roleRef/name", json!("muster-job"), "there is no"),
        (
            budget,
            "/spec/selector/matchLabels/app.kubernetes.io~1name",
            json!("other"),
            "selects",
        ),
        (
            deployment,
            "/spec/template/spec/containers/0/args",
            lock,
            "--lock-namespace",
        ),
        (
            deployment,
            "/spec/template/spec/serviceAccountName",
            json!("default"),
            "no account",
        ),
    ] {
        let mut changed = whole.clone();
        let value = changed[index].pointer_mut(place);
        *value.with_context(|| format!("no {place}"))? = broken;
        let error = assert_sound(&changed, false).err();
        let error = error.with_context(|| format!("nobody minds {complaint}"))?;
        let error = format!("{error:#}");
        ensure!(error.contains(complaint), "{place}: {error}");
    }
    Ok(())
}
