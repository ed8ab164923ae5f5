//! The optional admission policy: one ValidatingAdmissionPolicy for each resource, which holds the pod
//! templates of a job to what its author may do. Decides what counts as a use, and which right allows it.
//! Where the templates are comes from the lists of fields, so that no resource is left out.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use dialects::field::FieldType;
use dialects::{RESOURCES, Resource};
use serde_json::{Value, json};

/// Where it is written, in deploy/.
pub(crate) const FILE: &str = "admission/policies.yaml";

/// The resource, in RBAC rules alone, that stands for the use of a node's own things.
const HOST_ACCESS: &str = "hostaccess";

/// All documents.
pub(crate) fn text() -> Result<String> {
    let mut documents = vec![host_access_role()];
    for resource in RESOURCES {
        documents.push(policy(resource)?);
        documents.push(binding(resource));
    }
    let mut text = String::from("# Written by `cargo xtask codegen`; do not edit.\n");
    for document in documents {
        text.push_str("---\n");
        text.push_str(&serde_saphyr::to_string(&document)?);
    }
    Ok(text)
}

fn name(resource: &Resource) -> String {
    format!("{}.{}", resource.plural, resource.group)
}

/// For people who may use host networks, host paths and privileges in their templates.
fn host_access_role() -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "muster-host-access"},
        "rules": [{"apiGroups": ["muster.dev"], "resources": [HOST_ACCESS], "verbs": ["use"]}],
    })
}

fn binding(resource: &Resource) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name(resource)},
        "spec": {"policyName": name(resource), "validationActions": ["Deny"]},
    })
}

fn policy(resource: &Resource) -> Result<Value> {
    let rule = json!({
        "apiGroups": [resource.group],
        "apiVersions": ["*"],
        "operations": ["CREATE", "UPDATE"],
        "resources": [resource.plural],
    });
    let specs = |object| pod_specs(resource, object);
    let variables = [
        // `namespace` is a reserved word of CEL.
        ("place", "namespaceObject.metadata.name".to_owned()),
        ("specs", specs("object")?),
        (
            "oldSpecs",
            format!("oldObject == null ? [] : {}", specs("oldObject")?),
        ),
        ("now", uses("variables.specs")),
        ("before", uses("variables.oldSpecs")),
        // Queues and scalers update jobs too. What they leave as it was is not theirs to answer for.
        (
            "changed",
            "variables.now.filter(pod, !(pod in variables.before))".to_owned(),
        ),
    ];
    let variables: Vec<Value> = variables
        .into_iter()
        .map(|(name, expression)| json!({"name": name, "expression": expression}))
        .collect();
    Ok(json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name(resource)},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [rule]},
            "variables": variables,
            "validations": validations(),
        },
    }))
}

/// The specs of a job's pods.
fn pod_specs(resource: &Resource, object: &str) -> Result<String> {
    let templates = template_paths(resource);
    if templates.is_empty() {
        ensure!(
            has_field(resource, "spec.useHostNetwork"),
            "codegen does not know where {} describes its pods",
            name(resource)
        );
        return Ok(format!("[{}]", of_parameters(object)));
    }
    let specs = templates.iter().map(|path| {
        let template = selected(object, path);
        format!("dyn({template}.?spec.orValue({{}}))")
    });
    Ok(format!("[{}]", specs.collect::<Vec<_>>().join(", ")))
}

fn template_paths(resource: &Resource) -> BTreeSet<&'static str> {
    let dialects = resource.dialects.iter();
    let fields = dialects.flat_map(|dialect| dialect.fields.iter().copied().flatten());
    fields
        .filter(|field| matches!(field.shape.field_type, FieldType::Template { .. }))
        .map(|field| field.path)
        .collect()
}

fn has_field(resource: &Resource, path: &str) -> bool {
    let dialects = resource.dialects.iter();
    let mut fields = dialects.flat_map(|dialect| dialect.fields.iter().copied().flatten());
    fields.any(|field| field.path == path)
}

/// A field of the object that may be missing: `a.b[C].d` as `object.?a.?b[?'C'].?d`.
fn selected(object: &str, path: &str) -> String {
    path.split('.').fold(object.to_owned(), |before, part| {
        match part.trim_end_matches(']').split_once('[') {
            Some((part, key)) => format!("{before}.?{part}[?'{key}']"),
            None => format!("{before}.?{part}"),
        }
    })
}

/// What each pod uses. All values are `dyn`, because CEL wants the values of a map to be of one type.
fn uses(specs: &str) -> String {
    let entries = [
        ("containers", "containers", "[]"),
        ("init", "initContainers", "[]"),
        ("volumes", "volumes", "[]"),
        ("account", "serviceAccountName", "''"),
        ("oldAccount", "serviceAccount", "''"),
        ("network", "hostNetwork", "false"),
        ("pid", "hostPID", "false"),
        ("ipc", "hostIPC", "false"),
    ];
    let entry = |(key, field, missing): (&str, &str, &str)| {
        format!("'{key}': dyn(spec.?{field}.orValue({missing}))")
    };
    let entries: Vec<String> = entries.into_iter().map(entry).collect();
    format!("{specs}.map(spec, {{{}}})", entries.join(", "))
}

