//! The openmpi component on real nodes, with real Open MPI and real sshd: its quickstart, how it ends, how
//! it fails to begin, and its data. The numbers are those of its acceptance list.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::cluster_fixture::s3::{KEY_ID, SECRET, Store};
use e2e::cluster_fixture::{ClusterFixture, PATIENCE, repository};
use e2e::{condition, wait_for};
use serde_json::{Value, json};

use crate::with_cluster;

const KIND: &str = "openmpis.muster.dev";
const IMAGE: &str = "muster.test/openmpi4:1";
const HOSTFILE: &str = "/kubeflow/openmpi/assets/hostfile";
/// Workers look for the end every second, and kubelets say so within a few.
const END_MAX: Duration = Duration::from_secs(30);

/// A job of this API in a fixture's namespace, or in one that its file names.
pub(crate) struct Job<'a> {
    fixture: &'a ClusterFixture,
    namespace: String,
    name: String,
}

pub(crate) fn mpiexec(workers: u32, rest: &str) -> String {
    format!("mpiexec -n {workers} --hostfile {HOSTFILE} --allow-run-as-root --tag-output {rest}")
}

/// Makes the key pair as the quickstart does.
pub(crate) fn make_keys(fixture: &ClusterFixture, namespace: &str, secret: &str) -> Result<()> {
    let directory = std::env::temp_dir().join(format!("muster-keys-{namespace}-{secret}"));
    fs::create_dir_all(&directory)?;
    let key = directory.join("id_rsa");
    if key.exists() {
        fs::remove_file(&key)?;
    }
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "rsa", "-N", "", "-f"])
        .arg(&key)
        .status();
    ensure!(
        made.context("starting ssh-keygen")?.success(),
        "ssh-keygen failed"
    );
    let file =
        |name: &str, of: &str| format!("--from-file={name}={}", directory.join(of).display());
    let files = [
        file("id_rsa", "id_rsa"),
        file("id_rsa.pub", "id_rsa.pub"),
        file("authorized_keys", "id_rsa.pub"),
    ];
    let args = ["create", "secret", "generic", secret, "-n", namespace];
    let args = [&args[..], &files.each_ref().map(String::as_str)].concat();
    let created = fixture.cluster.kubectl(&args);
    fs::remove_dir_all(directory)?;
    created.map(drop)
}

impl<'a> Job<'a> {
    pub(crate) fn submit(
        fixture: &'a ClusterFixture,
        name: &str,
        parameters: Value,
    ) -> Result<Self> {
        let mut spec = json!({"image": IMAGE, "secret": "keys", "workers": 2});
        for (parameter, value) in parameters.as_object().into_iter().flatten() {
            spec[parameter] = value.clone();
        }
        let job = json!({"apiVersion": "muster.dev/v1alpha1", "kind": "OpenMPI",
            "metadata": {"name": name}, "spec": spec});
        let args = ["create", "--namespace", &fixture.namespace, "--filename=-"];
        fixture.cluster.kubectl_with(&args, &job.to_string())?;
        Ok(Self {
            fixture,
            namespace: fixture.namespace.clone(),
            name: name.to_owned(),
        })
    }

    fn get(&self) -> Result<Value> {
        let job = self
            .fixture
            .cluster
            .get(&self.namespace, KIND, &self.name)?;
        job.with_context(|| format!("{} is gone", self.name))
    }

    fn until(
        &self,
        what: &str,
        patience: Duration,
        holds: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        let found = wait_for(what, patience, || {
            Ok(Some(self.get()?).filter(|job| holds(job)))
        });
        found.with_context(|| {
            let status = self.get().map(|job| job["status"].to_string());
            format!("{what}: {status:?}; the master says {:?}", self.said())
        })
    }

    pub(crate) fn ended(&self, end: &str) -> Result<Value> {
        self.until(&format!("{} to be {end}", self.name), PATIENCE, |job| {
            condition(job, end) == Some("True")
        })
    }

