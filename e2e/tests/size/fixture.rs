//! What tests of size stand on: a cluster to themselves, one operator for all of it, and tenants with
//! a namespace and a kubelet each, so that nobody waits for another's kubelet.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::api::{Api, collection};
use e2e::api_fixture::{ApiFixture, SOON, new_namespace};
use e2e::fake_kubelet::{Behaviour, FakeKubelet};
use e2e::figures::say;
use e2e::jobs::MpiJob;
use e2e::limited_operator::LimitedOperator;
use e2e::operator::{Account, repository};
use e2e::{Cluster, condition, wait_for};
use serde_json::json;

/// As a node with the image takes.
pub(crate) const KUBELET: Behaviour = Behaviour {
    start_after: (Duration::from_millis(100), Duration::from_millis(300)),
    stop_after: Duration::ZERO,
};
/// A small job that has not started by then is not going to.
const SMALL_MAX: Duration = Duration::from_secs(30);

/// Only one test at a time: an operator for all namespaces sees the others' jobs too.
static ALONE: Mutex<()> = Mutex::new(());

/// The cluster, and the operator.
pub(crate) struct Rig {
    pub(crate) cluster: Cluster,
    pub(crate) api: Arc<Api>,
    pub(crate) account: Account,
    pub(crate) operator: LimitedOperator,
    // The last to go: until then the cluster is this test's.
    _alone: MutexGuard<'static, ()>,
}

/// A namespace and its kubelet.
pub(crate) struct Tenant {
    pub(crate) fixture: ApiFixture,
    pub(crate) kubelet: FakeKubelet,
}

/// A job of two workers that ran.
pub(crate) struct SmallJob {
    pub(crate) name: String,
    pub(crate) submitted: Instant,
    pub(crate) running: Instant,
}

impl SmallJob {
    /// How long it took to run.
    pub(crate) fn took(&self) -> Duration {
        self.running - self.submitted
    }
}

impl Rig {
    /// Starts the operator in a cluster without jobs.
    pub(crate) fn new() -> Result<Self> {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let cluster = Cluster::from_env()?;
        let api = Arc::new(Api::of(&cluster)?);
        let crds = repository().join("deploy/crds");
        let apply = ["apply", "--server-side", "--force-conflicts", "-k"];
        cluster.kubectl(&[&apply[..], &[&crds.to_string_lossy()]].concat())?;
        wait_for("the CRD to be served", SOON, || {
            api.list("/apis/kubeflow.org/v2beta1/mpijobs?limit=1")
                .map(Some)
        })?;
        let account = Account::install(&cluster, &api, &new_namespace(&api, "operator")?)?;
        let operator = LimitedOperator::start(&cluster, &account)?;
        Ok(Self {
            cluster,
            api,
            account,
            operator,
            _alone: alone,
        })
    }

    /// Makes a tenant.
    pub(crate) fn tenant(&self, words: &str) -> Result<Tenant> {
        let fixture = self.tenant_without_kubelet(words)?;
        let kubelet = FakeKubelet::start(&self.api, &fixture.namespace, KUBELET)?;
        Ok(Tenant { fixture, kubelet })
    }

    /// Makes a tenant whose pods never start: a user who may edit what is in their namespace.
    pub(crate) fn tenant_without_kubelet(&self, words: &str) -> Result<ApiFixture> {
        let namespace = new_namespace(&self.api, words)?;
        let binding = json!({
            "metadata": {"name": "edit"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
            "subjects": [{
                "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": namespace,
            }],
        });
        self.api
            .create(&collection(&namespace, "rolebindings"), &binding)?;
        let api = Arc::new(self.api.acting_as(&namespace));
        let jobs = collection(&namespace, "mpijobs");
        wait_for("the user to have their rights", SOON, || {
            Ok(api.list(&jobs).is_ok().then_some(()))
        })?;
        Ok(ApiFixture {
            cluster: self.cluster.clone(),
            api,
            namespace,
            account: self.account.clone(),
        })
    }
}

impl Tenant {
    /// A job whose pods are on this tenant's node.
    pub(crate) fn job(&self, name: &str, workers: u32) -> MpiJob {
        let job = MpiJob::named(name)
            .workers(workers)
            .clean_pod_policy("Running");
        ["Launcher", "Worker"].into_iter().fold(job, |job, role| {
            let node = format!("/spec/mpiReplicaSpecs/{role}/template/spec/nodeName");
            job.with(&node, self.kubelet.node())
        })
    }

