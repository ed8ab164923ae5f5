//! Two jobs on this machine: one that computes pi, and one that is made to fail. Decides what a
//! newcomer sees, in which order, and that nothing is left, however it ends. No cluster, no root.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::mpi::{self, Found};
use crate::interrupts::Interrupts;
use crate::{command, root};

/// As a shell says that a program is not there.
const NOT_FOUND: i32 = 127;
/// What `examples/local/fails.yaml` ends with.
const FAILS_WITH: i32 = 66;

pub(super) fn run() -> Result<()> {
    let interrupts = Interrupts::watch()?;
    introduce();
    let outcome = show(&interrupts);
    if let Some(code) = interrupts.exit_code() {
        println!("\nStopped, as asked. Nothing was left running.");
        // The error of a program that was ended on purpose tells nobody anything.
        std::process::exit(code);
    }
    if let Shown::Nothing(why) = outcome? {
        eprintln!("error: {why}");
        std::process::exit(NOT_FOUND);
    }
    say_goodbye();
    Ok(())
}

enum Shown {
    Everything,
    /// For want of an MPI.
    Nothing(String),
}

fn introduce() {
    println!(
        "\
This runs two MPI jobs on this machine, written as for a Kubernetes cluster: four ranks on two
workers that compute pi, and then a job that is made to fail.

  time      a few seconds; the first time some minutes before, to build muster
  touches   what cargo builds; a directory for temporary files, which is removed; and Debian's
            package openmpi-bin is installed if there is no mpirun
  needs     neither root nor a cluster
  to stop   Ctrl-C, at any time
"
    );
}

fn show(interrupts: &Interrupts) -> Result<Shown> {
    println!("== Building muster and muster-agent");
    // One after the other, as the tests do it: together they would be built anew.
    for package in ["agent", "cli"] {
        build(interrupts, package)?;
    }
    println!("\n== MPI");
    match mpi::ensure()? {
        Found::At(path) => println!("{}", path.display()),
        Found::Nowhere(why) => return Ok(Shown::Nothing(why)),
    }
    let muster = programs()?.join("muster");
    let state = State::new()?;
    println!("\n== A job that computes pi: mpirun starts four ranks, awk does the sums");
    let code = muster_run(interrupts, &muster, &state, "examples/local/pi.yaml")?;
    ensure!(
        code == 0,
        "the job should have succeeded, but ended with {code}"
    );
    println!("\n== A job that fails: one of its ranks does not find its input");
    let code = muster_run(interrupts, &muster, &state, "examples/local/fails.yaml")?;
    ensure!(
        code == FAILS_WITH,
        "the job should have ended with {FAILS_WITH}, as its program does, but ended with {code}"
    );
    println!("\nIt ended with exit code {code}: what the program said. That was meant to happen.");
    state.remove()?;
    Ok(Shown::Everything)
}

fn build(interrupts: &Interrupts, package: &str) -> Result<()> {
    let mut cargo = command::cargo("build");
    let status = interrupts.run_shown(cargo.args(["--package", package]))?;
    ensure!(status.success(), "`cargo build --package {package}` failed");
    Ok(())
}

/// Where cargo put what it built, this program included.
fn programs() -> Result<PathBuf> {
    let own = std::env::current_exe().context("cannot find out where this program is")?;
    let directory = own.parent().context("this program lies nowhere")?;
    Ok(directory.to_owned())
}

fn muster_run(interrupts: &Interrupts, muster: &Path, state: &State, file: &str) -> Result<i32> {
    if interrupts.exit_code().is_some() {
        bail!("stopped");
    }
    println!("$ muster run {file}");
    let mut command = Command::new(muster);
    command
        .args(["run", file])
        .env("MUSTER_STATE_DIR", &state.0)
        .current_dir(root());
    let status = interrupts.run_shown(&mut command)?;
    status
        .code()
        .with_context(|| format!("muster was ended: {status}"))
}

/// Where muster keeps its records meanwhile. Goes with this value.
struct State(PathBuf);

impl State {
    fn new() -> Result<Self> {
        let name = format!("muster-demo-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        // It must be new: somebody else could have put it there.
        DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self(path))
    }

    /// The same, but what cannot be removed is an error.
    fn remove(self) -> Result<()> {
        fs::remove_dir_all(&self.0).with_context(|| format!("cannot remove {}", self.0.display()))
    }
}

impl Drop for State {
    fn drop(&mut self) {
        // After `remove` there is nothing, and after an error another one is on its way already.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn say_goodbye() {
    let directory = programs().unwrap_or_default();
    println!(
        "
Nothing was left running. Next:

  export PATH={}:$PATH
  muster run examples/local/pi.yaml    the same job, with the path set as above; or one of yours
  make demo-cluster                    a job on a real Kubernetes cluster of this machine, as root",
        directory.display()
    );
}
