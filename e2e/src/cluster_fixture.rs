//! What the tests on real nodes share: the operator as it is shipped, a namespace for each test,
//! real MPI programs, and what to look at when a test fails. Must not know what is tested.

pub mod agent;
pub mod deployed;
pub mod gangs;
pub mod inside;
pub mod names;
pub mod output;
pub mod page;
pub mod pi;
pub mod s3;
pub mod submitted;
pub mod watch;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::Cluster;
use crate::audit::{Audit, Request};
use crate::jobs::MpiJob;
use deployed::Turn;
use output::Output;
use submitted::Submitted;

/// Long enough for a job of two workers while three other tests share two processors.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A namespace on a real cluster in which the shipped operator runs.
#[derive(Debug)]
pub struct ClusterFixture {
    /// The cluster.
    pub cluster: Cluster,
    /// The namespace, made for one test.
    pub namespace: String,
    audit: Audit,
}

/// Runs a test in a namespace of its own, beside others. When it fails, all that is known of its
/// jobs is printed, and the namespace stays.
pub fn with_cluster(name: &str, test: impl FnOnce(&ClusterFixture) -> Result<()>) -> Result<()> {
    let turn = deployed::shared()?;
    run(name, &turn, test)
}

/// The same while no other test runs, for a test that changes the operator itself.
pub fn with_cluster_alone(
    name: &str,
    test: impl FnOnce(&ClusterFixture) -> Result<()>,
) -> Result<()> {
    let turn = deployed::alone()?;
    run(name, &turn, test)
}

fn run(name: &str, _turn: &Turn, test: impl FnOnce(&ClusterFixture) -> Result<()>) -> Result<()> {
    let cluster = Cluster::from_env()?;
    // A cluster may be kept from one run of the tests to the next.
    let namespace = format!("{name}-{}", std::process::id());
    cluster.kubectl(&["create", "namespace", &namespace])?;
    let audit = Audit::from_now(&cluster)?;
    let fixture = ClusterFixture {
        cluster,
        namespace,
        audit,
    };
    let outcome = catch_unwind(AssertUnwindSafe(|| test(&fixture)));
    if matches!(outcome, Ok(Ok(()))) {
        fixture
            .cluster
            .kubectl(&["delete", "namespace", &fixture.namespace, "--wait=false"])?;
    } else {
        fixture.print_diagnosis();
    }
    outcome.unwrap_or_else(|panic| resume_unwind(panic))
}

