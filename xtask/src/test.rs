//! Everything that must hold before a change lands. Decides which stages there are, in which order,
//! what each needs, and that nothing outlives the tests, however they end. Must not know how clusters
//! and images are made, nor what is tested.

mod builds;
mod foreign;
mod leftovers;
mod machine;
mod report;
mod tally;
mod unit;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;
use std::thread;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;

use crate::artifacts::Artifact;
use crate::cluster::{self, Guard, Running, Spec};
use crate::command::cargo;
use crate::interrupts::Interrupts;
use crate::{clients, command, gangs, images, packages, queues, weather};
use builds::Builds;
use foreign::Foreign;
use leftovers::Sandbox;
use machine::{Machine, PACKAGES};
use report::Report;
use tally::{Reader, Tally};

/// Arguments of this chore.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Run these stages only
    #[arg(long)]
    only: Option<Group>,
    /// Run also the stages that are slow and that few changes concern (`make test-all`)
    #[arg(long)]
    all: bool,
    /// Leave clusters running when their tests have ended
    #[arg(long)]
    keep: bool,
    #[command(flatten)]
    foreign: foreign::Elsewhere,
    /// Words for the test programs, such as part of a test's name
    #[arg(last = true)]
    words: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Group {
    /// Format, tidy, clippy, and the tests that need nothing but cargo
    Unit,
    /// Tests of local mode: real processes and real mpirun on this machine
    Local,
    /// Tests against a real API server without nodes
    Api,
    /// Tests of ten thousand workers and hostile tenants, against a real API server without nodes
    Size,
    /// Tests against a real cluster with three nodes and real MPI
    Cluster,
    /// The same with queues of others, which take long to build
    Queues,
    /// The operator in bad weather, in simulated time; with --all for an hour
    Weather,
}

impl Group {
    /// Cargo alone cannot run it.
    fn needs_cluster(self) -> bool {
        !matches!(self, Self::Unit | Self::Weather)
    }
}

/// MPI jobs mostly wait for one another; more at once than this and they wait for the processors.
const CLUSTER_TEST_THREADS: &str = "4";

/// What a stage needs and is slow to build.
fn needs(group: Group) -> &'static [Artifact] {
    use Artifact::{
        Agent, Flyte, Gangs, Helm, Images, Kubernetes, Operator, PodGroups, Python, Queues,
    };
    match group {
        Group::Unit | Group::Weather => &[],
        Group::Local => &[Kubernetes],
        Group::Api => &[Kubernetes, Operator, Python, Flyte, PodGroups],
        Group::Size => &[Kubernetes, Operator],
        Group::Cluster => &[Kubernetes, Operator, Python, Flyte, Agent, Helm, Images],
        Group::Queues => &[
            Kubernetes, Operator, Python, Flyte, Agent, Helm, Images, Queues, Gangs,
        ],
    }
}

