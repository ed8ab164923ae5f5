//! The pages of `docs/how-to` about images, memory, GPUs and recipes: their commands for a cluster run as they are
//! written, with the images of the tests in the place of the reader's.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result, ensure};
use e2e::cluster_fixture::ClusterFixture;
use e2e::cluster_fixture::page::commands;

use crate::with_cluster;

const HEADING: &str = "## On a cluster";
/// Open MPI with the packages and the program of `examples/recipes/Dockerfile`, without LAMMPS and Python.
const IMAGE: &str = "muster.test/recipes:1";

/// Files of `examples/` that name the reader's image, as the reader changes them.
fn with_test_image(block: &str) -> String {
    let sed = format!("sed 's#registry.example/you/recipes:1#{IMAGE}#'");
    let lines =
        block.lines().map(
            |line| match line.strip_prefix("kubectl apply -f examples/recipes/") {
                Some(file) => format!("{sed} examples/recipes/{file} | kubectl apply -f -\n"),
                None => line.replace("| kubectl apply", &format!("| {sed} | kubectl apply")) + "\n",
            },
        );
    lines.collect()
}

/// What the blocks of a page's section about a cluster print.
fn printed(fixture: &ClusterFixture, page: &str) -> Result<String> {
    printed_below(fixture, page, HEADING)
}

fn printed_below(fixture: &ClusterFixture, page: &str, heading: &str) -> Result<String> {
    let page = format!("docs/how-to/{page}.md");
    let blocks = commands(&page, heading)?;
    // Docker is not here; that its file names what is needed is tested in local mode.
    let blocks = blocks.iter().filter(|block| !block.starts_with("docker "));
    let script: String = blocks.map(|block| with_test_image(block)).collect();
    let script = script.replace("registry.example/you/program:1", IMAGE);
    ensure!(script.contains("kubectl wait"), "{page}: {script}");
    fixture.shell(&script)
}

/// How often each line was printed, of those that a condition holds for.
fn counted(text: &str, holds: impl Fn(&str) -> bool) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for line in text.lines().filter(|line| holds(line)) {
        *counts.entry(line).or_default() += 1;
    }
    counts
}

#[test]
fn a_first_job_after_the_installation() -> Result<()> {
    with_cluster("page-helm", |fixture| {
        let said = printed_below(fixture, "install-with-helm", "## Run a job")?;
        let pi = "pi is approximately 3.1415926536: 4 ranks on 2 hosts";
        ensure!(said.contains(pi), "{said}");
        Ok(())
    })
}

#[test]
fn from_a_failed_job_to_its_cause_with_kubectl_alone() -> Result<()> {
    with_cluster("page-debug", |fixture| {
        let said = printed(fixture, "debug-a-failed-job")?;
        let status = "\nCommandFailed\nrank 3 on worker fails-worker-1 exited with code 66";
        let log = "cannot open /data/input.h5";
        for words in [status, log, "Failed", "LAST SEEN"] {
            ensure!(said.contains(words), "`{words}` is not in {said}");
        }
        Ok(())
    })
}

#[test]
fn namespaces_get_the_labels_of_the_pages() -> Result<()> {
    with_cluster("page-labels", |fixture| {
        let namespace = &fixture.namespace;
        let metrics = commands("docs/reference/metrics.md", "## Two ports")?.concat();
        let label = metrics
            .lines()
            .filter(|line| line.starts_with("kubectl label "));
        let label: String = label.collect();
        fixture.shell(&label.replace(" monitoring ", &format!(" {namespace} ")))?;
        let security = commands("docs/how-to/install-with-helm.md", "## Pod Security")?.concat();
        fixture.shell(&security.replace(" muster-system ", &format!(" {namespace} ")))?;
        let labelled = fixture.cluster.kubectl(&[
            "get",
            "namespaces",
            "--output=name",
            "--selector=metrics=enabled,pod-security.kubernetes.io/enforce=restricted",
        ])?;
        let ours = format!("namespace/{namespace}");
        ensure!(labelled.lines().any(|line| line == ours), "{labelled}");
        Ok(())
    })
}

