//! Kueue decides on which nodes a job runs, by a tree of the nodes' labels: each worker starts on the node
//! that Kueue assigned to its rank.

use anyhow::{Context, Result, ensure};
use e2e::cluster_fixture::pi::{Mpi, User, held_pi};
use e2e::cluster_fixture::submitted::Submitted;
use e2e::cluster_fixture::{ClusterFixture, PATIENCE, with_cluster};
use e2e::jobs::MpiJob;
use e2e::wait_for;
use serde_json::{Value, json};

use super::{PER_POD, QUEUE, QUEUE_NAME, WORKLOADS, install, is_admitted, owner};

/// The nodes and the blocks that they are in. Each has two places, so that only the first block has room for
/// four workers. The scheduler alone would use all three.
const BLOCKS: [(&str, &str); 3] = [("node1", "wide"), ("node2", "narrow"), ("node3", "wide")];
const PLACES: &str = "2";
const WORKERS: u32 = 4;

#[test]
fn workers_run_where_kueue_assigned_their_ranks() -> Result<()> {
    with_cluster("kueue-topology", |fixture| {
        install(&fixture.cluster)?;
        let site = Site::built(fixture)?;
        site.runs(site.job("plain"))?
            .succeeded_on_workers(WORKERS)
            .map(drop)?;
        // Then the launcher has rank 0, and the ranks of workers begin with 1.
        site.runs(site.job("as-worker").launcher_as_worker())?
            .succeeded()
            .map(drop)
    })
}

/// Nodes in blocks, with places for this test alone, and a queue that knows of them.
struct Site<'a> {
    fixture: &'a ClusterFixture,
    /// Begins the names of what only this test uses on the nodes.
    domain: String,
}

impl<'a> Site<'a> {
    fn built(fixture: &'a ClusterFixture) -> Result<Self> {
        let domain = format!("{}.muster.test", fixture.namespace);
        let site = Self { fixture, domain };
        let place = site.place();
        for (node, block) in BLOCKS {
            let label = format!("{}={block}", site.block());
            fixture.cluster.kubectl(&["label", "node", node, &label])?;
            let places = json!({(place.as_str()): PLACES});
            let status = json!({"status": {"capacity": places, "allocatable": places}});
            let args = ["patch", "node", node, "--subresource=status"];
            let patch = status.to_string();
            let args = [&args[..], &["--type=merge", "--patch", &patch]].concat();
            fixture.cluster.kubectl(&args)?;
        }
        for object in site.objects() {
            fixture.cluster.apply(&object.to_string())?;
        }
        Ok(site)
    }

    fn place(&self) -> String {
        format!("{}/place", self.domain)
    }

    fn block(&self) -> String {
        format!("{}/block", self.domain)
    }

    fn objects(&self) -> [Value; 4] {
        let (name, api) = (&self.fixture.namespace, "kueue.x-k8s.io/v1beta2");
        let resources = json!([{"name": "cpu", "nominalQuota": "2"},
            {"name": self.place(), "nominalQuota": "6"}]);
        [
            json!({
                "apiVersion": api, "kind": "Topology", "metadata": {"name": name},
                "spec": {"levels": [{"nodeLabel": self.block()},
                    {"nodeLabel": "kubernetes.io/hostname"}]},
            }),
            json!({
                "apiVersion": api, "kind": "ResourceFlavor", "metadata": {"name": name},
                "spec": {"nodeLabels": {"kubernetes.io/os": "linux"}, "topologyName": name},
            }),
            json!({
                "apiVersion": api, "kind": "ClusterQueue", "metadata": {"name": name},
                "spec": {
                    "namespaceSelector": {},
                    "resourceGroups": [{
                        "coveredResources": ["cpu", self.place()],
                        "flavors": [{"name": name, "resources": resources}],
                    }],
                },
            }),
            json!({
                "apiVersion": api, "kind": "LocalQueue",
                "metadata": {"name": QUEUE, "namespace": name},
                "spec": {"clusterQueue": name},
            }),
        ]
    }

