//! The operator as its users run it: a Deployment from `deploy/muster.yaml` under the rights that
//! file gives it. Decides how it is installed, that this happens once for all tests, and who may run
//! beside whom.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use anyhow::{Context, Result, anyhow};
use serde_json::{Value, json};

use super::repository;
use crate::Cluster;
use crate::operator::RIGHTS_FOR_BDAP;

/// Where the operator runs.
pub const NAMESPACE: &str = "muster-system";
/// What runs it.
pub const DEPLOYMENT: &str = "deployment/muster";
/// Who it is to the API server.
pub const USER: &str = "system:serviceaccount:muster-system:muster";
/// Selects every installed object but CRDs and Namespaces.
pub const SELECTOR: &str =
    "--selector=app.kubernetes.io/name=muster,app.kubernetes.io/instance=muster";
/// The kinds of these objects.
pub const KINDS: &str = "deployments,replicasets,pods,serviceaccounts,roles,rolebindings,networkpolicies,\
                         poddisruptionbudgets,secrets,clusterroles,clusterrolebindings";
/// How many operators `deploy/muster.yaml` runs.
const REPLICAS: u8 = 2;

/// The operator's image.
pub const IMAGE: &str = "muster.test/muster-operator:1";
/// The agent's image.
pub const AGENT_IMAGE: &str = "muster.test/muster-agent:1";

/// Tests that share the operator hold it for reading, one that changes it for writing.
static OPERATOR: RwLock<()> = RwLock::new(());

