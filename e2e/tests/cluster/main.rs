//! Tests on three real nodes: real kubelets, real containers, real MPI, and the operator as it is
//! shipped, under the rights it is shipped with. `cargo xtask test --only cluster` runs them.

mod agent_census;
mod agent_delay;
mod agent_dns;
mod agent_failures;
mod agent_families;
mod agent_loss;
mod agent_restricted;
mod agent_security;
mod agent_shapes;
mod agent_start;
mod bdap;
mod cluster_domain;
mod cores;
mod cost;
mod deletion;
mod examples;
mod flyte;
mod gangs;
mod helm;
mod how_to;
mod install;
mod kubeflow_guide;
mod loss;
mod managed_by;
mod milestones;
mod mpi_families;
mod nodes;
mod openmpi;
mod placement;
mod pod_security;
mod recovery;
mod replacement;
mod report;
mod scaling;
mod sdk;
mod seeds;
mod suspension;
mod t9k;
mod t9k_modes;
mod time_to_live;
mod upgrade;

use e2e::cluster_fixture::{with_cluster, with_cluster_alone};