impl ClusterFixture {
    /// Creates a job.
    pub fn submit(&self, job: &MpiJob) -> Result<Submitted<'_>> {
        self.cluster.kubectl_with(
            &["create", "--namespace", &self.namespace, "--filename=-"],
            &job.json().to_string(),
        )?;
        Ok(Submitted::now(self, job.name()))
    }

    /// A job that somebody else created just now.
    pub fn submitted(&self, name: &str) -> Submitted<'_> {
        Submitted::now(self, name)
    }

    /// Creates an object in the namespace, whatever it is.
    pub fn create(&self, object: &Value) -> Result<()> {
        let args = ["create", "--namespace", &self.namespace, "--filename=-"];
        self.cluster.kubectl_with(&args, &object.to_string())?;
        Ok(())
    }

    /// What a pod's main container has said so far.
    pub fn log(&self, pod: &str) -> Result<Output> {
        let args = ["logs", "--namespace", &self.namespace, pod, "--tail=-1"];
        Ok(Output::of(&self.cluster.kubectl(&args)?))
    }

    /// Runs part of a test in another namespace beside this one. It stays when that part fails.
    pub fn beside<T>(&self, part: impl FnOnce(&Self) -> Result<T>) -> Result<T> {
        let other = Self {
            cluster: self.cluster.clone(),
            namespace: format!("{}-other", self.namespace),
            audit: self.audit.clone(),
        };
        let namespace = &other.namespace;
        other.cluster.kubectl(&["create", "namespace", namespace])?;
        let result = part(&other)?;
        let remove = ["delete", "namespace", namespace, "--wait=false"];
        other.cluster.kubectl(&remove)?;
        Ok(result)
    }

    /// Another namespace, of a name that a manifest has; it is made, and left to the caller.
    pub fn beside_named(&self, namespace: &str) -> Result<Self> {
        let other = Self {
            cluster: self.cluster.clone(),
            namespace: namespace.to_owned(),
            audit: self.audit.clone(),
        };
        other.cluster.kubectl(&["create", "namespace", namespace])?;
        Ok(other)
    }

    /// Applies a file of `examples/` as it is; the job has the file's name, without folders.
    pub fn submit_example(&self, name: &str) -> Result<Submitted<'_>> {
        let file = repository().join(format!("examples/{name}.yaml"));
        let file = file.to_str().context("the repository's path is not text")?;
        self.cluster
            .kubectl(&["apply", "--namespace", &self.namespace, "--filename", file])?;
        let job = name.rsplit('/').next().unwrap_or(name);
        Ok(Submitted::now(self, job))
    }

    /// The names of everything in the namespace that a job could have made, as `kind/name`.
    pub fn leftovers(&self) -> Result<Vec<String>> {
        let kinds = "pods,services,configmaps,secrets,jobs.batch";
        let text = self.cluster.kubectl(&[
            "get",
            "--namespace",
            &self.namespace,
            kinds,
            "--output=name",
        ])?;
        // Kubernetes puts its certificate into every namespace.
        let ours = text
            .lines()
            .filter(|line| *line != "configmap/kube-root-ca.crt");
        Ok(ours.map(str::to_owned).collect())
    }

    /// Pods with these labels besides the job's name.
    pub fn pods(&self, job: &str, role: &str) -> Result<Vec<Value>> {
        self.cluster
            .list(&self.namespace, "pods", &selector(job, role))
    }

    /// What a pod's main container has said so far, each line after the time when the kubelet got it.
    pub fn timed_log(&self, pod: &str) -> Result<String> {
        let args = ["logs", "--namespace", &self.namespace, pod, "--tail=-1"];
        self.cluster
            .kubectl(&[&args[..], &["--timestamps"]].concat())
    }

    /// What anybody asked for in the namespace since the test began, according to the API server's log.
    pub fn requests(&self) -> Result<Vec<Request>> {
        self.audit.requests_in(&self.namespace)
    }

    /// The changes that somebody asked for in the namespace, according to the API server's log.
    pub fn writes_of(&self, user: &str) -> Result<Vec<Request>> {
        let writes = self.audit.writes_of(user)?.into_iter();
        Ok(writes
            .filter(|write| write.namespace == self.namespace)
            .collect())
    }

    /// Changes part of an object.
    pub fn patch(&self, kind: &str, name: &str, patch: &Value) -> Result<()> {
        let patch = patch.to_string();
        let args = [
            "patch",
            "--namespace",
            &self.namespace,
            kind,
            name,
            "--type=merge",
            "-p",
        ];
        self.cluster.kubectl(&[&args[..], &[&patch]].concat())?;
        Ok(())
    }

    /// Suspends or resumes a job.
    pub fn suspend(&self, job: &str, suspend: bool) -> Result<()> {
        self.patch(
            MPIJOBS,
            job,
            &json!({"spec": {"runPolicy": {"suspend": suspend}}}),
        )
    }

    fn print_diagnosis(&self) {
        let namespace = &self.namespace;
        eprintln!("\n===== what is known of namespace {namespace} =====");
        let columns = "TIME:.lastTimestamp,TYPE:.type,OBJECT:.involvedObject.name,\
                       REASON:.reason,MESSAGE:.message";
        let hosts = "jsonpath={.items[*].data.hostfile}";
        let operator = format!("-n {} {}", deployed::NAMESPACE, deployed::DEPLOYMENT);
        for words in [
            format!("get -n {namespace} {MPIJOBS} --output=yaml"),
            format!("get -n {namespace} jobs.batch,pods --output=wide"),
            format!("get -n {namespace} configmaps --output={hosts}"),
            format!("get -n {namespace} events --output=custom-columns={columns}"),
            format!("logs -n {namespace} --selector={ROLE}=launcher --tail=40 --prefix"),
            format!("logs -n {namespace} --selector={ROLE}=master --tail=40 --prefix"),
            format!("logs {operator} --tail=40"),
        ] {
            let args: Vec<_> = words.split_whitespace().collect();
            let text = self.cluster.kubectl(&args);
            let text = text.unwrap_or_else(|error| format!("{error:#}"));
            eprintln!("----- kubectl {words}\n{}", text.trim_end());
        }
        eprintln!("===== end of namespace {namespace} =====\n");
    }
}

/// The jobs' resource, spelled so that no other group's can be meant.
pub const MPIJOBS: &str = "mpijobs.kubeflow.org";
const ROLE: &str = "training.kubeflow.org/job-role";

/// Selects pods of a job, `launcher` or `worker`.
pub fn selector(job: &str, role: &str) -> String {
    format!("training.kubeflow.org/job-name={job},{ROLE}={role}")
}

/// The root of the repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}