    fn pod(&self, pod: &str) -> Result<Value> {
        let name = format!("{}-{pod}", self.name);
        let found = self.fixture.cluster.get(&self.namespace, "pod", &name)?;
        found.with_context(|| format!("pod {name} is gone"))
    }

    /// What the master said, as the quickstart reads it.
    fn said(&self) -> Result<String> {
        let master = format!("{}-master", self.name);
        self.fixture
            .cluster
            .kubectl(&["logs", "-n", &self.namespace, &master])
    }

    fn workers_end(&self, workers: u32) -> Result<()> {
        wait_for("workers to end by themselves", END_MAX, || {
            for index in 0..workers {
                if self.pod(&format!("worker-{index}"))?["status"]["phase"] != "Succeeded" {
                    return Ok(None);
                }
            }
            Ok(Some(()))
        })
    }

    fn exec(&self, pod: &str, words: &[&str]) -> Result<String> {
        let pod = format!("{}-{pod}", self.name);
        let args = ["exec", "-n", &self.namespace, &pod, "--"];
        self.fixture.cluster.kubectl(&[&args[..], words].concat())
    }
}

fn exit_code(pod: &Value) -> Option<i64> {
    pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"].as_i64()
}

#[test]
fn a1_a2_a5_a6_a8_a16_a17_a18_the_quickstart() -> Result<()> {
    with_cluster("openmpi-seed", |fixture| {
        let cluster = &fixture.cluster;
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kubeflow"}});
        cluster.apply(&namespace.to_string())?;
        make_keys(fixture, "kubeflow", "openmpi-secret")?;
        let secret = cluster.get("kubeflow", "secret", "openmpi-secret")?;
        let file = repository().join("examples/seeds/openmpi.yaml");
        cluster.kubectl(&["apply", "-f", &file.to_string_lossy()])?;
        let job = Job {
            fixture,
            namespace: "kubeflow".to_owned(),
            name: "openmpi".to_owned(),
        };
        job.ended("Succeeded")?;
        let said = job.said()?;
        let hello = said
            .lines()
            .filter(|line| line.contains("<stdout>") && line.contains("hello world"));
        ensure!(hello.count() == 4, "{said}");
        job.workers_end(4)?;
        let hostfile = cluster.get("kubeflow", "configmap", "openmpi-assets")?;
        let hostfile = &hostfile.context("no assets")?["data"]["hostfile"];
        let line = |index: u32| format!("openmpi-worker-{index}.openmpi.kubeflow slots=1\n");
        ensure!(
            *hostfile == (0..4).map(line).collect::<String>().as_str(),
            "{hostfile}"
        );
        let wide = cluster.kubectl(&["get", "pod", "-n", "kubeflow", "-o", "wide"])?;
        for pod in ["openmpi-master", "openmpi-worker-0", "openmpi-worker-3"] {
            ensure!(wide.contains(pod), "{wide}");
        }
        let log = [
            "logs",
            "-n",
            "kubeflow",
            "openmpi-worker-0",
            "-c",
            "openmpi-job",
        ];
        ensure!(
            cluster.kubectl(&log)?.contains("Server listening"),
            "sshd's log is gone"
        );
        let listed = cluster.kubectl(&["get", "mpi", "-A"])?;
        ensure!(
            listed.contains("openmpi.muster.dev/openmpi") && listed.contains("Succeeded"),
            "{listed}"
        );

        cluster.kubectl(&["delete", "-n", "kubeflow", KIND, "openmpi"])?;
        let kinds = "pods,services,configmaps,serviceaccounts,roles,rolebindings";
        wait_for("everything of the job to go", PATIENCE, || {
            let left = cluster.kubectl(&["get", kinds, "-n", "kubeflow", "-o", "name"])?;
            Ok((!left.contains("openmpi")).then_some(()))
        })?;
        let kept = cluster.get("kubeflow", "secret", "openmpi-secret")?;
        ensure!(kept == secret, "the user's Secret was changed");
        cluster.kubectl(&["delete", "namespace", "kubeflow", "--wait=false"])?;
        Ok(())
    })
}

