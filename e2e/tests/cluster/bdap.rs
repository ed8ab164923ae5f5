//! bdap's MPIJob on real nodes: its sample as it is written, Open MPI without any ssh, the remote shell
//! and its rights, and every edit that its manual speaks of. The numbers are those of its acceptance
//! list.

use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use e2e::cluster_fixture::{ClusterFixture, PATIENCE, repository};
use e2e::figures::say;
use e2e::operator::RIGHTS_FOR_BDAP;
use e2e::{Cluster, condition, wait_for};
use serde_json::{Value, json};

use crate::with_cluster;

/// Spelled so that no other group's can be meant.
const JOBS: &str = "mpijobs.batch.test.bdap.com";
const IMAGE: &str = "muster.test/openmpi4-nossh:1";
/// An operator that runs already looks for a new definition this often.
const NOTICED_WITHIN: Duration = Duration::from_secs(60);

/// The definition, which is not part of the one-file install.
fn define() -> Result<()> {
    static DEFINED: OnceLock<Result<(), String>> = OnceLock::new();
    let define = || {
        let cluster = Cluster::from_env()?;
        for file in [
            "deploy/crds/batch.test.bdap.com_mpijobs.yaml",
            RIGHTS_FOR_BDAP,
        ] {
            let file = repository().join(file);
            let file = file.to_str().context("the repository's path is not text")?;
            cluster.kubectl(&["apply", "--server-side", "--filename", file])?;
        }
        wait_for("the definition to be served", PATIENCE, || {
            cluster.kubectl(&["get", JOBS]).map(Some)
        })?;
        anyhow::Ok(())
    };
    let defined = DEFINED.get_or_init(|| define().map_err(|error| format!("{error:#}")));
    defined.clone().map_err(|error| anyhow!("{error}"))
}

/// A worker that is Ready when it has made a file, as in the sample.
fn job(name: &str, workers: u32, launcher: &str) -> Value {
    let ready = "touch /tmp/ready.txt && exec sleep infinity";
    json!({
        "apiVersion": "batch.test.bdap.com/v1",
        "kind": "MPIJob",
        "metadata": {"name": name},
        "spec": {
            "numWorkers": workers,
            "launcherTemplate": {"spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 1,
                "containers": [{"name": "l", "image": IMAGE, "command": ["/bin/sh", "-c"],
                    "args": [launcher]}],
            }},
            "workerTemplate": {"spec": {
                "terminationGracePeriodSeconds": 1,
                "containers": [{"name": "w", "image": IMAGE, "command": ["/bin/sh", "-c"],
                    "args": [ready], "env": [{"name": "OWN", "value": "worker"}],
                    "readinessProbe": {"exec": {"command": ["cat", "/tmp/ready.txt"]},
                        "periodSeconds": 1}}],
            }},
        },
    })
}

/// A launcher that a test goes into.
const HELD: &str = "trap 'exit 0' TERM; while :; do sleep 0.2; done";

fn submit(fixture: &ClusterFixture, job: &Value) -> Result<()> {
    define()?;
    let args = ["create", "--namespace", &fixture.namespace, "--filename=-"];
    fixture.cluster.kubectl_with(&args, &job.to_string())?;
    Ok(())
}

fn get(fixture: &ClusterFixture, job: &str) -> Result<Value> {
    let found = fixture.cluster.get(&fixture.namespace, JOBS, job)?;
    found.context("the job is gone")
}

fn until(
    fixture: &ClusterFixture,
    job: &str,
    what: &str,
    holds: impl Fn(&Value) -> bool,
) -> Result<Value> {
    let found = wait_for(what, PATIENCE + NOTICED_WITHIN, || {
        Ok(Some(get(fixture, job)?).filter(|job| holds(&job["status"])))
    });
    found.with_context(|| match get(fixture, job) {
        Ok(job) => format!("its status is {}", job["status"]),
        Err(error) => format!("{error:#}"),
    })
}

fn launcher_runs(fixture: &ClusterFixture, job: &str) -> Result<Value> {
    until(fixture, job, "the launcher to run", |status| {
        status["launcher"] == "Running"
    })?;
    fixture.pod(&format!("{job}-launcher"))
}

fn logs(fixture: &ClusterFixture, pod: &str) -> Result<String> {
    fixture
        .cluster
        .kubectl(&["logs", "-n", &fixture.namespace, pod])
}

fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap_or_default()
}

fn edit(fixture: &ClusterFixture, job: &str, patch: &Value) -> Result<()> {
    fixture.patch(JOBS, job, patch)
}