    /// A job whose workers must share a block, each in a place of its own.
    fn job(&self, name: &str) -> MpiJob {
        const LAUNCHER: &str = "/spec/mpiReplicaSpecs/Launcher/template";
        const WORKER: &str = "/spec/mpiReplicaSpecs/Worker/template";
        const REQUIRED: &str = "metadata/annotations/kueue.x-k8s.io~1podset-required-topology";
        let resources = |template: &str| format!("{template}/spec/containers/0/resources");
        let requests = json!({"cpu": PER_POD, (self.place()): "1"});
        let limits = json!({(self.place()): "1"});
        held_pi(Mpi::OpenMpi4, User::Root, WORKERS)
            .with("/metadata/name", name)
            .with(QUEUE_NAME, QUEUE)
            .with(&format!("{WORKER}/{REQUIRED}"), self.block())
            .with(&resources(LAUNCHER), json!({"requests": {"cpu": PER_POD}}))
            .with(
                &resources(WORKER),
                json!({"requests": requests, "limits": limits}),
            )
    }

    /// Runs a job until all of its pods run, and compares their nodes with what Kueue assigned.
    fn runs(&self, job: MpiJob) -> Result<Submitted<'a>> {
        let job = self.fixture.submit(&job)?;
        job.running()?;
        let workload = wait_for("its admission", PATIENCE, || {
            let (cluster, namespace) = (&self.fixture.cluster, &self.fixture.namespace);
            let workloads = cluster.list(namespace, WORKLOADS, "")?;
            let mut of_job = workloads
                .into_iter()
                .filter(|one| owner(one) == Some(job.name()));
            Ok(of_job.find(is_admitted))
        })?;
        for role in ["launcher", "worker"] {
            let assigned = assigned(&workload, role)?;
            let pods = self.fixture.pods(job.name(), role)?;
            let nodes: Vec<_> = pods
                .iter()
                .map(|pod| pod["spec"]["nodeName"].as_str())
                .collect();
            let expected: Vec<_> = assigned.iter().map(|node| Some(node.as_str())).collect();
            ensure!(nodes == expected, "{role}s on {nodes:?}, not {expected:?}");
            if role == "worker" {
                // Neighbours in rank are neighbours in the tree.
                let two_by_two = nodes[0] == nodes[1] && nodes[2] == nodes[3];
                ensure!(two_by_two, "{nodes:?}");
                ensure!(!nodes.contains(&Some("node2")), "{nodes:?}");
            }
        }
        job.release()?;
        Ok(job)
    }
}

/// The node that Kueue assigned to each pod of a role, in the order of their ranks.
fn assigned(workload: &Value, role: &str) -> Result<Vec<String>> {
    let sets = workload["status"]["admission"]["podSetAssignments"].as_array();
    let mut sets = sets.context("no assignments")?.iter();
    let set = sets
        .find(|set| set["name"] == role)
        .context("no such set")?;
    let slices = set["topologyAssignment"]["slices"].as_array();
    let mut nodes = Vec::new();
    for slice in slices.with_context(|| format!("no topology: {set}"))? {
        let values = slice["valuesPerLevel"].as_array();
        let values = values.and_then(|levels| levels.last());
        let values = values.context("no level")?;
        let domains = slice["domainCount"].as_u64().context("no domains")?;
        for domain in 0..usize::try_from(domains)? {
            let node = one_of(values, domain).with_context(|| values.to_string())?;
            let counts = &slice["podCounts"];
            let count = counts["universal"].as_u64();
            let count = count.or_else(|| counts["individual"][domain].as_u64());
            for _ in 0..count.with_context(|| counts.to_string())? {
                nodes.push(node.clone());
            }
        }
    }
    Ok(nodes)
}

/// The value of a domain: the same for all, or a root between a prefix and a suffix that all share.
fn one_of(values: &Value, domain: usize) -> Option<String> {
    if let Some(universal) = values["universal"].as_str() {
        return Some(universal.to_owned());
    }
    let individual = &values["individual"];
    let root = individual["roots"][domain].as_str()?;
    let part = |name: &str| individual[name].as_str().unwrap_or_default();
    Some(format!("{}{root}{}", part("prefix"), part("suffix")))
}