    /// Starts a job of two workers. It is removed as soon as it runs.
    pub(crate) fn start_small_job(&self, name: &str) -> Result<SmallJob> {
        let submitted = Instant::now();
        self.fixture.submit(&self.job(name, 2))?;
        self.fixture.await_job(name, "Running", SMALL_MAX, |job| {
            condition(job, "Running") == Some("True")
        })?;
        let running = Instant::now();
        self.fixture
            .api
            .delete(&self.fixture.path("mpijobs", name))?;
        Ok(SmallJob {
            name: name.to_owned(),
            submitted,
            running,
        })
    }

    /// How many pods there are in its namespace.
    pub(crate) fn pods(&self) -> Result<usize> {
        count(&self.fixture, "pods")
    }
}

/// How many objects of a resource there are in a namespace, without reading them all.
pub(crate) fn count(tenant: &ApiFixture, resource: &str) -> Result<usize> {
    let path = format!("{}?limit=1", collection(&tenant.namespace, resource));
    let page = tenant.api.send("GET", &path, None)?.accepted()?;
    let shown = page["items"].as_array().context("no list")?.len();
    let more = page["metadata"]["remainingItemCount"].as_u64().unwrap_or(0);
    Ok(shown + usize::try_from(more)?)
}

/// Removes what would be in the way of the next test: jobs first, or there would be more pods. The API
/// server deletes one object after the other, so a request asks for no more than it can do in time.
pub(crate) fn clear(tenant: &ApiFixture, at_most: Duration) -> Result<()> {
    let options = json!({"gracePeriodSeconds": 0, "propagationPolicy": "Background"});
    // Kubernetes itself keeps a ConfigMap in each namespace.
    for (resource, left) in [("mpijobs", 0), ("configmaps", 1), ("pods", 0)] {
        let path = format!("{}?limit=100", collection(&tenant.namespace, resource));
        wait_for(&format!("the {resource} to be gone"), at_most, || {
            let deleted = tenant.api.send("DELETE", &path, Some(&options))?;
            deleted.accepted()?;
            Ok((count(tenant, resource)? <= left).then_some(()))
        })?;
    }
    Ok(())
}

/// Of the times of small jobs, the middle one, and the one that nine of ten do not exceed.
pub(crate) struct Times {
    pub(crate) middle: Duration,
    pub(crate) most: Duration,
}

impl Times {
    /// Says what they are.
    pub(crate) fn say(what: &str, mut times: Vec<Duration>) -> Result<Self> {
        times.sort();
        ensure!(!times.is_empty(), "no job was started: {what}");
        let count = times.len();
        let [middle, most, longest] =
            [count / 2, count * 9 / 10, count - 1].map(|index| times[index]);
        say(&format!(
            "{count} jobs of 2 workers {what}: {middle:.2?}, nine of ten within {most:.2?}, at most \
             {longest:.2?}"
        ));
        Ok(Self { middle, most })
    }
}

/// Fails if jobs took as long as this or longer, where somebody says that the machine does nothing else.
/// Elsewhere nobody knows what they waited for, and the times are only said.
pub(crate) fn ensure_shorter(what: &str, took: Duration, limit: Duration) -> Result<()> {
    let is_quiet = std::env::var_os("MUSTER_QUIET_MACHINE").is_some();
    if took >= limit && !is_quiet {
        say(&format!("{what}: {took:.2?}, and the limit is {limit:.2?}"));
    }
    ensure!(
        took < limit || !is_quiet,
        "{what}: {took:.2?}, and the limit is {limit:.2?}"
    );
    Ok(())
}