#[test]
fn a16_a_program_that_fails_fails_the_job_with_its_code() -> Result<()> {
    with_cluster("openmpi-exit", |fixture| {
        make_keys(fixture, &fixture.namespace, "keys")?;
        let job = Job::submit(
            fixture,
            "bad",
            json!({"exec": "echo \"pid $$ of $(hostname)\"; exit 3"}),
        )?;
        let failed = job.ended("Failed")?;
        ensure!(
            failed["status"]["muster"]["reason"] == "CommandFailed",
            "{}",
            failed["status"]
        );
        ensure!(exit_code(&job.pod("master")?) == Some(3));
        let said = job.said()?;
        ensure!(
            said.contains("of bad-master") && !said.contains("pid $"),
            "{said}"
        );
        job.workers_end(2)?;
        Ok(())
    })
}

#[test]
fn a10_workers_that_never_come_fail_the_initialisation() -> Result<()> {
    with_cluster("openmpi-init", |fixture| {
        make_keys(fixture, &fixture.namespace, "keys")?;
        let parameters = json!({"exec": "date", "initTimeout": 10, "nodeSelector": "no=where"});
        let job = Job::submit(fixture, "late", parameters)?;
        let failed = job.ended("Failed")?;
        let muster = &failed["status"]["muster"];
        ensure!(muster["reason"] == "InitializationFailed", "{muster}");
        let message = muster["message"].as_str().unwrap_or_default();
        ensure!(
            message.contains("initialisation") && message.contains("124"),
            "{message}"
        );
        ensure!(exit_code(&job.pod("master")?) == Some(124));
        wait_for("workers that never started to go", END_MAX, || {
            let workers = fixture.pods("late", "worker")?;
            Ok(workers.is_empty().then_some(()))
        })
    })
}

#[test]
fn a11_a_longer_timeout_lets_slow_nodes_join() -> Result<()> {
    with_cluster("openmpi-slow", |fixture| {
        make_keys(fixture, &fixture.namespace, "keys")?;
        let label = format!("joined-{}", std::process::id());
        let parameters = json!({"exec": mpiexec(2, "hostname"), "initTimeout": 110,
            "nodeSelector": format!("{label}=yes")});
        let job = Job::submit(fixture, "slow", parameters)?;
        job.until("workers without a node", PATIENCE, |job| {
            job["status"]["muster"]["reason"] == "Unschedulable"
        })?;
        // Longer than the probe's own pause, several times over.
        wait_for("the master to have tried", PATIENCE, || {
            let tried = job.exec("master", &["sh", "-c", "cat ~/.openmpi/init-probe.log"]);
            Ok(tried.ok().filter(|said| !said.is_empty()))
        })?;
        let nodes = fixture.cluster.kubectl(&["get", "nodes", "-o", "name"])?;
        let node = nodes.lines().next().context("a cluster without nodes")?;
        fixture
            .cluster
            .kubectl(&["label", node, &format!("{label}=yes")])?;
        let ended = job.ended("Succeeded");
        fixture
            .cluster
            .kubectl(&["label", node, &format!("{label}-")])?;
        ended.map(drop)
    })
}

#[test]
fn a9_a7_a21_the_program_begins_when_all_workers_answer_and_its_path_is_forwarded() -> Result<()> {
    with_cluster("openmpi-path", |fixture| {
        make_keys(fixture, &fixture.namespace, "keys")?;
        let rank = "sh -c 'LD_LIBRARY_PATH=$LD_LIBRARY_PATH:/stubs sh -c \"echo path=\\$LD_LIBRARY_PATH on \\$(hostname)\"'";
        let exec = format!("export LD_LIBRARY_PATH=/opt/own; {}", mpiexec(2, rank));
        for image in [IMAGE, "muster.test/openmpi5:1"] {
            let name = if image == IMAGE { "four" } else { "five" };
            let job = Job::submit(fixture, name, json!({"exec": exec, "image": image}))?;
            job.ended("Succeeded")?;
            let said = job.said()?;
            for index in 0..2 {
                // Open MPI 5 puts its own libraries before what is forwarded.
                let line = format!("/opt/own:/stubs on {name}-worker-{index}");
                ensure!(said.contains(&line), "{image}: {said}");
            }
        }
        Ok(())
    })
}

