//! The rows: one constant for each launcher. Every value here was measured with that launcher.

use super::OverSsh::{First, IfUnset, Last, Never};
use super::Setting::{
    AllowRoot, Concurrency, FanOut, HostList, Interface, KeepDomains, KeepDots, KillDelay,
    NoBinding, NoPinning, NoTree, RemoteShell, ShellArguments, ShellKind, Slots, YieldWhenIdle,
};
use super::{HostListSyntax, MpiLauncher, OverSsh, RankWrapper, Setting, Variable};

/// Open MPI 4.
pub const ORTE: MpiLauncher = MpiLauncher {
    variables: &[
        of("OMPI_MCA_plm_rsh_agent", RemoteShell, Never),
        of("OMPI_MCA_orte_keep_fqdn_hostnames", KeepDomains, First),
        of("OMPI_MCA_orte_default_hostfile", HostList, First),
        of("OMPI_MCA_plm_rsh_args", ShellArguments, First),
        of("OMPI_MCA_orte_set_default_slots", Slots, First),
        of("OMPI_MCA_routed_radix", FanOut, Never),
        of("OMPI_MCA_plm_rsh_num_concurrent", Concurrency, Never),
        of("OMPI_ALLOW_RUN_AS_ROOT", AllowRoot, Never),
        of("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", AllowRoot, Never),
        of("OMPI_MCA_hwloc_base_binding_policy", NoBinding, IfUnset),
        // The ranks of Open MPI 5 read this name, too.
        of("OMPI_MCA_mpi_yield_when_idle", YieldWhenIdle, IfUnset),
        of("OMPI_MCA_odls_base_sigkill_timeout", KillDelay, Never),
    ],
    host_list: HostListSyntax::Slots,
    daemons: &["orted"],
    // Daemons get the launcher's address.
    callback_options: &[],
    shell_option: Some("plm_rsh_agent"),
    tree_above: Some(64),
    rank_variables: &["OMPI_COMM_WORLD_RANK", "PMIX_RANK"],
    local_size_variables: &["OMPI_COMM_WORLD_LOCAL_SIZE"],
    rank_wrapper: RankWrapper::ReadByDaemons("OMPI_MCA_orte_fork_agent"),
    kills_at_once: false,
    peer_lost_code: Some(MPI_ERR_UNKNOWN),
    needs_host_names: false,
    refuses_oversubscription: true,
};

/// Open MPI 5, and PRRTE without it. It does not read the names of Open MPI 4: with those alone it
/// finds no host list, runs every rank in the launcher, and exits with 0.
pub const PRRTE: MpiLauncher = MpiLauncher {
    variables: &[
        of("PRTE_MCA_plm_ssh_agent", RemoteShell, Never),
        of("PRTE_MCA_prte_default_hostfile", HostList, Last),
        of("PRTE_MCA_plm_ssh_args", ShellArguments, Last),
        of("PRTE_MCA_prte_set_default_slots", Slots, Last),
        of("PRTE_MCA_prte_keep_fqdn_hostnames", KeepDots, Never),
        of("PRTE_MCA_rml_base_radix", FanOut, Never),
        of("PRTE_MCA_plm_ssh_num_concurrent", Concurrency, Never),
        of("PRTE_ALLOW_RUN_AS_ROOT", AllowRoot, Never),
        of("PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", AllowRoot, Never),
        of("PRTE_MCA_hwloc_default_binding_policy", NoBinding, IfUnset),
        of("PRTE_MCA_odls_base_sigkill_timeout", KillDelay, Never),
    ],
    daemons: &["prted"],
    shell_option: Some("plm_ssh_agent"),
    rank_wrapper: RankWrapper::ReadByDaemons("PRTE_MCA_odls_base_exec_agent"),
    needs_host_names: true,
    ..ORTE
};

/// MPICH. It forwards SIGTERM to its ranks and waits for them without a limit.
pub const HYDRA: MpiLauncher = MpiLauncher {
    variables: &[
        of("HYDRA_LAUNCHER", ShellKind, Never),
        of("HYDRA_LAUNCHER_EXEC", RemoteShell, Never),
        of("HYDRA_HOST_FILE", HostList, First),
        // Kubeflow's operator sets this name, which Hydra does not read.
        of("HYDRA_LAUNCH_EXTRA_ARGS", ShellArguments, First),
        of("HYDRA_LAUNCHER_EXTRA_ARGS", ShellArguments, IfUnset),
        of("HYDRA_IFACE", Interface, Never),
    ],
    host_list: HostListSyntax::Colon,
    daemons: &["hydra_pmi_proxy", "pmi_proxy"],
    callback_options: &["--control-port"],
    shell_option: None,
    tree_above: None,
    rank_variables: &["PMI_RANK"],
    local_size_variables: &["MPI_LOCALNRANKS"],
    rank_wrapper: RankWrapper::None,
    kills_at_once: true,
    peer_lost_code: None,
    needs_host_names: false,
    refuses_oversubscription: false,
};

/// Intel MPI. Its `mpirun` is a shell script that does not pass signals on to the launcher.
pub const INTEL: MpiLauncher = MpiLauncher {
    variables: &[
        of("I_MPI_HYDRA_BOOTSTRAP", ShellKind, Never),
        of("I_MPI_HYDRA_BOOTSTRAP_EXEC", RemoteShell, Never),
        of("I_MPI_HYDRA_HOST_FILE", HostList, First),
        of(
            "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS",
            ShellArguments,
            First,
        ),
        // It ignores the number in its host list.
        of("I_MPI_PERHOST", Slots, First),
        of("I_MPI_HYDRA_BRANCH_COUNT", NoTree, Never),
        of("I_MPI_HYDRA_IFACE", Interface, Never),
        of("I_MPI_PIN", NoPinning, IfUnset),
    ],
    // It starts MPICH's `hydra_pmi_proxy` too, from this one.
    daemons: &["hydra_bstrap_proxy"],
    callback_options: &["--upstream-host"],
    tree_above: Some(16),
    rank_wrapper: RankWrapper::ReadByLauncher("I_MPI_GTOOL", ":all"),
    ..HYDRA
};

/// With which a rank of Open MPI ends when its connection to another was closed.
const MPI_ERR_UNKNOWN: u8 = 14;

const fn of(name: &'static str, setting: Setting, over_ssh: OverSsh) -> Variable {
    Variable {
        name,
        setting,
        over_ssh,
    }
}
