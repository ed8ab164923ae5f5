//! What a worker has gives it no power: with all its files it can start nothing on another worker, and it
//! cannot answer for one; no more can the launcher of another job. A Secret that somebody planted is not
//! used. The keys are where they belong, and go with the run.
//!
//! A hundred attempts, or as many as `MUSTER_ATTEMPTS` says.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::cluster_fixture::pi::{HELD, Mpi, PI};
use e2e::cluster_fixture::{ClusterFixture, MPIJOBS, agent};
use e2e::figures::say;
use e2e::raw_tls::{is_let_in, launcher_key};
use e2e::wait_for;
use serde_json::{Value, json};

use crate::with_cluster;

const AGENT_PORT: u16 = 7077;

#[test]
fn s15_a_worker_with_all_its_files_starts_nothing_elsewhere() -> Result<()> {
    let attempts = std::env::var("MUSTER_ATTEMPTS").unwrap_or_else(|_| "100".to_owned());
    let attempts: usize = attempts.parse().context("MUSTER_ATTEMPTS is no number")?;
    with_cluster("security", |fixture| {
        let held = ["sh", "-c", HELD, "held", "mpirun", "-n", "2", PI];
        let manifest = agent::job(Mpi::OpenMpi4, 2, &held);
        let job = fixture.submit(&manifest)?;
        job.running()?;
        let launcher = job.launcher_pod()?;
        let target = address(&fixture.pod(&job.worker(1))?)?;
        let target: SocketAddr = format!("{target}:{AGENT_PORT}").parse()?;

        // Else the attempts below could fail for another reason than the key.
        let own = launcher_key(&file(fixture, name(&launcher)?, "launcher.key")?);
        ensure!(is_let_in(target, &own)?, "the launcher itself is kept out");

        let of_worker = file(fixture, &job.worker(0), "worker.key")?;
        let of_stranger = fixture.beside(|other| {
            let job = other.submit(&manifest)?;
            job.running()?;
            let pod = job.launcher_pod()?;
            Ok(launcher_key(&file(other, name(&pod)?, "launcher.key")?))
        })?;
        for (whose, key) in [("a worker", of_worker), ("another launcher", of_stranger)] {
            for attempt in 1..=attempts {
                let let_in = is_let_in(target, &key)?;
                ensure!(!let_in, "let in with the key of {whose}, attempt {attempt}");
            }
            say(&format!(
                "with the key of {whose}: {attempts} attempts, 0 let in"
            ));
        }
        ensure!(is_let_in(target, &own)?, "now the launcher is kept out");

        has_files(fixture, name(&launcher)?, "launcher.key valid-until")?;
        has_files(
            fixture,
            &job.worker(0),
            "launcher.pub valid-until worker.key",
        )?;
        job.release()?;
        job.succeeded_on_workers(2)?;
        the_keys_go(fixture)
    })
}

/// In worker 0, on the network of its node: listens on another port, with all that it has.
const IMPOSTOR: &str = r#"
MUSTER_PORT=31999 /muster/bin/muster-agent serve >/tmp/impostor 2>&1 &
until [ -s /tmp/impostor ]; do kill -0 $! || exit 1; done
cat /tmp/impostor
"#;
/// In the launcher: calls $1 where the list says that it is at the impostor's address, $2.
const CALL: &str = r#"
echo "$1 $2:31999" >/tmp/where
MUSTER_HOSTS_FILE=/tmp/where /muster/bin/ssh -oConnectTimeout=5 "$1" 'echo started on $(cat /muster/tls/worker.key | wc -c)' 2>&1 || echo refused
"#;