#[test]
fn a19_a26_without_a_command_the_master_waits_for_a_person_beside_another_job() -> Result<()> {
    with_cluster("openmpi-hand", |fixture| {
        make_keys(fixture, &fixture.namespace, "keys")?;
        let idle = Job::submit(fixture, "idle", json!({}))?;
        let busy = Job::submit(fixture, "busy", json!({"exec": mpiexec(2, "hostname")}))?;
        busy.ended("Succeeded")?;
        let words = mpiexec(2, "hostname");
        wait_for("mpiexec by hand to work", PATIENCE, || {
            let said = idle
                .exec("master", &["sh", "-c", &words])
                .unwrap_or_default();
            Ok((said.contains("idle-worker-0") && said.contains("idle-worker-1")).then_some(()))
        })?;
        let running = idle.get()?;
        ensure!(condition(&running, "Running") == Some("True"), "{running}");
        ensure!(idle.pod("master")?["status"]["phase"] == "Running");
        ensure!(idle.pod("worker-0")?["status"]["phase"] == "Running");
        Ok(())
    })
}

/// In a worker: an sshd on port $1 that lets the job's key in, and shows the host key $2.
const IMPOSTOR: &str = r#"
[ -e "$2" ] || ssh-keygen -q -t rsa -N '' -f "$2"
sed '/^Port/d; /^HostKey/d; /^PidFile/d' ~/.sshd/sshd_config >/tmp/sshd-$1
/usr/sbin/sshd -p "$1" -h "$2" -o PidFile=none -f /tmp/sshd-$1
"#;

#[test]
fn s03_a_stranger_cannot_answer_for_a_worker() -> Result<()> {
    with_cluster("openmpi-impostor", |fixture| {
        make_keys(fixture, &fixture.namespace, "keys")?;
        let job = Job::submit(fixture, "idle", json!({}))?;
        let host = format!("idle-worker-0.idle.{}", fixture.namespace);
        // Until something listens there.
        let call = |port: &str| {
            let words = format!("ssh -p {port} {host} hostname 2>&1 || echo refused");
            wait_for("an answer", PATIENCE, || {
                let said = job.exec("master", &["sh", "-c", &words]);
                let answers =
                    |said: &String| said.contains("idle-worker-0\n") || said.contains("Host key");
                Ok(said.ok().filter(answers))
            })
        };
        call("2022")?;
        // As the job's own key lets it in, what fails below fails for the host key alone.
        for (port, key) in [("2023", "/root/.ssh/id_rsa"), ("2024", "/tmp/other")] {
            job.exec("worker-0", &["sh", "-c", IMPOSTOR, "impostor", port, key])?;
        }
        let own = call("2023")?;
        ensure!(!own.contains("refused"), "{own}");
        let other = call("2024")?;
        let why = "Host key verification failed";
        ensure!(
            other.contains("refused") && other.contains(why),
            "a stranger was taken for a worker: {other}"
        );
        Ok(())
    })
}

#[test]
fn a23_as_another_user_than_root() -> Result<()> {
    with_cluster("openmpi-user", |fixture| {
        make_keys(fixture, &fixture.namespace, "keys")?;
        let exec =
            "mpiexec -n 2 --hostfile /kubeflow/openmpi/assets/hostfile sh -c 'echo uid $(id -u)'";
        let parameters = json!({"exec": exec, "runAsUser": "1000", "runAsGroup": "1000"});
        let job = Job::submit(fixture, "user", parameters)?;
        job.ended("Succeeded")?;
        let said = job.said()?;
        ensure!(said.matches("uid 1000").count() == 2, "{said}");
        job.workers_end(2)
    })
}

