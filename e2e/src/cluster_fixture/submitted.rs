//! A job that was sent to a cluster: waiting for what becomes of it, and looking at its parts. Must
//! not know why a test asks.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::output::Output;
use super::{ClusterFixture, MPIJOBS, PATIENCE, selector};
use crate::figures::say;
use crate::{condition, wait_for};

/// A job on a cluster.
#[derive(Debug)]
pub struct Submitted<'a> {
    fixture: &'a ClusterFixture,
    name: String,
    since: Instant,
}

impl<'a> Submitted<'a> {
    /// A job that was created just now.
    pub(super) fn now(fixture: &'a ClusterFixture, name: &str) -> Self {
        Self {
            fixture,
            name: name.to_owned(),
            since: Instant::now(),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name of its launcher Job.
    pub fn launcher(&self) -> String {
        format!("{}-launcher", self.name)
    }

    /// The job as it is now.
    pub fn get(&self) -> Result<Value> {
        let job = self
            .fixture
            .cluster
            .get(&self.fixture.namespace, MPIJOBS, &self.name)?;
        job.with_context(|| format!("job {} is gone", self.name))
    }

    /// Waits for a state of the job.
    pub fn until(&self, what: &str, mut holds: impl FnMut(&Value) -> bool) -> Result<Value> {
        let field = format!("--field-selector=metadata.name={}", self.name);
        self.fixture
            .watch(what, &[MPIJOBS, &field], PATIENCE, |seen| {
                let Some(job) = seen.get(&self.name) else {
                    return Ok(None);
                };
                if holds(job) {
                    return Ok(Some(job.clone()));
                }
                // Nothing else can come after an end.
                match ended(job) {
                    Some(end) if job["status"]["completionTime"].is_string() => {
                        bail!("it ended: {end}")
                    }
                    _ => Ok(None),
                }
            })
    }

    /// Waits until it has succeeded.
    pub fn succeeded(&self) -> Result<Value> {
        let job = self.until("success", |job| condition(job, "Succeeded") == Some("True"))?;
        let secs = self.since.elapsed().as_secs_f64();
        let tries = match self.tries()? {
            1 => String::new(),
            tries => format!(", at try {tries} of its launcher"),
        };
        let namespace = &self.fixture.namespace;
        say(&format!(
            "{namespace}: succeeded {secs:.1} s after it was created{tries}"
        ));
        ensure!(
            job["status"]["completionTime"].is_string(),
            "succeeded without a completion time"
        );
        ensure!(
            condition(&job, "Failed") != Some("True"),
            "it succeeded and failed"
        );
        Ok(job)
    }

    /// How often its launcher was started, as far as its pods can still tell.
    pub fn tries(&self) -> Result<i64> {
        let launchers = self.fixture.pods(&self.name, "launcher")?;
        let restarts = |pod: &Value| pod["status"]["containerStatuses"][0]["restartCount"].as_i64();
        let starts = launchers.iter().map(|pod| 1 + restarts(pod).unwrap_or(0));
        Ok(starts.sum::<i64>().max(1))
    }

    /// Waits until it has failed.
    pub fn failed(&self) -> Result<Value> {
        let job = self.until("failure", |job| condition(job, "Failed") == Some("True"))?;
        ensure!(
            job["status"]["completionTime"].is_string(),
            "failed without a completion time"
        );
        Ok(job)
    }

    /// Waits until launcher and workers run.
    pub fn running(&self) -> Result<Value> {
        self.until("condition Running", |job| {
            condition(job, "Running") == Some("True")
        })
    }

    /// Waits until it has succeeded, and until its launcher has said that so many ranks ran on
    /// exactly these hosts.
    pub fn succeeded_on(&self, ranks: u32, hosts: &[&str]) -> Result<Output> {
        self.succeeded()?;
        let output = self.output()?;
        output.expect(ranks, hosts)?;
        Ok(output)
    }

    /// The same for a job whose ranks run on its first workers, one each.
    pub fn succeeded_on_workers(&self, workers: u32) -> Result<Output> {
        let hosts: Vec<_> = (0..workers).map(|index| self.worker(index)).collect();
        self.succeeded_on(
            workers,
            &hosts.iter().map(String::as_str).collect::<Vec<_>>(),
        )
    }

    /// The name of a worker.
    pub fn worker(&self, index: u32) -> String {
        format!("{}-worker-{index}", self.name)
    }

    /// What the launcher has said so far.
    pub fn output(&self) -> Result<Output> {
        let selector = selector(&self.name, "launcher");
        let args = [
            "logs",
            "-n",
            &self.fixture.namespace,
            "-l",
            &selector,
            "--tail=-1",
        ];
        Ok(Output::of(&self.fixture.cluster.kubectl(&args)?))
    }

    /// Waits until the launcher has said this.
    pub fn said(&self, words: &str) -> Result<()> {
        wait_for(
            &format!("`{words}` in the launcher's log"),
            PATIENCE,
            || Ok(self.output()?.text.contains(words).then_some(())),
        )
    }

    /// Waits until workers of these numbers, and no others, run.
    pub fn workers_run(&self, count: u32) -> Result<Vec<Value>> {
        let mut wanted: Vec<_> = (0..count).map(|index| self.worker(index)).collect();
        // As the pods are: the tenth comes before the second.
        wanted.sort();
        self.pods_until(&format!("{count} running workers"), "worker", |pods| {
            let names = pods.iter().map(|pod| pod["metadata"]["name"].as_str());
            let running = |pod: &Value| {
                pod["status"]["phase"] == "Running"
                    && pod["metadata"]["deletionTimestamp"].is_null()
            };
            names.eq(wanted.iter().map(|name| Some(name.as_str()))) && pods.iter().all(running)
        })
    }

    /// Waits until the pods of a role, ordered by name, are as wanted; there must be some.
    pub fn pods_until(
        &self,
        what: &str,
        role: &str,
        mut holds: impl FnMut(&[Value]) -> bool,
    ) -> Result<Vec<Value>> {
        self.fixture.watch(
            what,
            &["pods", "-l", &selector(&self.name, role)],
            PATIENCE,
            |seen| {
                let pods: Vec<_> = seen.values().cloned().collect();
                Ok(holds(&pods).then_some(pods))
            },
        )
    }

    /// Waits until no pod of the job is left.
    pub fn has_no_pods(&self) -> Result<()> {
        wait_for("no pod of the job", PATIENCE, || {
            let of_job = format!("training.kubeflow.org/job-name={}", self.name);
            let pods = self
                .fixture
                .cluster
                .list(&self.fixture.namespace, "pods", &of_job)?;
            Ok(pods.is_empty().then_some(()))
        })
    }

    /// Lets a launcher go on that was told to wait, see [`super::pi::HELD`].
    pub fn release(&self) -> Result<()> {
        let pods = self.pods_until(
            "a running launcher",
            "launcher",
            |pods| matches!(pods, [pod] if pod["status"]["phase"] == "Running"),
        )?;
        let pod = pods[0]["metadata"]["name"]
            .as_str()
            .expect("every pod has a name");
        let args = [
            "exec",
            "-n",
            &self.fixture.namespace,
            pod,
            "--",
            "touch",
            "/tmp/go",
        ];
        self.fixture.cluster.kubectl(&args)?;
        Ok(())
    }

    /// The one pod of its launcher, whatever became of it.
    pub fn launcher_pod(&self) -> Result<Value> {
        let mut pods = self.fixture.pods(&self.name, "launcher")?;
        ensure!(
            pods.len() == 1,
            "{} pods of the launcher, not one",
            pods.len()
        );
        Ok(pods.remove(0))
    }

    /// Removes the job, and waits for that object only.
    pub fn delete(&self) -> Result<()> {
        self.fixture.cluster.kubectl(&[
            "delete",
            "-n",
            &self.fixture.namespace,
            MPIJOBS,
            &self.name,
        ])?;
        Ok(())
    }

    /// Time since it was created.
    pub fn age(&self) -> Duration {
        self.since.elapsed()
    }
}

/// How a job ended, in the words of its status.
fn ended(job: &Value) -> Option<String> {
    let ends = ["Succeeded", "Failed"];
    let conditions = job["status"]["conditions"].as_array()?;
    let end = conditions.iter().find(|condition| {
        condition["status"] == "True" && ends.iter().any(|end| condition["type"] == *end)
    })?;
    Some(format!(
        "{}: {}: {}",
        end["type"], end["reason"], end["message"]
    ))
}
