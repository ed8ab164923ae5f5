//! The rules of kubeflow.org's MPIJob that bind several fields, in the Common Expression Language.
//!
//! What is legal in v1 only must stay writable through v2beta1, where Kueue and the operator write, and
//! by clients that drop the field which tells the two apart. So a rule of v2beta1 binds jobs of v2beta1
//! only, and never one that broke it before.

use crate::definition::Rule;
use crate::muster_fields;

/// All of them.
pub(crate) fn all() -> Vec<Rule> {
    let mut rules = of_name();
    rules.extend(of_spec());
    rules.extend(of_replica_specs());
    rules.push(muster_fields::transport_rule());
    rules
}

fn of_name() -> Vec<Rule> {
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
    let (v1_now, v1_before) = (of_v1("self"), of_v1("oldSelf.value()"));
    vec![
        // A name never changes, so jobs that were stored before this rule can still be updated.
        Rule::with_optional_old(
            "",
            format!(
                "oldSelf.hasValue() || {v1_now} || self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')"
            ),
            "metadata.name: must be a DNS-1035 label, because it names a Service: lower case letters, digits and '-', beginning with a letter",
        ),
        Rule::with_optional_old(
            "",
            format!(
                "{v1_now} || (oldSelf.hasValue() && {v1_before}) || (oldSelf.hasValue() && {before} == {now}) || \
                 size(self.metadata.name) + size('-worker-') + size(string({now} - 1)) <= 63"
            ),
            "metadata.name: too long: at most 54 characters fit with up to 10 workers, 53 with up to 100, 52 with up to 1000, 51 with up to 10000, because NAME-worker-INDEX must not exceed 63",
        ),
        Rule::with_optional_old(
            "",
            "oldSelf.hasValue() || size(self.metadata.name) <= 63".to_owned(),
            "metadata.name: too long: at most 63 characters, because every pod is labelled with it",
        ),
    ]
}

/// The job of this spec was written in v1.
fn is_v1(spec: &str) -> String {
    format!("has({spec}.muster) && has({spec}.muster.dialect) && {spec}.muster.dialect == 'v1'")
}

fn of_spec() -> Vec<Rule> {
    let managed_by = |spec: &str| {
        format!(
            "(has({spec}.runPolicy) && has({spec}.runPolicy.managedBy) ? [{spec}.runPolicy.managedBy] : [])"
        )
    };
    let queue = |spec: &str| {
        let policy = format!("{spec}.runPolicy.schedulingPolicy");
        format!(
            "(has({spec}.runPolicy) && has({policy}) && has({policy}.queue) ? {policy}.queue : '')"
        )
    };
    let (now, before, v1) = (managed_by("self"), managed_by("oldSelf"), is_v1("self"));
    let restart_policy =
        "has(REPLICA.restartPolicy) && !(REPLICA.restartPolicy in ['', 'Never', 'OnFailure'])";
    vec![
        // Flyte writes jobs back without it, since its types are older than the field.
        Rule::new(
            "spec",
            format!("{now} == {before} || ({v1} && {now} == [])"),
            "spec.runPolicy.managedBy: is immutable",
        ),
        Rule::new(
            "spec",
            format!("!({v1}) || {} == {}", queue("self"), queue("oldSelf")),
            "spec.runPolicy.schedulingPolicy.queue: is immutable",
        ),
        of_v2beta1(
            "Launcher",
            restart_policy,
            "spec.mpiReplicaSpecs.Launcher.restartPolicy: must be Never or OnFailure",
        ),
        of_v2beta1(
            "Worker",
            restart_policy,
            "spec.mpiReplicaSpecs.Worker.restartPolicy: must be Never or OnFailure",
        ),
        of_v2beta1(
            "Worker",
            "!has(REPLICA.replicas)",
            "spec.mpiReplicaSpecs[Worker].replicas: must define number of replicas",
        ),
        of_v2beta1(
            "Worker",
            "has(REPLICA.replicas) && REPLICA.replicas == 0",
            "spec.mpiReplicaSpecs[Worker].replicas: must be 1 to 10000",
        ),
    ]
}

/// A rule for jobs of v2beta1: what is `wrong` with an entry of `mpiReplicaSpecs`.
fn of_v2beta1(role: &str, wrong: &str, message: &str) -> Rule {
    let breaks = |spec: &str| {
        let wrong = wrong.replace("REPLICA", &format!("{spec}.mpiReplicaSpecs['{role}']"));
        format!("(has({spec}.mpiReplicaSpecs) && '{role}' in {spec}.mpiReplicaSpecs && {wrong})")
    };
    let old = "oldSelf.value()";
    let rule = format!(
        "({}) || !{} || (oldSelf.hasValue() && (({}) || {}))",
        is_v1("self"),
        breaks("self"),
        is_v1(old),
        breaks(old)
    );
    Rule::with_optional_old("spec", rule, message)
}

fn of_replica_specs() -> Vec<Rule> {
    let rules = [
        (
            "self.all(role, role in ['Launcher', 'Worker'])",
            "spec.mpiReplicaSpecs: has only the keys Launcher and Worker",
        ),
        (
            "'Launcher' in self",
            "spec.mpiReplicaSpecs[Launcher]: must have Launcher replica spec",
        ),
        (
            "!('Launcher' in self) || !has(self['Launcher'].replicas) || self['Launcher'].replicas == 1",
            "spec.mpiReplicaSpecs[Launcher].replicas: must be 1",
        ),
        (
            "!('Worker' in self) || !has(self['Worker'].replicas) || (self['Worker'].replicas >= 0 && self['Worker'].replicas <= 10000)",
            "spec.mpiReplicaSpecs[Worker].replicas: must be 1 to 10000",
        ),
    ];
    rules
        .map(|(rule, message)| Rule::new("spec.mpiReplicaSpecs", rule, message))
        .into()
}
