//! Jobs of Kubeflow's first two versions, written anew as `kubeflow.org/v1`. Decides which field becomes which,
//! and what a person must be told; must not know where the text comes from or goes to.

use serde_json::{Map, Value, json};

use crate::manifest;

const GROUP: &str = "kubeflow.org";
const NEW: &str = "kubeflow.org/v1";
/// What `gpus` counts.
const GPU: &str = "nvidia.com/gpu";
/// The old operator's own default, which a flag of it could change.
const PER_NODE: u64 = 8;
/// What only the API server writes.
const OF_THE_SERVER: [&str; 6] = [
    "creationTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// A job in the new form.
#[derive(Debug)]
pub(crate) struct Converted {
    pub(crate) object: Value,
    /// What the new form cannot say, or what was assumed.
    pub(crate) notes: Vec<String>,
}

/// Whether an object is a job in an old version.
pub(crate) fn is_old(object: &Value) -> bool {
    let version = manifest::text(object, "apiVersion").split_once('/');
    matches!(version, Some((GROUP, "v1alpha1" | "v1alpha2")))
        && manifest::text(object, "kind") == "MPIJob"
}

/// The job in the new form, or why there is none.
pub(crate) fn convert(old: &Value) -> Result<Converted, String> {
    let spec = old.get("spec").and_then(Value::as_object);
    let mut spec = spec.ok_or("it has no spec")?.clone();
    let mut notes = Vec::new();
    if !spec.contains_key("mpiReplicaSpecs") {
        from_one_template(&mut spec, &mut notes)?;
    }
    if spec.remove("launcherOnMaster") == Some(true.into()) {
        notes.push(
            "launcherOnMaster: the scheduler places the launcher; add a nodeSelector to its template \
             if it must run on a control plane node"
                .to_owned(),
        );
    }
    into_run_policy(&mut spec);
    let mut object = old.clone();
    object["apiVersion"] = NEW.into();
    object["spec"] = spec.into();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    forget_server(&mut object);
    let roles = object.pointer_mut("/spec/mpiReplicaSpecs");
    for role in roles.and_then(Value::as_object_mut).into_iter().flatten() {
        forget_server(&mut role.1["template"]);
    }
    Ok(Converted { object, notes })
}

/// Leaves out what came from an API server.
fn forget_server(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|field, _| !OF_THE_SERVER.contains(&field.as_str()));
    }
}

/// The first version had one template for launcher and workers.
fn from_one_template(spec: &mut Map<String, Value>, notes: &mut Vec<String>) -> Result<(), String> {
    let template = spec.remove("template");
    let template = template.ok_or("it has neither spec.mpiReplicaSpecs nor spec.template")?;
    let (workers, units) = size(spec, &template, notes)?;
    let resource = spec.remove("processingResourceType");
    let resource = match resource.as_ref().and_then(Value::as_str) {
        Some("cpu") => "cpu",
        _ => GPU,
    };
    let (mut launcher, mut worker) = (template.clone(), template);
    for container in containers(&mut launcher) {
        for limits in ["limits", "requests"] {
            let limits = container.pointer_mut(&format!("/resources/{limits}"));
            if let Some(limits) = limits.and_then(Value::as_object_mut) {
                limits.remove(GPU);
            }
        }
    }
    for container in containers(&mut worker) {
        // Workers ran nothing but what the launcher started in them.
        if let Some(container) = container.as_object_mut() {
            container.remove("command");
            container.remove("args");
        }
        if let Some(units) = units {
            if !container["resources"]["limits"].is_object() {
                container["resources"]["limits"] = json!({});
            }
            container["resources"]["limits"][resource] = units.into();
        }
    }
    if let Some(units) = units
        && !spec.contains_key("slotsPerWorker")
    {
        spec.insert("slotsPerWorker".to_owned(), units.into());
    }
    let roles = json!({
        "Launcher": {"replicas": 1, "template": launcher},
        "Worker": {"replicas": workers, "template": worker},
    });
    spec.insert("mpiReplicaSpecs".to_owned(), roles);
    notes.push(
        "the launcher asks for no GPU, and the workers run no command of their own".to_owned(),
    );
    Ok(())
}

/// How many workers, and how many GPUs or processors each has if the spec says so.
fn size(
    spec: &mut Map<String, Value>,
    template: &Value,
    notes: &mut Vec<String>,
) -> Result<(u64, Option<u64>), String> {
    let mut take = |field: &str| spec.remove(field).and_then(|value| value.as_u64());
    let (gpus, units) = (take("gpus"), take("processingUnits"));
    let per_node = take("gpusPerNode").or(take("processingUnitsPerNode"));
    let replicas = take("replicas");
    if let Some(total) = gpus.or(units) {
        let per_node = per_node.unwrap_or_else(|| {
            notes.push(format!(
                "{PER_NODE} of them are on each node, unless fewer are asked for"
            ));
            PER_NODE
        });
        if total <= per_node {
            return Ok((1, Some(total)));
        }
        if per_node == 0 || total % per_node != 0 {
            return Err(format!(
                "{total} is not a multiple of the {per_node} of each node"
            ));
        }
        return Ok((total / per_node, Some(per_node)));
    }
    let workers =
        replicas.ok_or("it has none of spec.replicas, spec.gpus and spec.processingUnits")?;
    let limit = format!(
        "/spec/containers/0/resources/limits/{}",
        crate::yaml::escaped(GPU)
    );
    let units = template.pointer(&limit).and_then(Value::as_u64);
    Ok((workers, units))
}

