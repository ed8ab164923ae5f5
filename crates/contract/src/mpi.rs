//! What differs between MPI implementations. One row for each launcher says how it is configured, how
//! its daemons and ranks are recognised, and how it behaves.
//! Decides facts only: the planner and the agent choose which of them a pod needs.
//!
//! A new family is a variant of [`Mpi`] and a row; the compiler asks for everything in it.

mod launchers;

pub use launchers::*;

use crate::files::{HOSTFILE_HYDRA, HOSTFILE_OPENMPI};
use crate::vocabulary::vocabulary;

vocabulary! {
    /// A family of MPI implementations, under the name that users write.
    pub enum Mpi {
        /// Open MPI 4 (ORTE) and 5 (PRRTE).
        OpenMpi = "OpenMPI",
        /// MPICH and others that use its Hydra.
        Mpich = "MPICH",
        /// Intel MPI.
        Intel,
    }
}

impl Mpi {
    /// The names of all families, in alphabetical order.
    pub const NAMES: [&str; Self::ALL.len()] = {
        let mut names = [""; Self::ALL.len()];
        let mut index = 0;
        while index < names.len() {
            // Each name goes before the first that is greater.
            let mut at = index;
            names[at] = Self::ALL[index].as_str();
            while at > 0 && precedes(names[at].as_bytes(), names[at - 1].as_bytes()) {
                names.swap(at, at - 1);
                at -= 1;
            }
            index += 1;
        }
        names
    };

    /// Its launchers, the one of the oldest version first.
    pub const fn launchers(self) -> &'static [&'static MpiLauncher] {
        match self {
            Self::OpenMpi => &[&ORTE, &PRRTE],
            Self::Mpich => &[&HYDRA],
            Self::Intel => &[&INTEL],
        }
    }

    /// How its host list is spelled.
    pub const fn host_list(self) -> HostListSyntax {
        self.launchers()[0].host_list
    }

    /// Whether its launchers refuse more ranks than the host list has slots, instead of starting
    /// them.
    pub fn refuses_oversubscription(self) -> bool {
        self.launchers()
            .iter()
            .any(|launcher| launcher.refuses_oversubscription)
    }

    /// Whether its launchers call their remote shell on the launcher alone, for this many workers.
    pub fn calls_from_launcher_alone(self, workers: u32) -> bool {
        let launchers = self.launchers().iter();
        let mut limits = launchers.filter_map(|launcher| launcher.tree_above);
        limits.all(|limit| workers <= limit)
    }
}

/// Bytewise, for names of which none begins another.
const fn precedes(one: &[u8], other: &[u8]) -> bool {
    let mut index = 0;
    while one[index] == other[index] {
        index += 1;
    }
    one[index] < other[index]
}

/// One launcher: an `mpirun` and its daemons.
#[derive(Debug, PartialEq, Eq)]
pub struct MpiLauncher {
    /// Variables that configure it.
    pub variables: &'static [Variable],
    /// How its host list is spelled.
    pub host_list: HostListSyntax,
    /// Programs that it starts on other hosts through its remote shell.
    pub daemons: &'static [&'static str],
    /// Options of its daemons that name the launcher's host.
    pub callback_options: &'static [&'static str],
    /// Option by which daemons learn the launcher's remote shell. They refuse to start on a host that
    /// does not have it.
    pub shell_option: Option<&'static str>,
    /// Workers beyond which daemons start other daemons, unless [`Setting::FanOut`] or
    /// [`Setting::NoTree`] forbids it.
    pub tree_above: Option<u32>,
    /// Variables in which a rank finds its number.
    pub rank_variables: &'static [&'static str],
    /// Variables in which a rank finds how many ranks are on its host.
    pub local_size_variables: &'static [&'static str],
    /// How to put a program in front of every rank.
    pub rank_wrapper: RankWrapper,
    /// When a rank has failed it ends the others with SIGKILL at once, not with SIGTERM first.
    pub kills_at_once: bool,
    /// Exit code of a rank that lost its connection to another.
    pub peer_lost_code: Option<u8>,
    /// Two of its daemons hang when their hosts have the same name.
    pub needs_host_names: bool,
    /// Refuses more ranks than the host list has slots.
    pub refuses_oversubscription: bool,
}

