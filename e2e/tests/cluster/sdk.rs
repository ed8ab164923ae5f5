//! Kubeflow's training SDK, as published, against the operator: what `e2e/sdk/lifecycle.py` does and
//! expects. The SDK speaks `kubeflow.org/v1` alone.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use e2e::cluster_fixture::repository;
use e2e::flyte::program;

use crate::with_cluster;

#[test]
fn the_training_sdk_creates_follows_updates_reads_and_deletes_a_job() -> Result<()> {
    with_cluster("sdk", |fixture| {
        let script = repository().join("e2e/sdk/lifecycle.py");
        let output = Command::new(program("MUSTER_E2E_SDK")?)
            .arg(script)
            .arg(fixture.cluster.kubeconfig())
            .args([&fixture.namespace, "muster.test/openmpi4-nossh:1"])
            .output()
            .context("starting the SDK's Python")?;
        let said = String::from_utf8_lossy(&output.stdout);
        ensure!(
            output.status.success() && said.trim_end().ends_with("done"),
            "{said}\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(())
    })
}
