//! A cluster that others started, for the tests that need nodes: kind's, or a company's. Decides how its nodes get the
//! images, and which tests are left out there because they look into a cluster of our own from outside.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::Group;
use crate::artifacts::Artifact;
use crate::cluster::{self, Running};
use crate::{command, images, packages};

/// Arguments about such a cluster.
#[derive(clap::Args)]
pub(super) struct Elsewhere {
    /// With --only cluster: run them on the cluster of this kubeconfig, and start none
    #[arg(long, env = "MUSTER_KUBECONFIG", value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Call this with each image archive before, such as "kind load image-archive"; else all nodes must have the images
    /// that `cargo xtask images --list` names
    #[arg(long, requires = "kubeconfig", value_name = "COMMAND")]
    load: Option<String>,
}

/// Tests that read the audit log of our own cluster, or find the processes of its pods on this machine.
pub(super) const LEFT_OUT: [&str; 5] = [
    "agent_loss::",
    "cost::",
    "pod_security::jobs_of_kubeflow",
    "replacement::",
    "time_to_live::",
];

/// A cluster of somebody else.
pub(super) struct Foreign {
    kubeconfig: PathBuf,
    load: Option<String>,
}

impl Elsewhere {
    /// The cluster, if there is one.
    pub(super) fn cluster(self, only: Option<Group>) -> Result<Option<Foreign>> {
        let Some(kubeconfig) = self.kubeconfig else {
            return Ok(None);
        };
        if only != Some(Group::Cluster) {
            bail!(
                "--kubeconfig and MUSTER_KUBECONFIG need --only cluster: other tests start what they need"
            );
        }
        let kubeconfig = kubeconfig
            .canonicalize()
            .with_context(|| format!("cannot read {}", kubeconfig.display()))?;
        let load = self.load;
        Ok(Some(Foreign { kubeconfig, load }))
    }
}

impl Foreign {
    /// Whether the tests need this made here.
    pub(super) fn needs(&self, artifact: Artifact) -> bool {
        match artifact {
            Artifact::Kubernetes => packages::on_path("kubectl").is_none(),
            Artifact::Images | Artifact::Agent => self.load.is_some(),
            _ => true,
        }
    }

    /// What leaves those tests out.
    pub(super) fn words(&self) -> Vec<String> {
        let skip = |name: &str| format!("--skip={name}");
        LEFT_OUT.map(skip).to_vec()
    }

    /// Brings the images there, and lays out in a directory what tests look for in a cluster's.
    pub(super) fn prepared(&self, directory: &std::path::Path) -> Result<Running> {
        let left_out = LEFT_OUT.join(" ");
        println!("left out, because they look into a cluster from outside: {left_out}");
        if let Some(load) = &self.load {
            for archive in images::ensure_all()? {
                let mut shell = Command::new("sh");
                shell.args(["-c", &format!("{load} \"$0\"")]).arg(&archive);
                let loaded = command::run(&mut shell);
                loaded.with_context(|| format!("cannot bring in {}", archive.display()))?;
            }
        }
        let kubectl = match packages::on_path("kubectl") {
            Some(kubectl) => kubectl,
            None => cluster::kubectl_directory()?.join("kubectl"),
        };
        let keys = directory.join("pki");
        fs::create_dir(&keys).with_context(|| format!("cannot make {}", keys.display()))?;
        let running = Running {
            kubeconfig: keys.join("admin.kubeconfig"),
            kubectl: directory.join("kubectl"),
            audit_log: directory.join("log/audit.log"),
            state_dir: directory.to_owned(),
        };
        symlink(&self.kubeconfig, &running.kubeconfig).context("cannot link the kubeconfig")?;
        symlink(kubectl, &running.kubectl).context("cannot link kubectl")?;
        Ok(running)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root;

    #[test]
    fn what_is_left_out_exists() -> Result<()> {
        for test in LEFT_OUT {
            let (file, begin) = test.split_once("::").context("it names its file")?;
            let file = root().join(format!("e2e/tests/cluster/{file}.rs"));
            let text = fs::read_to_string(&file)?;
            assert!(text.contains(&format!("\nfn {begin}")), "{test}");
        }
        Ok(())
    }

    #[test]
    fn another_cluster_is_for_the_tests_with_nodes_alone() -> Result<()> {
        let args = || Elsewhere {
            kubeconfig: Some("/dev/null".into()),
            load: None,
        };
        assert!(args().cluster(Some(Group::Api)).is_err() && args().cluster(None).is_err());
        assert!(args().cluster(Some(Group::Cluster))?.is_some());
        Ok(())
    }
}