impl MpiLauncher {
    /// All launchers.
    pub fn all() -> impl Iterator<Item = &'static Self> {
        Mpi::ALL.into_iter().flat_map(Mpi::launchers).copied()
    }

    /// The launcher that starts this daemon.
    pub fn of_daemon(daemon: &str) -> Option<&'static Self> {
        Self::all().find(|launcher| launcher.daemons.contains(&daemon))
    }

    /// Its variables, for those settings that have a value.
    pub fn variables<V>(
        &'static self,
        value: impl Fn(Setting) -> Option<V>,
    ) -> impl Iterator<Item = (&'static str, V)> {
        let variables = self.variables.iter();
        variables.filter_map(move |variable| Some((variable.name, value(variable.setting)?)))
    }
}

/// A variable that a launcher reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// What it configures.
    pub setting: Setting,
    /// What becomes of it in jobs whose workers run an sshd.
    pub over_ssh: OverSsh,
}

/// What a launcher is told. Several variables of a launcher may have one setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// The program that is called as `PROGRAM HOST COMMAND…`.
    RemoteShell,
    /// Its kind.
    ShellKind,
    /// Further arguments of it.
    ShellArguments,
    /// The file with the host list.
    HostList,
    /// Ranks per host where the host list does not count.
    Slots,
    /// Host names are not cut at the first dot.
    KeepDomains,
    /// The same, where a launcher cuts only names that are not fully qualified.
    KeepDots,
    /// How many daemons a daemon starts: all of them, from the launcher. A tree of daemons would need
    /// the launcher's key on workers.
    FanOut,
    /// How many daemons are started at the same time. With fewer than there are hosts, Open MPI waits
    /// forever.
    Concurrency,
    /// No daemon starts other daemons.
    NoTree,
    /// Root may run it.
    AllowRoot,
    /// The network interface by whose address daemons connect back.
    Interface,
    /// Ranks may run on every core of their host, where a word says so.
    NoBinding,
    /// The same, where a number says so.
    NoPinning,
    /// A rank that waits for a message lets others use its core.
    YieldWhenIdle,
    /// For how many seconds a daemon waits between SIGTERM and SIGKILL when it ends ranks because another has
    /// failed. It waits as long even if none is left.
    KillDelay,
}

impl Setting {
    /// The value that muster gives it in every job of this many workers. None where the value depends
    /// on more.
    pub fn usual_value(self, workers: usize) -> Option<String> {
        match self {
            Self::ShellKind => Some("ssh".to_owned()),
            Self::KeepDomains | Self::KeepDots => Some("true".to_owned()),
            Self::FanOut => Some(workers.max(64).to_string()),
            Self::Concurrency => Some(workers.max(128).to_string()),
            Self::NoTree => Some("0".to_owned()),
            Self::AllowRoot | Self::YieldWhenIdle => Some("1".to_owned()),
            Self::NoBinding => Some("none".to_owned()),
            Self::NoPinning => Some("0".to_owned()),
            Self::RemoteShell
            | Self::ShellArguments
            | Self::HostList
            | Self::Slots
            | Self::Interface
            | Self::KillDelay => None,
        }
    }

    /// Names of all variables, of all launchers, that have this setting.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let variables = MpiLauncher::all().flat_map(|launcher| launcher.variables);
        let of_setting = variables.filter(move |variable| variable.setting == self);
        of_setting.map(|variable| variable.name)
    }
}

