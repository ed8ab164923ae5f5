//! Everything that must hold before a change lands. Decides which stages there are, in which order,
//! and that no cluster outlives its tests, however they end. Must not know how clusters and images
//! are made, nor what is tested.

mod report;
mod tally;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;

use crate::cluster::{self, Running, Spec};
use crate::interrupts::Interrupts;
use crate::{clients, command, images, packages, tidy};
use report::Report;
use tally::Tally;

/// Arguments of this chore.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Run these stages only
    #[arg(long)]
    only: Option<Group>,
    /// Leave clusters running when their tests have ended
    #[arg(long)]
    keep: bool,
    /// Words for the test programs, such as part of a test's name
    #[arg(last = true)]
    words: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Group {
    /// Format, tidy, clippy, and the tests that need nothing but cargo
    Unit,
    /// Tests of local mode: real processes and real mpirun on this machine
    Local,
    /// Tests against a real API server without nodes
    Api,
    /// Tests against a real cluster with three nodes and real MPI
    Cluster,
}

/// Programs that the tests call and a small machine may lack: `ssh-keygen`, `sshd`, `kill`, `ip`, `pdsh`,
/// `python3` for the launchers that are written in it, and two MPIs for jobs on this machine.
const PACKAGES: &[&str] = &[
    "openssh-client",
    "openssh-server",
    "procps",
    "iproute2",
    "pdsh",
    "python3-venv",
    "libopenmpi-dev",
    "openmpi-bin",
    "mpich",
];

/// Tests that need nothing but cargo.
const WITHOUT_CLUSTER: [&str; 7] = [
    "--workspace",
    "--exclude",
    "e2e",
    "--exclude",
    "cli",
    "--exclude",
    "minicluster",
];
/// Those of the model, without what compares it with the real one.
const MODEL_ALONE: [&str; 9] = [
    "--package",
    "minicluster",
    "--lib",
    "--test",
    "client",
    "--test",
    "controller",
    "--test",
    "controllers",
];

/// MPI jobs mostly wait for one another; more at once than this and they wait for the processors.
const CLUSTER_TEST_THREADS: &str = "4";

pub(crate) fn run(args: Args) -> Result<()> {
    let interrupts = Interrupts::watch()?;
    let stages = Stages {
        interrupts: interrupts.clone(),
        keep: args.keep,
        words: args.words,
    };
    let mut report = Report::new(interrupts);
    let wanted = |group| args.only.is_none_or(|only| only == group);

    report.stage("packages", || {
        packages::ensure(PACKAGES).map(|()| Tally::default())
    });
    if wanted(Group::Unit) {
        report.stage("rustfmt", || {
            let result = stages.check("fmt", &["--all", "--", "--check", "-l"]);
            result.context("not formatted: run `cargo fmt --all`")
        });
        report.stage("tidy", || {
            tidy::run(tidy::Args {}).map(|()| Tally::default())
        });
        report.stage("clippy", || {
            let words = ["--workspace", "--all-targets", "--", "-D", "warnings"];
            stages.check("clippy", &words)
        });
        report.stage("unit tests", || {
            let mut tally = stages.tests(cargo("test").args(WITHOUT_CLUSTER))?;
            tally += stages.tests(cargo("test").args(MODEL_ALONE))?;
            // What judges the clusters is judged first.
            tally += stages.tests(cargo("test").args(["--package", "e2e", "--lib"]))?;
            Ok(tally)
        });
    }
    // A cluster costs minutes; what cargo alone can find is worth mending first.
    let sound = report.all_passed();
    if !sound && args.only.is_none() {
        println!("\n== local, api and cluster tests: not run, because of the failures above");
    }
    if sound && wanted(Group::Local) {
        report.stage("local tests", || stages.local());
    }
    if sound && wanted(Group::Api) {
        report.stage("api tests", || stages.api());
    }
    if sound && wanted(Group::Cluster) {
        report.stage("cluster tests", || stages.cluster());
    }
    // The closing line has said it all; an error below it would only hide it.
    std::process::exit(report.close());
}

/// What the stages have in common.
struct Stages {
    interrupts: Interrupts,
    keep: bool,
    words: Vec<String>,
}

impl Stages {
    /// A component of the toolchain that finds fault or does not.
    fn check(&self, subcommand: &str, words: &[&str]) -> Result<Tally> {
        if !command::succeeds(cargo(subcommand).arg("--version")) {
            let component = if subcommand == "fmt" {
                "rustfmt"
            } else {
                subcommand
            };
            bail!("{component} is missing: `rustup component add {component}` installs it");
        }
        self.run(cargo(subcommand).args(words), |_| {})?;
        Ok(Tally::default())
    }

