//! What differs between MPI families: the launcher's variables and the spelling of the host
//! list. One table each; nothing here knows of pods.

use contract::commands;
use contract::files::{
    AGENT_COPY, AGENT_SHIM, CONFIG_MOUNT_PATH, EXEC_SCRIPT, HOSTFILE, HOSTFILE_HYDRA,
    HOSTFILE_OPENMPI,
};

use crate::job::{HostNames, Job, Mpi};
use crate::site::Site;

/// Extra words for every ssh call: a worker's sshd may need a moment.
const SSH_PATIENCE: &str = "-o ConnectionAttempts=10";

/// Extra words for ssh, for a launcher that has the agent beside it. Beyond these numbers of workers
/// launchers call ssh on workers too, which have no agent.
fn ssh_words(mpi: Mpi, gated: bool, workers: u32) -> String {
    let from_launcher = match mpi {
        Mpi::OpenMpi => workers <= 64,
        Mpi::Intel => workers <= 16,
        Mpi::Mpich => true,
    };
    if gated && from_launcher {
        // A real ssh finds a worker without DNS. Launchers split their extra words at blanks; ssh
        // gives this one to a shell, which splits it at tabs.
        let connect = commands::CONNECT;
        format!("{SSH_PATIENCE} -o ProxyCommand={AGENT_COPY}\t{connect}\t%h\t%p")
    } else {
        SSH_PATIENCE.to_owned()
    }
}

/// The launcher's variables, in the order in which they are appended.
pub(crate) fn variables(job: &Job, site: &Site) -> Vec<(&'static str, String)> {
    let words = ssh_words(job.mpi, job.gate(site).is_some(), job.worker_count());
    let slots = job.slots;
    let hostfile = format!("{CONFIG_MOUNT_PATH}/{HOSTFILE}");
    match job.mpi {
        Mpi::OpenMpi => vec![
            ("OMPI_MCA_orte_keep_fqdn_hostnames", "true".to_owned()),
            ("OMPI_MCA_orte_default_hostfile", hostfile),
            ("OMPI_MCA_plm_rsh_args", words),
            ("OMPI_MCA_orte_set_default_slots", slots.to_string()),
        ],
        Mpi::Intel => vec![
            ("I_MPI_HYDRA_HOST_FILE", hostfile),
            ("I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS", words),
            ("I_MPI_PERHOST", slots.to_string()),
        ],
        Mpi::Mpich => vec![
            ("HYDRA_HOST_FILE", hostfile),
            ("HYDRA_LAUNCH_EXTRA_ARGS", words),
        ],
    }
}

/// Variables that come after all others. Open MPI 5 does not read the names of Open MPI 4: with
/// those alone it finds no host list, runs every rank in the launcher, and ends with 0.
pub(crate) fn late_variables(job: &Job, site: &Site) -> Vec<(&'static str, String)> {
    let gated = job.gate(site).is_some();
    let words = ssh_words(job.mpi, gated, job.worker_count());
    match job.mpi {
        Mpi::OpenMpi => vec![
            (
                "PRTE_MCA_prte_default_hostfile",
                format!("{CONFIG_MOUNT_PATH}/{HOSTFILE}"),
            ),
            ("PRTE_MCA_plm_ssh_args", words),
            ("PRTE_MCA_prte_set_default_slots", job.slots.to_string()),
        ],
        Mpi::Intel | Mpi::Mpich => Vec::new(),
    }
}

/// Variables that the user's own come before: the name that MPICH reads its extra words from, while
/// the other one is Kubeflow's.
pub(crate) fn default_variables(job: &Job, site: &Site) -> Vec<(&'static str, String)> {
    let gated = job.gate(site).is_some();
    let words = ssh_words(job.mpi, gated, job.worker_count());
    match job.mpi {
        Mpi::Mpich if gated => vec![("HYDRA_LAUNCHER_EXTRA_ARGS", words)],
        Mpi::OpenMpi | Mpi::Intel | Mpi::Mpich => Vec::new(),
    }
}