/// What becomes of a variable in jobs whose workers run an sshd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverSsh {
    /// It is not set.
    Never,
    /// Set first, as Kubeflow's operator does.
    First,
    /// Set after all others, for versions that do not read the names above.
    Last,
    /// Set where the user has not set it.
    IfUnset,
}

/// How to put a program in front of every rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RankWrapper {
    /// The launcher has no setting for it.
    None,
    /// Its daemons read this variable.
    ReadByDaemons(&'static str),
    /// The launcher reads this variable, and these words follow the program.
    ReadByLauncher(&'static str, &'static str),
}

impl RankWrapper {
    /// The variable.
    pub fn variable(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::ReadByDaemons(name) | Self::ReadByLauncher(name, _) => Some(name),
        }
    }
}

vocabulary! {
    /// How a host list states how many ranks a host takes, as a value of [`crate::env::LISTS_SYNTAX`].
    pub enum HostListSyntax {
        /// `HOST slots=N`.
        Slots = "slots",
        /// `HOST:N`.
        Colon = "colon",
    }
}

impl HostListSyntax {
    /// Name of the host list that has this syntax whatever the job's MPI is.
    pub const fn file(self) -> &'static str {
        match self {
            Self::Slots => HOSTFILE_OPENMPI,
            Self::Colon => HOSTFILE_HYDRA,
        }
    }

    /// One line of the host list.
    pub fn line(self, host: &str, slots: usize) -> String {
        match self {
            Self::Slots => format!("{host} slots={slots}\n"),
            Self::Colon => format!("{host}:{slots}\n"),
        }
    }
}

/// Tells pdsh, which DeepSpeed calls, to use ssh. It belongs to no MPI.
pub const PDSH_REMOTE_SHELL: (&str, &str) = ("PDSH_RCMD_TYPE", "ssh");

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_and_syntaxes_are_read_back() {
        for mpi in Mpi::ALL {
            assert_eq!(Mpi::from_text(mpi.as_str()), Some(mpi));
            assert!(!mpi.launchers().is_empty(), "{mpi:?}");
        }
        for syntax in HostListSyntax::ALL {
            assert_eq!(HostListSyntax::from_text(syntax.as_str()), Some(syntax));
        }
        assert_eq!(Mpi::from_text("openmpi"), None);
        let mut names = Mpi::ALL.map(Mpi::as_str);
        names.sort_unstable();
        assert_eq!(Mpi::NAMES, names);
    }

    /// All launchers' variables are set at once, so one of another launcher must not have another
    /// meaning. Daemons tell launchers apart.
    #[test]
    fn no_variable_and_no_daemon_belongs_to_two_launchers() {
        let variables = MpiLauncher::all().flat_map(|launcher| launcher.variables);
        let names: Vec<_> = variables.map(|variable| variable.name).collect();
        let daemons: Vec<_> = MpiLauncher::all()
            .flat_map(|it| it.daemons)
            .copied()
            .collect();
        for words in [names, daemons] {
            let distinct: BTreeSet<_> = words.iter().collect();
            assert_eq!(distinct.len(), words.len(), "{words:?}");
        }
    }

    /// Without one of these a launcher runs all ranks in its own pod, and exits with 0.
    #[test]
    fn every_launcher_is_told_its_remote_shell_and_its_hosts() {
        for launcher in MpiLauncher::all() {
            for needed in [
                Setting::RemoteShell,
                Setting::HostList,
                Setting::ShellArguments,
            ] {
                let value = |setting| (setting == needed).then_some(());
                assert!(
                    launcher.variables(value).count() > 0,
                    "{needed:?}: {launcher:?}"
                );
            }
            assert!(!launcher.daemons.is_empty() && !launcher.rank_variables.is_empty());
        }
    }

    #[test]
    fn one_family_has_one_spelling_of_the_host_list() {
        for mpi in Mpi::ALL {
            for launcher in mpi.launchers() {
                assert_eq!(launcher.host_list, mpi.host_list(), "{mpi:?}");
            }
        }
    }
}
