//! What runs jobs on this machine for a measurement: the programs as they ship, and a directory of their
//! own. Decides how they are called and when a run counts: it exited with 0. Must not know what is
//! measured.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Result, ensure};
use tempfile::TempDir;

use crate::interruption::Interruption;
use crate::{programs, results};

pub(crate) struct LocalRig {
    muster: PathBuf,
    agent: PathBuf,
    scratch: TempDir,
    interruption: Interruption,
}

impl LocalRig {
    pub(crate) fn new() -> Result<Self> {
        let interruption = Interruption::watch()?;
        Ok(Self {
            muster: programs::muster()?,
            agent: programs::agent()?,
            scratch: tempfile::Builder::new().prefix("muster-bench").tempdir()?,
            interruption,
        })
    }

    /// The program.
    pub(crate) fn muster(&self) -> &Path {
        &self.muster
    }

    /// Fails once somebody has interrupted the measurement.
    pub(crate) fn check(&self) -> Result<()> {
        self.interruption.check()
    }

    /// A file of this content.
    pub(crate) fn file(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.scratch.path().join(name);
        fs::write(&path, text)?;
        Ok(path)
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.muster);
        command
            .env("MUSTER_AGENT", &self.agent)
            .env("MUSTER_STATE_DIR", self.scratch.path().join("state"));
        command
    }

    /// Milliseconds from start to exit, and what was said.
    pub(crate) fn timed(&self, command: &mut Command) -> Result<(f64, String)> {
        self.interruption.check()?;
        let begun = Instant::now();
        let output = command.stdin(Stdio::null()).output()?;
        let took = begun.elapsed().as_secs_f64() * 1e3;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        ensure!(
            output.status.success(),
            "{command:?}: {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        Ok((results::rounded(took), said))
    }

    /// A file with a job.
    pub(crate) fn job(
        &self,
        name: &str,
        workers: usize,
        slots: usize,
        command: &str,
        muster: &str,
    ) -> Result<PathBuf> {
        let text = format!(
            "\
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {{name: bench}}
spec:
  slotsPerWorker: {slots}
  muster: {{{muster}}}
  mpiReplicaSpecs:
    Launcher:
      template: {{spec: {{containers: [{{name: launcher, image: any, command: {command}}}]}}}}
    Worker:
      replicas: {workers}
      template: {{spec: {{containers: [{{name: worker, image: any}}]}}}}
"
        );
        self.file(name, &text)
    }
}

/// The MPI of this machine alone, for so many ranks.
pub(crate) fn mpirun(ranks: usize) -> Command {
    let mut mpirun = Command::new("mpirun");
    mpirun.args(["--oversubscribe", "-np", &ranks.to_string()]);
    for name in ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] {
        mpirun.env(name, "1");
    }
    mpirun
}
