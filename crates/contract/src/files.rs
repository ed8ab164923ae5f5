//! Files in the pods of a job: volumes, where they are mounted, the names of files, and the limits on
//! what is written there. The operator mounts them, the agent reads and writes them, and local mode
//! provides them without a kubelet.

/// Volume with the SSH key pair.
pub const SSH_VOLUME: &str = "ssh-auth";
/// Key of the private half in the key Secret.
pub const SSH_PRIVATE_KEY: &str = "ssh-privatekey";
/// Key of the public half in the key Secret.
pub const SSH_PUBLIC_KEY: &str = "ssh-publickey";

/// Volume with the host lists.
pub const CONFIG_VOLUME: &str = "mpi-job-config";
/// Where the host lists are in the launcher.
pub const CONFIG_MOUNT_PATH: &str = "/etc/mpi";
/// The host list in the spelling of the job's MPI: key in the ConfigMap, and file.
pub const HOSTFILE: &str = "hostfile";
/// The host list in Open MPI's spelling, in transport Agent, whatever the job's MPI is.
pub const HOSTFILE_OPENMPI: &str = "hostfile.openmpi";
/// The host list in Hydra's spelling, in transport Agent, whatever the job's MPI is.
pub const HOSTFILE_HYDRA: &str = "hostfile.hydra";
/// The host discovery script: key in the ConfigMap, and file.
pub const DISCOVER_HOSTS: &str = "discover_hosts.sh";
/// The remote shell as some dialects promise it: key in the ConfigMap, and file.
pub const EXEC_SCRIPT: &str = "kubexec.sh";
/// [`EXEC_SCRIPT`] in the pod. Horovod compares a variable with this very path.
pub const EXEC_SCRIPT_PATH: &str = "/etc/mpi/kubexec.sh";
/// Volume with [`EXEC_SCRIPT`], where the host lists are not from the ConfigMap.
pub const SCRIPT_VOLUME: &str = "mpi-job-script";

/// Name of the agent's init container in every pod.
pub const AGENT_CONTAINER: &str = AGENT_BINARY;
/// Name of the agent's program in the directory that `install` fills.
pub const AGENT_BINARY: &str = "muster-agent";
/// The agent in its image.
pub const AGENT_PROGRAM: &str = "/muster-agent";
/// Volume that the agent copies itself into.
pub const AGENT_VOLUME: &str = "muster-bin";
/// Where [`AGENT_VOLUME`] is mounted.
pub const AGENT_MOUNT_PATH: &str = "/muster/bin";
/// The agent in every pod that has it.
pub const AGENT_COPY: &str = "/muster/bin/muster-agent";
/// The agent under the name by which launchers call it.
pub const AGENT_SHIM: &str = "/muster/bin/ssh";
/// Names under which the agent is the remote shell: links beside it.
pub const SHIM_NAMES: [&str; 3] = ["ssh", "rsh", EXEC_SCRIPT];

/// Volume with the keys of transport Agent.
pub const TLS_VOLUME: &str = "muster-tls";
/// Where [`TLS_VOLUME`] is mounted.
pub const TLS_MOUNT_PATH: &str = "/muster/tls";
/// The launcher's root key, only in the launcher: key in the Secret, and file. What follows from it is in
/// [`crate::protocol`].
pub const LAUNCHER_KEY: &str = "launcher.key";
/// Public half of the launcher's own key, only in workers: key in the Secret, and file.
pub const LAUNCHER_PUBLIC_KEY: &str = "launcher.pub";
/// A worker's private key, only in that worker. In the Secret it is [`worker_key_item`].
pub const WORKER_KEY: &str = "worker.key";
/// Until when the keys are valid, in seconds since the epoch: key in the Secret, and file in every pod.
pub const VALID_UNTIL: &str = "valid-until";
/// Certificates of authorities, in the directory of a pod's service account.
pub const CA_CERTIFICATE: &str = "ca.crt";

/// Key of a worker's [`WORKER_KEY`] in the Secret. The Secret of the largest job has ten thousand of them,
/// so it is short.
pub fn worker_key_item(index: u32) -> String {
    format!("w{index}")
}

/// Volume with the list of workers, from [`crate::labels::HOSTS_ANNOTATION`].
pub const HOSTS_VOLUME: &str = "muster-hosts";
/// Where [`HOSTS_VOLUME`] is mounted.
pub const HOSTS_MOUNT_PATH: &str = "/muster/hosts";
/// Name of the file in it.
pub const HOSTS_FILE: &str = "hosts";
/// The list of workers in the pod, as [`crate::host_list`] spells it. It may appear, grow and shrink
/// after the start.
pub const HOSTS_PATH: &str = "/muster/hosts/hosts";

/// Volume that tells workers that end by themselves how their job ended, from
/// [`crate::labels::END_ANNOTATION`].
pub const END_VOLUME: &str = "muster-end";
/// Where [`END_VOLUME`] is mounted.
pub const END_MOUNT_PATH: &str = "/muster/end";
/// Name of the file in it; empty until the job has ended.
pub const END_FILE: &str = "end";
/// [`END_FILE`] in the pod.
pub const END_PATH: &str = "/muster/end/end";
/// How the termination message of a bootstrap script begins when it gave up.
pub const INIT_FAILED_WORDS: &str = "initialisation: ";

/// Where a container writes its termination message, unless its template names another file.
pub const TERMINATION_LOG: &str = "/dev/termination-log";
/// Longest termination message of ours; the kubelet keeps 4096 bytes per container.
pub const TERMINATION_BYTES_MAX: usize = 3000;
/// Where the kubelet mounts the pod's own `token`, `ca.crt` and `namespace`.
pub const SERVICE_ACCOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// Exists on a node whose NVIDIA driver is loaded.
pub const GPU_DRIVER: &str = "/proc/driver/nvidia/version";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_below_the_path_of_its_volume() {
        for (directory, file, path) in [
            (AGENT_MOUNT_PATH, AGENT_BINARY, AGENT_COPY),
            (AGENT_MOUNT_PATH, SHIM_NAMES[0], AGENT_SHIM),
            (HOSTS_MOUNT_PATH, HOSTS_FILE, HOSTS_PATH),
            (END_MOUNT_PATH, END_FILE, END_PATH),
            (CONFIG_MOUNT_PATH, EXEC_SCRIPT, EXEC_SCRIPT_PATH),
        ] {
            assert_eq!(path, format!("{directory}/{file}"));
        }
        assert_eq!(AGENT_PROGRAM, format!("/{AGENT_BINARY}"));
    }
}
