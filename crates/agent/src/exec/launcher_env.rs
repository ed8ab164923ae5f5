//! What every MPI launcher needs to find in its environment, beside what the operator and the user
//! have set, which wins. Decides names and values (each launcher ignores the others'); must not
//! know how a launcher is run.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use contract::files::SHIM_NAMES;
use contract::mpi::{MpiLauncher, PDSH_REMOTE_SHELL, RankWrapper, Setting};

use crate::home;

/// No second between SIGTERM and SIGKILL.
const AT_ONCE: &str = "0";

/// What is known before the command starts.
pub(super) struct LauncherEnv<'s> {
    /// Where the shim is, under the names `ssh` and `muster-agent`.
    pub(super) shim_directory: &'s Path,
    pub(super) workers: usize,
    pub(super) root: bool,
    /// By which workers reach the launcher, whose name they need not be able to resolve.
    pub(super) interface: Option<String>,
    /// The command is started again when a rank has failed, so that nobody waits for the other ranks: they would
    /// have to end before the next attempt anyway, and what one of them writes then is of no use.
    pub(super) ends_at_once: bool,
    /// Words in front of every rank's program, by which workers hear of the rank.
    pub(super) rank_wrapper: Option<OsString>,
}

impl LauncherEnv<'_> {
    /// Variables to set, given those that are there.
    pub(super) fn variables(
        &self,
        present: impl Fn(&str) -> Option<OsString>,
    ) -> Vec<(&'static str, OsString)> {
        let unset = |name: &str| present(name).is_none_or(|value| value.is_empty());
        let mut variables: Vec<_> = self.wanted();
        // Whoever says under one name how long a launcher waits, means it whatever the launcher is called.
        let waits = Setting::KillDelay.names().any(|name| !unset(name));
        let is_delay = |name: &str| Setting::KillDelay.names().any(|other| other == name);
        variables.retain(|(name, _)| unset(name) && !(waits && is_delay(name)));
        if unset("HOME") {
            variables.push(("HOME", home::fallback().into()));
        }
        let path = present("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
        variables.push(("PATH", first_on_path(self.shim_directory, &path)));
        variables
    }

    fn wanted(&self) -> Vec<(&'static str, OsString)> {
        let (pdsh, ssh) = PDSH_REMOTE_SHELL;
        let mut wanted = vec![(pdsh, ssh.into())];
        for launcher in MpiLauncher::all() {
            wanted.extend(launcher.variables(|setting| self.value(setting)));
            if let RankWrapper::ReadByLauncher(name, suffix) = launcher.rank_wrapper
                && let Some(wrapper) = &self.rank_wrapper
            {
                let mut words = wrapper.clone();
                words.push(suffix);
                wanted.push((name, words));
            }
        }
        wanted
    }

    fn value(&self, setting: Setting) -> Option<OsString> {
        match setting {
            Setting::RemoteShell => Some(self.shim_directory.join(SHIM_NAMES[0]).into()),
            Setting::Interface => self.interface.as_ref().map(Into::into),
            Setting::AllowRoot if !self.root => None,
            Setting::KillDelay => self.ends_at_once.then(|| AT_ONCE.into()),
            Setting::ShellKind
            | Setting::KeepDomains
            | Setting::FanOut
            | Setting::Concurrency
            | Setting::NoTree
            | Setting::AllowRoot => setting.usual_value(self.workers).map(Into::into),
            // The operator sets these, or the user.
            Setting::HostList
            | Setting::Slots
            | Setting::KeepDots
            | Setting::ShellArguments
            | Setting::NoBinding
            | Setting::NoPinning
            | Setting::YieldWhenIdle => None,
        }
    }
}

