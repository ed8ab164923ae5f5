//! Changing the number of workers of a running job: pods and list of hosts follow, up and down.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::cluster_fixture::agent;
use e2e::cluster_fixture::pi::{Mpi, PI, User, job};
use e2e::cluster_fixture::submitted::Submitted;
use e2e::cluster_fixture::{ClusterFixture, MPIJOBS, PATIENCE};
use e2e::figures::say;
use e2e::jobs::MpiJob;
use e2e::wait_for;
use serde_json::{Value, json};

use crate::with_cluster;

/// Runs on three hosts as soon as the list has three, then on two.
const FOLLOW: &str = "hosts() { until [ $(wc -l </etc/mpi/hostfile) = $1 ]; do sleep 0.1; done; }; \
                      hosts 3 && mpirun -n 3 $0 && echo ready for two && hosts 2 && mpirun -n 2 $0";

#[test]
fn workers_come_and_go_with_their_number() -> Result<()> {
    with_cluster("scaled", |fixture| {
        let job = fixture.submit(&job(
            Mpi::OpenMpi4,
            User::Mpiuser,
            1,
            &["sh", "-c", FOLLOW, PI],
        ))?;
        job.running()?;
        scale(fixture, 3)?;
        job.workers_run(3)?;
        sees_hosts(fixture, &job, "ready for two")?;
        scale(fixture, 2)?;
        job.workers_run(2)?;
        sees_hosts(fixture, &job, "Workers: 2")?;
        let output = job.succeeded_on_workers(2)?;
        assert!(
            output.text.contains("rank 2 of 3 on pi-worker-2"),
            "{}",
            output.text
        );
        Ok(())
    })
}

/// Says which hosts there are, as often as they change: by the script, and how many the list has.
const FOLLOW_SCRIPT: &str = "trap 'exit 143' TERM; before=; while :; do \
     now=\"$(/etc/mpi/discover_hosts.sh | tr '\\n' ' ')and $(wc -l </etc/mpi/hostfile) listed\"; \
     [ \"$now\" = \"$before\" ] || echo \"hosts: $now\"; before=$now; sleep 0.1; done";
const SLOTS: u32 = 2;
/// By then an elastic program must know its new hosts.
const KNOWN_WITHIN: Duration = Duration::from_secs(5);

#[test]
fn an_elastic_program_follows_kubectl_scale_at_once() -> Result<()> {
    with_cluster("scale", |fixture| follow_scale(fixture, over_ssh(), false))
}

/// The launcher has index 0 then, and worker 0 index 1.
#[test]
fn an_elastic_program_follows_kubectl_scale_at_once_beside_ranks_of_the_launcher() -> Result<()> {
    with_cluster("scale-launcher", |fixture| {
        follow_scale(fixture, over_ssh(), true)
    })
}

#[test]
fn an_elastic_program_follows_kubectl_scale_at_once_without_ssh() -> Result<()> {
    with_cluster("scale-agent", |fixture| {
        follow_scale(fixture, by_agent(), false)
    })
}

#[test]
fn an_elastic_program_follows_kubectl_scale_at_once_without_ssh_beside_ranks_of_the_launcher()
-> Result<()> {
    with_cluster("scale-agent-launcher", |fixture| {
        follow_scale(fixture, by_agent(), true)
    })
}

fn over_ssh() -> MpiJob {
    job(Mpi::OpenMpi4, User::Root, 2, &["sh", "-c", FOLLOW_SCRIPT])
}

fn by_agent() -> MpiJob {
    agent::job(Mpi::OpenMpi4, 2, &["sh", "-c", FOLLOW_SCRIPT])
}

