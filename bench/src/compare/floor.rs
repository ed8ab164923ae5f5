//! L, the floor below which no operator can be: a client that knows from the start what to do and only
//! posts the pods. Decides what it posts: the pods of a job of muster's, as they are. Must not know
//! any operator.

use anyhow::{Context, Result};
use e2e::audit::{Audit, Request};
use e2e::fake_kubelet::FakeKubelet;
use e2e::wait_for;
use serde_json::{Value, json};

use super::ledger::secs;
use super::life::warmed_up;
use super::operators::Side;
use super::rig::{Rig, as_sent, at_once};

/// A pod as the API server is sent it.
pub(super) struct Template(Value);

impl Template {
    /// The worker of a job that muster runs.
    pub(super) fn take(rig: &Rig) -> Result<Self> {
        let tenant = rig.tenant("template")?;
        let operator = warmed_up(rig, Side::Muster, &tenant)?;
        tenant.submit(&tenant.job("template", 1)?)?;
        let path = format!("{}/template-worker-0", tenant.all("pods"));
        let pod = wait_for("a worker", Side::Muster.patience(1), || {
            tenant.api.get(&path)
        })?;
        operator.end()?;
        tenant.close()?;
        Ok(Self(as_sent(pod)))
    }

    /// The same for another owner and another node; its name is yet to be said.
    pub(super) fn text(&self, owner: &Value, kubelet: &FakeKubelet) -> String {
        let mut pod = self.0.clone();
        pod["metadata"]["name"] = NAME.into();
        // The kubelet takes pods of one owner for alike, as it does with those of a job.
        pod["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "v1", "kind": "ConfigMap",
            "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
        }]);
        pod["spec"]["nodeName"] = kubelet.node().into();
        pod["spec"]["hostname"] = NAME.into();
        pod.to_string()
    }
}

/// More requests than are in flight at a time.
const CONNECTIONS: usize = 256;
/// Stands for the name of the pod.
pub(super) const NAME: &str = "the-name-of-the-pod";

/// Posts so many pods, the last of them in the place of a launcher, and waits until all of them run.
pub(super) fn sample(rig: &Rig, template: &Template, pods: usize) -> Result<Value> {
    let tenant = rig.tenant("floor")?;
    let owner = json!({"metadata": {"name": "owner"}});
    let owner = rig.api.create(&tenant.all("configmaps"), &owner)?;
    let text = template.text(&owner, &tenant.kubelet);
    let collection = tenant.all("pods");
    // Operators have their connections open, too.
    let first_page = format!("{collection}?limit=1");
    at_once(CONNECTIONS, |_| rig.api.list(&first_page).map(drop))?;
    let audit = Audit::from_now(&rig.cluster)?;
    at_once(pods, |number| {
        let body = text.replace(NAME, &format!("floor-worker-{number}"));
        let (code, answer) = rig.api.send_text("POST", &collection, &body)?;
        anyhow::ensure!(code < 300, "{code}: {}", String::from_utf8_lossy(&answer));
        Ok(())
    })?;
    wait_for("all pods to run", Side::Muster.patience(pods), || {
        Ok((tenant.kubelet.started() == pods).then_some(()))
    })?;
    let requests = audit.requests_in(&tenant.namespace)?;
    let of = |verb: &str, resource: &str| -> Vec<Request> {
        let mut these = requests.clone();
        these.retain(|request| request.verb == verb && request.resource == resource);
        these
    };
    let (made, started) = (of("create", "pods"), of("patch", "pods/status"));
    let first = made.iter().map(|request| request.received).min();
    let first = first.context("no pod was posted")?;
    let at = |these: &[Request], index: usize| {
        let mut answered: Vec<_> = these.iter().map(|request| request.answered).collect();
        answered.sort();
        answered.get(index).map(|at| secs(first, *at))
    };
    let sample = json!({
        "pods": pods,
        "side": "L",
        "lastWorkerSecs": at(&made, pods.saturating_sub(2)),
        "runningSecs": at(&started, pods - 1),
    });
    tenant.close()?;
    Ok(sample)
}
