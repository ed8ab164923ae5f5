//! A queue of Kueue for one test: its room, and waiting for what Kueue does with the jobs in it. Must not
//! know which jobs these are.

use anyhow::{Context, Result};
use e2e::cluster_fixture::{ClusterFixture, PATIENCE};
use e2e::wait_for;
use serde_json::{Value, json};

use super::{MULTIKUEUE, OF_ONE_JOB, QUEUE, WORKLOADS, owner};

/// A queue with room for one job, and the way to it from the test's namespace.
pub(super) struct ClusterQueue<'a> {
    fixture: &'a ClusterFixture,
}

impl<'a> ClusterQueue<'a> {
    /// It admits nothing yet.
    pub(super) fn closed(fixture: &'a ClusterFixture) -> Result<Self> {
        let name = &fixture.namespace;
        let flavors = json!([{"name": "default-flavor",
            "resources": [{"name": "cpu", "nominalQuota": OF_ONE_JOB}]}]);
        for object in [
            json!({
                "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue",
                "metadata": {"name": name},
                "spec": {
                    "namespaceSelector": {},
                    "stopPolicy": "Hold",
                    "preemption": {"withinClusterQueue": "LowerPriority"},
                    "resourceGroups": [{"coveredResources": ["cpu"], "flavors": flavors}],
                },
            }),
            json!({
                "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue",
                "metadata": {"name": QUEUE, "namespace": name},
                "spec": {"clusterQueue": name},
            }),
        ] {
            fixture.cluster.apply(&object.to_string())?;
        }
        Ok(Self { fixture })
    }

    pub(super) fn open(&self) -> Result<()> {
        let name = &self.fixture.namespace;
        let patch = json!({"spec": {"stopPolicy": "None"}});
        self.fixture
            .patch("clusterqueue.kueue.x-k8s.io", name, &patch)
    }

    /// Its jobs run in other clusters, which need not be there to be waited for.
    pub(super) fn hand_over(&self) -> Result<()> {
        let name = &self.fixture.namespace;
        let api = "kueue.x-k8s.io/v1beta2";
        for object in [
            json!({
                "apiVersion": api, "kind": "MultiKueueConfig", "metadata": {"name": name},
                "spec": {"clusters": ["elsewhere"]},
            }),
            json!({
                "apiVersion": api, "kind": "AdmissionCheck", "metadata": {"name": name},
                "spec": {
                    "controllerName": MULTIKUEUE,
                    "parameters": {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig",
                        "name": name},
                },
            }),
        ] {
            self.fixture.cluster.apply(&object.to_string())?;
        }
        let queue = "clusterqueue.kueue.x-k8s.io";
        let checks = json!({"admissionChecks": [{"name": name}]});
        let patch = json!({"spec": {"stopPolicy": "None", "admissionChecksStrategy": checks}});
        self.fixture.patch(queue, name, &patch)?;
        // By then Kueue's webhook knows of it.
        wait_for("Kueue to know the check", PATIENCE, || {
            let queue = self.fixture.cluster.get(name, queue, name)?;
            let queue = queue.context("the queue is gone")?;
            let conditions = queue["status"]["conditions"].to_string();
            Ok(conditions.contains("AdmissionCheckInactive").then_some(()))
        })
    }

    /// Waits for the workload of a job to be as wanted.
    pub(super) fn await_workload(&self, job: &str, holds: impl Fn(&Value) -> bool) -> Result<()> {
        let what = format!("the workload of {job}");
        self.fixture.watch(&what, &[WORKLOADS], PATIENCE, |seen| {
            let mut workloads = seen.values().filter(|one| owner(one) == Some(job));
            Ok(workloads.any(&holds).then_some(()))
        })
    }

    /// Waits until so much of the queue is taken.
    pub(super) fn await_usage(&self, wanted: &str) -> Result<()> {
        wait_for(&format!("{wanted} in use"), PATIENCE, || {
            let (cluster, name) = (&self.fixture.cluster, &self.fixture.namespace);
            let queue = cluster.get(name, "clusterqueue.kueue.x-k8s.io", name)?;
            let queue = queue.context("the queue is gone")?;
            let total = &queue["status"]["flavorsReservation"][0]["resources"][0]["total"];
            Ok((total == wanted).then_some(()))
        })
    }
}
