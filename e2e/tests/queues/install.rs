//! How queues and gang schedulers of others are installed: once for all tests, from the manifest that a
//! variable names. Must not know what is tested with them.

use std::fs;
use std::sync::OnceLock;

use anyhow::{Context, Result, anyhow};
use e2e::Cluster;

/// Something that others made.
pub(crate) struct Other {
    pub(crate) name: &'static str,
    /// Names its manifest.
    pub(crate) variable: &'static str,
    pub(crate) namespace: &'static str,
    pub(crate) deployments: &'static [&'static str],
}

/// Whether it was installed, and what went wrong.
pub(crate) type Installed = OnceLock<Result<(), String>>;

impl Other {
    /// Installs it, and does `more` once it runs, unless another test did.
    pub(crate) fn install(
        &self,
        installed: &Installed,
        cluster: &Cluster,
        more: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let install = || self.try_install(cluster).and_then(|()| more());
        let installed = installed.get_or_init(|| install().map_err(|error| format!("{error:#}")));
        let installed = installed.clone();
        installed.map_err(|error| anyhow!("{} cannot be installed: {error}", self.name))
    }

    fn try_install(&self, cluster: &Cluster) -> Result<()> {
        let manifest = std::env::var(self.variable).with_context(|| {
            let variable = self.variable;
            format!("{variable} is not set: run `cargo xtask test --only queues`")
        })?;
        let manifest =
            fs::read_to_string(&manifest).with_context(|| format!("reading {manifest}"))?;
        // The definitions are too long for the annotation that a client-side apply writes.
        let apply = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
        cluster.kubectl_with(&apply, &manifest)?;
        for deployment in self.deployments {
            let deployment = format!("deployment/{deployment}");
            let wait = ["rollout", "status", "-n", self.namespace, &deployment];
            cluster.kubectl(&[&wait[..], &["--timeout=180s"]].concat())?;
        }
        Ok(())
    }
}
