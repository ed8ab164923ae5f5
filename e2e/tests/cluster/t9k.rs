//! T9k's MPIJob on real nodes, against the acceptance list of `docs/acceptance.md`: what ranks see,
//! how jobs end, and what their status says of it. The manual's first job is in `seeds.rs`.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail, ensure};
use e2e::cluster_fixture::{ClusterFixture, PATIENCE};
use e2e::{condition, wait_for};
use serde_json::{Value, json};

use crate::with_cluster;

/// The jobs' resource, spelled so that no other group's can be meant.
const RESOURCE: &str = "mpijobs.batch.tensorstack.dev";
const SIX: [&str; 6] = [
    "Initialized",
    "Running",
    "ReplicaFailure",
    "Completed",
    "Failed",
    "Paused",
];
const SEVEN: [&str; 7] = [
    "Pending",
    "Running",
    "Paused",
    "Resuming",
    "Succeeded",
    "Failed",
    "Unknown",
];

/// A job of T9k on the cluster.
pub(crate) struct T9k<'a> {
    pub(crate) fixture: &'a ClusterFixture,
    name: String,
}

/// A job of two workers whose processes, one on each, run these words; as the manual's first.
pub(crate) fn job(name: &str, words: &[&str]) -> Value {
    json!({
        "apiVersion": "batch.tensorstack.dev/v1beta1",
        "kind": "MPIJob",
        "metadata": {"name": name},
        "spec": {
            "worker": {
                "replicas": 2,
                "extraMPIArgs": ["-N", "1", "--allow-run-as-root"],
                "cmd": words,
                "template": {"spec": {"containers": [
                    {"name": "mpi-worker", "image": "muster.test/seeds:1"}]}},
            },
            "ssh": {"sshdPath": "/usr/sbin/sshd"},
            "mpiHome": "/usr/local",
        },
    })
}

impl<'a> T9k<'a> {
    /// A job that exists.
    pub(crate) fn named(fixture: &'a ClusterFixture, name: &str) -> Self {
        let name = name.to_owned();
        Self { fixture, name }
    }

    /// Creates a job.
    pub(crate) fn submit(fixture: &'a ClusterFixture, job: &Value) -> Result<Self> {
        fixture.create(job)?;
        let name = job["metadata"]["name"]
            .as_str()
            .context("a job has a name")?;
        Ok(Self::named(fixture, name))
    }

    pub(crate) fn get(&self) -> Result<Value> {
        let job = self
            .fixture
            .cluster
            .get(&self.fixture.namespace, RESOURCE, &self.name)?;
        job.context("the job is gone")
    }

    pub(crate) fn edit(&self, spec: &Value) -> Result<()> {
        self.fixture
            .patch(RESOURCE, &self.name, &json!({"spec": spec}))
    }

