//! The rules of the CRD `mpijobs.kubeflow.org` that are not shapes. Every message names its field.
//!
//! What is legal in v1 only must stay writable through v2beta1, where Kueue and the operator write,
//! and by clients that drop the field which tells the two apart: so a rule of v2beta1 alone binds
//! jobs of v2beta1, and never one that broke it before.

use serde_json::{Value, json};

/// Rules of the whole object: the name.
pub(super) fn of_name() -> Value {
    let workers = |object: &str| {
        let worker = format!("{object}.spec.mpiReplicaSpecs['Worker']");
        format!(
            "(has({object}.spec) && has({object}.spec.mpiReplicaSpecs) && 'Worker' in {object}.spec.mpiReplicaSpecs && \
             has({worker}.replicas) && {worker}.replicas > 0 ? {worker}.replicas : 1)"
        )
    };
    let (now, before) = (workers("self"), workers("oldSelf.value()"));
    let of_v1 = |object: &str| {
        format!(
            "(has({object}.spec) && {})",
            is_v1(&format!("{object}.spec"))
        )
    };
    let exempt = format!(
        "{} || (oldSelf.hasValue() && {})",
        of_v1("self"),
        of_v1("oldSelf.value()")
    );
    json!([
        {
            // A name never changes, so jobs stored before this rule can still be updated.
            "rule": format!(
                "oldSelf.hasValue() || {} || self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
                of_v1("self")
            ),
            "optionalOldSelf": true,
            "message": "metadata.name: must be a DNS-1035 label, because it names a Service: lower case letters, digits and '-', beginning with a letter",
        },
        {
            "rule": format!(
                "{exempt} || (oldSelf.hasValue() && {before} == {now}) || \
                 size(self.metadata.name) + size('-worker-') + size(string({now} - 1)) <= 63"
            ),
            "optionalOldSelf": true,
            "message": "metadata.name: too long: at most 54 characters fit with up to 10 workers, 53 with up to 100, 52 with up to 1000, 51 with up to 10000, because NAME-worker-INDEX must not exceed 63",
        },
        {
            "rule": "oldSelf.hasValue() || size(self.metadata.name) <= 63",
            "optionalOldSelf": true,
            "message": "metadata.name: too long: at most 63 characters, because every pod is labelled with it",
        },
    ])
}

/// The job of this spec was written in v1.
fn is_v1(spec: &str) -> String {
    format!("has({spec}.muster) && has({spec}.muster.dialect) && {spec}.muster.dialect == 'v1'")
}

/// Rules of `spec`.
pub(super) fn of_spec() -> Value {
    let managed_by = |object: &str| {
        format!(
            "(has({object}.runPolicy) && has({object}.runPolicy.managedBy) ? [{object}.runPolicy.managedBy] : [])"
        )
    };
    let queue = |object: &str| {
        let policy = format!("{object}.runPolicy.schedulingPolicy");
        format!(
            "(has({object}.runPolicy) && has({policy}) && has({policy}.queue) ? {policy}.queue : '')"
        )
    };
    let (now, before) = (managed_by("self"), managed_by("oldSelf"));
    let v1 = is_v1("self");
    let mut rules = vec![
        json!({
            // Flyte writes jobs back without it, since its types are older than the field.
            "rule": format!("{now} == {before} || ({v1} && {now} == [])"),
            "message": "spec.runPolicy.managedBy: is immutable",
        }),
        json!({
            "rule": format!("!({v1}) || {} == {}", queue("self"), queue("oldSelf")),
            "message": "spec.runPolicy.schedulingPolicy.queue: is immutable",
        }),
    ];
    for role in ["Launcher", "Worker"] {
        let policy =
            "has(REPLICA.restartPolicy) && !(REPLICA.restartPolicy in ['', 'Never', 'OnFailure'])";
        rules.push(of_v2beta1(
            role,
            policy,
            &format!("spec.mpiReplicaSpecs.{role}.restartPolicy: must be Never or OnFailure"),
        ));
    }
    rules.push(of_v2beta1(
        "Worker",
        "!has(REPLICA.replicas)",
        "spec.mpiReplicaSpecs[Worker].replicas: must define number of replicas",
    ));
    rules.push(of_v2beta1(
        "Worker",
        "has(REPLICA.replicas) && REPLICA.replicas == 0",
        "spec.mpiReplicaSpecs[Worker].replicas: must be 1 to 10000",
    ));
    Value::Array(rules)
}

/// A rule for jobs of v2beta1: what is `wrong` with an entry of `mpiReplicaSpecs`.
fn of_v2beta1(role: &str, wrong: &str, message: &str) -> Value {
    let breaks = |spec: &str| {
        let replica = format!("{spec}.mpiReplicaSpecs['{role}']");
        let wrong = wrong.replace("REPLICA", &replica);
        format!("(has({spec}.mpiReplicaSpecs) && '{role}' in {spec}.mpiReplicaSpecs && {wrong})")
    };
    let old = "oldSelf.value()";
    json!({
        "rule": format!(
            "({}) || !{} || (oldSelf.hasValue() && (({}) || {}))",
            is_v1("self"), breaks("self"), is_v1(old), breaks(old)
        ),
        "optionalOldSelf": true,
        "message": message,
    })
}

/// Rules of `spec.mpiReplicaSpecs`, in every version.
pub(super) fn of_replica_specs() -> Value {
    json!([
        {
            "rule": "self.all(role, role in ['Launcher', 'Worker'])",
            "message": "spec.mpiReplicaSpecs: has only the keys Launcher and Worker",
        },
        {
            "rule": "'Launcher' in self",
            "message": "spec.mpiReplicaSpecs[Launcher]: must have Launcher replica spec",
        },
        {
            "rule": "!('Launcher' in self) || !has(self['Launcher'].replicas) || self['Launcher'].replicas == 1",
            "message": "spec.mpiReplicaSpecs[Launcher].replicas: must be 1",
        },
        {
            "rule": "!('Worker' in self) || !has(self['Worker'].replicas) || (self['Worker'].replicas >= 0 && self['Worker'].replicas <= 10000)",
            "message": "spec.mpiReplicaSpecs[Worker].replicas: must be 1 to 10000",
        },
    ])
}
