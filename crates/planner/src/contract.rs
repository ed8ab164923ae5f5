//! The names that others may rely on: labels, variables, volumes, paths. Decides how they are
//! spelled and nothing else; the Kubeflow ones are as its clients already know them.

/// Label on every pod of a job: who runs it. Kueue and dashboards select by it.
pub const OPERATOR_NAME_LABEL: &str = "training.kubeflow.org/operator-name";
/// The value of [`OPERATOR_NAME_LABEL`].
pub const OPERATOR_NAME: &str = "mpi-operator";
/// Label on every pod of a job: the job's name.
pub const JOB_NAME_LABEL: &str = "training.kubeflow.org/job-name";
/// Label on every pod of a job: `launcher` or `worker`.
pub const JOB_ROLE_LABEL: &str = "training.kubeflow.org/job-role";
/// Label on pods of some dialects: `launcher` or `worker`, where the role is spelled otherwise.
pub const REPLICA_TYPE_LABEL: &str = "training.kubeflow.org/replica-type";
/// Label on workers (and on a launcher that is a host too): the rank of the host.
pub const REPLICA_INDEX_LABEL: &str = "training.kubeflow.org/replica-index";
/// Label on every child: the UID of its job. Names are reused, UIDs are not, so a collection
/// delete selects by this one.
pub const JOB_UID_LABEL: &str = "muster.dev/job-uid";
/// Label on every child that is not a pod, so that watches need not see the rest of the cluster.
pub const MANAGED_BY_LABEL: &str = "app.kubernetes.io/managed-by";
/// The value of [`MANAGED_BY_LABEL`].
pub const MANAGED_BY: &str = "muster";
/// Label on the children that are not pods: the job's name, as Kubeflow writes it.
pub const APP_LABEL: &str = "app";

/// Variable in every pod's first container: `launcher` or `worker`.
pub const ROLE_VARIABLE: &str = "K_MPI_JOB_ROLE";

/// Volume with the SSH key pair.
pub const SSH_VOLUME: &str = "ssh-auth";
/// Volume with the host list.
pub const CONFIG_VOLUME: &str = "mpi-job-config";
/// Where the host list is mounted in the launcher.
pub const CONFIG_MOUNT_PATH: &str = "/etc/mpi";
/// Name of the host list in its ConfigMap, and of the file.
pub const HOSTFILE: &str = "hostfile";
/// Name of the host discovery script in its ConfigMap, and of the file.
pub const DISCOVER_HOSTS: &str = "discover_hosts.sh";
/// The host list in Open MPI's spelling, in transport Agent, whatever the job's MPI is.
pub const HOSTFILE_OPENMPI: &str = "hostfile.openmpi";
/// The host list in Hydra's spelling, in transport Agent, whatever the job's MPI is.
pub const HOSTFILE_HYDRA: &str = "hostfile.hydra";
/// The remote shell as some dialects promise it, in its ConfigMap and as a file.
pub const EXEC_SCRIPT: &str = "kubexec.sh";
/// Volume with [`EXEC_SCRIPT`], where the host lists are not from the ConfigMap.
pub const SCRIPT_VOLUME: &str = "mpi-job-script";
/// Key of the private half in the key Secret.
pub const SSH_PRIVATE_KEY: &str = "ssh-privatekey";
/// Key of the public half in the key Secret.
pub const SSH_PUBLIC_KEY: &str = "ssh-publickey";

/// Annotation on the workers' StatefulSet: tells the pod template that was written from another.
pub const TEMPLATE_ANNOTATION: &str = "muster.dev/template";
/// Annotation on launcher pods: where the workers are, one `NAME ADDRESS[:PORT]` a line.
pub const HOSTS_ANNOTATION: &str = "muster.dev/hosts";
/// Annotation on workers that end by themselves: how their job ended, once it has.
pub const END_ANNOTATION: &str = "muster.dev/end";
/// Volume with that, in those workers.
pub const END_VOLUME: &str = "muster-end";
/// Where that is mounted.
pub const END_MOUNT_PATH: &str = "/muster/end";
/// Name of the file in it; empty until then.
pub const END_FILE: &str = "end";
/// What the last words of a bootstrap script begin with when it gave up.
pub const INIT_FAILED_WORDS: &str = "initialisation: ";
/// Name of the agent's init container in every pod.
pub const AGENT_CONTAINER: &str = "muster-agent";
/// The agent in its image.
pub const AGENT_PROGRAM: &str = "/muster-agent";
/// Volume that the agent copies itself into.
pub const AGENT_VOLUME: &str = "muster-bin";
/// Where that is mounted.
pub const AGENT_MOUNT_PATH: &str = "/muster/bin";
/// The agent in every pod that has it.
pub const AGENT_COPY: &str = "/muster/bin/muster-agent";
/// The agent under the name by which launchers call it.
pub const AGENT_SHIM: &str = "/muster/bin/ssh";
/// Port of the agent in a worker with an address of its own.
pub const AGENT_PORT: u16 = 7077;
/// Volume with the certificates.
pub const TLS_VOLUME: &str = "muster-tls";
/// Where that is mounted.
pub const TLS_MOUNT_PATH: &str = "/muster/tls";
/// In everyone's Secret volume: the job's authority.
pub const CA_CERTIFICATE: &str = "ca.crt";
/// In the workers' Secret volume alone.
pub const SERVER_FILES: [&str; 2] = ["server.crt", "server.key"];
/// In the launcher's Secret volume alone.
pub const CLIENT_FILES: [&str; 2] = ["client.crt", "client.key"];
/// Volume with the list of workers, from [`HOSTS_ANNOTATION`].
pub const HOSTS_VOLUME: &str = "muster-hosts";
/// Where that is mounted.
pub const HOSTS_MOUNT_PATH: &str = "/muster/hosts";
/// Name of the file in it.
pub const HOSTS_FILE: &str = "hosts";