pub(crate) fn run(args: Args) -> Result<()> {
    let interrupts = Interrupts::watch()?;
    let machine = Machine::here();
    let foreign = args.foreign.cluster(args.only)?;
    let mut groups = match args.only {
        Some(group) => vec![group],
        // Big jobs take minutes on a machine that does nothing else, and much longer elsewhere; queues
        // take minutes to build.
        None => {
            let mut groups = Group::value_variants().to_vec();
            let slow = |group: &Group| matches!(group, Group::Size | Group::Queues);
            groups.retain(|group| args.all || !slow(group));
            groups
        }
    };
    let mut report = Report::new(interrupts.clone());
    if foreign.is_none() {
        machine.leave_out(&mut groups, args.only, &mut report)?;
    }
    let sandbox = Sandbox::new()?;
    report.stage("packages", || {
        if groups.iter().any(|group| group.needs_cluster()) {
            packages::ensure(PACKAGES)?;
        }
        if groups.contains(&Group::Api) {
            packages::ensure(&["prometheus"])?;
        }
        // What is fetched and small is fetched first, so that a machine without a network says so at once.
        if groups.contains(&Group::Local) {
            clients::mpi4py()?;
        }
        if groups.contains(&Group::Local) || groups.contains(&Group::Cluster) {
            clients::axe()?;
        }
        // Now, and not while the tests of a stage wait for it.
        if foreign.is_none() && groups.iter().any(|group| group.needs_cluster()) {
            let with_nodes = [Group::Cluster, Group::Queues];
            cluster::install_packages(with_nodes.iter().any(|group| groups.contains(group)))?;
        }
        Ok(Tally::default())
    });
    let wanted: BTreeSet<_> = groups.iter().flat_map(|group| needs(*group)).collect();
    let mut wanted: Vec<_> = wanted.into_iter().copied().collect();
    wanted.retain(|artifact| match &foreign {
        Some(foreign) => foreign.needs(*artifact),
        None => machine.builds(*artifact),
    });
    let mut words = args.words;
    words.extend(foreign.iter().flat_map(Foreign::words));
    let stages = Stages {
        wanted: wanted.clone(),
        foreign,
        machine,
        builds: Builds::start(interrupts.clone(), &wanted)?,
        interrupts,
        sandbox,
        keep: args.keep,
        all: args.all,
        words,
    };
    stages.run(&groups, &report);
    let Stages {
        builds, sandbox, ..
    } = stages;
    let builds = builds.stop();
    report.stage("leftovers", || sandbox.close().map(|()| Tally::default()));
    // The closing line has said it all; an error below it would only hide it.
    std::process::exit(report.close(&builds));
}

/// What the stages have in common.
struct Stages {
    /// What is built.
    wanted: Vec<Artifact>,
    /// Where the tests with nodes run, if not on a cluster that they start.
    foreign: Option<Foreign>,
    machine: Machine,
    interrupts: Interrupts,
    builds: Builds,
    sandbox: Sandbox,
    keep: bool,
    all: bool,
    words: Vec<String>,
}

impl Stages {
    fn run(&self, groups: &[Group], report: &Report) {
        let wanted = |group| groups.contains(&group);
        if wanted(Group::Unit) {
            self.unit(report);
        }
        if wanted(Group::Weather) && report.all_passed() {
            report.stage("bad weather", || self.weather());
        }
        if groups.iter().any(|group| group.needs_cluster()) && report.all_passed() {
            // Before any stage waits for what is built beside them.
            report.stage("compile", || self.compile(groups));
        }
        // A cluster costs minutes; what cargo alone can find is worth mending first.
        if !report.all_passed() {
            println!("\n== other tests: not run, because of the failures above");
            return;
        }
        // They share neither a cluster nor a directory, and mostly wait.
        thread::scope(|scope| {
            if wanted(Group::Local) {
                scope.spawn(|| report.stage("local tests", || self.local()));
            }
            if wanted(Group::Api) {
                scope.spawn(|| report.stage("api tests", || self.api()));
            }
        });
        if wanted(Group::Cluster) && report.all_passed() {
            report.stage("cluster tests", || self.cluster());
        }
        if wanted(Group::Queues) && report.all_passed() {
            report.stage("queue tests", || self.queues());
        }
        if wanted(Group::Size) && report.all_passed() {
            report.stage("size tests", || self.size());
        }
    }

    /// The test programs of the stages that need more than cargo.
    fn compile(&self, groups: &[Group]) -> Result<Tally> {
        let mut packages = BTreeSet::new();
        for group in groups {
            packages.extend(match group {
                Group::Unit | Group::Weather => &[][..],
                Group::Local => &["cli", "minicluster"],
                Group::Api => &["minicluster", "e2e"],
                Group::Size | Group::Cluster | Group::Queues => &["e2e"],
            });
        }
        // One after the other: together they would have other features, and be compiled anew.
        for package in packages {
            let words = ["--no-run", "--quiet", "--package", package];
            self.program("", cargo("test").args(words), |_| {})?;
        }
        Ok(Tally::default())
    }

