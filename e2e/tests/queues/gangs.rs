//! Gang schedulers of others place the pods of a job together or not at all: Volcano, and the scheduler of
//! Kubernetes with the coscheduling plugin.

use anyhow::{Context, Result, ensure};
use e2e::cluster_fixture::deployed::with_flag;
use e2e::cluster_fixture::gangs::compete;
use e2e::cluster_fixture::pi::{Mpi, User, pi};
use e2e::cluster_fixture::{ClusterFixture, with_cluster, with_cluster_alone};
use e2e::condition;
use e2e::jobs::MpiJob;
use serde_json::{Value, json};

use crate::install::{Installed, Other};

/// A gang scheduler, under the names that users know it by.
struct Scheduler {
    other: Other,
    installed: Installed,
    /// `spec.muster.gang`.
    gang: &'static str,
    /// Of the operator, as Kubeflow's takes it.
    flag: &'static str,
    groups: &'static str,
}

static VOLCANO: Scheduler = Scheduler {
    other: Other {
        name: "Volcano",
        variable: "MUSTER_E2E_VOLCANO",
        namespace: "volcano-system",
        deployments: &["volcano-scheduler", "volcano-controllers"],
    },
    installed: Installed::new(),
    gang: "Volcano",
    flag: "--gang-scheduling=volcano",
    groups: "podgroups.scheduling.volcano.sh",
};

static COSCHEDULING: Scheduler = Scheduler {
    other: Other {
        name: "the coscheduling plugin",
        variable: "MUSTER_E2E_COSCHEDULING",
        namespace: "scheduler-plugins",
        deployments: &[
            "scheduler-plugins-scheduler",
            "scheduler-plugins-controller",
        ],
    },
    installed: Installed::new(),
    gang: "SchedulerPlugins",
    flag: "--gang-scheduling=scheduler-plugins-scheduler",
    groups: "podgroups.scheduling.x-k8s.io",
};

#[test]
fn gangs_of_volcano_that_do_not_fit_together_run_in_turn() -> Result<()> {
    with_cluster("volcano", |fixture| VOLCANO.in_turn(fixture, |job| job))
}

#[test]
fn gangs_of_volcano_run_in_turn_also_when_launchers_wait_for_workers() -> Result<()> {
    with_cluster("volcano-waiting", |fixture| {
        VOLCANO.in_turn(fixture, MpiJob::wait_for_workers)
    })
}

#[test]
fn coscheduled_gangs_that_do_not_fit_together_run_in_turn() -> Result<()> {
    with_cluster("coscheduling", |fixture| {
        COSCHEDULING.in_turn(fixture, |job| job)
    })
}

#[test]
fn coscheduled_gangs_run_in_turn_also_when_launchers_wait_for_workers() -> Result<()> {
    with_cluster("coscheduling-waiting", |fixture| {
        COSCHEDULING.in_turn(fixture, MpiJob::wait_for_workers)
    })
}

/// E12 of Kubeflow's end-to-end tests.
#[test]
fn e12_coscheduling_holds_a_gang_until_its_resources_are_there() -> Result<()> {
    with_cluster_alone("e12", |fixture| COSCHEDULING.holds_back(fixture))
}

/// E13 of Kubeflow's end-to-end tests.
#[test]
fn e13_volcano_holds_a_gang_until_its_resources_are_there() -> Result<()> {
    with_cluster_alone("e13", |fixture| VOLCANO.holds_back(fixture))
}

impl Scheduler {
    fn in_turn(&self, fixture: &ClusterFixture, more: fn(MpiJob) -> MpiJob) -> Result<()> {
        self.install(fixture)?;
        compete(fixture, |job| {
            more(job.with("/spec/muster/gang", self.gang))
        })
    }

    fn install(&self, fixture: &ClusterFixture) -> Result<()> {
        let cluster = &fixture.cluster;
        self.other.install(&self.installed, cluster, || Ok(()))
    }

    /// Chosen by the operator's flag, as users of Kubeflow's operator do.
    fn holds_back(&self, fixture: &ClusterFixture) -> Result<()> {
        self.install(fixture)?;
        with_flag(&fixture.cluster, self.flag, || {
            // A hundred thousand, as Volcano writes it back.
            let too_much = json!({"cpu": "100k", "memory": "100000Gi"});
            let job = pi(Mpi::OpenMpi4, User::Root, 2);
            let policy = json!({"minResources": too_much});
            let large = job.clone().with("/metadata/name", "large");
            let large = large.with("/spec/runPolicy/schedulingPolicy", policy);
            let large = fixture.submit(&large)?;
            large.until("condition Created", |job| {
                condition(job, "Created") == Some("True")
            })?;
            let group = || {
                fixture
                    .cluster
                    .get(&fixture.namespace, self.groups, "large")
            };
            large.pods_until("both workers", "worker", |pods| pods.len() == 2)?;
            let group = group()?.context("pods without a group")?;
            let resources = &group["spec"]["minResources"];
            ensure!(*resources == too_much, "{resources}");

            // The scheduler had the chance to place the first job: it has placed all of a later one.
            let small = fixture.submit(&job.with("/metadata/name", "small"))?;
            small.succeeded_on_workers(2)?;
            let pods = [
                fixture.pods("large", "worker")?,
                fixture.pods("large", "launcher")?,
            ];
            let pods = pods.concat();
            ensure!(pods.len() == 3, "{} pods", pods.len());
            let waits = |pod: &Value| {
                pod["status"]["phase"] == "Pending" && pod["spec"]["nodeName"].is_null()
            };
            ensure!(pods.iter().all(waits), "{pods:#?}");

            let clear =
                json!({"spec": {"runPolicy": {"schedulingPolicy": {"minResources": null}}}});
            fixture.patch("mpijobs.v2beta1.kubeflow.org", "large", &clear)?;
            large.succeeded_on_workers(2)?;
            Ok(())
        })
    }
}