    /// Test programs, all of them even if some fail.
    fn tests(&self, cargo_test: &mut Command) -> Result<Tally> {
        cargo_test.args(["--no-fail-fast", "--"]).args(&self.words);
        let mut tally = Tally::default();
        if let Err(error) = self.run(cargo_test, |line| tally += Tally::of_line(line))
            && tally.failed == 0
        {
            println!("{error:#}: no test failed, so one did not compile, or ended early");
            tally.failed = 1;
        }
        Ok(tally)
    }

    /// With the kubectl of this Kubernetes, whatever else is on the path.
    fn local(&self) -> Result<Tally> {
        let mut path = vec![cluster::kubectl_directory()?];
        path.extend(std::env::split_paths(
            &std::env::var_os("PATH").unwrap_or_default(),
        ));
        let path = std::env::join_paths(path)?;
        let kubectl = ["--package", "minicluster", "--test", "kubectl"];
        let mut tally = self.tests(cargo("test").args(["--package", "cli"]).env("PATH", &path))?;
        tally += self.tests(cargo("test").args(kubectl).env("PATH", &path))?;
        Ok(tally)
    }

    fn api(&self) -> Result<Tally> {
        let operator = images::operator_program()?;
        let clients = clients::environment()?;
        self.with_cluster("testapi", 0, Vec::new(), |running| {
            // The model is only worth what it shares with the real one.
            let conformance = ["--package", "minicluster", "--test", "conformance"];
            let mut conforms = cargo("test");
            let mut tally = self.tests(conforms.args(conformance).envs(environment(running)))?;
            let mut tests = cargo("test");
            tests.args(["--package", "e2e", "--test", "api"]);
            tally += self.tests(
                tests
                    .envs(environment(running))
                    .envs(clients)
                    .env("MUSTER_E2E_OPERATOR", &operator),
            )?;
            Ok(tally)
        })
    }

    fn cluster(&self) -> Result<Tally> {
        let archives = images::ensure_all()?;
        let operator = images::operator_program()?;
        let clients = clients::environment()?;
        self.with_cluster("test", 3, archives, |running| {
            let mut tests = cargo("test");
            tests.args(["--package", "e2e", "--test", "cluster"]);
            tests.env("RUST_TEST_THREADS", CLUSTER_TEST_THREADS);
            self.tests(
                tests
                    .envs(environment(running))
                    .envs(clients)
                    .env("MUSTER_E2E_OPERATOR", &operator),
            )
        })
    }

    fn with_cluster(
        &self,
        name: &str,
        nodes: u8,
        archives: Vec<PathBuf>,
        tests: impl FnOnce(&Running) -> Result<Tally>,
    ) -> Result<Tally> {
        let guard = Guard {
            name,
            keep: self.keep,
        };
        if !self.keep {
            cluster::down(name)?; // what an earlier run left could make these tests pass or fail
        }
        let running = cluster::up(&Spec {
            name: name.to_owned(),
            nodes,
            archives,
        })?;
        let result = tests(&running);
        if !matches!(&result, Ok(tally) if tally.failed == 0) {
            println!("logs of the cluster: {}", running.state_dir.display());
        }
        guard.close()?;
        result
    }

    /// Runs a program whose output goes through to ours.
    fn run(&self, command: &mut Command, mut on_line: impl FnMut(&str)) -> Result<()> {
        let status = self.interrupts.run(command, |line| {
            println!("{line}");
            on_line(line);
        })?;
        let words = command.get_args().map(|word| word.to_string_lossy());
        let words = words.collect::<Vec<_>>().join(" ");
        ensure!(status.success(), "`cargo {words}` failed: {status}");
        Ok(())
    }
}

/// Ends a cluster when it goes, also by way of an error or a panic.
struct Guard<'a> {
    name: &'a str,
    keep: bool,
}

impl Guard<'_> {
    /// The same, but what cannot be cleaned up is an error.
    fn close(mut self) -> Result<()> {
        if std::mem::replace(&mut self.keep, true) {
            println!(
                "the cluster stays up; end it with `cargo xtask cluster down --name {}`",
                self.name
            );
            return Ok(());
        }
        cluster::down(self.name)
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if self.keep {
            return;
        }
        if let Err(error) = cluster::down(self.name) {
            eprintln!("cannot end the cluster {}: {error:#}", self.name);
        }
    }
}

fn cargo(subcommand: &str) -> Command {
    let mut cargo = command::cargo(subcommand);
    cargo.current_dir(root());
    cargo
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask lies in the root of the repository")
}

/// What tests need to know of a cluster.
fn environment(running: &Running) -> [(&'static str, &Path); 4] {
    [
        ("KUBECONFIG", &running.kubeconfig),
        ("KUBECTL", &running.kubectl),
        ("AUDIT_LOG", &running.audit_log),
        ("MUSTER_E2E_STATE", &running.state_dir),
    ]
}
