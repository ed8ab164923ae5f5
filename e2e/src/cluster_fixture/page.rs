//! Commands of a page of `docs/`, run as a person would whose kubectl uses this cluster and this namespace. Decides which
//! blocks of a page are commands; must not know what they are for.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::{ClusterFixture, repository};

/// The blocks of commands below a heading of a page, up to the next one of its kind. A block that names its
/// language is a piece of a file.
pub fn commands(page: &str, heading: &str) -> Result<Vec<String>> {
    let text = fs::read_to_string(repository().join(page))?;
    let heading = format!("{heading}\n");
    let (_, below) = text
        .split_once(&heading)
        .with_context(|| format!("{page} has no `{heading}`"))?;
    let below = below.split("\n## ").next().unwrap_or_default();
    let blocks = below.split("\n```").skip(1).step_by(2);
    let commands = blocks.filter_map(|block| block.strip_prefix('\n'));
    Ok(commands.map(|block| format!("{block}\n")).collect())
}

impl ClusterFixture {
    /// Runs the lines in a shell, and returns what they printed.
    pub fn shell(&self, lines: &str) -> Result<String> {
        let cluster = &self.cluster;
        let kubeconfig = std::env::temp_dir().join(format!("{}.kubeconfig", self.namespace));
        fs::copy(cluster.kubeconfig(), &kubeconfig)?;
        let inherited = std::env::var_os("PATH").unwrap_or_default();
        let path = std::iter::once(cluster.state.clone()).chain(std::env::split_paths(&inherited));
        let namespace = format!(
            "kubectl config set-context --current --namespace={} >/dev/null",
            self.namespace
        );
        let mut shell = Command::new("bash");
        shell
            .args(["-euo", "pipefail", "-c", &format!("{namespace}\n{lines}")])
            .current_dir(repository())
            .env("PATH", std::env::join_paths(path)?)
            .env("KUBECONFIG", &kubeconfig);
        let output = shell.output().context("starting bash");
        fs::remove_file(&kubeconfig)?;
        let output = output?;
        ensure!(
            output.status.success(),
            "{lines}\n{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}