#[test]
fn a24_workers_on_the_network_of_their_nodes() -> Result<()> {
    with_cluster("openmpi-host", |fixture| {
        make_keys(fixture, &fixture.namespace, "keys")?;
        let parameters = json!({"exec": mpiexec(2, "echo here"), "useHostNetwork": "TRUE"});
        let job = Job::submit(fixture, "host", parameters)?;
        job.ended("Succeeded")?;
        ensure!(job.pod("worker-0")?["spec"]["hostNetwork"] == true);
        ensure!(job.pod("master")?["spec"]["hostNetwork"].is_null());
        let node = |pod: &str| Ok::<_, anyhow::Error>(job.pod(pod)?["spec"]["nodeName"].clone());
        ensure!(
            node("worker-0")? != node("worker-1")?,
            "two sshd want one port"
        );
        Ok(())
    })
}

#[test]
fn a22_data_comes_before_the_program_and_goes_out_after_it() -> Result<()> {
    with_cluster("openmpi-data", |fixture| {
        make_keys(fixture, &fixture.namespace, "keys")?;
        let store = Store::start(&fixture.namespace, "bucket")?;
        fs::create_dir_all(store.buckets.join("bucket/in/deep"))?;
        fs::write(store.buckets.join("bucket/in/deep/words"), "from the store")?;
        let entry = |name: &str, value: &str| format!("--from-literal={name}={value}");
        let entries = [
            entry("AWS_ACCESS_KEY_ID", KEY_ID),
            entry("AWS_SECRET_ACCESS_KEY", SECRET),
            entry("AWS_ENDPOINT_URL", &store.endpoint),
        ];
        let args = [
            "create",
            "secret",
            "generic",
            "s3",
            "-n",
            &fixture.namespace,
        ];
        let args = [&args[..], &entries.each_ref().map(String::as_str)].concat();
        fixture.cluster.kubectl(&args)?;
        let rank = "sh -c 'mkdir -p out && cat in/deep/words && hostname > out/me'";
        let exec = mpiexec(2, &format!("--wdir /kubeflow/openmpi/data {rank}"));
        let job = Job::submit(
            fixture,
            "data",
            json!({"exec": exec, "s3Secret": "s3",
            "downloadDataFrom": "s3://bucket/in", "downloadDataTo": "in",
            "uploadDataFrom": "out", "uploadDataTo": "s3://bucket/results"}),
        )?;
        job.ended("Succeeded")?;
        ensure!(
            job.said()?.matches("from the store").count() == 2,
            "{}",
            job.said()?
        );
        job.workers_end(2)?;
        for index in 0..2 {
            let pod = format!("data-worker-{index}");
            let file = format!("bucket/results/{}/data/{pod}/me", fixture.namespace);
            let sent = fs::read_to_string(store.buckets.join(&file)).with_context(|| file)?;
            ensure!(sent.trim() == pod, "{sent}");
        }
        Ok(())
    })
}

#[test]
fn a22_data_that_is_not_there_fails_the_workers_and_says_why() -> Result<()> {
    with_cluster("openmpi-nodata", |fixture| {
        make_keys(fixture, &fixture.namespace, "keys")?;
        let store = Store::start(&fixture.namespace, "bucket")?;
        let entry = |name: &str, value: &str| format!("--from-literal={name}={value}");
        let entries = [
            entry("AWS_ACCESS_KEY_ID", KEY_ID),
            entry("AWS_SECRET_ACCESS_KEY", "wrong"),
            entry("AWS_ENDPOINT_URL", &store.endpoint),
        ];
        let args = [
            "create",
            "secret",
            "generic",
            "s3",
            "-n",
            &fixture.namespace,
        ];
        let args = [&args[..], &entries.each_ref().map(String::as_str)].concat();
        fixture.cluster.kubectl(&args)?;
        let job = Job::submit(
            fixture,
            "none",
            json!({"exec": "date", "s3Secret": "s3", "initTimeout": 20,
            "downloadDataFrom": "s3://bucket/in", "downloadDataTo": "in"}),
        )?;
        let failed = job.ended("Failed")?;
        let muster = &failed["status"]["muster"];
        ensure!(muster["reason"] == "InitializationFailed", "{muster}");
        let message = muster["message"].as_str().unwrap_or_default();
        ensure!(
            message.contains("none-worker-") && message.contains("403"),
            "{message}"
        );
        Ok(())
    })
}
