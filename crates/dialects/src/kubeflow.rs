//! What the versions of kubeflow.org's MPIJob share: they are one stored resource, whose fields are
//! the union of theirs, and their clients read one status. Which version a job was written in, and
//! what it then means, is for the dialects.

pub(crate) mod checks;
pub(crate) mod field_list;
pub(crate) mod hub;
pub(crate) mod said;
pub(crate) mod unsaid;
pub(crate) mod wire;

pub(crate) const GROUP: &str = "kubeflow.org";
pub(crate) const KIND: &str = "MPIJob";
pub(crate) const PLURAL: &str = "mpijobs";
/// Written into owner references, whatever version the job was written in: Kueue matches it
/// exactly.
pub(crate) const API_VERSION: &str = "kubeflow.org/v2beta1";
/// `managedBy` of jobs that are ours.
pub(crate) const MPI_OPERATOR: &str = "kubeflow.org/mpi-operator";
/// `managedBy` of jobs that run in another cluster.
pub(crate) const MULTIKUEUE: &str = "kueue.x-k8s.io/multikueue";
/// Every word of `spec.muster.dialect`.
pub(crate) const DIALECT_NAMES: [&str; 2] = ["v2beta1", "v1"];

/// The version that is stored, and that the operator reads and writes.
pub(crate) const STORED_VERSION: &str = "v2beta1";
