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
/// Key of the private half in the key Secret.
pub const SSH_PRIVATE_KEY: &str = "ssh-privatekey";
/// Key of the public half in the key Secret.
pub const SSH_PUBLIC_KEY: &str = "ssh-publickey";
