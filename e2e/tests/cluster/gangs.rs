//! Native gangs on real nodes: jobs that do not fit together run one after the other.

use anyhow::Result;
use e2e::cluster_fixture::gangs::compete;

use crate::with_cluster;

#[test]
fn native_gangs_that_do_not_fit_together_run_in_turn() -> Result<()> {
    with_cluster("gangs", |fixture| {
        compete(fixture, |job| job.with("/spec/muster/gang", "Native"))
    })
}

/// Elsewhere this is a deadlock: the group waits for a launcher that waits for the group.
#[test]
fn native_gangs_run_in_turn_also_when_launchers_wait_for_workers() -> Result<()> {
    with_cluster("gangs-waiting", |fixture| {
        compete(fixture, |job| {
            job.with("/spec/muster/gang", "Native").wait_for_workers()
        })
    })
}
