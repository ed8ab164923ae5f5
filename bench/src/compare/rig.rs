//! What all comparisons stand on: the cluster that `cargo xtask bench` started, an account for each
//! operator, and tenants: fresh namespaces with a kubelet that is the same whoever made the pods.
//! Decides how a tenant is made and taken away; must not know what is measured.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use std::{env, thread};

use anyhow::{Context, Result};
use e2e::api::{Api, collection};
use e2e::api_fixture::{SOON, new_namespace};
use e2e::fake_kubelet::{Behaviour, FakeKubelet};
use e2e::jobs::MpiJob;
use e2e::operator::{Account, objects, program, repository};
use e2e::{Cluster, wait_for};
use serde_json::{Value, json};

/// A pod runs so long after it was made, as on a node that has the image.
const START: Duration = Duration::from_secs(1);
/// Requests in flight where this program sends many: enough that the API server is the limit.
pub(super) const HANDS: usize = 32;
/// Removing what a measurement made is not measured.
const CLEAR_MAX: Duration = Duration::from_secs(600);
/// The program of the other operator.
const PEER: &str = "MUSTER_BENCH_PEER";

/// The cluster, and who is compared there.
pub(super) struct Rig {
    pub(super) cluster: Cluster,
    pub(super) api: Arc<Api>,
    pub(super) muster: Account,
    pub(super) peer: Account,
    pub(super) muster_program: PathBuf,
    pub(super) peer_program: PathBuf,
}

/// A namespace and its kubelet. Both go when it is closed.
pub(super) struct Tenant {
    pub(super) api: Arc<Api>,
    pub(super) namespace: String,
    pub(super) kubelet: FakeKubelet,
}

impl Rig {
    /// Installs the CRD and both accounts.
    pub(super) fn new() -> Result<Self> {
        let peer_program = env::var_os(PEER);
        let peer_program = peer_program.with_context(|| {
            format!("{PEER} is not set: run this with `cargo xtask bench`, which builds all of it")
        })?;
        let cluster = Cluster::from_env()?;
        let api = Arc::new(Api::of(&cluster)?);
        let file = repository().join("deploy/muster.yaml");
        let installed = objects(&cluster, &["-f", &file.to_string_lossy()])?;
        for crd in installed
            .iter()
            .filter(|object| object["kind"] == "CustomResourceDefinition")
        {
            api.create(
                "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
                crd,
            )?;
        }
        wait_for("the CRD to be served", SOON, || {
            api.list("/apis/kubeflow.org/v2beta1/mpijobs?limit=1")
                .map(Some)
        })?;
        let namespace = new_namespace(&api, "muster")?;
        let muster = Account::install_from(&cluster, &api, &namespace, installed)?;
        let peer = Account::install(&cluster, &api, &new_namespace(&api, "peer")?)?;
        bind_to_everything(&api, &peer)?;
        Ok(Self {
            muster_program: program()?,
            peer_program: peer_program.into(),
            cluster,
            api,
            muster,
            peer,
        })
    }

    /// Makes a tenant.
    pub(super) fn tenant(&self, words: &str) -> Result<Tenant> {
        let namespace = new_namespace(&self.api, words)?;
        let behaviour = Behaviour {
            start_after: (START, START),
            stop_after: Duration::ZERO,
        };
        let kubelet = FakeKubelet::start(&self.api, &namespace, behaviour)?;
        Ok(Tenant {
            api: self.api.clone(),
            namespace,
            kubelet,
        })
    }

    /// As the API server names itself.
    pub(super) fn kubernetes_version(&self) -> Result<String> {
        let version = self.api.get("/version")?.context("no version is served")?;
        let version = version["gitVersion"].as_str();
        Ok(version.unwrap_or_default().to_owned())
    }
}

/// The other operator's own rights have other names; what matters here is that it lacks none.
fn bind_to_everything(api: &Api, account: &Account) -> Result<()> {
    let (_, name) = account.user.rsplit_once(':').context("no account")?;
    let binding = json!({
        "metadata": {"name": format!("everything-{}", account.lock_namespace)},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": account.lock_namespace}],
    });
    let collection = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    api.create(collection, &binding)?;
    Ok(())
}

