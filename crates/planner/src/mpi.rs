//! Which variables a launcher gets in which transport. Decides their values; names and everything else
//! that differs between MPI families are in `contract::mpi`.

use contract::commands;
use contract::files::{AGENT_COPY, AGENT_SHIM, CONFIG_MOUNT_PATH, EXEC_SCRIPT_PATH, HOSTFILE};
use contract::mpi::{Mpi, MpiLauncher, ORTE, OverSsh, PDSH_REMOTE_SHELL, Setting, Variable};
use serde_json::Value;

use crate::job::{HostNames, Job, Login};
use crate::placement;
use crate::site::Site;

/// Names and values, in the order in which they are appended.
type Variables = Vec<(&'static str, String)>;

/// Extra words for every ssh call: a worker's sshd may need a moment.
const SSH_PATIENCE: &str = "-o ConnectionAttempts=10";

/// The variables of transport Ssh that are set in this way, of the job's own family.
pub(crate) fn ssh_variables(job: &Job, site: &Site, way: OverSsh) -> Variables {
    let gated = job.gate(site).is_some();
    // Without a gate the other name of the same setting is enough, as in Kubeflow's operator.
    if way == OverSsh::IfUnset && !gated {
        return Vec::new();
    }
    let value = |setting| match setting {
        Setting::KeepDomains => setting.usual_value(0),
        Setting::HostList => Some(file(HOSTFILE)),
        Setting::ShellArguments => Some(ssh_words(job.mpi, gated, job.worker_count())),
        Setting::Slots => Some(job.slots.to_string()),
        Setting::NoBinding | Setting::NoPinning => unbound(job, site, setting),
        Setting::YieldWhenIdle => yielding(job, site, setting),
        Setting::RemoteShell
        | Setting::ShellKind
        | Setting::KeepDots
        | Setting::FanOut
        | Setting::Concurrency
        | Setting::NoTree
        | Setting::AllowRoot
        | Setting::Interface
        | Setting::KillDelay => None,
    };
    let launchers = job.mpi.launchers().iter();
    let variables = launchers.flat_map(|launcher| launcher.variables);
    variables
        .filter(|variable| variable.over_ssh == way)
        .filter_map(|variable| Some((variable.name, value(variable.setting)?)))
        .collect()
}

/// The variables of the family that say the same as this one to other versions.
pub(crate) fn other_names(mpi: Mpi, name: &str) -> Vec<&'static str> {
    let launchers = mpi.launchers().iter();
    let variables: Vec<_> = launchers.flat_map(|launcher| launcher.variables).collect();
    let own = variables.iter().find(|variable| variable.name == name);
    let same = |other: &&&Variable| {
        other.name != name && own.is_some_and(|own| own.setting == other.setting)
    };
    variables
        .iter()
        .filter(same)
        .map(|other| other.name)
        .collect()
}

/// Extra words for ssh. A launcher that has the agent beside it finds workers without DNS, unless it
/// calls ssh on workers too, which have no agent.
fn ssh_words(mpi: Mpi, gated: bool, workers: u32) -> String {
    if gated && mpi.calls_from_launcher_alone(workers) {
        // Launchers split their extra words at blanks; ssh gives this one to a shell, which splits
        // it at tabs.
        let connect = commands::CONNECT;
        format!("{SSH_PATIENCE} -o ProxyCommand={AGENT_COPY}\t{connect}\t%h\t%p")
    } else {
        SSH_PATIENCE.to_owned()
    }
}

