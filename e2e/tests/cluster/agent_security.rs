//! What a worker has gives it no power: with all its files it can start nothing, neither on another
//! worker nor on the launcher, and no more can the launcher of another job. The keys are where they
//! belong, and go with the run.
//!
//! A hundred attempts, or as many as `MUSTER_ATTEMPTS` says.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::cluster_fixture::pi::{HELD, Mpi, PI};
use e2e::cluster_fixture::{ClusterFixture, agent};
use e2e::figures::say;
use e2e::wait_for;
use serde_json::Value;

use crate::with_cluster;

/// Tries `$1` times, eight at once, to start something on each of the addresses that follow, with the
/// pod's own certificate in the place of a launcher's; says how often it was let in.
const ATTEMPT: &str = r#"
tries=$1; shift
mkdir -p /tmp/own && cp /muster/tls/ca.crt /tmp/own/
for kind in crt key; do cp /muster/tls/[sc][el]*.$kind /tmp/own/client.$kind; done
for address in "$@"; do echo "t-$address $address"; done >/tmp/targets
export MUSTER_TLS_DIR=/tmp/own MUSTER_HOSTS_FILE=/tmp/targets MUSTER_CONNECT_TIMEOUT=1
attempt() { /muster/bin/ssh "t-$1" 'touch /tmp/owned' >/dev/null 2>/tmp/why && echo in || echo out; }
n=0
while [ $n -lt $tries ]; do
    for address in "$@"; do
        attempt "$address" &
        n=$((n + 1))
        [ $((n % 8)) != 0 ] || wait
    done
done >/tmp/tried
wait
echo $(sort /tmp/tried | uniq -c)
"#;

#[test]
fn a_worker_with_all_its_files_starts_nothing_elsewhere() -> Result<()> {
    let attempts = std::env::var("MUSTER_ATTEMPTS").unwrap_or_else(|_| "100".to_owned());
    with_cluster("security", |fixture| {
        let held = ["sh", "-c", HELD, "held", "mpirun", "-n", "2", PI];
        let manifest = agent::job(Mpi::OpenMpi4, 2, &held);
        let job = fixture.submit(&manifest)?;
        job.running()?;
        let launcher = job.launcher_pod()?;
        let targets = [address(&fixture.pod(&job.worker(1))?)?, address(&launcher)?];
        let targets: Vec<_> = targets.iter().map(String::as_str).collect();

        // Else the attempts below could fail for another reason than the key.
        let allowed = attempt(fixture, name(&launcher)?, "4", &targets[..1])?;
        ensure!(allowed == "4 in", "the launcher itself: {allowed}");
        fixture.exec(&job.worker(1), &["rm", "/tmp/owned"])?;

        let refused = format!("{attempts} out");
        let of_worker = attempt(fixture, &job.worker(0), &attempts, &targets)?;
        say(&format!("with the files of a worker: {of_worker}"));
        ensure!(of_worker == refused, "with its files: {of_worker}");
        let of_stranger = fixture.beside(|other| {
            let job = other.submit(&manifest)?;
            job.running()?;
            let pod = job.launcher_pod()?;
            attempt(other, name(&pod)?, &attempts, &targets)
        })?;
        say(&format!("with those of another launcher: {of_stranger}"));
        ensure!(of_stranger == refused, "another job's: {of_stranger}");
        fixture
            .exec(&job.worker(1), &["test", "!", "-e", "/tmp/owned"])
            .context("something was started on the other worker")?;

        has_files(fixture, name(&launcher)?, "ca.crt client.crt client.key")?;
        has_files(fixture, &job.worker(0), "ca.crt server.crt server.key")?;
        job.release()?;
        job.succeeded_on_workers(2)?;
        the_keys_go(fixture)
    })
}

fn attempt(fixture: &ClusterFixture, pod: &str, tries: &str, targets: &[&str]) -> Result<String> {
    let words = [&["sh", "-c", ATTEMPT, "attempt", tries], targets].concat();
    Ok(fixture.exec(pod, &words)?.trim().to_owned())
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
        let secret = fixture
            .cluster
            .get(&fixture.namespace, "secret", "pi-agent")?;
        Ok(secret.is_none().then_some(()))
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
