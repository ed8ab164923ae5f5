//! Where the hosts of a job may run, as far as its templates tell. Decides whether two hosts may be on
//! one node, and so share its cores; where they are is the scheduler's decision.

use std::collections::BTreeMap;

use contract::labels::{
    JOB_NAME_LABEL, JOB_ROLE_LABEL, LAUNCHER_ROLE, OPERATOR_NAME, OPERATOR_NAME_LABEL, WORKER_ROLE,
};
use serde_json::Value;

use crate::job::{Job, Role};
use crate::site::Site;

/// The label that tells nodes apart.
const NODE_LABEL: &str = "kubernetes.io/hostname";

/// Whether two hosts of the job may be on one node. Only a required anti-affinity of the workers rules
/// that out.
pub(crate) fn may_share_node(job: &Job, site: &Site) -> bool {
    let workers = job.workers.role();
    let mut others = vec![labels(job, workers, WORKER_ROLE)];
    if job.launcher.host.is_some() {
        others.push(labels(job, &job.launcher.role, LAUNCHER_ROLE));
    }
    let path = "/spec/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution";
    let terms = workers.template.pointer(path).and_then(Value::as_array);
    let excludes = |labels: &Labels<'_>| {
        let mut terms = terms.into_iter().flatten();
        terms.any(|term| excludes(term, labels))
    };
    hosts(job) > 1 && (site.machine_cores.is_some() || !others.iter().all(excludes))
}

/// Whether the ranks that the job may have are more than the cores they all share.
pub(crate) fn is_crowded(job: &Job, site: &Site) -> bool {
    let ranks = hosts(job).saturating_mul(job.slots);
    site.machine_cores.is_some_and(|cores| ranks > cores)
}

/// Hosts of the job: its workers, and the launcher if it takes ranks.
fn hosts(job: &Job) -> u32 {
    job.worker_count()
        .saturating_add(job.launcher.host.is_some().into())
}

type Labels<'a> = BTreeMap<&'a str, &'a str>;

/// The labels by which a template may select the pods of its own job.
fn labels<'a>(job: &'a Job, role: &'a Role, role_name: &'a str) -> Labels<'a> {
    let written = role.template.pointer("/metadata/labels");
    let written = written.and_then(Value::as_object).into_iter().flatten();
    let mut labels: Labels<'_> = written
        .filter_map(|(name, value)| Some((name.as_str(), value.as_str()?)))
        .collect();
    let own = role
        .labels
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()));
    labels.extend([
        (OPERATOR_NAME_LABEL, OPERATOR_NAME),
        (JOB_NAME_LABEL, job.owner.name.as_str()),
        (JOB_ROLE_LABEL, role_name),
    ]);
    labels.extend(own);
    labels
}

/// Whether a term of an anti-affinity keeps pods with these labels off the node.
fn excludes(term: &Value, labels: &Labels<'_>) -> bool {
    let Some(selector) = term.get("labelSelector").filter(|it| it.is_object()) else {
        return false;
    };
    let matches = selector.get("matchLabels").and_then(Value::as_object);
    let mut matches = matches.into_iter().flatten();
    let expressions = selector.get("matchExpressions").and_then(Value::as_array);
    let mut expressions = expressions.into_iter().flatten();
    term["topologyKey"] == NODE_LABEL
        && matches.all(|(name, value)| labels.get(name.as_str()).copied() == value.as_str())
        && expressions.all(|expression| selects(expression, labels))
}

/// Whether an expression that requires a label selects these. Others are taken not to.
fn selects(expression: &Value, labels: &Labels<'_>) -> bool {
    let key = expression["key"].as_str().unwrap_or_default();
    let value = labels.get(key);
    let listed = |value: &&str| {
        let values = expression["values"].as_array();
        values.is_some_and(|values| values.iter().any(|one| one == value))
    };
    match expression["operator"].as_str() {
        Some("Exists") => value.is_some(),
        Some("In") => value.is_some_and(listed),
        _ => false,
    }
}
