//! `kubeflow.org/v2beta1` `MPIJob`, as Kubeflow's MPI operator v2 serves it. This file is the
//! dialect's row and the names that its parts share.

pub mod defaults;
pub mod lower;
pub mod report;
pub mod types;

use crate::Dialect;

const GROUP: &str = "kubeflow.org";
const VERSION: &str = "v2beta1";
const KIND: &str = "MPIJob";
/// Written into owner references, whatever version the job was read in: Kueue matches it exactly.
const API_VERSION: &str = "kubeflow.org/v2beta1";

/// `managedBy` of jobs that are ours.
const MANAGED_BY_US: &str = "kubeflow.org/mpi-operator";
/// Every `managedBy` that is known.
const MANAGED_BY_VALUES: [&str; 2] = [MANAGED_BY_US, "kueue.x-k8s.io/multikueue"];

/// The row of this dialect.
pub const DIALECT: Dialect = Dialect {
    group: GROUP,
    version: VERSION,
    kind: KIND,
    plural: "mpijobs",
    managed_elsewhere: lower::managed_elsewhere,
    lower: lower::lower,
    recorded: report::recorded,
    report: report::report,
};
