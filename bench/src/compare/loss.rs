//! One worker of a job that runs is lost (B24): what it costs until as many pods run as before. Decides what
//! each side is asked to do about it, which is its best: muster replaces the pod; Kubeflow's operator
//! replaces one that was deleted, and the Job tries the launcher again, but for one that failed somebody
//! has to create the job again; and a client that creates all pods again is the least that a controller
//! could do that recreates whatever belongs to a failed job. Must not know how often it is repeated.

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::audit::{Audit, Request};
use e2e::wait_for;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::floor::{NAME, Template};
use super::ledger::secs;
use super::life::warmed_up;
use super::operators::Side;
use super::rig::{Rig, Tenant, at_once};
use super::sightings::Sightings;

const JOB: &str = "loss";
/// muster replaces no worker that is younger than ten seconds. Whatever the start has left to do is done by then.
const OLD: Duration = Duration::from_secs(11);
/// An operator that is going to replace a worker has begun by then; and what follows the last start is over.
const SETTLED: Duration = Duration::from_secs(5);
/// As mpirun does when a worker is lost.
const FAILED: i32 = 1;
/// What a person sends who creates a job again: its deletion and its creation.
const PERSON_WRITES: usize = 2;

/// How a worker is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Its pod is deleted, as by a drain.
    Deleted,
    /// Its containers end, and its pod stays.
    Failed,
}

impl Kind {
    pub(super) const ALL: [Self; 2] = [Self::Deleted, Self::Failed];

    fn name(self) -> &'static str {
        match self {
            Self::Deleted => "deleted",
            Self::Failed => "failed",
        }
    }
}

/// Loses one worker of a job and takes the numbers.
pub(super) fn sample(rig: &Rig, side: Side, workers: usize, kind: Kind) -> Result<Value> {
    let tenant = rig.tenant("loss")?;
    let operator = warmed_up(rig, side, &tenant)?;
    let job = tenant.job(JOB, workers)?.launcher_restart_policy("Never");
    let job = match side {
        Side::Muster => job
            .launcher_command(&["mpirun", "solve"])
            .with("/spec/muster/transport", "Agent")
            .with("/spec/muster/recovery", json!({"restarts": 1})),
        Side::P1 | Side::P0 => job,
    };
    let started = tenant.kubelet.started();
    let sightings = Sightings::start(&tenant, "mpijobs")?;
    tenant.submit(&job)?;
    let ran = sightings.wait("Running", 1, side.patience(workers))?;
    ensure!(ran == 1, "{side:?}: the job never ran");
    drop(sightings);
    await_started(&tenant, started + workers + 1, side)?;
    thread::sleep(OLD);

    let victim = format!("{JOB}-worker-{}", workers - 1);
    let by_hand = kind == Kind::Failed && side != Side::Muster;
    if by_hand {
        lose(&tenant, &victim, kind, side)?;
        thread::sleep(SETTLED);
        let pod = tenant.api.get(&path(&tenant, &victim))?;
        let stays = pod.is_some_and(|pod| pod["status"]["phase"] == "Failed");
        ensure!(stays, "{side:?} has replaced {victim} by itself");
    }
    let started = tenant.kubelet.started();
    let audit = Audit::from_now(&rig.cluster)?;
    if by_hand {
        create_again(&tenant, &job.json(), side)?;
    } else {
        lose(&tenant, &victim, kind, side)?;
    }
    let remade = match (side, by_hand) {
        (_, true) => workers + 1,
        (Side::Muster, _) => 1,
        // The worker and the launcher.
        (Side::P1 | Side::P0, _) => 2,
    };
    await_started(&tenant, started + remade, side)?;
    thread::sleep(SETTLED);
    ensure!(
        tenant.kubelet.started() == started + remade,
        "{side:?} has made more pods than {remade}"
    );
    let requests = audit.requests_in(&tenant.namespace)?;
    let user = &side.account(rig).user;
    let own = requests
        .iter()
        .filter(|request| request.user == *user && request.is_write());
    let writes = own.count() + if by_hand { PERSON_WRITES } else { 0 };
    let sample = found(side.name(), workers, kind, writes, &requests)?;
    operator.end()?;
    tenant.close()?;
    Ok(sample)
}