/// The variables of transport Agent: for every family at once, since each ignores the others'.
pub(crate) fn agent_variables(job: &Job, site: &Site, login: &Login) -> Variables {
    let mut variables = Vec::new();
    if login.exec_script {
        variables.extend(remote_shell_is_script());
    }
    for launcher in MpiLauncher::all() {
        variables.extend(launcher.variables(|setting| match setting {
            Setting::RemoteShell => Some(AGENT_SHIM.to_owned()),
            Setting::HostList => Some(file(launcher.host_list.file())),
            Setting::Slots => Some(job.slots.to_string()),
            Setting::NoBinding | Setting::NoPinning => unbound(job, site, setting),
            Setting::YieldWhenIdle => yielding(job, site, setting),
            Setting::KeepDots if !has_dots(job) => None,
            Setting::ShellKind
            | Setting::KeepDomains
            | Setting::KeepDots
            | Setting::FanOut
            | Setting::Concurrency
            | Setting::NoTree
            | Setting::AllowRoot => setting.usual_value(job.worker_count() as usize),
            Setting::ShellArguments | Setting::Interface | Setting::KillDelay => None,
        }));
    }
    let (pdsh, ssh) = PDSH_REMOTE_SHELL;
    variables.push((pdsh, ssh.to_owned()));
    variables
}

/// Horovod calls ssh unless it finds the very path of the script in this variable.
fn remote_shell_is_script() -> Variables {
    let value = |setting| (setting == Setting::RemoteShell).then(|| EXEC_SCRIPT_PATH.to_owned());
    ORTE.variables(value).collect()
}

/// The variables of transport Exec that are promised.
pub(crate) fn exec_promises() -> Variables {
    let value = |setting| (setting == Setting::HostList).then(|| file(HOSTFILE));
    let mut variables = remote_shell_is_script();
    variables.extend(ORTE.variables(value));
    variables
}

/// What makes the promises work: all daemons are started from the launcher, since nobody else may
/// start them; and newer versions read other names.
pub(crate) fn exec_defaults(job: &Job, site: &Site) -> Variables {
    let value = |setting| match setting {
        Setting::RemoteShell => Some(EXEC_SCRIPT_PATH.to_owned()),
        Setting::HostList => Some(file(HOSTFILE)),
        Setting::FanOut | Setting::Concurrency | Setting::AllowRoot => {
            setting.usual_value(job.worker_count() as usize)
        }
        Setting::NoBinding | Setting::NoPinning => unbound(job, site, setting),
        Setting::YieldWhenIdle => yielding(job, site, setting),
        Setting::ShellKind
        | Setting::ShellArguments
        | Setting::Slots
        | Setting::KeepDomains
        | Setting::KeepDots
        | Setting::NoTree
        | Setting::Interface
        | Setting::KillDelay => None,
    };
    let launchers = job.mpi.launchers().iter();
    launchers
        .flat_map(|launcher| launcher.variables(value))
        .collect()
}

/// Keeps a launcher from binding ranks to cores. Each daemon binds its first rank to the first core that
/// it sees, and daemons of hosts that share a node see the same cores: all ranks would run on one. Words
/// of the user's command and variables of the user's win, and a launcher whose hosts are on nodes of
/// their own binds as it likes.
fn unbound(job: &Job, site: &Site, setting: Setting) -> Option<String> {
    // Intel MPI has many variables for it, and this one would turn them all off.
    let asks = |name: &str| mentions(&job.launcher.role.template["spec"]["containers"], name);
    let unbound = placement::may_share_node(job, site) && !setting.names().any(asks);
    setting.usual_value(0).filter(|_| unbound)
}

/// Makes ranks that wait give up their core, where all hosts are one machine with fewer cores. An MPI
/// does so by itself if a host has more ranks than cores; here each host seems to have all of them.
fn yielding(job: &Job, site: &Site, setting: Setting) -> Option<String> {
    let crowded = placement::is_crowded(job, site);
    setting.usual_value(0).filter(|_| crowded)
}

/// Whether a text below this value contains the word.
fn mentions(value: &Value, word: &str) -> bool {
    match value {
        Value::String(text) => text.contains(word),
        Value::Array(items) => items.iter().any(|item| mentions(item, word)),
        Value::Object(fields) => fields.values().any(|field| mentions(field, word)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// A file of the volume with the host lists.
fn file(name: &str) -> String {
    format!("{CONFIG_MOUNT_PATH}/{name}")
}

/// Hosts are known by names that a launcher would cut short.
fn has_dots(job: &Job) -> bool {
    job.host_names() == HostNames::Pods && job.owner.name.contains('.')
}
