//! Where the hosts of a job go, as constraints that every scheduler knows. Adds to those of the template,
//! and takes none away.

use contract::labels::{JOB_ROLE_LABEL, JOB_UID_LABEL, WORKER_ROLE};
use serde_json::{Value, json};

use super::pod::Draft;
use super::{list, object};
use crate::job::{Job, Placement};
use crate::site::Site;

const NODE: &str = "kubernetes.io/hostname";
/// What makes a constraint a wish.
const ANYWAY: &str = "ScheduleAnyway";
/// The strongest wish there is.
const WEIGHT: u32 = 100;

/// Tells the scheduler where a host of the job should go. One machine that takes every pod is not asked.
pub(crate) fn place(job: &Job, site: &Site, draft: &mut Draft) {
    if site.machine_cores.is_some() {
        return;
    }
    let selector = hosts(job);
    let near = json!({"topologyKey": NODE, "labelSelector": selector});
    match job.placement {
        Placement::Anywhere => {}
        Placement::OnePerNode => {
            let affinity = object(&mut draft.spec, "affinity");
            let others = object(affinity, "podAntiAffinity");
            list(others, "requiredDuringSchedulingIgnoredDuringExecution").push(near);
        }
        Placement::Pack => {
            let affinity = object(&mut draft.spec, "affinity");
            let others = object(affinity, "podAffinity");
            let wish = json!({"weight": WEIGHT, "podAffinityTerm": near});
            list(others, "preferredDuringSchedulingIgnoredDuringExecution").push(wish);
            // The scheduler spreads the pods of a Service unless they have constraints of their own, and
            // that weighs as much as the wish. This one selects no pods.
            let spread = list(&mut draft.spec, "topologySpreadConstraints");
            if spread.is_empty() {
                spread.push(evenly(json!({"topologyKey": NODE})));
            }
        }
        Placement::Spread => {
            let spread = list(&mut draft.spec, "topologySpreadConstraints");
            // Kubernetes refuses a second one.
            let is_same = |theirs: &Value| {
                theirs["topologyKey"] == NODE && theirs["whenUnsatisfiable"] == ANYWAY
            };
            if !spread.iter().any(is_same) {
                spread.push(evenly(near));
            }
        }
    }
}

/// A wish for as many of these pods here as there.
fn evenly(mut pods: Value) -> Value {
    pods["maxSkew"] = 1.into();
    pods["whenUnsatisfiable"] = ANYWAY.into();
    pods
}

/// All pods in which ranks run.
fn hosts(job: &Job) -> Value {
    let mut labels = json!({(JOB_UID_LABEL): job.owner.uid});
    if job.launcher.host.is_none() {
        labels[JOB_ROLE_LABEL] = WORKER_ROLE.into();
    }
    json!({"matchLabels": labels})
}