/// The right to use the operator.
#[derive(Debug)]
pub enum Turn {
    /// Beside other tests.
    Shared(RwLockReadGuard<'static, ()>),
    /// While no other test runs.
    Alone(RwLockWriteGuard<'static, ()>),
}

/// Waits for the operator to run, and for no test to change it.
pub fn shared() -> Result<Turn> {
    install_once()?;
    Ok(Turn::Shared(
        OPERATOR.read().unwrap_or_else(PoisonError::into_inner),
    ))
}

/// Waits until no other test runs.
pub fn alone() -> Result<Turn> {
    // In this order, so that the first test to start need not wait for those that start with it.
    let turn = OPERATOR.write().unwrap_or_else(PoisonError::into_inner);
    install_once()?;
    Ok(Turn::Alone(turn))
}

/// Runs the operator with one flag more while `test` runs, the way a person would: no replica, new
/// arguments, all replicas. The caller's fixture must be alone.
pub fn with_flag(cluster: &Cluster, flag: &str, test: impl FnOnce() -> Result<()>) -> Result<()> {
    let deployment = get(cluster)?.context("the operator's Deployment is gone")?;
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    let args = container["args"].as_array().cloned().unwrap_or_default();
    let more = [args.clone(), vec![flag.into()]].concat();
    set_args(cluster, &more)?;
    // A test that panics must not leave the flag to the tests after it.
    let outcome = catch_unwind(AssertUnwindSafe(test));
    set_args(cluster, &args)?;
    outcome.unwrap_or_else(|panic| resume_unwind(panic))
}

/// Runs `test` without the operator, its account and its rights, so that it can install another, and
/// installs it again. CRDs and namespace stay. The caller's fixture must be alone.
pub fn without_operator(cluster: &Cluster, test: impl FnOnce() -> Result<()>) -> Result<()> {
    replaced(|| {
        let words = ["delete", KINDS, "--all-namespaces", SELECTOR];
        cluster.kubectl(&words)?;
        test()
    })
}

/// Runs `test`, which puts something else in the place of the operator, and installs the operator again.
/// The caller's fixture must be alone.
pub fn replaced(test: impl FnOnce() -> Result<()>) -> Result<()> {
    // A test that panics must not leave the tests after it without an operator.
    let outcome = catch_unwind(AssertUnwindSafe(test));
    install()?;
    restore_rights_for_bdap()?;
    outcome.unwrap_or_else(|panic| resume_unwind(panic))
}

fn set_args(cluster: &Cluster, args: &[Value]) -> Result<()> {
    scale(cluster, 0)?;
    let patch = json!([{
        "op": "add", "path": "/spec/template/spec/containers/0/args", "value": args,
    }]);
    let patch = patch.to_string();
    cluster.kubectl(&[
        "patch",
        "-n",
        NAMESPACE,
        DEPLOYMENT,
        "--type=json",
        "-p",
        &patch,
    ])?;
    scale(cluster, REPLICAS)
}

fn scale(cluster: &Cluster, replicas: u8) -> Result<()> {
    let replicas = format!("--replicas={replicas}");
    cluster.kubectl(&["scale", "-n", NAMESPACE, DEPLOYMENT, &replicas])?;
    rolled_out(cluster)
}

fn rolled_out(cluster: &Cluster) -> Result<()> {
    cluster.kubectl(&[
        "rollout",
        "status",
        "-n",
        NAMESPACE,
        DEPLOYMENT,
        "--timeout=90s",
    ])?;
    Ok(())
}

fn install_once() -> Result<()> {
    static INSTALLED: OnceLock<Result<(), String>> = OnceLock::new();
    let installed = INSTALLED.get_or_init(|| install().map_err(|error| format!("{error:#}")));
    installed
        .clone()
        .map_err(|error| anyhow!("the operator cannot be installed: {error}"))
}

fn install() -> Result<()> {
    let cluster = Cluster::from_env()?;
    let file = repository().join("deploy/muster.yaml");
    let shipped =
        fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    // Not every site has T9k's users, so its definition is not in that file.
    let more = repository().join("deploy/crds/batch.tensorstack.dev_mpijobs.yaml");
    let more = more.to_str().context("the repository's path is not text")?;
    cluster.kubectl(&[
        "apply",
        "--server-side",
        "--force-conflicts",
        "--filename",
        more,
    ])?;
    let from_an_earlier_run = get(&cluster)?.is_some();
    cluster.apply(&with_test_images(&shipped))?;
    if from_an_earlier_run {
        // Its image may be another one under the same name.
        cluster.kubectl(&["rollout", "restart", "-n", NAMESPACE, DEPLOYMENT])?;
    }
    rolled_out(&cluster)
}

/// Tests of bdap's jobs give the operator more rights, once for all of them.
fn restore_rights_for_bdap() -> Result<()> {
    let cluster = Cluster::from_env()?;
    if cluster
        .get("", "crd", "mpijobs.batch.test.bdap.com")?
        .is_some()
    {
        let rights = fs::read_to_string(repository().join(RIGHTS_FOR_BDAP))?;
        cluster.apply(&rights)?;
    }
    Ok(())
}

fn get(cluster: &Cluster) -> Result<Option<Value>> {
    let (kind, name) = DEPLOYMENT
        .split_once('/')
        .expect("it is written as kind/name");
    cluster.get(NAMESPACE, kind, name)
}

/// A manifest with the images of the tests.
pub fn with_test_images(manifest: &str) -> String {
    with_images(manifest, IMAGE, AGENT_IMAGE)
}

/// The manifest with another image for its one container, and for the agent.
fn with_images(manifest: &str, image: &str, agent: &str) -> String {
    let line = |line: &str| match (
        line.split_once("image: "),
        line.split_once("--agent-image="),
    ) {
        (Some((before, _)), _) if before.trim_matches([' ', '-']).is_empty() => {
            format!("{before}image: {image}\n")
        }
        (_, Some((before, _))) => format!("{before}--agent-image={agent}\n"),
        _ => format!("{line}\n"),
    };
    manifest.lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_images_are_replaced() {
        let manifest = "    image: b:1\n    args: [\"--image: c\"]\n  - --agent-image=e:1\n";
        let expected = "    image: d:2\n    args: [\"--image: c\"]\n  - --agent-image=f:2\n";
        assert_eq!(with_images(manifest, "d:2", "f:2"), expected);
    }
}