    /// With the kubectl of this Kubernetes, whatever else is on the path.
    fn local(&self) -> Result<Tally> {
        self.await_builds(Group::Local)?;
        let inherited = std::env::var_os("PATH").unwrap_or_default();
        let kubectl = match self.machine.own_kubectl() {
            Some(kubectl) => kubectl.parent().context("it lies nowhere")?.to_owned(),
            None => cluster::kubectl_directory()?,
        };
        let path = std::iter::once(kubectl).chain(std::env::split_paths(&inherited));
        let path = std::env::join_paths(path)?;
        let kubectl = ["--package", "minicluster", "--test", "kubectl"];
        let mut tests = cargo("test");
        tests.args(["--package", "cli"]).env("PATH", &path);
        // Fetched once, so that a test that installs it needs no network.
        tests.env("PIP_FIND_LINKS", clients::mpi4py()?);
        tests.env("PIP_NO_INDEX", "1");
        tests.envs([clients::axe()?]);
        let mut tally = self.tests_of_real_parts("local", &mut tests)?;
        tally +=
            self.tests_of_real_parts("local", cargo("test").args(kubectl).env("PATH", &path))?;
        Ok(tally)
    }

    fn api(&self) -> Result<Tally> {
        self.await_builds(Group::Api)?;
        self.with_cluster("testapi", 0, Vec::new(), |environment| {
            // The model is only worth what it shares with the real one.
            let conformance = ["--package", "minicluster", "--test", "conformance"];
            let mut conforms = cargo("test");
            let mut tally = self
                .tests_of_real_parts("api", conforms.args(conformance).envs(environment.clone()))?;
            let mut tests = cargo("test");
            tests.args(["--package", "e2e", "--test", "api"]);
            tests.envs(clients::environment()?);
            tests.env("MUSTER_E2E_POD_GROUPS", gangs::pod_groups()?);
            tally += self.tests_of_real_parts("api", tests.envs(environment))?;
            Ok(tally)
        })
    }

    fn size(&self) -> Result<Tally> {
        self.await_builds(Group::Size)?;
        self.with_cluster("testsize", 0, Vec::new(), |environment| {
            let mut tests = cargo("test");
            tests.args(["--package", "e2e", "--test", "size"]);
            // Where times are checked, the tests themselves must take little of the machine.
            if std::env::var_os("MUSTER_QUIET_MACHINE").is_some() {
                tests.args(["--profile", "weather"]);
            }
            self.tests("", tests.envs(environment))
        })
    }

    fn weather(&self) -> Result<Tally> {
        let mut checks = weather::checks();
        if self.all {
            checks.extend(weather::long_checks()?);
        }
        for mut check in checks {
            self.program("", &mut check, |_| {})?;
        }
        Ok(Tally::default())
    }

    fn cluster(&self) -> Result<Tally> {
        self.await_builds(Group::Cluster)?;
        let Some(foreign) = &self.foreign else {
            return self.with_cluster("test", 3, images::ensure_all()?, |environment| {
                self.tests_with_nodes(environment)
            });
        };
        let directory = tempfile::tempdir().context("cannot make a directory")?;
        let running = foreign.prepared(directory.path())?;
        self.tests_with_nodes(environment(&running)?)
    }

    fn tests_with_nodes(&self, environment: Environment) -> Result<Tally> {
        let mut tests = cargo("test");
        tests.args(["--package", "e2e", "--test", "cluster"]);
        tests.env("RUST_TEST_THREADS", CLUSTER_TEST_THREADS);
        tests.env("MUSTER_E2E_HELM", clients::helm()?);
        tests.envs([clients::axe()?]);
        self.program(
            "",
            cargo("build").args(["--package", "cli", "--quiet"]),
            |_| {},
        )?;
        tests.env("MUSTER_E2E_CLI", command::built("muster")?);
        tests.envs(clients::environment()?);
        self.tests_of_real_parts("", tests.envs(environment))
    }

    fn await_builds(&self, group: Group) -> Result<()> {
        let mut builds = needs(group).to_vec();
        builds.retain(|artifact| self.wanted.contains(artifact));
        self.builds.wait_for(&builds)
    }