/// No worker that stays is replaced, and every list has the new hosts in time.
fn follow_scale(fixture: &ClusterFixture, job: MpiJob, launcher_as_worker: bool) -> Result<()> {
    let job = job.slots(SLOTS);
    let job = fixture.submit(&match launcher_as_worker {
        true => job.launcher_as_worker(),
        false => job,
    })?;
    job.running()?;
    let mut before = job.workers_run(2)?;
    knows(&job, 2, launcher_as_worker)?;
    for count in [4, 3, 1] {
        let replicas = format!("--replicas={count}");
        let name = format!("{MPIJOBS}/pi");
        let args = ["scale", "--namespace", &fixture.namespace, &name, &replicas];
        fixture.cluster.kubectl(&args)?;
        let scaled = Instant::now();
        // A worker that comes must run first. One that goes may take its time.
        let mut due = scaled;
        if count as usize > before.len() {
            job.workers_run(count)?;
            due = Instant::now();
        }
        knows(&job, count, launcher_as_worker)?;
        let late = due.elapsed();
        say(&format!(
            "{}: the launcher knew its {count} workers {:.1} s after kubectl scale, {:.1} s after they were there",
            fixture.namespace,
            scaled.elapsed().as_secs_f64(),
            late.as_secs_f64()
        ));
        ensure!(late <= KNOWN_WITHIN, "it learned of them after {late:?}");

        let after = job.workers_run(count)?;
        for (old, new) in before.iter().zip(&after) {
            let uid = |pod: &Value| pod["metadata"]["uid"].clone();
            ensure!(
                uid(old) == uid(new),
                "{} was replaced",
                new["metadata"]["name"]
            );
        }
        job.until("the scale to follow", |job| {
            job["status"]["replicaStatuses"]["Worker"]["active"] == count
        })?;
        before = after;
    }
    ensure!(
        job.tries()? == 1,
        "the launcher was started again: {}",
        job.output()?.text
    );
    job.delete()
}

/// Waits until the launcher's program has said that it has these hosts, and only these.
fn knows(job: &Submitted<'_>, workers: u32, launcher_as_worker: bool) -> Result<()> {
    let launcher = launcher_as_worker.then(|| job.launcher());
    let hosts: Vec<String> = launcher
        .into_iter()
        .chain((0..workers).map(|index| job.worker(index)))
        .map(|host| format!("{host}:{SLOTS}"))
        .collect();
    let listed = format!("{} listed", hosts.len());
    wait_for(&format!("{workers} workers in the lists"), PATIENCE, || {
        let said = job.output()?.text;
        let last = said.lines().rfind(|line| line.starts_with("hosts: "));
        let Some((script, list)) = last.and_then(|line| line[7..].split_once("and ")) else {
            return Ok(None);
        };
        // `POD.SERVICE.NAMESPACE.svc:SLOTS`
        let short = script.split_whitespace().map(|host| {
            let (name, rest) = host.split_once('.').unwrap_or((host, ""));
            let slots = rest.rsplit_once(':').map_or("", |(_, slots)| slots);
            format!("{name}:{slots}")
        });
        Ok((short.eq(hosts.iter().cloned()) && list == listed).then_some(()))
    })
}

fn scale(fixture: &ClusterFixture, workers: u32) -> Result<()> {
    let replicas = json!({"Worker": {"replicas": workers}});
    fixture.patch(
        MPIJOBS,
        "pi",
        &json!({"spec": {"mpiReplicaSpecs": replicas}}),
    )
}

/// Waits until the launcher has said this. A kubelet brings mounted files up to date about once a
/// minute, and whenever the pod changes.
fn sees_hosts(fixture: &ClusterFixture, job: &Submitted<'_>, words: &str) -> Result<()> {
    let launchers = fixture.pods("pi", "launcher")?;
    let pod = launchers.first().context("the launcher is gone")?;
    let pod = pod["metadata"]["name"]
        .as_str()
        .context("a pod without a name")?;
    let mut looks = 0;
    wait_for(&format!("`{words}` in the log"), PATIENCE, || {
        looks += 1;
        let change = json!({"metadata": {"annotations": {"looks": looks.to_string()}}});
        fixture.patch("pod", pod, &change)?;
        Ok(job.output()?.text.contains(words).then_some(()))
    })
}