/// The variables of transport Agent: for every family at once, since each ignores the others'.
pub(crate) fn agent_variables(job: &Job) -> Vec<(&'static str, String)> {
    let (slots, workers) = (job.slots, job.worker_count());
    let openmpi = format!("{CONFIG_MOUNT_PATH}/{HOSTFILE_OPENMPI}");
    let hydra = format!("{CONFIG_MOUNT_PATH}/{HOSTFILE_HYDRA}");
    let shim = || AGENT_SHIM.to_owned();
    let word = |word: &str| word.to_owned();
    // Horovod looks for ssh unless it finds the script's name here.
    let remote_shell = match job.exec_script {
        true => format!("{CONFIG_MOUNT_PATH}/{EXEC_SCRIPT}"),
        false => shim(),
    };
    // All daemons are started from the launcher: a tree of them would need its key on workers.
    // Open MPI waits for ever when fewer may be started at a time than there are hosts.
    let fan_out = workers.max(64).to_string();
    let at_once = workers.max(128).to_string();
    let mut variables = vec![
        ("OMPI_MCA_plm_rsh_agent", remote_shell),
        ("OMPI_MCA_orte_default_hostfile", openmpi.clone()),
        ("OMPI_MCA_orte_keep_fqdn_hostnames", word("true")),
        ("OMPI_MCA_orte_set_default_slots", slots.to_string()),
        ("OMPI_MCA_routed_radix", fan_out.clone()),
        ("OMPI_MCA_plm_rsh_num_concurrent", at_once.clone()),
        ("OMPI_ALLOW_RUN_AS_ROOT", word("1")),
        ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", word("1")),
        ("PRTE_MCA_plm_ssh_agent", shim()),
        ("PRTE_MCA_prte_default_hostfile", openmpi),
        ("PRTE_MCA_prte_set_default_slots", slots.to_string()),
        ("PRTE_MCA_rml_base_radix", fan_out),
        ("PRTE_MCA_plm_ssh_num_concurrent", at_once),
        ("PRTE_ALLOW_RUN_AS_ROOT", word("1")),
        ("PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", word("1")),
        ("HYDRA_LAUNCHER", word("ssh")),
        ("HYDRA_LAUNCHER_EXEC", shim()),
        ("HYDRA_HOST_FILE", hydra.clone()),
        ("I_MPI_HYDRA_BOOTSTRAP", word("ssh")),
        ("I_MPI_HYDRA_BOOTSTRAP_EXEC", shim()),
        ("I_MPI_HYDRA_HOST_FILE", hydra),
        ("I_MPI_HYDRA_BRANCH_COUNT", word("0")),
        ("I_MPI_PERHOST", slots.to_string()),
        ("PDSH_RCMD_TYPE", word("ssh")),
    ];
    if has_dots(job) {
        variables.push(("PRTE_MCA_prte_keep_fqdn_hostnames", word("true")));
    }
    variables
}

/// What transport Exec promises, so that the user's own of these names do not count: Horovod looks
/// for the script's very path before it leaves ssh alone.
pub(crate) fn exec_promises() -> [(&'static str, String); 2] {
    let file = |name: &str| format!("{CONFIG_MOUNT_PATH}/{name}");
    [
        ("OMPI_MCA_plm_rsh_agent", file(EXEC_SCRIPT)),
        ("OMPI_MCA_orte_default_hostfile", file(HOSTFILE)),
    ]
}

/// What makes the promises work: all daemons are started from the launcher, since nobody else may;
/// and Open MPI 5 reads other names.
pub(crate) fn exec_defaults(job: &Job) -> Vec<(&'static str, String)> {
    let file = |name: &str| format!("{CONFIG_MOUNT_PATH}/{name}");
    let fan_out = job.worker_count().max(64).to_string();
    let at_once = job.worker_count().max(128).to_string();
    let yes = || "1".to_owned();
    vec![
        ("OMPI_MCA_routed_radix", fan_out.clone()),
        ("OMPI_MCA_plm_rsh_num_concurrent", at_once.clone()),
        ("OMPI_ALLOW_RUN_AS_ROOT", yes()),
        ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", yes()),
        ("PRTE_MCA_plm_ssh_agent", file(EXEC_SCRIPT)),
        ("PRTE_MCA_prte_default_hostfile", file(HOSTFILE)),
        ("PRTE_MCA_rml_base_radix", fan_out),
        ("PRTE_MCA_plm_ssh_num_concurrent", at_once),
        ("PRTE_ALLOW_RUN_AS_ROOT", yes()),
        ("PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", yes()),
    ]
}

/// Hosts are known by names that a launcher would cut short.
fn has_dots(job: &Job) -> bool {
    job.host_names == HostNames::Pods && job.owner.name.contains('.')
}

/// One line of the host list.
pub(crate) fn host_line(mpi: Mpi, host: &str, slots: u32) -> String {
    match mpi {
        Mpi::OpenMpi => format!("{host} slots={slots}\n"),
        Mpi::Intel | Mpi::Mpich => format!("{host}:{slots}\n"),
    }
}
