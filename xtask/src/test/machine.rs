//! What this machine has of what the tests need, asked before any of them runs. Decides which parts of the tests can run
//! here, and the sentence that says why another cannot. Installs nothing.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, ensure};
use clap::ValueEnum as _;

use super::Group;
use super::report::Report;
use crate::artifacts::Artifact;
use crate::{command, packages};

/// Programs that the tests call and a small machine may lack: `ssh-keygen`, `sshd`, `kill`, `ip`, `pdsh`,
/// `python3` for the launchers that are written in it, two MPIs for jobs on this machine, programs of recipes,
/// and a browser for pages.
pub(super) const PACKAGES: &[&str] = &[
    "openssh-client",
    "openssh-server",
    "procps",
    "iproute2",
    "pdsh",
    "python3-venv",
    "libopenmpi-dev",
    "openmpi-bin",
    "mpich",
    "lammps",
    "hpcc",
    "chromium",
    packages::BROWSER_FONT,
];
/// Compiles Kubernetes.
const GO: Version = Version(1, 26);
/// What flytekit and the training SDK run with.
const PYTHON: [Version; 2] = [Version(3, 10), Version(3, 12)];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Version(u32, u32);

/// What was found on a machine.
#[derive(Clone, Debug, Default)]
pub(super) struct Machine {
    is_root: bool,
    is_amd64: bool,
    has_compiler: bool,
    /// Packages can be installed, by root.
    is_debian: bool,
    missing_packages: Vec<String>,
    go: Option<Version>,
    python: Option<Version>,
    kubectl: Option<PathBuf>,
}

impl Machine {
    /// This one.
    pub(super) fn here() -> Self {
        let said = |program: &str, word: &str| {
            let text = command::output(Command::new(program).arg(word)).ok()?;
            version(&text)
        };
        Self {
            is_root: rustix::process::geteuid().is_root(),
            is_amd64: cfg!(target_arch = "x86_64"),
            has_compiler: packages::on_path("cc").is_some(),
            is_debian: packages::is_debian(),
            missing_packages: packages::missing(PACKAGES),
            go: said("go", "version"),
            python: said("python3", "--version"),
            kubectl: packages::on_path("kubectl"),
        }
    }

    /// Why the tests of a part cannot run here; nothing if they can.
    pub(super) fn lacks(&self, group: Group) -> Vec<String> {
        let mut lacks = Vec::new();
        let mut needs = |has: bool, what: &str| {
            if !has {
                lacks.push(what.to_owned());
            }
        };
        needs(self.has_compiler, "a C compiler, called cc");
        if !group.needs_cluster() {
            return lacks;
        }
        let can_install = self.is_root && self.is_debian;
        let missing = self.missing_packages.join(" ");
        let packages = match self.is_debian {
            true => format!("root, or first as root: apt-get install {missing}"),
            false => format!("what Debian has in the packages {missing}"),
        };
        needs(missing.is_empty() || can_install, &packages);
        let has_go = self.go.is_some_and(|go| go >= GO);
        if group == Group::Local {
            let has_kubectl = self.kubectl.is_some();
            needs(has_go || has_kubectl, "kubectl, or Go 1.26 to build it");
            return lacks;
        }
        needs(has_go, "Go 1.26, which compiles Kubernetes");
        let python = self
            .python
            .filter(|python| (PYTHON[0]..=PYTHON[1]).contains(python));
        let needs_python = group != Group::Size;
        needs(!needs_python || python.is_some(), "Python 3.10 to 3.12");
        if group != Group::Api {
            let nodes = "root: nodes are made of namespaces and control groups";
            needs(self.is_root, nodes);
        }
        if matches!(group, Group::Cluster | Group::Queues) {
            needs(self.is_debian, "Debian, of whose packages nodes are made");
            needs(self.is_amd64, "x86-64, for which test images are made");
        }
        lacks
    }

