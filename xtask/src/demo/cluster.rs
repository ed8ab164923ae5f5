//! One MPI job on a real cluster of this machine, from nothing to its result. Decides what a newcomer
//! sees, in which order, and that no cluster outlives the demonstration, however it ends. Must not
//! know how clusters and images are made.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::cluster::{self, Guard, Running, Spec};
use crate::interrupts::Interrupts;
use crate::{cache, images, root};

const NAME: &str = "demo";
const NODES: u8 = 3;
const OPERATOR: &str = "muster-operator";
const AGENT: &str = "muster-agent";

/// With `keep` the cluster stays, with the images of all examples.
pub(super) fn run(keep: bool) -> Result<()> {
    let interrupts = Interrupts::watch()?;
    introduce(keep)?;
    let outcome = show(&interrupts, keep);
    if let Some(code) = interrupts.exit_code() {
        println!("\nStopped, as asked.");
        // The error of a program that was ended on purpose tells nobody anything.
        std::process::exit(code);
    }
    outcome?;
    say_goodbye(keep);
    Ok(())
}

fn introduce(keep: bool) -> Result<()> {
    let end = if keep {
        "The cluster stays until you end it: `cargo xtask cluster down --name demo`."
    } else {
        "The cluster is taken down again at the end, also if anything fails."
    };
    println!(
        "\
This starts a real Kubernetes cluster with {NODES} nodes on this machine, installs the operator from
deploy/muster.yaml, and runs examples/pi.yaml: two workers that estimate pi with Open MPI.
{end}

  time      about half a minute; the first time 10 to 20, to build Kubernetes, the operator and images
  touches   installs Debian packages that are missing; keeps what it builds in {};
            network links, routes and cgroups whose names begin with muster-, while the cluster runs
  needs     root, Go, and about 10 GB of disk
  to stop   Ctrl-C, at any time
",
        cache::dir()?.display()
    );
    Ok(())
}

fn show(interrupts: &Interrupts, keep: bool) -> Result<()> {
    println!("== Programs and images");
    super::build(interrupts, "cli")?;
    let mut names = vec!["openmpi4", OPERATOR, AGENT];
    if keep {
        names.extend(["openmpi5", "mpich", "intel"]);
    }
    let archives = images::ensure(&names)?;
    expect_no_interrupt(interrupts)?;

    println!("== Cluster");
    let guard = Guard::new(NAME, keep);
    let running = cluster::up(&Spec {
        name: NAME.to_owned(),
        nodes: NODES,
        archives,
    })?;
    expect_no_interrupt(interrupts)?;

    println!("\n== Operator");
    let manifest = running.state_dir.join("muster.yaml");
    fs::write(&manifest, operator_manifest()?).context("cannot write the operator's manifest")?;
    let kubectl = |words: &[&str]| shown(interrupts, &running, &running.kubectl, words);
    kubectl(&["apply", "--filename", &manifest.to_string_lossy()])?;
    let operator = ["--namespace=muster-system", "deployment/muster"];
    kubectl(&[&["rollout", "status", "--timeout=120s"], &operator[..]].concat())?;
    println!("\n== Job");
    let muster = super::programs()?.join("muster");
    let job = shown(
        interrupts,
        &running,
        &muster,
        &["submit", "--wait", "--logs", "examples/pi.yaml"],
    );
    kubectl(&["get", "mpijob", "pi"])?;
    if job.is_err() {
        kubectl(&[&["logs", "--tail=20"], &operator[..]].concat())?;
    }
    if !keep {
        println!("\n== Taking the cluster down");
    }
    guard.close()?;
    job.context("`cargo xtask demo --cluster --keep` leaves the cluster up for a look")
}

/// Runs a program on the cluster as a person would, and shows the command.
fn shown(interrupts: &Interrupts, running: &Running, program: &Path, words: &[&str]) -> Result<()> {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    println!("$ {name} {}", words.join(" "));
    let mut command = Command::new(program);
    command
        .current_dir(root())
        .args(words)
        .env("KUBECONFIG", &running.kubeconfig)
        .env("MUSTER_STATE_DIR", running.state_dir.join("muster"))
        // The cluster is on this machine, whatever lies between it and the world.
        .env("NO_PROXY", "*");
    let status = interrupts.run_shown(&mut command)?;
    ensure!(
        status.success(),
        "`{name} {}` failed: {status}",
        words.join(" ")
    );
    Ok(())
}

/// `cluster::up` and `images::ensure` end in order before they look at signals.
fn expect_no_interrupt(interrupts: &Interrupts) -> Result<()> {
    match interrupts.exit_code() {
        Some(_) => bail!("stopped"),
        None => Ok(()),
    }
}

/// What `kubectl apply` gets: the shipped file with an image that the nodes have.
fn operator_manifest() -> Result<String> {
    let path = root().join("deploy/muster.yaml");
    let shipped =
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let line = |line: &str| match line.split_once("image: ") {
        Some((before, _)) if before.trim_matches([' ', '-']).is_empty() => {
            format!("{before}image: muster.test/{OPERATOR}:1\n")
        }
        _ => match line.split_once("--agent-image=") {
            Some((before, _)) => format!("{before}--agent-image=muster.test/{AGENT}:1\n"),
            None => format!("{line}\n"),
        },
    };
    Ok(shipped.lines().map(line).collect())
}

fn say_goodbye(keep: bool) {
    if keep {
        println!(
            "\
The cluster runs. Next:

  cargo xtask cluster kubectl --name demo -- apply -f examples/suspended.yaml
  cargo xtask cluster kubectl --name demo -- get mpijobs
  cargo xtask cluster down --name demo"
        );
    } else {
        println!(
            "\
Nothing was left running. Next:

  cargo xtask demo --cluster --keep    the same, and the cluster stays for you to try things
  make test                            all tests, on real Kubernetes with real MPI
  kubectl apply -f deploy/muster.yaml  on a cluster of your own; README.md says how"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operator_runs_from_an_image_that_the_nodes_have() {
        let manifest = operator_manifest().expect("the file is shipped");
        let images: Vec<_> = manifest
            .lines()
            .filter_map(|line| line.trim_start().strip_prefix("image: "))
            .collect();
        assert_eq!(images, ["muster.test/muster-operator:1"]);
    }
}
