//! Names that cannot be resolved, or resolve to what is no longer there, do not matter: workers are
//! found by the operator's list, in both transports.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::cluster_fixture::names::{NameServer, asking};
use e2e::cluster_fixture::pi::{Mpi, PI, User, pi};
use e2e::cluster_fixture::{ClusterFixture, agent};
use e2e::figures::say;
use e2e::jobs::MpiJob;
use e2e::wait_for;
use serde_json::json;

use crate::with_cluster;

/// The server that knows nothing at first can be had once at a time.
const IGNORANT_FOR: Duration = Duration::from_secs(30);
/// How much later than the first a second job of the same name may start: more than two runs of one job
/// differ by on a busy machine, and less than a job waits for a name that is not known.
const NOISE: Duration = Duration::from_secs(15);

#[test]
fn names_that_do_not_exist_for_half_a_minute_matter_to_nobody() -> Result<()> {
    with_cluster("no-names", |fixture| {
        let server = NameServer::start(IGNORANT_FOR)?;
        let address = server.address.to_string();
        let over_ssh = pi(Mpi::OpenMpi4, User::Mpiuser, 2)
            .backoff_limit(0)
            .launcher_restart_policy("Never");
        let job = fixture.submit(&asking(over_ssh, &address, &fixture.namespace))?;
        job.succeeded_on_workers(2)?;
        say(&format!(
            "over ssh, names unknown for 30 s: done after {:.1} s, {} questions",
            job.age().as_secs_f64(),
            server.asked().len()
        ));
        job.delete()?;

        for mpi in Mpi::ALL {
            let before = server.asked().len();
            let words = ["mpirun", "-n", "2", PI];
            let job = agent::job(mpi, 2, &words).with("/metadata/name", mpi.name());
            let job = fixture.submit(&asking(job, &address, &fixture.namespace))?;
            job.succeeded_on_workers(2)?;
            let asked = server.asked().split_off(before);
            let of_workers: Vec<_> = asked
                .iter()
                .filter(|name| name.contains("-worker-"))
                .collect();
            say(&format!(
                "{} by the agent: {} questions, {} for workers",
                mpi.name(),
                asked.len(),
                of_workers.len()
            ));
            ensure!(of_workers.is_empty(), "asked for {of_workers:?}");
        }
        Ok(())
    })
}

/// A name server that keeps what it once said for half a minute, as most clusters have it. Over ssh
/// that is Open MPI: Hydra asks for the launcher's own name on each worker, which no list can spare it.
#[test]
fn a_job_made_again_starts_as_fast_where_names_are_cached() -> Result<()> {
    with_cluster("cached", |fixture| {
        let server = CachingServer::start(fixture)?;
        let over_ssh = pi(Mpi::OpenMpi4, User::Mpiuser, 2);
        let by_agent = agent::job(Mpi::Mpich, 2, &["mpirun", "-n", "2", PI]);
        for (transport, job) in [("SSH", over_ssh), ("Agent", by_agent)] {
            let job = asking(job, &server.address, &fixture.namespace);
            let first = run(fixture, &job)?;
            let second = run(fixture, &job)?;
            say(&format!(
                "{transport}, cached names: {:.1} s, recreated {:.1} s",
                first.as_secs_f64(),
                second.as_secs_f64()
            ));
            ensure!(
                second < first + NOISE,
                "{transport}: {first:?} at first, {second:?} when it was recreated"
            );
        }
        server.stop()
    })
}

fn run(fixture: &ClusterFixture, job: &MpiJob) -> Result<Duration> {
    let job = fixture.submit(job)?;
    job.succeeded_on_workers(2)?;
    let took = job.age();
    job.delete()?;
    job.has_no_pods()?;
    Ok(took)
}

/// A second name server of the cluster, which others do not use.
struct CachingServer<'a> {
    fixture: &'a ClusterFixture,
    address: String,
}

const SYSTEM: &str = "kube-system";

impl<'a> CachingServer<'a> {
    fn start(fixture: &'a ClusterFixture) -> Result<Self> {
        let name = &fixture.namespace;
        let corefile = ".:53 {\n errors\n ready\n cache 30\n kubernetes cluster.local in-addr.arpa {\n \
                        pods insecure\n ttl 30\n }\n}\n";
        let config = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": SYSTEM},
            "data": {"Corefile": corefile},
        });
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": SYSTEM},
            "spec": {
                "serviceAccountName": "coredns", "dnsPolicy": "Default",
                "terminationGracePeriodSeconds": 0,
                "containers": [{
                    "name": "coredns", "image": "muster.test/coredns:1", "imagePullPolicy": "Never",
                    "args": ["-conf", "/etc/coredns/Corefile"],
                    "readinessProbe": {"httpGet": {"path": "/ready", "port": 8181}, "periodSeconds": 1},
                    "volumeMounts": [{"name": "config", "mountPath": "/etc/coredns"}],
                }],
                "volumes": [{"name": "config", "configMap": {"name": name}}],
            },
        });
        fixture.cluster.apply(&config.to_string())?;
        fixture.cluster.apply(&pod.to_string())?;
        let what = "the caching name server";
        let address = wait_for(what, e2e::cluster_fixture::PATIENCE, || {
            let pod = fixture.cluster.get(SYSTEM, "pod", name)?;
            let pod = pod.context("it is gone")?;
            let ready = pod["status"]["containerStatuses"][0]["ready"] == true;
            let address = pod["status"]["podIP"].as_str().map(str::to_owned);
            Ok(address.filter(|_| ready))
        })?;
        Ok(Self { fixture, address })
    }

    /// One that a failed test leaves behind is in nobody's way.
    fn stop(self) -> Result<()> {
        let name = &self.fixture.namespace;
        let both = [format!("pod/{name}"), format!("configmap/{name}")];
        let args = ["delete", "-n", SYSTEM, &both[0], &both[1], "--wait=false"];
        self.fixture.cluster.kubectl(&args)?;
        Ok(())
    }
}