/// What a shell in the launcher says, whatever its exit code; that comes last.
fn in_launcher(fixture: &ClusterFixture, job: &str, script: &str) -> Result<String> {
    let script = format!("{{ {script}\n}} 2>&1; echo \"exit $?\"");
    let said = fixture.exec(&format!("{job}-launcher"), &["sh", "-c", &script])?;
    Ok(said.trim().to_owned())
}

#[test]
fn a11_and_a18_mpirun_reaches_every_worker_and_workers_outlive_it() -> Result<()> {
    with_cluster("bdap-mpirun", |fixture| {
        submit(
            fixture,
            &job(
                "hosts",
                5,
                "mpirun hostname | sort; mpirun -n 5 /home/mpiuser/pi",
            ),
        )?;
        let ended = until(fixture, "hosts", "the launcher to succeed", |status| {
            status["launcher"] == "Succeeded"
        })?;
        let log = logs(fixture, "hosts-launcher")?;
        for worker in 0..5 {
            let name = format!("hosts-worker-{worker}");
            let line = |line: &str| line.trim() == name;
            ensure!(log.lines().any(line), "no {name} in\n{log}");
        }
        ensure!(log.contains("Workers: 5"), "{log}");
        ensure!(condition(&ended, "Succeeded") == Some("True"));
        let workers = fixture.pods("hosts", "worker")?;
        ensure!(workers.len() == 5, "workers stay");
        ensure!(
            workers
                .iter()
                .all(|pod| pod["status"]["phase"] == "Running")
        );
        let container = &workers[0]["spec"]["containers"][0];
        let own = json!([{"name": "OWN", "value": "worker"}]);
        ensure!(container["env"] == own, "{container}");
        Ok(())
    })
}

#[test]
fn a10_and_a14_the_remote_shell_is_exact_and_enters_its_own_workers_alone() -> Result<()> {
    with_cluster("bdap-kubexec", |fixture| {
        submit(fixture, &job("shell", 2, HELD))?;
        launcher_runs(fixture, "shell")?;
        let said = in_launcher(fixture, "shell", "cat $OMPI_MCA_orte_default_hostfile")?;
        let hosts = "shell-worker-0 slots=1\nshell-worker-1 slots=1\nexit 0";
        ensure!(said == hosts, "{said}");
        let agent = "test -x $OMPI_MCA_plm_rsh_agent && echo $OMPI_MCA_plm_rsh_agent";
        let said = in_launcher(fixture, "shell", agent)?;
        ensure!(said == "/etc/mpi/kubexec.sh\nexit 0", "{said}");

        let call = |words: &str| {
            let script = format!("$OMPI_MCA_plm_rsh_agent {words}");
            in_launcher(fixture, "shell", &script)
        };
        for (words, wanted) in [
            ("shell-worker-1 hostname", "shell-worker-1\nexit 0"),
            ("shell-worker-0 echo \\$OWN", "worker\nexit 0"),
            ("shell-worker-0 'exit 7'", "exit 7"),
            ("shell-worker-0 'kill -9 $$'", "exit 137"),
            ("shell-worker-0 no-such-program", "127"),
            ("shell-worker-0 'echo a;' echo b", "a\nb\nexit 0"),
        ] {
            let said = call(words)?;
            ensure!(said.ends_with(wanted), "{words}: {said}");
        }
        let said = in_launcher(
            fixture,
            "shell",
            "seq 1 200000 | $OMPI_MCA_plm_rsh_agent shell-worker-0 'cat; echo end' | tail -n 2",
        )?;
        ensure!(said == "200000\nend\nexit 0", "{said}");

        // Not itself, and nobody else's.
        submit(fixture, &job("other", 1, HELD))?;
        launcher_runs(fixture, "other")?;
        for pod in ["shell-launcher", "other-worker-0", "other-launcher"] {
            let said = call(&format!("{pod} id"))?;
            ensure!(said.contains("answered 403"), "{pod}: {said}");
            ensure!(said.ends_with("exit 255"), "{pod}: {said}");
        }
        let said = call("shell-worker-9 id")?;
        ensure!(said.ends_with("exit 255"), "{said}");
        Ok(())
    })
}