fn containers(template: &mut Value) -> impl Iterator<Item = &mut Value> {
    let list = template.pointer_mut("/spec/containers");
    list.and_then(Value::as_array_mut).into_iter().flatten()
}

/// Later versions have these in one place.
fn into_run_policy(spec: &mut Map<String, Value>) {
    for field in [
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
    ] {
        let Some(value) = spec.remove(field) else {
            continue;
        };
        let policy = spec.entry("runPolicy").or_insert_with(|| json!({}));
        if policy.get(field).is_none() {
            policy[field] = value;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Converts, and expects that lint has nothing to say of the result.
    fn converted(old: &str) -> Converted {
        let old = &crate::yaml::documents(old).unwrap()[0].value;
        assert!(is_old(old));
        let converted = convert(old).unwrap();
        let lowered = manifest::lower(&converted.object);
        assert!(matches!(lowered, Some(Ok(_))), "{lowered:?}");
        converted
    }

    const FIRST: &str = "
apiVersion: kubeflow.org/v1alpha1
kind: MPIJob
metadata: {name: bench, uid: abc, creationTimestamp: null}
spec:
  gpus: 16
  backoffLimit: 3
  launcherOnMaster: true
  template:
    metadata: {creationTimestamp: null}
    spec:
      containers:
      - {name: tf, image: img, command: [mpirun, python, train.py]}
status: {launcherStatus: Succeeded}
";

    #[test]
    fn m11_one_template_becomes_two_roles() {
        let Converted { object, notes } = converted(FIRST);
        assert_eq!(object["apiVersion"], NEW);
        assert_eq!(object["metadata"], json!({"name": "bench"}));
        assert_eq!(object.get("status"), None);
        let spec = &object["spec"];
        assert_eq!(spec["slotsPerWorker"], 8);
        assert_eq!(spec["runPolicy"], json!({"backoffLimit": 3}));
        let role = |role: &str| &spec["mpiReplicaSpecs"][role];
        let container = |name| &role(name)["template"]["spec"]["containers"][0];
        assert_eq!(role("Worker")["replicas"], 2);
        assert_eq!(role("Worker")["template"]["metadata"], json!({}));
        assert_eq!(container("Worker")["resources"]["limits"][GPU], 8);
        assert_eq!(container("Worker").get("command"), None);
        assert_eq!(container("Launcher")["command"][0], "mpirun");
        assert_eq!(container("Launcher").get("resources"), None);
        assert!(
            notes.iter().any(|note| note.contains("8 of them")),
            "{notes:?}"
        );
        assert!(
            notes.iter().any(|note| note.contains("launcherOnMaster")),
            "{notes:?}"
        );
    }

    #[test]
    fn m11_limits_of_the_template_are_the_workers() {
        let old = FIRST.replace("gpus: 16", "replicas: 4").replace(
            "image: img",
            "image: img, resources: {limits: {nvidia.com/gpu: 2, memory: 1Gi}}",
        );
        let spec = converted(&old).object["spec"].clone();
        let limits = |role: &str| {
            let pod = &spec["mpiReplicaSpecs"][role]["template"]["spec"];
            pod["containers"][0]["resources"]["limits"].clone()
        };
        assert_eq!(spec["slotsPerWorker"], 2);
        assert_eq!(limits("Worker"), json!({GPU: 2, "memory": "1Gi"}));
        assert_eq!(limits("Launcher"), json!({"memory": "1Gi"}));
    }

    #[test]
    fn m11_the_second_version_keeps_its_roles() {
        let role = "{replicas: 1, template: {spec: {containers: [{name: a, image: b}]}}}";
        let old = format!(
            "apiVersion: kubeflow.org/v1alpha2\nkind: MPIJob\nmetadata: {{name: a}}\nspec:\n  \
             activeDeadlineSeconds: 5\n  mpiReplicaSpecs: {{Launcher: {role}, Worker: {role}}}\n"
        );
        let Converted { object, notes } = converted(&old);
        assert_eq!(object["spec"]["runPolicy"]["activeDeadlineSeconds"], 5);
        assert_eq!(object["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"], 1);
        assert!(notes.is_empty(), "{notes:?}");
    }

    #[test]
    fn m11_what_cannot_be_converted_says_why() {
        for (from, to, words) in [
            ("gpus: 16", "gpus: 12", "12 is not a multiple of the 8"),
            ("gpus: 16", "slotsPerWorker: 1", "none of spec.replicas"),
            ("template:", "pattern:", "neither spec.mpiReplicaSpecs nor"),
        ] {
            let old = FIRST.replace(from, to);
            let old = &crate::yaml::documents(&old).unwrap()[0].value;
            let error = convert(old).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
