//! The fields of bdap's MPIJob, its status and its definition. Its first definition had no rules at all;
//! these refuse what could never run.

use super::lower::{CLEAN_POD_POLICIES, WORKERS_MAX};
use crate::definition::{Definition, LABELS, Rule, TIMES};
use crate::field::{Field, INT32, OBJECT, Shape, TEMPLATE, TEXT, fields};

const RESTART_POLICY: Shape = TEXT.one_of(&["", "Always", "OnFailure", "Never"]);

/// The list.
pub(super) const FIELDS: &[Field] = fields! {
    Honoured "spec.numWorkers": INT32.between(1, WORKERS_MAX).required(), "3"
        => "How many workers: 1 to 10000. May be changed: muster then updates the StatefulSet, the host list and the launcher's permissions.";
    Honoured "spec.launcherTemplate": TEMPLATE.required(), r#"{"spec": {"containers": [{"name": "l", "image": "b"}]}}"#
        => "The launcher's pod. muster creates it when all workers are Ready. A change takes effect when somebody deletes the pod, because muster then recreates it.";
    "spec.launcherTemplate.spec.restartPolicy": RESTART_POLICY => "";
    Honoured "spec.workerTemplate": TEMPLATE.required(), r#"{"spec": {"containers": [{"name": "w", "image": "b"}]}}"#
        => "The workers' pods. muster adds labels and sets restartPolicy to Always. A change replaces the pods one at a time.";
    "spec.workerTemplate.spec.restartPolicy": RESTART_POLICY => "";
    "spec.muster": OBJECT => "Settings of muster that the API has no field for.";
    Honoured "spec.muster.cleanPodPolicy": TEXT.one_of(&CLEAN_POD_POLICIES), r#""Running""#
        => "Which workers muster deletes when the launcher has ended: None, Running or All. muster recreates them for the next launcher. None if not set.";
};

const STATUS: &[Field] = fields! {
    "status.launcher": TEXT => "Phase of the launcher's pod; WaitingWorkers before there is one.";
    "status.readyWorkers": INT32 => "How many workers are Ready.";
    "status.workers": INT32 => "How many workers there should be.";
    "status.replicaStatuses[*].active": INT32 => "";
    "status.replicaStatuses[*].succeeded": INT32 => "";
    "status.replicaStatuses[*].failed": INT32 => "";
};

/// The custom resource definition.
pub(super) const DEFINITION: Definition = Definition {
    description: "A program that runs under mpirun or horovodrun, whose workers are reached through the API server.",
    is_installed: false,
    labels: LABELS,
    // Others have `mj` and `mpij`, and this one never had any.
    short_names: &[],
    scale: None,
    state_column: ("Launcher", "string", ".status.launcher"),
    wide_columns: &[],
    status: &[TIMES, STATUS],
    rules,
};

/// A name never changes, so jobs that were stored before these rules can still be updated.
fn rules() -> Vec<Rule> {
    let rules = [
        (
            "self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
            "metadata.name: must be a DNS-1123 label, because hosts are named after it: lower case letters, digits and '-'",
        ),
        (
            "size(self.metadata.name) <= 45",
            "metadata.name: must be no more than 45 characters, because the workers' StatefulSet is named after it",
        ),
    ];
    let rule = |(rule, message)| {
        Rule::with_optional_old("", format!("oldSelf.hasValue() || {rule}"), message)
    };
    rules.map(rule).into()
}
