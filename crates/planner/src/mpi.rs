//! What differs between MPI families: the launcher's variables and the spelling of the host
//! list. One table each; nothing here knows of pods.

use crate::contract::{CONFIG_MOUNT_PATH, HOSTFILE};
use crate::job::Mpi;

/// Extra words for every ssh call: a worker's sshd may need a moment.
const SSH_PATIENCE: &str = "-o ConnectionAttempts=10";

/// The launcher's variables, in the order in which they are appended.
pub(crate) fn variables(mpi: Mpi, slots: u32) -> Vec<(&'static str, String)> {
    let hostfile = format!("{CONFIG_MOUNT_PATH}/{HOSTFILE}");
    match mpi {
        Mpi::OpenMpi => vec![
            ("OMPI_MCA_orte_keep_fqdn_hostnames", "true".to_owned()),
            ("OMPI_MCA_orte_default_hostfile", hostfile),
            ("OMPI_MCA_plm_rsh_args", SSH_PATIENCE.to_owned()),
            ("OMPI_MCA_orte_set_default_slots", slots.to_string()),
        ],
        Mpi::Intel => vec![
            ("I_MPI_HYDRA_HOST_FILE", hostfile),
            (
                "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS",
                SSH_PATIENCE.to_owned(),
            ),
            ("I_MPI_PERHOST", slots.to_string()),
        ],
        Mpi::Mpich => vec![
            ("HYDRA_HOST_FILE", hostfile),
            ("HYDRA_LAUNCH_EXTRA_ARGS", SSH_PATIENCE.to_owned()),
        ],
    }
}

/// Variables that come after all others. Open MPI 5 does not read the names of Open MPI 4: with
/// those alone it finds no host list, runs every rank in the launcher, and ends with 0.
pub(crate) fn late_variables(mpi: Mpi, slots: u32) -> Vec<(&'static str, String)> {
    match mpi {
        Mpi::OpenMpi => vec![
            (
                "PRTE_MCA_prte_default_hostfile",
                format!("{CONFIG_MOUNT_PATH}/{HOSTFILE}"),
            ),
            ("PRTE_MCA_plm_ssh_args", SSH_PATIENCE.to_owned()),
            ("PRTE_MCA_prte_set_default_slots", slots.to_string()),
        ],
        Mpi::Intel | Mpi::Mpich => Vec::new(),
    }
}

/// One line of the host list.
pub(crate) fn host_line(mpi: Mpi, host: &str, slots: u32) -> String {
    match mpi {
        Mpi::OpenMpi => format!("{host} slots={slots}\n"),
        Mpi::Intel | Mpi::Mpich => format!("{host}:{slots}\n"),
    }
}
