//! An operator that has nothing to do: what it asks for (B17), and the memory that it holds (B13), alone
//! and beside what is not its own. Decides how long it is left alone; must not know how often.

use std::thread;
use std::time::Duration;

use anyhow::Result;
use e2e::audit::{Audit, Request};
use serde_json::{Value, json};

use super::operators::{Process, Side};
use super::rig::{Rig, Tenant, at_once};

/// Lists are read and their memory is given back, as far as it ever is.
const SETTLED: Duration = Duration::from_secs(10);
/// Bytes of a foreign ConfigMap, and of a foreign Secret.
const MAP_BYTES: usize = 10_000;
const SECRET_BYTES: usize = 1_000;

/// What others have in the cluster.
#[derive(Clone, Copy, Debug)]
pub(super) struct Foreign {
    pub(super) pods: usize,
    /// And so many Secrets.
    pub(super) maps: usize,
}

/// Lets an operator stand for so long, in a cluster with so many foreign objects.
pub(super) fn sample(rig: &Rig, side: Side, foreign: usize, stand: Duration) -> Result<Value> {
    let mut operator = Process::start(rig, side)?;
    thread::sleep(SETTLED);
    let audit = Audit::from_now(&rig.cluster)?;
    let cpu_before = operator.cpu_secs()?;
    thread::sleep(stand);
    let cpu = operator.cpu_secs()? - cpu_before;
    let mut requests = audit.requests_of(&side.account(rig).user)?;
    requests.retain(|request| !request.is_open);
    let (resident, peak) = operator.memory_mib()?;
    operator.assert_alive()?;
    operator.end()?;
    let minutes = stand.as_secs_f64() / 60.0;
    let leases = requests.iter().filter(|request| request.is_election());
    Ok(json!({
        "side": side.name(),
        "foreign": foreign,
        "secs": stand.as_secs(),
        "requestsPerMinute": requests.len() as f64 / minutes,
        "leaseRequestsPerMinute": leases.count() as f64 / minutes,
        "writes": requests.iter().filter(|request| is_real_write(request)).count(),
        "cpuSecs": cpu,
        "residentMib": resident,
        "peakMib": peak,
    }))
}

fn is_real_write(request: &Request) -> bool {
    request.is_write() && !request.is_election()
}

impl Foreign {
    pub(super) fn objects(&self) -> usize {
        self.pods + 2 * self.maps
    }

    /// Makes all of it, in a namespace of a kubelet: pods that run and mean nothing to any operator.
    pub(super) fn make(&self, rig: &Rig) -> Result<Tenant> {
        let tenant = rig.tenant("foreign")?;
        let text = "x".repeat(MAP_BYTES);
        at_once(self.maps, |number| {
            let map =
                json!({"metadata": {"name": format!("foreign-{number}")}, "data": {"text": text}});
            rig.api.create(&tenant.all("configmaps"), &map)?;
            let secret = json!({
                "metadata": {"name": format!("foreign-{number}")},
                "stringData": {"text": text[..SECRET_BYTES]},
            });
            rig.api.create(&tenant.all("secrets"), &secret)?;
            Ok(())
        })?;
        at_once(self.pods, |number| {
            let pod = json!({
                "metadata": {"name": format!("foreign-{number}"), "labels": {"app": "foreign"}},
                "spec": {
                    "nodeName": tenant.kubelet.node(),
                    "containers": [{"name": "main", "image": "nowhere.invalid/none:0"}],
                },
            });
            rig.api.create(&tenant.all("pods"), &pod)?;
            Ok(())
        })?;
        e2e::wait_for("the foreign pods", Side::Muster.patience(self.pods), || {
            Ok((tenant.kubelet.started() >= self.pods).then_some(()))
        })?;
        Ok(tenant)
    }
}