/// A client deletes all pods of a job with one request and posts them again.
pub(super) fn recreate(
    rig: &Rig,
    template: &Template,
    workers: usize,
    kind: Kind,
) -> Result<Value> {
    let tenant = rig.tenant("again")?;
    let owner = json!({"metadata": {"name": "owner"}});
    let owner = rig.api.create(&tenant.all("configmaps"), &owner)?;
    let text = template.text(&owner, &tenant.kubelet);
    let (pods, collection) = (workers + 1, tenant.all("pods"));
    let post_all = || {
        at_once(pods, |number| {
            let body = text.replace(NAME, &format!("{JOB}-worker-{number}"));
            let (code, answer) = rig.api.send_text("POST", &collection, &body)?;
            ensure!(code < 300, "{code}: {}", String::from_utf8_lossy(&answer));
            Ok(())
        })
    };
    post_all()?;
    await_started(&tenant, pods, Side::Muster)?;
    let audit = Audit::from_now(&rig.cluster)?;
    rig.api.send("DELETE", &collection, None)?.accepted()?;
    // Their names have to be free.
    tenant.await_pods_at_most(0, Side::Muster.patience(pods))?;
    post_all()?;
    await_started(&tenant, 2 * pods, Side::Muster)?;
    let requests = audit.requests_in(&tenant.namespace)?;
    let sample = found("L", workers, kind, 1 + pods, &requests)?;
    tenant.close()?;
    Ok(sample)
}

fn path(tenant: &Tenant, pod: &str) -> String {
    format!("{}/{pod}", tenant.all("pods"))
}

fn await_started(tenant: &Tenant, pods: usize, side: Side) -> Result<()> {
    let what = format!("{pods} pods to have started");
    wait_for(&what, side.patience(pods), || {
        Ok((tenant.kubelet.started() >= pods).then_some(()))
    })
}

/// Takes a worker away. Where no agent of muster's is in the launcher, the launcher ends with it.
fn lose(tenant: &Tenant, worker: &str, kind: Kind, side: Side) -> Result<()> {
    match kind {
        Kind::Deleted => tenant.api.delete(&path(tenant, worker))?,
        Kind::Failed => tenant.kubelet.end(worker, FAILED)?,
    }
    match side {
        Side::Muster => Ok(()),
        Side::P1 | Side::P0 => tenant.end_launcher_with(JOB, FAILED),
    }
}

/// What a person does, and as fast as nobody can.
fn create_again(tenant: &Tenant, job: &Value, side: Side) -> Result<()> {
    let path = format!("{}/{JOB}", tenant.all("mpijobs"));
    let options = json!({"propagationPolicy": "Foreground"});
    tenant
        .api
        .send("DELETE", &path, Some(&options))?
        .accepted()?;
    let patience = side.patience(tenant.count("pods")?);
    wait_for("the job and its pods to be gone", patience, || {
        let is_gone = tenant.api.get(&path)?.is_none() && tenant.count("pods")? == 0;
        Ok(is_gone.then_some(()))
    })?;
    tenant.api.create(&tenant.all("mpijobs"), job).map(drop)
}

/// From the first request that had to do with the loss to the last that says of a pod that it runs.
fn found(
    side: &str,
    workers: usize,
    kind: Kind,
    writes: usize,
    requests: &[Request],
) -> Result<Value> {
    let first = requests.iter().filter(|request| request.is_write());
    let first: Option<Timestamp> = first.map(|request| request.received).min();
    let said = requests
        .iter()
        .filter(|request| request.resource == "pods/status");
    let last = said.map(|request| request.answered).max();
    let made = requests.iter().filter(|request| {
        request.verb == "create" && request.resource == "pods" && request.code < 300
    });
    let (first, last) = first.zip(last).context("no pod was said to run")?;
    Ok(json!({
        "side": side,
        "workers": workers,
        "kind": kind.name(),
        "writes": writes,
        "podsMade": made.count(),
        "againSecs": secs(first, last),
    }))
}