/// The part of a pod spec that parameters decide where there is no template. A parameter may be null, or
/// the text `null`. Any number other than 0 is true, so the host's network is used unless the parameter
/// says that it is not.
fn of_parameters(object: &str) -> String {
    let text = |field: &str| {
        let given = format!("dyn({object}.spec.?{field}.orValue('null'))");
        format!("({given} == null ? 'null' : string({given}))")
    };
    let volume = |field: &str| {
        let name = text(field);
        format!("dyn({name} == 'null' ? [] : [{{'secret': {{'secretName': {name}}}}}])")
    };
    let (account, network) = (text("serviceAccountName"), text("useHostNetwork"));
    format!(
        "dyn({{'volumes': dyn(dyn({object}.spec.?volumes.orValue([])) + {} + {}), \
         'serviceAccountName': dyn({account} == 'null' ? '' : {account}), \
         'hostNetwork': dyn(!({network}.lowerAscii() in ['false', '0', 'null']))}})",
        volume("secret"),
        volume("s3Secret"),
    )
}

/// Each use, and the right that allows it. The rights are those that Kubernetes' own role `edit` has,
/// except for the host's things, for which it has none.
fn validations() -> Vec<Value> {
    let secret = |name: &str| may("", "secrets", &format!(".name({name})"), "get");
    let (in_volume, in_projection) = (
        secret("volume.secret.?secretName.orValue('')"),
        secret("source.secret.?name.orValue('')"),
    );
    let volumes = format!(
        "pod.volumes.all(volume, (!has(volume.secret) || {in_volume}) && \
         volume.?projected.?sources.orValue([]).all(source, !has(source.secret) || {in_projection}))"
    );
    let (in_value, in_source) = (
        secret("variable.valueFrom.secretKeyRef.?name.orValue('')"),
        secret("source.secretRef.?name.orValue('')"),
    );
    let variables = format!(
        "(pod.containers + pod.init).all(container, \
         container.?env.orValue([]).all(variable, !has(variable.valueFrom) || \
         !has(variable.valueFrom.secretKeyRef) || {in_value}) && \
         container.?envFrom.orValue([]).all(source, !has(source.secretRef) || {in_source}))"
    );
    let account = may("", "serviceaccounts", ".name(account)", "impersonate");
    let accounts = format!(
        "[pod.account, pod.oldAccount].all(account, account in ['', 'default'] || {account})"
    );
    let host = "pod.network == true || pod.pid == true || pod.ipc == true || \
         pod.volumes.exists(volume, has(volume.hostPath)) || \
         (pod.containers + pod.init).exists(container, \
         container.?securityContext.?privileged.orValue(false) == true || \
         container.?securityContext.?capabilities.?add.orValue([]).size() > 0 || \
         container.?ports.orValue([]).exists(port, port.?hostPort.orValue(0) > 0))";
    let checks = [
        (
            format!(
                "size(variables.changed) == 0 || {}",
                may("", "pods", "", "create")
            ),
            "the author of a job must be allowed to create pods in its namespace",
        ),
        (
            format!("variables.changed.all(pod, {accounts})"),
            "the author of a job must be allowed to impersonate the service account that its pods name",
        ),
        (
            format!("variables.changed.all(pod, {volumes})"),
            "the author of a job must be allowed to get the Secrets that its pods mount",
        ),
        (
            format!("variables.changed.all(pod, {variables})"),
            "the author of a job must be allowed to get the Secrets that its pods have in variables",
        ),
        (
            format!(
                "!variables.changed.exists(pod, {host}) || {}",
                may("muster.dev", HOST_ACCESS, "", "use")
            ),
            "the author of a job must have the role muster-host-access for the host's network, processes, \
             paths or ports, and for privileged containers and added capabilities",
        ),
    ];
    let check = |(expression, message): (String, &str)| json!({"expression": expression, "message": message, "reason": "Forbidden"});
    checks.into_iter().map(check).collect()
}

/// The author of the request may do this in the job's namespace.
fn may(group: &str, resource: &str, name: &str, verb: &str) -> String {
    format!(
        "authorizer.group('{group}').resource('{resource}').namespace(variables.place){name}.check('{verb}').allowed()"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s02_every_template_of_every_resource_is_held_to_its_authors_rights() {
        let all: Vec<(&str, Vec<&str>)> = RESOURCES
            .iter()
            .map(|resource| {
                (
                    resource.group,
                    template_paths(resource).into_iter().collect(),
                )
            })
            .collect();
        let kubeflow = vec![
            "spec.mpiReplicaSpecs[Launcher].template",
            "spec.mpiReplicaSpecs[Worker].template",
        ];
        assert!(all.contains(&("kubeflow.org", kubeflow)), "{all:?}");
        let without: Vec<&str> = all
            .iter()
            .filter(|(_, paths)| paths.is_empty())
            .map(|(group, _)| *group)
            .collect();
        assert_eq!(without, ["muster.dev"]);
        let text = text().expect("every resource has a policy");
        for resource in RESOURCES {
            assert!(text.contains(&name(resource)), "{}", name(resource));
        }
    }

    #[test]
    fn paths_become_selections_that_may_find_nothing() {
        assert_eq!(
            selected("object", "spec.mpiReplicaSpecs[Worker].template"),
            "object.?spec.?mpiReplicaSpecs[?'Worker'].?template"
        );
    }
}
