//! Jobs of Kubeflow's first two versions, written anew as `kubeflow.org/v1`. Decides which field becomes which,
//! and what a person must be told; must not know where the text comes from or goes to.

use planner::text;
use quantity::Quantity;
use serde_json::{Map, Value, json};

use crate::manifest;
use crate::schema::{self, Schema};

const GROUP: &str = "kubeflow.org";
const NEW: &str = "kubeflow.org/v1";
/// What `gpus` counts.
const GPU: &str = "nvidia.com/gpu";
/// The old operator's own default, which a flag of it could change.
const PER_NODE: u64 = 8;
/// More fields in wrong places are not named, and no more of a field's name.
const UNKNOWN_MAX: usize = 20;
const KEY_BYTES_MAX: usize = 60;
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
    let mut object = old.clone();
    object["apiVersion"] = NEW.into();
    let mut notes = Vec::new();
    let fields = object.as_object_mut().ok_or("it is not an object")?;
    fields.remove("status");
    let spec = fields.get_mut("spec").ok_or("it has no spec")?;
    let spec = object_at("spec", spec)?;
    if !spec.contains_key("mpiReplicaSpecs") {
        from_one_template(spec, &mut notes)?;
    }
    if spec.remove("launcherOnMaster") == Some(true.into()) {
        notes.push(
            "launcherOnMaster: the scheduler places the launcher; add a nodeSelector to its template \
             if it must run on a control plane node"
                .to_owned(),
        );
    }
    if let Some(family) = spec.remove("mpiDistribution") {
        let family = match family.as_str() {
            Some("IntelMPI") => "Intel".into(),
            _ => family,
        };
        spec.insert("mpiImplementation".to_owned(), family);
    }
    into_run_policy(spec)?;
    let mut unknown = Vec::new();
    if let Some(roles) = spec.get_mut("mpiReplicaSpecs") {
        for (role, replicas) in object_at("spec.mpiReplicaSpecs", roles)? {
            let path = format!("spec.mpiReplicaSpecs.{role}");
            if let Some(template) = object_at(&path, replicas)?.get_mut("template") {
                forget_server(template);
                if let Some(schema) = template_schema(role) {
                    let path = format!("{path}.template");
                    leave_out_unknown(template, schema, &path, &mut unknown);
                }
            }
        }
    }
    forget_server(&mut object);
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|field, _| {
            let is_known = schema::METADATA.contains(&field.as_str());
            if !is_known {
                unknown.push(format!("metadata.{}", shown(field)));
            }
            is_known
        });
    }
    notes.extend(left_out(&unknown));
    Ok(Converted { object, notes })
}

/// A value that must be an object.
fn object_at<'v>(path: &str, value: &'v mut Value) -> Result<&'v mut Map<String, Value>, String> {
    let fields = value.as_object_mut();
    fields.ok_or_else(|| format!("{path} must be an object"))
}

fn template_schema(role: &str) -> Option<Schema> {
    let new = NEW.split_once('/');
    let job = new.and_then(|(group, version)| schema::of(group, version, "MPIJob"));
    let path = ["spec", "mpiReplicaSpecs", role, "template"];
    path.into_iter().try_fold(job?, Schema::below)
}