#[test]
fn an_image_without_sshd() -> Result<()> {
    with_cluster("page-no-ssh", |fixture| {
        let said = printed(fixture, "images-without-sshd")?;
        ensure!(said.contains("pi is approximately 3.1"), "{said}");
        Ok(())
    })
}

#[test]
fn a_volume_in_memory_is_as_large_as_it_says() -> Result<()> {
    with_cluster("page-shm", |fixture| {
        let said = printed(fixture, "shared-memory")?;
        let sizes = counted(&said, |line| line.trim_start().starts_with("256 "));
        ensure!(sizes.values().sum::<usize>() == 2, "{said}");
        let used = sizes
            .keys()
            .filter_map(|line| line.split_whitespace().nth(1));
        let used: Vec<u32> = used.map(str::parse).collect::<Result<_, _>>()?;
        ensure!(used.iter().all(|used| *used >= 100), "{said}");
        Ok(())
    })
}

#[test]
fn pods_of_a_job_have_the_pull_secret_of_their_account() -> Result<()> {
    with_cluster("page-registry", |fixture| {
        let file = std::env::temp_dir().join(format!("{}.json", fixture.namespace));
        fs::write(
            &file,
            r#"{"auths": {"registry.example": {"auth": "eDp5"}}}"#,
        )?;
        let blocks = commands("docs/how-to/private-registries.md", HEADING)?;
        let script = blocks.concat();
        let given = script.replace("=config.json", &format!("={}", file.display()));
        ensure!(given != script, "{script}");
        let said = fixture.shell(&given);
        fs::remove_file(&file)?;
        let said = said?;
        let lines = said
            .lines()
            .filter(|line| line.starts_with("pi-without-ssh-"));
        let lines: Vec<_> = lines.collect();
        ensure!(!lines.is_empty(), "{said}");
        let named = lines.iter().all(|line| line.ends_with(" registry"));
        ensure!(named, "{said}");
        Ok(())
    })
}

#[test]
fn as_many_ranks_as_a_worker_has_gpus() -> Result<()> {
    with_cluster("page-gpus", |fixture| {
        let said = printed(fixture, "gpus")?;
        let hosts = counted(&said, |line| {
            line.starts_with("nccl-tests-worker-") && !line.contains(' ')
        });
        let hosts: Vec<_> = hosts.into_iter().collect();
        let expected = [("nccl-tests-worker-0", 8), ("nccl-tests-worker-1", 8)];
        ensure!(hosts == expected, "{hosts:?}: {said}");
        Ok(())
    })
}

#[test]
fn hpc_challenge_from_an_image() -> Result<()> {
    with_cluster("page-hpcc", |fixture| {
        let said = printed(fixture, "recipes")?;
        for line in ["Success=1", "CommWorldProcs=2"] {
            ensure!(
                counted(&said, |one| one == line).len() == 1,
                "{line}: {said}"
            );
        }
        Ok(())
    })
}

#[test]
fn messages_between_two_nodes() -> Result<()> {
    with_cluster("page-bandwidth", |fixture| {
        let apply = with_test_image("kubectl apply -f examples/recipes/bandwidth.yaml\n");
        fixture.shell(&apply)?;
        let job = fixture.submitted("bandwidth");
        let workers = job.workers_run(2)?;
        job.succeeded()?;
        let nodes = workers.iter().map(|pod| pod["spec"]["nodeName"].as_str());
        let nodes: Option<Vec<_>> = nodes.collect();
        let nodes = nodes.context("a worker without a node")?;
        ensure!(nodes[0] != nodes[1], "both on {nodes:?}");
        let said = job.output()?.text;
        ensure!(said.contains("# 0 messages came back damaged"), "{said}");
        let is_row = |line: &str| {
            line.split_whitespace()
                .all(|cell| cell.parse::<f64>().is_ok())
        };
        let rows = counted(&said, is_row);
        ensure!(rows.len() == 12, "{said}");
        Ok(())
    })
}
