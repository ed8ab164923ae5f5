//! Pods that cannot start end their job, by name and soon; pods for which there is no room now do
//! not, and waiting for them costs no try.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::cluster_fixture::ClusterFixture;
use e2e::cluster_fixture::agent::{self, Verdict};
use e2e::cluster_fixture::names::own_address;
use e2e::cluster_fixture::pi::{HELD, Mpi, PI};
use e2e::figures::say;
use e2e::jobs::MpiJob;
use serde_json::json;

use crate::with_cluster;

const AT_MOST: Duration = Duration::from_secs(40);
/// A launcher's image is looked for when its gate has let it through.
const AT_MOST_AFTER_THE_GATE: Duration = Duration::from_secs(50);
/// Longer than a pod that cannot start may take.
const LONG: Duration = Duration::from_secs(50);
const ABSENT: &str = "absent:1";

fn container(role: &str, field: &str) -> String {
    format!("/spec/mpiReplicaSpecs/{role}/template/spec/containers/0/{field}")
}

fn held_job(workers: u32) -> MpiJob {
    let ranks = workers.to_string();
    let words = ["sh", "-c", HELD, "held", "mpirun", "-n", &ranks, PI];
    agent::job(Mpi::OpenMpi4, workers, &words)
}

/// Three started while the key was there; the fourth is recreated after it has gone.
#[test]
fn one_worker_of_four_with_a_missing_key_ends_the_job() -> Result<()> {
    with_cluster("missing-key", |fixture| {
        let place = ["create", "configmap", "-n", &fixture.namespace, "settings"];
        fixture
            .cluster
            .kubectl(&[&place[..], &["--from-literal=mode=fast"]].concat())?;
        let key = json!({"configMapKeyRef": {"name": "settings", "key": "mode"}});
        let job = held_job(4).with(
            &container("Worker", "env"),
            json!([{"name": "MODE", "valueFrom": key}]),
        );
        let job = fixture.submit(&job)?;
        job.running()?;
        fixture.patch("configmap", "settings", &json!({"data": {"mode": null}}))?;
        let since = Instant::now();
        fixture.kill_pod(&job.worker(3))?;
        let failed = job.failed()?;
        let took = since.elapsed();
        let words = ["pi-worker-3", "CreateContainerConfigError", "mode"];
        Verdict::of(&failed)?.expect(&["WorkerCannotStart"], &words)?;
        say_time("a worker's key is missing", took);
        ensure!(took < AT_MOST, "it took {took:?}");
        Ok(())
    })
}

/// An image that cannot be had from a registry that answers: one that does not, or is not found, is
/// given more time.
#[test]
fn images_that_are_nowhere_end_the_job() -> Result<()> {
    with_cluster("no-image", |fixture| {
        let registry = TcpListener::bind((own_address()?, 0)).context("opening a port")?;
        let image = format!("{}/{ABSENT}", registry.local_addr()?);
        thread::spawn(move || registry.incoming().flatten().try_for_each(refuse));
        let with = |name: &str, role: &str, policy: &str| {
            held_job(2)
                .with("/metadata/name", name)
                .with(&container(role, "image"), image.as_str())
                .with(&container(role, "imagePullPolicy"), policy)
        };
        let cases = [
            ("never", "Worker", "Never", "ErrImageNeverPull"),
            ("pull", "Worker", "IfNotPresent", "ImagePull"),
            ("launch", "Launcher", "Never", "ErrImageNeverPull"),
        ];
        let mut jobs = Vec::new();
        for (name, role, policy, word) in cases {
            jobs.push((fixture.submit(&with(name, role, policy))?, role, word));
        }
        for (job, role, word) in jobs {
            let failed = job.failed().with_context(|| job.name().to_owned())?;
            let took = job.age();
            let reason = format!("{role}CannotStart");
            let pod = format!("{}-{}", job.name(), role.to_lowercase());
            Verdict::of(&failed)?.expect(&[&reason], &[&pod, word])?;
            say_time(&format!("{role}: {word}"), took);
            let at_most = if role == "Launcher" {
                AT_MOST_AFTER_THE_GATE
            } else {
                AT_MOST
            };
            ensure!(took < at_most, "{} took {took:?}", job.name());
        }
        Ok(())
    })
}

/// Not what a registry says, nor in its protocol.
fn refuse(mut connection: TcpStream) -> std::io::Result<()> {
    connection.write_all(b"HTTP/1.0 404 Not Found\r\n\r\n")
}

fn say_time(what: &str, took: Duration) {
    say(&format!("{what}: failed after {:.1} s", took.as_secs_f64()));
}

fn in_a_room(job: MpiJob, fixture: &ClusterFixture) -> MpiJob {
    job.with(
        "/spec/mpiReplicaSpecs/Worker/template/spec/nodeSelector",
        json!({"muster.test/room": fixture.namespace}),
    )
}

/// The launcher waits at its gate all the while.
#[test]
fn workers_without_room_are_waited_for_and_that_costs_no_try() -> Result<()> {
    with_cluster("no-room", |fixture| {
        let words = ["mpirun", "-n", "2", PI];
        let job = fixture.submit(&in_a_room(agent::job(Mpi::OpenMpi4, 2, &words), fixture))?;
        job.until("word of the missing room", |job| {
            job["status"]["muster"]["reason"] == "Unschedulable"
        })?;
        // Nothing happens meanwhile, which is what is tested.
        thread::sleep(LONG.saturating_sub(job.age()));
        let muster = job.get()?["status"]["muster"].clone();
        ensure!(muster["phase"] == "Waiting", "it does not wait: {muster}");
        ensure!(muster["reason"] == "Unschedulable", "{muster}");
        let pod = job.launcher_pod()?;
        ensure!(pod["status"]["phase"] == "Pending", "not at its gate");

        let nodes = fixture
            .cluster
            .kubectl(&["get", "nodes", "--output=name"])?;
        let node = nodes.lines().next().context("a cluster without nodes")?;
        let label = format!("muster.test/room={}", fixture.namespace);
        fixture
            .cluster
            .kubectl(&["label", "--overwrite", node, &label])?;
        job.succeeded_on_workers(2)?;
        fixture
            .cluster
            .kubectl(&["label", node, "muster.test/room-"])?;
        let pod = job.launcher_pod()?;
        let status = &pod["status"];
        ensure!(
            status["containerStatuses"][0]["restartCount"] == 0
                && status["initContainerStatuses"][0]["restartCount"] == 0,
            "waiting has cost a try: {status}"
        );
        Ok(())
    })
}

#[test]
fn a_job_whose_program_may_not_wait_for_long_does_not() -> Result<()> {
    with_cluster("no-time", |fixture| {
        let words = ["mpirun", "-n", "2", PI];
        let job = agent::job(Mpi::OpenMpi4, 2, &words)
            .backoff_limit(6)
            .with("/spec/muster/startupTimeoutSeconds", 10);
        let job = fixture.submit(&in_a_room(job, fixture))?;
        let failed = job.failed()?;
        let took = job.age();
        let words = ["10 s", "startupTimeoutSeconds", "0 of 2 workers"];
        Verdict::of(&failed)?.expect(&["DeadlineExceeded"], &words)?;
        ensure!(
            (Duration::from_secs(9)..Duration::from_secs(15)).contains(&took),
            "it took {took:?}"
        );
        Ok(())
    })
}