impl Tenant {
    /// A job whose pods are on this tenant's node, so that nobody needs to schedule them.
    pub(super) fn job(&self, name: &str, workers: usize) -> Result<MpiJob> {
        let job = MpiJob::named(name)
            .workers(u32::try_from(workers)?)
            .clean_pod_policy("Running");
        Ok(["Launcher", "Worker"].into_iter().fold(job, |job, role| {
            let node = format!("/spec/mpiReplicaSpecs/{role}/template/spec/nodeName");
            job.with(&node, self.kubelet.node())
        }))
    }

    /// Path of a collection.
    pub(super) fn all(&self, resource: &str) -> String {
        collection(&self.namespace, resource)
    }

    /// Sends the job.
    pub(super) fn submit(&self, job: &MpiJob) -> Result<()> {
        self.api.create(&self.all("mpijobs"), &job.json()).map(drop)
    }

    /// How many objects there are, without reading them all.
    pub(super) fn count(&self, resource: &str) -> Result<usize> {
        let path = format!("{}?limit=1", self.all(resource));
        let page = self.api.send("GET", &path, None)?.accepted()?;
        let shown = page["items"].as_array().context("no list")?.len();
        let more = page["metadata"]["remainingItemCount"].as_u64().unwrap_or(0);
        Ok(shown + usize::try_from(more)?)
    }

    /// Waits until there are so many pods at most.
    pub(super) fn await_pods_at_most(&self, count: usize, at_most: Duration) -> Result<()> {
        wait_for(&format!("at most {count} pods"), at_most, || {
            Ok((self.count("pods")? <= count).then_some(()))
        })
    }

    /// Ends the launcher of a job well.
    pub(super) fn end_launcher(&self, job: &str) -> Result<()> {
        self.end_launcher_with(job, 0)
    }

    /// Ends the launcher of a job with this exit code.
    pub(super) fn end_launcher_with(&self, job: &str, code: i32) -> Result<()> {
        let selector = format!(
            "?labelSelector=training.kubeflow.org/job-name={job},training.kubeflow.org/job-role=launcher"
        );
        let pods = self.api.list(&(self.all("pods") + &selector))?;
        let launcher = pods.first().context("there is no launcher")?;
        let name = launcher["metadata"]["name"].as_str().unwrap_or_default();
        self.kubelet.end(name, code)
    }

    /// Removes all jobs and pods. Jobs first, or an operator would make more pods.
    pub(super) fn clear(&self) -> Result<()> {
        let options = json!({"gracePeriodSeconds": 0, "propagationPolicy": "Background"});
        for resource in ["mpijobs", "jobs", "pods"] {
            let path = format!("{}?limit=200", self.all(resource));
            wait_for(&format!("the {resource} to be gone"), CLEAR_MAX, || {
                self.api.send("DELETE", &path, Some(&options))?.accepted()?;
                Ok((self.count(resource)? == 0).then_some(()))
            })?;
        }
        Ok(())
    }

    /// Removes everything, unless the kubelet had trouble, which would make the numbers worthless.
    pub(super) fn close(self) -> Result<()> {
        self.clear()?;
        self.kubelet.assert_well()?;
        self.api
            .delete(&format!("/api/v1/namespaces/{}", self.namespace))
    }
}

/// Does something for each number below this one, [`HANDS`] at a time, in order.
pub(super) fn at_once(count: usize, each: impl Fn(usize) -> Result<()> + Sync) -> Result<()> {
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        let work = || {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count {
                    return Ok(());
                }
                each(number)?;
            }
        };
        let hands: Vec<_> = (0..HANDS.min(count)).map(|_| scope.spawn(work)).collect();
        let results = hands.into_iter().map(|hand| {
            hand.join()
                .expect("a hand returns its errors instead of panicking")
        });
        results.collect()
    })
}

/// An object without what the API server adds to it.
pub(super) fn as_sent(mut object: Value) -> Value {
    object["status"].take();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.retain(|key, _| ["name", "labels", "annotations"].contains(&key.as_str()));
    }
    object
}
