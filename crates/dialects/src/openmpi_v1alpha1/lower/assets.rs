//! The files that every pod of a component mounts: the script that brings it up, settings of Open MPI
//! and of ssh, and the host list. Decides their contents; what is done with them is the script's.

use std::collections::BTreeMap;

use contract::mpi::HostListSyntax;

use super::Wanted;

const INIT: &str = include_str!("assets/init.sh");
const MCA_PARAMETERS: &str = include_str!("assets/mca-params.conf");
const SSH: &str = include_str!("assets/ssh_config");
const SSHD: &str = include_str!("assets/sshd_config");

/// Files by name.
pub(super) fn files(wanted: &Wanted<'_>) -> BTreeMap<String, String> {
    let files = [
        ("init.sh", INIT.to_owned()),
        ("mca-params.conf", MCA_PARAMETERS.to_owned()),
        ("ssh_config", SSH.to_owned()),
        ("sshd_config", SSHD.to_owned()),
        ("hostfile", hostfile(wanted)),
    ];
    files.map(|(name, text)| (name.to_owned(), text)).into()
}

/// Names below the cluster's domain for services, which pods search.
fn hostfile(wanted: &Wanted<'_>) -> String {
    let (name, namespace, slots) = (
        &wanted.job.metadata.name,
        &wanted.job.metadata.namespace,
        wanted.slots(),
    );
    let line = |index: u32| {
        let host = format!("{name}-worker-{index}.{name}.{namespace}");
        HostListSyntax::Slots.line(&host, slots as usize)
    };
    (0..wanted.workers).map(line).collect()
}

#[cfg(test)]
mod tests {
    use contract::files::{INIT_FAILED_WORDS, TERMINATION_LOG};

    use super::*;

    /// The planner recognises a script that gave up by these.
    #[test]
    fn the_script_gives_up_in_the_words_of_the_contract() {
        let gives_up = format!("echo \"{INIT_FAILED_WORDS}$1\" >{TERMINATION_LOG};");
        assert!(INIT.contains(&gives_up), "no {gives_up}");
    }
}