#[test]
fn s08_a_worker_on_its_nodes_network_cannot_answer_for_another() -> Result<()> {
    with_cluster("impostor", |fixture| {
        let held = ["sh", "-c", HELD, "held", "mpirun", "-n", "2", PI];
        let host_network = "/spec/mpiReplicaSpecs/Worker/template/spec/hostNetwork";
        let manifest = agent::job(Mpi::OpenMpi4, 2, &held).with(host_network, true);
        let job = fixture.submit(&manifest)?;
        job.running()?;
        let said = fixture.exec(&job.worker(0), &["sh", "-c", IMPOSTOR])?;
        ensure!(said.contains("serving"), "the impostor: {said}");
        let launcher = job.launcher_pod()?;
        let place = address(&fixture.pod(&job.worker(0))?)?;
        let call = |worker: &str| {
            let words = ["sh", "-c", CALL, "call", worker, &place];
            fixture.exec(name(&launcher)?, &words)
        };
        // As itself it is believed: what fails below fails for its key alone.
        let as_itself = call(&job.worker(0))?;
        ensure!(as_itself.contains("started on 32"), "{as_itself}");
        let as_other = call(&job.worker(1))?;
        let why = "has not the key of that worker";
        ensure!(
            as_other.contains("refused") && as_other.contains(why),
            "worker 0 was taken for worker 1: {as_other}"
        );
        job.release()?;
        job.succeeded()?;
        Ok(())
    })
}

/// The key of a launcher that somebody planted, who would then be let in by its workers.
const PLANTED: &str = "0123456789abcdef0123456789abcdef";

#[test]
fn s10_a_planted_secret_is_not_used() -> Result<()> {
    with_cluster("planted", |fixture| {
        let held = ["sh", "-c", HELD, "held", "mpirun", "-n", "2", PI];
        let manifest = agent::job(Mpi::OpenMpi4, 2, &held);
        let manifest = manifest.with("/spec/runPolicy/suspend", true);
        let job = fixture.submit(&manifest)?;
        let stored = wait_for("the record of the keys", Duration::from_secs(30), || {
            let stored = fixture.cluster.get(&fixture.namespace, MPIJOBS, "pi")?;
            let is_there = |job: &Value| job["status"]["muster"]["keys"]["secret"].is_string();
            Ok(stored.filter(is_there))
        })?;
        let secret = &stored["status"]["muster"]["keys"]["secret"];
        let owner = json!({"apiVersion": stored["apiVersion"], "kind": stored["kind"],
            "name": "pi", "uid": stored["metadata"]["uid"],
            "controller": true, "blockOwnerDeletion": true});
        // All that the pods mount is there.
        let planted = json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": secret, "ownerReferences": [owner]},
            "stringData": {"launcher.key": PLANTED, "launcher.pub": PLANTED,
                "worker-0.key": PLANTED, "worker-1.key": PLANTED, "valid-until": "4000000000"}});
        fixture.create(&planted)?;
        fixture.suspend("pi", false)?;
        job.running()?;
        let launcher = job.launcher_pod()?;
        let used = file(fixture, name(&launcher)?, "launcher.key")?;
        ensure!(used != PLANTED.as_bytes(), "the planted key is in use");
        job.release()?;
        job.succeeded_on_workers(2)?;
        Ok(())
    })
}

/// A file with keys, of a pod.
fn file(fixture: &ClusterFixture, pod: &str, name: &str) -> Result<Vec<u8>> {
    let path = format!("/muster/tls/{name}");
    let text = fixture.exec(pod, &["od", "-An", "-v", "-tx1", &path])?;
    let bytes = text.split_whitespace();
    let bytes = bytes.map(|byte| Ok(u8::from_str_radix(byte, 16)?));
    bytes.collect()
}

fn has_files(fixture: &ClusterFixture, pod: &str, expected: &str) -> Result<()> {
    let files = fixture.exec(pod, &["ls", "/muster/tls"])?;
    let files: Vec<_> = files.split_whitespace().collect();
    ensure!(files.join(" ") == expected, "{pod} has {files:?}");
    Ok(())
}

fn the_keys_go(fixture: &ClusterFixture) -> Result<()> {
    let since = Instant::now();
    wait_for("the Secret to go", Duration::from_secs(60), || {
        let secrets = ["get", "secrets", "--output=name", "-n", &fixture.namespace];
        let secrets = fixture.cluster.kubectl(&secrets)?;
        Ok((!secrets.contains("pi-agent-")).then_some(()))
    })?;
    say(&format!(
        "the keys were gone {:.1} s after the end",
        since.elapsed().as_secs_f64()
    ));
    Ok(())
}

fn address(pod: &Value) -> Result<String> {
    let address = pod["status"]["podIP"].as_str();
    Ok(address.context("a pod without address")?.to_owned())
}

fn name(pod: &Value) -> Result<&str> {
    pod["metadata"]["name"]
        .as_str()
        .context("a pod without name")
}