    fn queues(&self) -> Result<Tally> {
        self.await_builds(Group::Queues)?;
        let (kueue, schedulers) = (queues::kueue()?, gangs::schedulers()?);
        let stacks = [
            "openmpi4",
            "openmpi4-nossh",
            "muster-operator",
            "muster-agent",
        ];
        let mut archives = images::ensure(&stacks)?;
        let others = schedulers.iter().map(|(_, one)| one).chain([&kueue]);
        archives.extend(others.flat_map(|queue| queue.archives.clone()));
        self.with_cluster("testqueues", 3, archives, |environment| {
            let mut tests = cargo("test");
            tests.args(["--package", "e2e", "--test", "queues"]);
            tests.envs(clients::environment()?);
            tests.env("MUSTER_E2E_KUEUE", &kueue.manifest);
            let manifests = schedulers.iter();
            tests.envs(manifests.map(|(variable, one)| (variable, &one.manifest)));
            tests.env("RUST_TEST_THREADS", CLUSTER_TEST_THREADS);
            self.tests_of_real_parts("", tests.envs(environment))
        })
    }

    fn with_cluster(
        &self,
        name: &'static str,
        nodes: u8,
        archives: Vec<PathBuf>,
        tests: impl FnOnce(Environment) -> Result<Tally>,
    ) -> Result<Tally> {
        let guard = Guard::new(name, self.keep);
        if !self.keep {
            cluster::down(name)?; // what an earlier run left could make these tests pass or fail
        }
        let running = cluster::up(&Spec {
            name: name.to_owned(),
            nodes,
            archives,
        })?;
        let result = environment(&running).and_then(tests);
        if !matches!(&result, Ok(tally) if tally.failed == 0) {
            println!("logs of the cluster: {}", running.state_dir.display());
        }
        guard.close()?;
        result
    }

    /// Test programs, all of them even if some fail.
    fn tests(&self, label: &str, cargo_test: &mut Command) -> Result<Tally> {
        cargo_test.args(["--no-fail-fast", "--"]).args(&self.words);
        self.run_tests(label, cargo_test)
    }

    fn run_tests(&self, label: &str, cargo_test: &mut Command) -> Result<Tally> {
        let mut reader = Reader::default();
        let result = self.program(label, cargo_test, |line| reader.line(line));
        let mut tally = reader.close();
        if let Err(error) = result
            && tally.failed == 0
        {
            println!("{error:#}: no test failed, so one did not compile, or ended early");
            tally.failed = 1;
        }
        Ok(tally)
    }

    /// Tests of real parts. They share a machine with whatever else runs there, so one that fails runs
    /// once more, alone; the closing table names it whatever comes of that.
    fn tests_of_real_parts(&self, label: &str, cargo_test: &mut Command) -> Result<Tally> {
        let tally = self.tests(label, cargo_test)?;
        let Some(failed) = tally.worth_another_run() else {
            return Ok(tally);
        };
        println!("\n== once more, alone: {}", failed.join(", "));
        cargo_test
            .args(["--test-threads=1", "--exact"])
            .args(failed);
        let again = self.run_tests(label, cargo_test)?;
        Ok(tally.after_another_run(again))
    }

    /// Runs a program whose output goes through to ours, labelled if it may mix with another's.
    fn program(
        &self,
        label: &str,
        command: &mut Command,
        mut on_line: impl FnMut(&str),
    ) -> Result<()> {
        self.sandbox.apply(command);
        let status = self.interrupts.run(command, |line| {
            match label {
                "" => println!("{line}"),
                label => println!("{label:>5} | {line}"),
            }
            on_line(line);
        })?;
        let words = command.get_args().map(|word| word.to_string_lossy());
        let words = words.collect::<Vec<_>>().join(" ");
        ensure!(status.success(), "`cargo {words}` failed: {status}");
        Ok(())
    }
}

type Environment = Vec<(&'static str, PathBuf)>;

/// What tests need to know of a cluster, and of the operator.
fn environment(running: &Running) -> Result<Environment> {
    Ok(vec![
        ("MUSTER_E2E_OPERATOR", images::operator_program()?),
        ("KUBECONFIG", running.kubeconfig.clone()),
        ("KUBECTL", running.kubectl.clone()),
        ("AUDIT_LOG", running.audit_log.clone()),
        ("MUSTER_E2E_STATE", running.state_dir.clone()),
    ])
}