    /// Leaves out, and says at once, what this machine cannot run. What was asked for by name, or by a machine that
    /// tests for others, is an error instead.
    pub(super) fn leave_out(
        &self,
        groups: &mut Vec<Group>,
        only: Option<Group>,
        report: &mut Report,
    ) -> Result<()> {
        let must_run = only.is_some() || std::env::var_os("CI").is_some();
        for group in groups.clone() {
            let lacks = self.lacks(group).join("; ");
            if lacks.is_empty() {
                continue;
            }
            let part = group.to_possible_value().expect("no part is hidden");
            let part = part.get_name();
            let why = format!("{part} tests cannot run here, for they need {lacks}");
            ensure!(!must_run, "{why}");
            println!("{why}");
            groups.retain(|other| *other != group);
            report.leave_out(why);
        }
        ensure!(!groups.is_empty(), "nothing is left to run");
        Ok(())
    }

    /// Whether this can be built here, and must be.
    pub(super) fn builds(&self, artifact: Artifact) -> bool {
        artifact != Artifact::Kubernetes || self.own_kubectl().is_none()
    }

    /// kubectl, where it cannot be built and is there.
    pub(super) fn own_kubectl(&self) -> Option<PathBuf> {
        let builds = self.go.is_some_and(|go| go >= GO);
        self.kubectl.clone().filter(|_| !builds)
    }
}

/// Of what a program says of itself: `Python 3.11.2`, `go version go1.26.1 linux/amd64`.
fn version(said: &str) -> Option<Version> {
    let word = said.split_whitespace().find_map(|word| {
        let word = word.trim_start_matches("go");
        let begins = word.starts_with(|first: char| first.is_ascii_digit());
        begins.then_some(word)
    })?;
    let mut parts = word.split(|part: char| !part.is_ascii_digit());
    let mut next = || parts.next()?.parse().ok();
    Some(Version(next()?, next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete() -> Machine {
        Machine {
            is_root: true,
            is_amd64: true,
            has_compiler: true,
            is_debian: true,
            missing_packages: vec!["mpich".to_owned()],
            go: Some(GO),
            python: Some(PYTHON[1]),
            kubectl: None,
        }
    }

    #[test]
    fn a_machine_that_lacks_nothing_runs_everything() {
        for group in Group::value_variants() {
            assert_eq!(complete().lacks(*group), Vec::<String>::new());
        }
    }

    #[test]
    fn tests_that_need_only_cargo_run_without_root_and_debian() {
        let bare = Machine {
            has_compiler: true,
            missing_packages: vec!["mpich".to_owned()],
            ..Machine::default()
        };
        assert!(bare.lacks(Group::Unit).is_empty() && bare.lacks(Group::Weather).is_empty());
        let lacks = bare.lacks(Group::Local);
        let expected = [
            "what Debian has in the packages mpich",
            "kubectl, or Go 1.26 to build it",
        ];
        assert_eq!(lacks, expected);
        let lacks = bare.lacks(Group::Cluster).join("; ");
        for word in ["Go 1.26", "Python", "root", "Debian", "x86-64"] {
            assert!(lacks.contains(word), "{word} is not in {lacks}");
        }
    }

    #[test]
    fn without_root_the_command_to_install_is_named() {
        let user = Machine {
            is_root: false,
            ..complete()
        };
        let expected = ["root, or first as root: apt-get install mpich"];
        assert_eq!(user.lacks(Group::Local), expected);
        let prepared = Machine {
            missing_packages: Vec::new(),
            ..user
        };
        assert!(prepared.lacks(Group::Local).is_empty());
        assert!(prepared.lacks(Group::Api).is_empty());
        assert!(!prepared.lacks(Group::Cluster).is_empty());
    }

    #[test]
    fn versions_are_read_from_what_programs_say() {
        assert_eq!(version("Python 3.11.2"), Some(Version(3, 11)));
        let go = "go version go1.26.1 linux/amd64";
        assert_eq!(version(go), Some(Version(1, 26)));
        assert_eq!(version("go version devel"), None);
    }
}
