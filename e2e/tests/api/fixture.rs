//! What all tests stand on: the CRD as it is shipped, and, stored before that under a schema that
//! lets everything pass, the jobs that no API server with our CRD would have taken. Old versions and
//! other people's tools leave such jobs behind.
//!
//! Done once, before the first test looks: a CRD that changes under running tests would disturb them.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context, Result};
use e2e::api::{Api, collection};
use e2e::api_fixture::{ApiFixture, new_namespace};
use e2e::operator::{Account, repository};
use e2e::{Cluster, wait_for};
use serde_json::{Value, json};

use super::bad_input::bad_jobs;

const CRD: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/mpijobs.kubeflow.org";
/// The API server takes up a changed schema within this time.
const SCHEMA_CHANGE_MAX: Duration = Duration::from_secs(30);

/// The cluster, ready for jobs.
pub(crate) struct Prepared {
    pub(crate) cluster: Cluster,
    pub(crate) api: Arc<Api>,
    /// Where the bad jobs are.
    bad_namespace: String,
}

/// The prepared cluster; the first test to ask prepares it.
pub(crate) fn prepared() -> Result<&'static Prepared> {
    static PREPARED: OnceLock<Result<Prepared, String>> = OnceLock::new();
    let prepared = PREPARED.get_or_init(|| prepare().map_err(|error| format!("{error:#}")));
    prepared
        .as_ref()
        .map_err(|error| anyhow::anyhow!("the cluster is not ready for tests: {error}"))
}

/// A namespace of one's own.
pub(crate) fn new_fixture(words: &str) -> Result<ApiFixture> {
    let prepared = prepared()?;
    ApiFixture::new(&prepared.cluster, &prepared.api, words)
}

/// The namespace with the bad jobs. For one test only: its operator is the only one there.
pub(crate) fn bad_jobs_fixture() -> Result<ApiFixture> {
    let prepared = prepared()?;
    let namespace = prepared.bad_namespace.clone();
    let account = Account::install(&prepared.cluster, &prepared.api, &namespace)?;
    Ok(ApiFixture {
        cluster: prepared.cluster.clone(),
        api: prepared.api.clone(),
        namespace,
        account,
    })
}

fn prepare() -> Result<Prepared> {
    let cluster = Cluster::from_env()?;
    let api = Arc::new(Api::of(&cluster)?);
    let crds = repository().join("deploy/crds");
    let apply = ["apply", "--server-side", "--force-conflicts", "-k"];
    cluster.kubectl(&[&apply[..], &[&crds.to_string_lossy()]].concat())?;
    wait_for("the CRD to be served", SCHEMA_CHANGE_MAX, || {
        api.list("/apis/kubeflow.org/v2beta1/mpijobs").map(Some)
    })?;

    let bad_namespace = new_namespace(&api, "bad")?;
    let shipped = api.get(CRD)?.context("the CRD was just applied")?["spec"]["versions"].take();
    api.merge(CRD, &json!({"spec": {"versions": lax(&shipped)}}))?;
    store_bad_jobs(&api, &bad_namespace)?;
    api.merge(CRD, &json!({"spec": {"versions": shipped}}))?;
    await_strictness(&api, &bad_namespace)?;
    Ok(Prepared {
        cluster,
        api,
        bad_namespace,
    })
}

/// The same versions, with a schema that lets everything pass.
fn lax(versions: &Value) -> Value {
    let mut versions = versions.clone();
    for version in versions.as_array_mut().into_iter().flatten() {
        // A scale subresource brings checks of its own.
        version["subresources"] = json!({"status": {}});
        version["schema"]["openAPIV3Schema"] =
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    }
    versions
}

fn store_bad_jobs(api: &Api, namespace: &str) -> Result<()> {
    let jobs = collection(namespace, "mpijobs");
    for bad in bad_jobs() {
        let name = bad.job["metadata"]["name"]
            .as_str()
            .context("a bad job without a name")?;
        // The API server may still be busy with the change of the schema.
        wait_for(
            &format!("the lax schema to take {name}"),
            SCHEMA_CHANGE_MAX,
            || api.create(&jobs, &bad.job).map(Some),
        )?;
        if let Some(status) = &bad.status {
            api.merge(&format!("{jobs}/{name}/status"), &json!({"status": status}))?;
        }
    }
    Ok(())
}

fn await_strictness(api: &Api, namespace: &str) -> Result<()> {
    let path = format!("{}?dryRun=All", collection(namespace, "mpijobs"));
    wait_for("the shipped schema to refuse", SCHEMA_CHANGE_MAX, || {
        let bad = json!({
            "apiVersion": "kubeflow.org/v2beta1",
            "kind": "MPIJob",
            "metadata": {"name": "probe"},
            "spec": {"mpiReplicaSpecs": 1},
        });
        let answer = api.send("POST", &path, Some(&bad))?;
        Ok((answer.code == 422 || answer.code == 400).then_some(()))
    })?;
    // Its cache of jobs is filled anew, and refuses watches until then.
    wait_for("jobs to be listed again", SCHEMA_CHANGE_MAX, || {
        api.list(&collection(namespace, "mpijobs")).map(Some)
    })?;
    Ok(())
}