    /// Waits for a state of the job.
    pub(crate) fn until(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Result<Value> {
        let found = wait_for(what, PATIENCE, || {
            Ok(Some(self.get()?).filter(|job| holds(job)))
        });
        found.with_context(|| match self.get() {
            Ok(job) => format!("its status is {}", job["status"]),
            Err(error) => format!("{error:#}"),
        })
    }

    pub(crate) fn phase(&self, phase: &str) -> Result<Value> {
        self.until(&format!("phase {phase}"), |job| {
            job["status"]["phase"] == phase
        })
    }

    /// Phases on the way to the end, each once, and the names of all workers that were there. Every
    /// status on the way has the form that the manual gives it.
    pub(crate) fn followed_to_its_end(&self) -> Result<(Vec<String>, Vec<String>)> {
        let (mut phases, mut workers) = (Vec::new(), BTreeSet::new());
        let mut before: Value = Value::Null;
        let field = format!("--field-selector=metadata.name={}", self.name);
        self.fixture
            .watch("its end", &[RESOURCE, &field], PATIENCE, |seen| {
                let Some(job) = seen.get(&self.name) else {
                    return Ok(None);
                };
                let status = &job["status"];
                has_the_manuals_form(&before, status).with_context(|| status.to_string())?;
                before = status.clone();
                let pods = status["tasks"][1]["status"].as_array();
                let names = pods
                    .into_iter()
                    .flatten()
                    .filter_map(|pod| pod["name"].as_str());
                workers.extend(names.map(str::to_owned));
                let phase = status["phase"].as_str().unwrap_or("Pending");
                if phases.last().map(String::as_str) != Some(phase) {
                    phases.push(phase.to_owned());
                }
                Ok(["Succeeded", "Failed"].contains(&phase).then_some(()))
            })?;
        Ok((phases, workers.into_iter().collect()))
    }

    /// The launcher's log, once the job is in this phase for good.
    pub(crate) fn ended(&self, phase: &str) -> Result<(Value, String)> {
        let job = self.until("an end", |job| {
            ["Succeeded", "Failed"]
                .iter()
                .any(|end| job["status"]["phase"] == *end)
        })?;
        let log = self.fixture.log(&format!("{}-launcher", self.name))?.text;
        ensure!(job["status"]["phase"] == phase, "{}\n{log}", job["status"]);
        Ok((job, log))
    }
}

/// Lines 26, 28, 30 and 31 of the list.
fn has_the_manuals_form(before: &Value, status: &Value) -> Result<()> {
    if let Some(phase) = status["phase"].as_str() {
        ensure!(SEVEN.contains(&phase), "phase {phase}");
    }
    for condition in status["conditions"].as_array().into_iter().flatten() {
        for part in ["type", "status", "reason", "message", "lastTransitionTime"] {
            ensure!(condition[part].is_string(), "no {part} in {condition}");
        }
        let kind = condition["type"].as_str().unwrap_or_default();
        ensure!(SIX.contains(&kind), "condition {kind}");
        let earlier = before["conditions"].as_array().into_iter().flatten();
        for earlier in earlier.filter(|earlier| earlier["type"] == kind) {
            if earlier["status"] == condition["status"] {
                let (was, is) = (
                    &earlier["lastTransitionTime"],
                    &condition["lastTransitionTime"],
                );
                ensure!(was == is, "{kind} moved from {was} to {is}");
            }
        }
    }
    let Some(aggregate) = status["aggregate"].as_object() else {
        return Ok(());
    };
    ensure!(aggregate.len() == 7, "{aggregate:?}");
    let tasks = status["tasks"].as_array().context("no tasks")?;
    for task in tasks {
        ensure!(task["restartCount"].is_u64(), "{task}");
        for pod in task["status"].as_array().into_iter().flatten() {
            let texts = ["phase", "name", "uid"];
            ensure!(texts.iter().all(|key| pod[key].is_string()), "{pod}");
            ensure!(pod["containers"].is_array(), "{pod}");
        }
    }
    let pods = tasks
        .iter()
        .filter_map(|task| task["status"].as_array())
        .flatten();
    // What is still to be made has no name to be told by.
    let made = aggregate.iter().filter(|(phase, _)| *phase != "creating");
    let counted: u64 = made.filter_map(|(_, count)| count.as_u64()).sum();
    ensure!(counted == pods.count() as u64, "{counted} pods are counted");
    Ok(())
}

/// Waits until so many pods are told of as deleted.
pub(crate) fn await_deleted(job: &T9k<'_>, count: u64) -> Result<Value> {
    job.until("the deleted pods to be counted", |job| {
        job["status"]["aggregate"]["deleted"] == count
    })
}

/// Lines 7, 8, 13, 15 and 16.
#[test]
fn a13_a16_ranks_see_the_variables_and_volumes_of_the_container() -> Result<()> {
    with_cluster("t9k-env", |fixture| {
        let secret = json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "secret-name"}, "stringData": {"key-in-secret": "told"}});
        fixture.create(&secret)?;
        let words = "echo $(hostname): $ENV_DIRECT $ENV_REFERENCED $NCCL_DEBUG $OMPI_MCA_pml \
                     $OMPI_MCA_btl $(df -m /dev/shm | tail -n 1 | tr -s ' ' | cut -d ' ' -f 1,2)";
        let mut wanted = job("env", &["sh", "-c", words]);
        wanted["spec"]["mca"] = json!({"btl": "^openib", "pml": "ob1"});
        let pod = &mut wanted["spec"]["worker"]["template"]["spec"];
        let reference = json!({"secretKeyRef": {"name": "secret-name", "key": "key-in-secret"}});
        pod["containers"][0]["env"] = json!([
            {"name": "ENV_DIRECT", "value": "env-value"},
            {"name": "ENV_REFERENCED", "valueFrom": reference},
            {"name": "NCCL_DEBUG", "value": "INFO"},
        ]);
        pod["containers"][0]["volumeMounts"] = json!([{"mountPath": "/dev/shm", "name": "dshm"}]);
        pod["volumes"] =
            json!([{"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}]);
        let (_, log) = T9k::submit(fixture, &wanted)?.ended("Succeeded")?;
        for worker in ["env-worker-0", "env-worker-1"] {
            let line = format!("{worker}: env-value told INFO ob1 ^openib tmpfs 1024");
            ensure!(
                log.lines().any(|said| said == line),
                "no `{line}` in\n{log}"
            );
        }
        Ok(())
    })
}

/// Lines 10, 11 and 12.
#[test]
fn a10_a11_a12_one_worker_by_default_that_stays_and_holds_its_keys() -> Result<()> {
    with_cluster("t9k-plain", |fixture| {
        let mut wanted = job("plain", &["/home/mpiuser/pi"]);
        wanted["spec"]["worker"]["replicas"].take();
        let job = T9k::submit(fixture, &wanted)?;
        job.ended("Succeeded")?;
        fixture
            .log("plain-launcher")?
            .expect(1, &["plain-worker-0"])?;
        let keys = fixture.exec("plain-worker-0", &["ls", "/root/.ssh"])?;
        ensure!(keys.contains("authorized_keys"), "{keys}");
        let status = job.get()?["status"].take();
        ensure!(status["aggregate"]["running"] == 1, "{status}");
        ensure!(status["aggregate"]["deleted"] == 0, "{status}");
        Ok(())
    })
}

/// Lines 27 and 32: the launcher's exit code decides, and mpirun decides that.
#[test]
fn a27_a32_the_launchers_exit_code_decides() -> Result<()> {
    with_cluster("t9k-exit", |fixture| {
        let failing = job("failing", &["sh", "-c", "exit 3"]);
        let mut recovered = job("recovered", &["sh", "-c", "exit 3"]);
        let args = ["-N", "1", "--allow-run-as-root", "--enable-recovery"];
        recovered["spec"]["worker"]["extraMPIArgs"] = json!(args);
        let (failing, recovered) = (
            T9k::submit(fixture, &failing)?,
            T9k::submit(fixture, &recovered)?,
        );

        let (over, _) = failing.ended("Failed")?;
        for (kind, holds) in [
            ("Failed", "True"),
            ("Completed", "True"),
            ("Running", "False"),
        ] {
            ensure!(
                condition(&over, kind) == Some(holds),
                "{kind}: {}",
                over["status"]
            );
        }
        let conditions = over["status"]["conditions"]
            .as_array()
            .context("no conditions")?;
        let failed = conditions
            .iter()
            .find(|c| c["type"] == "Failed")
            .context("it failed")?;
        ensure!(failed["reason"] == "Failed", "{failed}");

        let (over, _) = recovered.ended("Succeeded")?;
        for (kind, holds) in [("Failed", "False"), ("Completed", "True")] {
            ensure!(
                condition(&over, kind) == Some(holds),
                "{kind}: {}",
                over["status"]
            );
        }
        Ok(())
    })
}

/// Line 33: the shapes that came before and after.
#[test]
fn a33_the_other_shapes_run_too() -> Result<()> {
    with_cluster("t9k-shapes", |fixture| {
        let mut first = job("first", &["/home/mpiuser/pi"]);
        first["spec"]["worker"]["extraMPIArgs"].take();
        first["spec"]["worker"]["processesPerWorker"] = 1.into();
        let third = json!({
            "apiVersion": "batch.tensorstack.dev/v1beta1",
            "kind": "MPIJob",
            "metadata": {"name": "third"},
            "spec": {
                "mpiConfig": {"home": "/usr/local", "script": ["/home/mpiuser/pi"],
                    "extraArgs": ["-N", "1", "--allow-run-as-root"]},
                "replicaSpecs": [
                    {"type": "launcher", "replicas": 1, "template": {}},
                    {"type": "worker", "replicas": 2, "template": {"spec": {"containers": [
                        {"name": "worker", "image": "muster.test/seeds:1"}]}}},
                ],
            },
        });
        for (name, wanted) in [("first", first), ("third", third)] {
            let job = T9k::submit(fixture, &wanted)?;
            let (_, workers) = job.followed_to_its_end()?;
            let names = [format!("{name}-worker-0"), format!("{name}-worker-1")];
            ensure!(workers == names, "{workers:?}");
            job.ended("Succeeded")?;
            let hosts: Vec<&str> = names.iter().map(String::as_str).collect();
            fixture
                .log(&format!("{name}-launcher"))?
                .expect(2, &hosts)?;
        }
        Ok(())
    })
}

/// A pod's words as the kubelet runs them.
pub(crate) fn runs(fixture: &ClusterFixture, pod: &str) -> Result<String> {
    let words = fixture.exec(pod, &["sh", "-c", "tr '\\0' ' ' </proc/1/cmdline"])?;
    Ok(words.trim().to_owned())
}

/// Waits until a pod's containers run.
pub(crate) fn await_running(fixture: &ClusterFixture, pod: &str) -> Result<Value> {
    wait_for(&format!("{pod} to run"), PATIENCE, || {
        let found = fixture.cluster.get(&fixture.namespace, "pod", pod)?;
        match found {
            Some(pod) if pod["status"]["phase"] == "Running" => Ok(Some(pod)),
            Some(pod) if pod["status"]["phase"] == "Failed" => bail!("{}", pod["status"]),
            Some(_) | None => Ok(None),
        }
    })
}
