//! Two jobs on this machine: one that computes pi, and one that is made to fail. Decides what a
//! newcomer sees, in which order, and that nothing is left, however it ends. No cluster, no root.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::mpi::{self, Found};
use super::{build, programs};
use crate::interrupts::Interrupts;
use crate::root;

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
    // Where muster keeps its records meanwhile.
    let state = tempfile::Builder::new().prefix("muster-demo-").tempdir();
    let state = state.context("cannot make a directory for temporary files")?;
    println!("\n== A job that computes pi: mpirun starts four ranks, awk does the sums");
    let code = muster_run(interrupts, &muster, state.path(), "examples/local/pi.yaml")?;
    ensure!(
        code == 0,
        "the job should have succeeded, but ended with {code}"
    );
    println!("\n== A job that fails: one of its ranks does not find its input");
    let code = muster_run(
        interrupts,
        &muster,
        state.path(),
        "examples/local/fails.yaml",
    )?;
    ensure!(
        code == FAILS_WITH,
        "the job should have ended with {FAILS_WITH}, as its program does, but ended with {code}"
    );
    println!("\nIt ended with exit code {code}: what the program said. That was meant to happen.");
    state
        .close()
        .context("cannot remove what muster recorded")?;
    Ok(Shown::Everything)
}

fn muster_run(interrupts: &Interrupts, muster: &Path, state: &Path, file: &str) -> Result<i32> {
    if interrupts.exit_code().is_some() {
        bail!("stopped");
    }
    println!("$ muster run {file}");
    let mut command = Command::new(muster);
    command
        .args(["run", file])
        .env("MUSTER_STATE_DIR", state)
        .current_dir(root());
    let status = interrupts.run_shown(&mut command)?;
    status
        .code()
        .with_context(|| format!("muster was ended: {status}"))
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
