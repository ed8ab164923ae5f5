//! From one version to the next and back while jobs run: other images of the operator and of the agent, and a chart
//! that has values which the one before did not have.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use e2e::cluster_fixture::deployed::{self, AGENT_IMAGE};
use e2e::cluster_fixture::pi::{HELD, Mpi, PI, User, held_pi};
use e2e::cluster_fixture::submitted::Submitted;
use e2e::cluster_fixture::{ClusterFixture, agent, repository};
use serde_json::Value;

use crate::helm::{CHART, Helm};
use crate::with_cluster_alone;

const NEXT: &str = "muster.test/muster-operator-next:1";
const NEXT_AGENT: &str = "muster.test/muster-agent-next:1";

/// A chart of before the operator's metrics had values.
fn older_chart(directory: &Path) -> Result<PathBuf> {
    let chart = directory.join("muster");
    let copied = Command::new("cp")
        .args(["--recursive", "--dereference"])
        .arg(repository().join(CHART))
        .arg(&chart)
        .status();
    ensure!(copied.context("starting cp")?.success(), "cp failed");
    let values = chart.join("values.yaml");
    let text = fs::read_to_string(&values)?;
    let (older, _) = text
        .split_once("\nmetrics:\n")
        .context("the chart has no values for metrics")?;
    fs::write(values, older)?;
    let about = chart.join("Chart.yaml");
    let text = fs::read_to_string(&about)?;
    fs::write(about, text.replace("ersion: 0.1.0", "ersion: 0.0.9"))?;
    Ok(chart)
}

/// By the name of a pod: its UID, and how often its containers were started again.
type Pods = BTreeMap<String, (Value, i64)>;

fn pods(fixture: &ClusterFixture, job: &Submitted<'_>) -> Result<Pods> {
    let of_job = format!("training.kubeflow.org/job-name={}", job.name());
    let pods = fixture.cluster.list(&fixture.namespace, "pods", &of_job)?;
    let restarts = |pod: &Value| {
        let containers = pod["status"]["containerStatuses"].as_array();
        let counts = containers.into_iter().flatten();
        counts.filter_map(|one| one["restartCount"].as_i64()).sum()
    };
    Ok(pods
        .iter()
        .map(|pod| {
            let about = &pod["metadata"];
            let name = about["name"].as_str().unwrap_or_default();
            (name.to_owned(), (about["uid"].clone(), restarts(pod)))
        })
        .collect())
}

/// Jobs that run until they are told to go on, and what their pods are.
struct Held<'a> {
    fixture: &'a ClusterFixture,
    jobs: [Submitted<'a>; 3],
    pods: Vec<Pods>,
}

impl<'a> Held<'a> {
    fn start(fixture: &'a ClusterFixture) -> Result<Self> {
        let words = ["sh", "-c", HELD, "held", "mpirun", "-n", "2", PI];
        let without_ssh = || agent::job(Mpi::OpenMpi4, 2, &words);
        let named = |job: e2e::jobs::MpiJob, name: &str| job.with("/metadata/name", name);
        let jobs = [
            fixture.submit(&held_pi(Mpi::OpenMpi4, User::Root, 2))?,
            fixture.submit(&named(without_ssh(), "first"))?,
            fixture.submit(&named(without_ssh(), "second"))?,
        ];
        for job in &jobs {
            job.running()?;
        }
        let pods = jobs.iter().map(|job| pods(fixture, job));
        let pods = pods.collect::<Result<Vec<_>>>()?;
        for of_job in &pods {
            ensure!(of_job.len() == 3, "{of_job:?}");
        }
        Ok(Self {
            fixture,
            jobs,
            pods,
        })
    }

    /// Those of these jobs.
    fn assert_same_pods(&self, jobs: &[usize]) -> Result<()> {
        for &index in jobs {
            let (job, before) = (&self.jobs[index], &self.pods[index]);
            let now = pods(self.fixture, job)?;
            ensure!(now == *before, "{}: {before:?} became {now:?}", job.name());
        }
        Ok(())
    }
}

/// A new job runs, with this image of the agent.
fn a_job_runs(fixture: &ClusterFixture, name: &str, image: &str) -> Result<()> {
    let job = agent::job(Mpi::OpenMpi4, 2, &["mpirun", "-n", "2", PI]);
    let job = fixture.submit(&job.with("/metadata/name", name))?;
    job.succeeded_on_workers(2)?;
    let launcher = job.launcher_pod()?;
    let agents = launcher["spec"]["initContainers"].as_array();
    let mut agents = agents.into_iter().flatten();
    ensure!(
        agents.any(|container| container["image"] == image),
        "{}",
        launcher["spec"]["initContainers"]
    );
    Ok(())
}

#[test]
fn the_next_version_and_the_one_before_take_over_running_jobs_as_they_are() -> Result<()> {
    with_cluster_alone("upgrade", |fixture| {
        let directory = std::env::temp_dir().join(format!("muster-{}", fixture.namespace));
        fs::create_dir_all(&directory)?;
        let result = older_chart(&directory).and_then(|older| {
            let older = older.to_str().context("the directory is not text")?;
            deployed::without_operator(&fixture.cluster, || there_and_back(fixture, older))
        });
        fs::remove_dir_all(&directory)?;
        result
    })
}

fn there_and_back(fixture: &ClusterFixture, older: &str) -> Result<()> {
    let helm = Helm::new(fixture);
    let more = [
        "--take-ownership",
        "--force-conflicts",
        "--set=crds.t9k=true",
    ];
    helm.documented_for(older, "install", &more)?;
    let held = Held::start(fixture)?;
    let [over_ssh, first, second] = &held.jobs;

    let images = format!("--set=images.operator={NEXT},images.agent={NEXT_AGENT}");
    helm.documented_for(CHART, "upgrade", &["--force-conflicts", &images])?;
    a_job_runs(fixture, "next", NEXT_AGENT)?;
    held.assert_same_pods(&[0, 1, 2])?;
    // Its launcher and workers have the agent of the version before.
    first.release()?;
    first.succeeded_on_workers(2)?;

    helm.documented_for(CHART, "rollback", &["--force-conflicts"])?;
    a_job_runs(fixture, "before", AGENT_IMAGE)?;
    held.assert_same_pods(&[0, 2])?;
    over_ssh.release()?;
    over_ssh.succeeded_on_workers(2)?;
    second.release()?;
    second.succeeded_on_workers(2)?;
    helm.uninstall()
}