#[test]
fn a15_to_a17_edits_reach_pods_hosts_and_rights() -> Result<()> {
    with_cluster("bdap-edits", |fixture| {
        submit(fixture, &job("edits", 3, HELD))?;
        let launcher = launcher_runs(fixture, "edits")?;
        let before: Vec<String> = fixture
            .pods("edits", "worker")?
            .iter()
            .map(|pod| uid(pod).to_owned())
            .collect();
        let container = json!([{"name": "w", "image": "muster.test/openmpi4:1",
            "command": ["sh", "-c"], "args": ["exec sleep infinity"]}]);
        let patch = json!({"spec": {"workerTemplate": {"spec": {"containers": container}}}});
        edit(fixture, "edits", &patch)?;
        wait_for("three new workers", PATIENCE, || {
            let pods = fixture.pods("edits", "worker")?;
            let new = |pod: &Value| {
                !before.contains(&uid(pod).to_owned()) && condition(pod, "Ready") == Some("True")
            };
            Ok((pods.len() == 3 && pods.iter().all(new)).then_some(()))
        })?;
        ensure!(uid(&fixture.pod("edits-launcher")?) == uid(&launcher));

        for count in [2, 4] {
            edit(fixture, "edits", &json!({"spec": {"numWorkers": count}}))?;
            let ready = format!("{count}/{count}");
            until(fixture, "edits", "workers to follow", |status| {
                status["muster"]["ready"] == ready
            })?;
            // The kubelet brings the list into the running launcher in its own time.
            wait_for("the list to follow", PATIENCE, || {
                let said = in_launcher(fixture, "edits", "grep -c slots=1 /etc/mpi/hostfile")?;
                Ok((said == format!("{count}\nexit 0")).then_some(()))
            })?;
            let last = count - 1;
            let call = format!("/etc/mpi/kubexec.sh edits-worker-{last} hostname");
            let said = in_launcher(fixture, "edits", &call)?;
            ensure!(said == format!("edits-worker-{last}\nexit 0"), "{said}");
        }
        ensure!(uid(&fixture.pod("edits-launcher")?) == uid(&launcher));

        let args = json!([{"name": "l", "image": IMAGE, "command": ["/bin/sh", "-c"],
            "args": ["echo second; mpirun hostname"]}]);
        let patch = json!({"spec": {"launcherTemplate": {"spec": {"containers": args}}}});
        edit(fixture, "edits", &patch)?;
        until(fixture, "edits", "the edit to be seen", |status| {
            status["observedGeneration"] == 5
        })?;
        ensure!(uid(&fixture.pod("edits-launcher")?) == uid(&launcher));
        fixture.kill_pod("edits-launcher")?;
        until(
            fixture,
            "edits",
            "the second launcher to succeed",
            |status| status["launcher"] == "Succeeded",
        )
        .inspect_err(|_| say(&logs(fixture, "edits-launcher").unwrap_or_default()))?;
        ensure!(logs(fixture, "edits-launcher")?.contains("second"));
        Ok(())
    })
}

/// The sample names its own namespace.
const SEED_NAMESPACE: &str = "sw-mpi-operator";

#[test]
fn a07_a12_a13_and_a19_the_seeds_sample_trains_on_all_workers_and_goes() -> Result<()> {
    with_cluster("bdap-seed", |fixture| {
        define()?;
        let seed = fixture.beside_named(SEED_NAMESPACE)?;
        let file = repository().join("examples/seeds/bdap.yaml");
        let file = file.to_str().context("the repository's path is not text")?;
        fixture.cluster.kubectl(&["apply", "--filename", file])?;
        let early = wait_for("workers", PATIENCE + NOTICED_WITHIN, || {
            let workers = seed.pods("simple-train-cpu", "worker")?;
            Ok((workers.len() == 5).then_some(workers))
        })?;
        let ready = |pod: &Value| condition(pod, "Ready") == Some("True");
        ensure!(!early.iter().any(ready), "the probe waits for 30 s");
        ensure!(seed.pods("simple-train-cpu", "launcher")?.is_empty());
        let ended = until(
            &seed,
            "simple-train-cpu",
            "the sample to succeed",
            |status| status["launcher"] == "Succeeded",
        )?;
        ensure!(condition(&ended, "Succeeded") == Some("True"));
        let log = logs(&seed, "simple-train-cpu-launcher")?;
        for rank in 0..5 {
            let said = format!("training as {rank} of 5 on simple-train-cpu-worker-{rank}");
            ensure!(log.contains(&said), "no `{said}` in\n{log}");
        }
        let kinds = "pods,configmaps,serviceaccounts,roles,rolebindings,statefulsets";
        let remove = ["delete", "-n", SEED_NAMESPACE, JOBS, "simple-train-cpu"];
        fixture.cluster.kubectl(&remove)?;
        wait_for("everything to go", PATIENCE, || {
            let list = ["get", "-n", SEED_NAMESPACE, kinds, "--output=name"];
            let left = fixture.cluster.kubectl(&list)?;
            Ok((!left.contains("simple-train-cpu")).then_some(()))
        })?;
        let remove = ["delete", "namespace", SEED_NAMESPACE, "--wait=false"];
        fixture.cluster.kubectl(&remove)?;
        Ok(())
    })
}