/// The old API server stored what was in the wrong place, and the old operator ignored it. Today's refuses it.
fn leave_out_unknown(value: &mut Value, schema: Schema, path: &str, unknown: &mut Vec<String>) {
    match value {
        Value::Object(fields) if !schema.takes_anything() => fields.retain(|key, below| {
            let path = format!("{path}.{}", shown(key));
            let known = schema.below(key);
            match known {
                Some(schema) => leave_out_unknown(below, schema, &path, unknown),
                None => unknown.push(path),
            }
            known.is_some()
        }),
        Value::Array(items) => {
            let Some(schema) = schema.element() else {
                return;
            };
            for (index, item) in items.iter_mut().enumerate() {
                leave_out_unknown(item, schema, &format!("{path}[{index}]"), unknown);
            }
        }
        Value::Object(_) | Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// What a person is told of it.
fn left_out(unknown: &[String]) -> Option<String> {
    let named = unknown.len().min(UNKNOWN_MAX);
    let more = match unknown.len() - named {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let names = unknown[..named].join(", ");
    (named > 0).then(|| {
        format!("left out, because it is in no place where an operator ever looked: {names}{more}")
    })
}

/// A key in characters that may be shown, and not too many of them.
fn shown(key: &str) -> String {
    text::truncated(&text::printable(key), KEY_BYTES_MAX)
}

/// Leaves out what came from an API server.
fn forget_server(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|field, _| !OF_THE_SERVER.contains(&field.as_str()));
    }
}

/// The first version had one template for launcher and workers. Only its first container was ranks'.
fn from_one_template(spec: &mut Map<String, Value>, notes: &mut Vec<String>) -> Result<(), String> {
    let template = spec.remove("template");
    let template = template.ok_or("it has neither spec.mpiReplicaSpecs nor spec.template")?;
    let resource = match spec.remove("processingResourceType") {
        Some(Value::String(cpu)) if cpu == "cpu" => "cpu",
        _ => GPU,
    };
    let (workers, units) = size(spec, &template, resource, notes)?;
    let (mut launcher, mut worker) = (template.clone(), template);
    container(&mut launcher)?.remove("resources");
    // Workers ran nothing but what the launcher started in them.
    let main = container(&mut worker)?;
    main.remove("command");
    main.remove("args");
    if let Some(units) = units {
        let resources = main.entry("resources").or_insert_with(|| json!({}));
        let resources = object_at("resources of the container", resources)?;
        let limits = resources.entry("limits").or_insert_with(|| json!({}));
        object_at("limits of the container", limits)?.insert(resource.to_owned(), units.into());
        let slots = || units.into();
        spec.entry("slotsPerWorker").or_insert_with(slots);
    }
    let roles = json!({
        "Launcher": {"replicas": 1, "template": launcher},
        "Worker": {"replicas": workers, "template": worker},
    });
    spec.insert("mpiReplicaSpecs".to_owned(), roles);
    notes.push(
        "as under the old operator, the launcher asks for no resources, and the workers run no command \
         of their own"
            .to_owned(),
    );
    Ok(())
}

/// How many workers, and how many GPUs or processors each has if the spec says so.
fn size(
    spec: &mut Map<String, Value>,
    template: &Value,
    resource: &str,
    notes: &mut Vec<String>,
) -> Result<(u64, Option<u64>), String> {
    let mut take = |field: &str| spec.remove(field).and_then(|value| value.as_u64());
    let (gpus, units) = (take("gpus"), take("processingUnits"));
    let per_node = take("gpusPerNode").or(take("processingUnitsPerNode"));
    let replicas = take("replicas");
    if let Some(total) = gpus.or(units) {
        let per_node = per_node.unwrap_or_else(|| {
            notes.push(format!(
                "spec.gpusPerNode is not set: a worker gets at most {PER_NODE}, the old operator's default"
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
    let limits = template.pointer("/spec/containers/0/resources/limits");
    let limit = match limits.and_then(|limits| limits.get(resource)) {
        Some(Value::String(text)) => Quantity::parse(text),
        Some(Value::Number(number)) => Quantity::parse(&number.to_string()),
        _ => None,
    };
    let units = limit.and_then(|limit| u64::try_from(limit.ones()).ok());
    Ok((workers, units))
}

/// The container that the ranks run in.
fn container(template: &mut Value) -> Result<&mut Map<String, Value>, String> {
    let first = template.pointer_mut("/spec/containers/0");
    object_at(
        "spec.template.spec.containers[0]",
        first.ok_or("spec.template has no container")?,
    )
}

/// Later versions have these in one place.
fn into_run_policy(spec: &mut Map<String, Value>) -> Result<(), String> {
    for field in [
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
    ] {
        let Some(value) = spec.remove(field) else {
            continue;
        };
        let policy = spec.entry("runPolicy").or_insert_with(|| json!({}));
        let policy = object_at("spec.runPolicy", policy)?;
        policy.entry(field).or_insert(value);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Converts, and expects that lint has nothing to say of the result.
    fn converted(old: &str) -> Converted {
        let old = &crate::yaml::documents(old).unwrap()[0].value;
        assert!(is_old(old));
        let converted = convert(old).unwrap();
        let text = crate::yaml::text(&converted.object);
        let documents = crate::yaml::documents(&text);
        let manifest = manifest::Manifest {
            name: "new.yaml".to_owned(),
            text,
            documents,
        };
        let findings = crate::lint::check(&manifest);
        assert!(findings.is_empty(), "{findings:?}");
        converted
    }

    const FIRST: &str = "
apiVersion: kubeflow.org/v1alpha1
kind: MPIJob
metadata: {name: bench, uid: abc, creationTimestamp: null, clusterName: ''}
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
            notes.iter().any(|note| note.contains("at most 8")),
            "{notes:?}"
        );
        assert!(
            notes.iter().any(|note| note.contains("launcherOnMaster")),
            "{notes:?}"
        );
    }

    #[test]
    fn m11_what_the_old_operator_ignored_is_left_out_and_named() {
        let old = FIRST.replace("containers:", "imagePullPolicy: Always\n      containers:");
        let old = old.replace("image: img,", "image: img, colour: blue,");
        let Converted { object, notes } = converted(&old);
        let text = object.to_string();
        assert!(!text.contains("Always") && !text.contains("blue"), "{text}");
        let worker = "spec.mpiReplicaSpecs.Worker.template.spec";
        for path in ["imagePullPolicy", "containers[0].colour"] {
            let path = format!("{worker}.{path}");
            assert!(notes.iter().any(|note| note.contains(&path)), "{notes:?}");
        }
    }

    #[test]
    fn m11_only_the_first_container_is_the_ranks() {
        for (kind, limit, slots) in [("", "nvidia.com/gpu: '2'", 2), ("cpu", "cpu: 3", 3)] {
            let size = format!("replicas: 4, processingResourceType: {kind}");
            let size = size.replace(", ", "\n  ");
            let old = FIRST.replace("gpus: 16", &size).replace(
                "image: img,",
                &format!("image: img, resources: {{limits: {{{limit}, memory: 1Gi}}}},"),
            );
            let sidecar =
                "      - {name: log, image: img, command: [tail], resources: {limits: {cpu: 1}}}\n";
            let old = old.replace("status:", &format!("{sidecar}status:"));
            let spec = converted(&old).object["spec"].clone();
            let containers = |role: &str| {
                let pod = &spec["mpiReplicaSpecs"][role]["template"]["spec"];
                pod["containers"].clone()
            };
            assert_eq!(spec["slotsPerWorker"], slots, "{limit}");
            let worker = containers("Worker");
            assert_eq!(worker[0]["resources"]["limits"]["memory"], "1Gi");
            assert_eq!(worker[1], containers("Launcher")[1]);
            assert_eq!(worker[1]["command"], json!(["tail"]));
            assert_eq!(worker[1]["resources"]["limits"], json!({"cpu": 1}));
            assert_eq!(containers("Launcher")[0].get("resources"), None);
        }
    }

    #[test]
    fn m11_the_second_version_keeps_its_roles() {
        let role = "{replicas: 1, template: {spec: {containers: [{name: a, image: b}]}}}";
        let old = format!(
            "apiVersion: kubeflow.org/v1alpha2\nkind: MPIJob\nmetadata: {{name: a}}\nspec:\n  \
             activeDeadlineSeconds: 5\n  mpiDistribution: IntelMPI\n  mpiReplicaSpecs: {{Launcher: {role}, Worker: {role}}}\n"
        );
        let Converted { object, notes } = converted(&old);
        assert_eq!(object["spec"]["runPolicy"]["activeDeadlineSeconds"], 5);
        assert_eq!(object["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"], 1);
        assert_eq!(object["spec"]["mpiImplementation"], "Intel");
        assert!(notes.is_empty(), "{notes:?}");
    }

    #[test]
    fn m11_what_cannot_be_converted_says_why() {
        for (from, to, words) in [
            ("gpus: 16", "gpus: 12", "12 is not a multiple of the 8"),
            ("gpus: 16", "slotsPerWorker: 1", "none of spec.replicas"),
            ("template:", "pattern:", "neither spec.mpiReplicaSpecs nor"),
            ("containers:", "parts:", "spec.template has no container"),
            ("- {name: tf", "- x #", "containers[0] must be an object"),
            (
                "gpus: 16",
                "mpiReplicaSpecs: {Worker: x}",
                "spec.mpiReplicaSpecs.Worker must be",
            ),
            (
                "gpus: 16",
                "gpus: 16\n  runPolicy: x",
                "spec.runPolicy must be an object",
            ),
            (
                "image: img",
                "image: img, resources: x",
                "resources of the container must be",
            ),
        ] {
            let old = FIRST.replace(from, to);
            let old = &crate::yaml::documents(&old).unwrap()[0].value;
            let error = convert(old).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