/// A launcher that has these variables kills ranks at once.
pub(super) fn kills_at_once(variables: &[(&'static str, OsString)]) -> bool {
    Setting::KillDelay.names().any(|name| {
        let ours = variables.iter().find(|(other, _)| *other == name);
        let value = ours.map(|(_, value)| value.clone());
        value.or_else(|| std::env::var_os(name)) == Some(AT_ONCE.into())
    })
}

fn first_on_path(directory: &Path, path: &OsStr) -> OsString {
    let directory = directory.as_os_str().as_bytes();
    let others = path.as_bytes().split(|byte| *byte == b':');
    let others = others.filter(|other| *other != directory);
    let all: Vec<_> = std::iter::once(directory).chain(others).collect();
    OsStr::from_bytes(&all.join(&b':')).to_owned()
}

/// The interface of the default route, else the first that is not the loopback.
pub(super) fn interface() -> Option<String> {
    let routes = std::fs::read_to_string("/proc/net/route").unwrap_or_default();
    let routes6 = std::fs::read_to_string("/proc/net/ipv6_route").unwrap_or_default();
    let devices = std::fs::read_to_string("/proc/net/dev").unwrap_or_default();
    default_route(&routes)
        .or_else(|| default_route6(&routes6))
        .or_else(|| first_device(&devices))
        .map(str::to_owned)
}

fn default_route(table: &str) -> Option<&str> {
    table.lines().skip(1).find_map(|line| {
        let mut fields = line.split_whitespace();
        let (name, destination) = (fields.next()?, fields.next()?);
        (destination == "00000000").then_some(name)
    })
}

fn default_route6(table: &str) -> Option<&str> {
    table.lines().find_map(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let name = *fields.last()?;
        let everywhere = fields[0].bytes().all(|digit| digit == b'0') && fields.get(1)? == &"00";
        (everywhere && name != "lo").then_some(name)
    })
}

fn first_device(table: &str) -> Option<&str> {
    let names = table
        .lines()
        .skip(2)
        .filter_map(|line| line.split(':').next());
    names.map(str::trim).find(|name| *name != "lo")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(
        present: &[(&str, &str)],
        root: bool,
        workers: usize,
    ) -> Vec<(&'static str, String)> {
        let env = LauncherEnv {
            shim_directory: Path::new("/muster/bin"),
            workers,
            root,
            interface: Some("eth0".into()),
            ends_at_once: false,
            rank_wrapper: Some("/muster/bin/muster-agent rank".into()),
        };
        let find = |name: &str| {
            let pair = present.iter().find(|(other, _)| *other == name);
            pair.map(|(_, value)| OsString::from(value))
        };
        let variables = env.variables(find).into_iter();
        variables
            .map(|(name, value)| (name, value.into_string().unwrap()))
            .collect()
    }

    fn value(variables: &[(&str, String)], name: &str) -> Option<String> {
        let pair = variables.iter().find(|(other, _)| *other == name);
        pair.map(|(_, value)| value.clone())
    }

    #[test]
    fn what_is_set_stays() {
        let set = [
            ("OMPI_MCA_plm_rsh_agent", "/etc/mpi/kubexec.sh"),
            ("HOME", "/home/me"),
            ("PATH", "/usr/bin:/muster/bin:/bin"),
            ("HYDRA_IFACE", ""),
        ];
        let variables = variables(&set, false, 3);
        assert_eq!(value(&variables, "OMPI_MCA_plm_rsh_agent"), None);
        assert_eq!(value(&variables, "HOME"), None);
        assert_eq!(
            value(&variables, "PATH").unwrap(),
            "/muster/bin:/usr/bin:/bin"
        );
        assert_eq!(value(&variables, "HYDRA_IFACE").unwrap(), "eth0");
        assert_eq!(
            value(&variables, "PRTE_MCA_plm_ssh_agent").unwrap(),
            "/muster/bin/ssh"
        );
        assert_eq!(value(&variables, "OMPI_ALLOW_RUN_AS_ROOT"), None);
        assert_eq!(
            value(&variables, "I_MPI_GTOOL").unwrap(),
            "/muster/bin/muster-agent rank:all"
        );
    }

    #[test]
    fn where_another_attempt_may_follow_open_mpi_ends_ranks_at_once() {
        let kills = |ends_at_once| {
            let env = LauncherEnv {
                shim_directory: Path::new("/muster/bin"),
                workers: 2,
                root: false,
                interface: None,
                ends_at_once,
                rank_wrapper: None,
            };
            kills_at_once(&env.variables(|_| None))
        };
        assert!(kills(true) && !kills(false));
    }

    #[test]
    fn fan_out_reaches_every_worker() {
        let few = variables(&[], true, 3);
        assert_eq!(value(&few, "OMPI_MCA_routed_radix").unwrap(), "64");
        assert_eq!(value(&few, "HOME").unwrap(), "/tmp");
        assert_eq!(value(&few, "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM").unwrap(), "1");
        let many = variables(&[], false, 500);
        assert_eq!(value(&many, "PRTE_MCA_rml_base_radix").unwrap(), "500");
        assert_eq!(
            value(&many, "PRTE_MCA_plm_ssh_num_concurrent").unwrap(),
            "500"
        );
    }

    #[test]
    fn the_interface_of_the_default_route_is_taken() {
        let table = "Iface\tDestination\tGateway\nnet1\t0000010A\t0\neth0\t00000000\t0101F40A\n";
        assert_eq!(default_route(table), Some("eth0"));
        assert_eq!(default_route("Iface\tDestination\n"), None);
        let zero = "0".repeat(32);
        let table6 = format!("{zero} 00 {zero} 00 {zero} 00000400 1 0 00000003 eth1\n");
        assert_eq!(default_route6(&table6), Some("eth1"));
        let devices = "Inter-| Receive\n face |bytes\n    lo: 1 2\n  ens3: 3 4\n";
        assert_eq!(first_device(devices), Some("ens3"));
    }
}
