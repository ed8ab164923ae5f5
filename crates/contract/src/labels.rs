//! Labels and annotations on the objects of a job. Clients, queues and dashboards select by the
//! labels; the Kubeflow ones are spelled as its clients know them.

/// On every pod of a job: which operator runs it. Kueue and dashboards select by it.
pub const OPERATOR_NAME_LABEL: &str = "training.kubeflow.org/operator-name";
/// The value of [`OPERATOR_NAME_LABEL`].
pub const OPERATOR_NAME: &str = "mpi-operator";
/// On every pod of a job: the job's name.
pub const JOB_NAME_LABEL: &str = "training.kubeflow.org/job-name";
/// On every pod of a job: [`LAUNCHER_ROLE`] or [`WORKER_ROLE`].
pub const JOB_ROLE_LABEL: &str = "training.kubeflow.org/job-role";
/// On pods of some dialects: the role, where [`JOB_ROLE_LABEL`] has another word for it.
pub const REPLICA_TYPE_LABEL: &str = "training.kubeflow.org/replica-type";
/// On workers, and on a launcher that is a host too: the rank of the host.
pub const REPLICA_INDEX_LABEL: &str = "training.kubeflow.org/replica-index";
/// On every child: the UID of its job. Names are reused and UIDs are not, so deletes of a collection
/// select by this label.
pub const JOB_UID_LABEL: &str = "muster.dev/job-uid";
/// On every child that is not a pod, so that watches can leave out the rest of the cluster.
pub const MANAGED_BY_LABEL: &str = "app.kubernetes.io/managed-by";
/// The value of [`MANAGED_BY_LABEL`].
pub const MANAGED_BY: &str = "muster";
/// On the children that are not pods: the job's name, as Kubeflow writes it.
pub const APP_LABEL: &str = "app";

/// The launcher's role: in [`JOB_ROLE_LABEL`] and in [`crate::env::ROLE_VARIABLE`].
pub const LAUNCHER_ROLE: &str = "launcher";
/// A worker's role, in the same places.
pub const WORKER_ROLE: &str = "worker";

/// On the workers' StatefulSet: fingerprint of the pod template that it was written from.
pub const TEMPLATE_ANNOTATION: &str = "muster.dev/template";
/// On the launcher's Job: the gang scheduler that its pods are for; absent where they are for none.
pub const GANG_ANNOTATION: &str = "muster.dev/gang";
/// On launcher pods: the list of workers, which the kubelet mounts as [`crate::files::HOSTS_PATH`].
pub const HOSTS_ANNOTATION: &str = "muster.dev/hosts";
/// On launcher pods of elastic jobs: the host discovery script, which the kubelet mounts as
/// [`crate::files::DISCOVER_HOSTS`] among the host lists. Unlike a ConfigMap, it gets there at once.
pub const DISCOVERY_ANNOTATION: &str = "muster.dev/discover-hosts";
/// On workers that end by themselves, and on the launcher of a job in a queue: how their job ended, once it
/// has.
pub const END_ANNOTATION: &str = "muster.dev/end";

/// On a job: the queue of Kueue that it waits in; on its pods, where Kueue knows only these.
pub const QUEUE_LABEL: &str = "kueue.x-k8s.io/queue-name";
/// In the same places: the class that decides which of Kueue's jobs go first.
pub const QUEUE_PRIORITY_LABEL: &str = "kueue.x-k8s.io/priority-class";
/// On pods of a group: Kueue decides when they may start.
pub const QUEUE_MANAGED_LABEL: &str = "kueue.x-k8s.io/managed";
/// On pods of a group: the group.
pub const QUEUE_GROUP_LABEL: &str = "kueue.x-k8s.io/pod-group-name";
/// On pods of a group: how many pods it has.
pub const QUEUE_GROUP_SIZE_ANNOTATION: &str = "kueue.x-k8s.io/pod-group-total-count";
/// On pods of a group: somebody makes them anew under the same names. So Kueue adds no finalizer, which would
/// keep the old ones until pods with other names exist.
pub const QUEUE_PARENT_ANNOTATION: &str = "kueue.x-k8s.io/pod-suspending-parent";
/// On a pod of a group, if "false": no pod comes any more.
pub const QUEUE_RETRIABLE_ANNOTATION: &str = "kueue.x-k8s.io/retriable-in-group";
