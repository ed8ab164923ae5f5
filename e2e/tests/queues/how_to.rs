//! The page about queues and gangs: every command on it runs as it is written.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use e2e::cluster_fixture::{ClusterFixture, repository, with_cluster};

use crate::kueue;

const PAGE: &str = "docs/how-to/queues-and-gangs.md";
/// Fewer would mean that the page is not read as it is written.
const BLOCKS_MIN: usize = 5;

#[test]
fn every_command_of_the_page_works() -> Result<()> {
    with_cluster("how-to", |fixture| {
        kueue::install(&fixture.cluster)?;
        let page = fs::read_to_string(repository().join(PAGE))?;
        let blocks: Vec<_> = page.split("\n```\n").skip(1).step_by(2).collect();
        ensure!(blocks.len() >= BLOCKS_MIN, "{} blocks", blocks.len());
        blocks.into_iter().try_for_each(|block| run(fixture, block))
    })
}

/// As a person would whose kubectl uses this cluster and this namespace.
fn run(fixture: &ClusterFixture, block: &str) -> Result<()> {
    let cluster = &fixture.cluster;
    let kubeconfig = std::env::temp_dir().join(format!("{}.kubeconfig", fixture.namespace));
    fs::copy(cluster.kubeconfig(), &kubeconfig)?;
    let inherited = std::env::var_os("PATH").unwrap_or_default();
    let path = std::iter::once(cluster.state.clone()).chain(std::env::split_paths(&inherited));
    let namespace = format!(
        "kubectl config set-context --current --namespace={}",
        fixture.namespace
    );
    let mut shell = Command::new("bash");
    shell
        .args(["-euo", "pipefail", "-c", &format!("{namespace}\n{block}")])
        .current_dir(repository())
        .env("PATH", std::env::join_paths(path)?)
        .env("KUBECONFIG", &kubeconfig);
    let output = shell.output().context("starting bash");
    fs::remove_file(&kubeconfig)?;
    let output = output?;
    let said = [output.stdout, output.stderr].concat();
    ensure!(
        output.status.success(),
        "{block}\n{}",
        String::from_utf8_lossy(&said)
    );
    Ok(())
}
