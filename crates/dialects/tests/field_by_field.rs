//! No field is ignored in silence: every field that a CRD takes is on its dialect's list, and every
//! field on the list makes a difference, or is refused by its name. docs/dialects.md is printed from
//! the same lists (`MUSTER_UPDATE_GOLDEN=1` writes it).
#![expect(clippy::disallowed_methods, reason = "the CRDs and the page are files")]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use dialects::field::{Answer, Field};
use dialects::{
    Dialect, RESOURCES, Resource, bdap_v1, kubeflow_v1, kubeflow_v2beta1, openmpi_v1alpha1,
    t9k_v1beta1,
};
use serde_json::{Value, json};

const PAGE: &str = "docs/dialects.md";

fn repository(relative: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(relative)
}

fn fields(dialect: &Dialect) -> impl Iterator<Item = &'static Field> {
    dialect.fields.iter().copied().flatten()
}

fn crd(resource: &Resource) -> Value {
    let file = format!("deploy/crds/{}_{}.yaml", resource.group, resource.plural);
    let text = std::fs::read_to_string(repository(&file)).expect("the CRD can be read");
    serde_saphyr::from_str(&text).expect("the CRD is YAML")
}

/// Paths of everything that a schema takes, down to what has no fields of its own.
fn leaves(schema: &Value, path: &str, found: &mut BTreeSet<String>) {
    // `template`, `launcherTemplate`, `workerTemplate`
    let is_template = path.ends_with("emplate");
    if let Some(items) = schema
        .get("items")
        .filter(|items| items.get("properties").is_some())
    {
        return leaves(items, &format!("{path}[]"), found);
    }
    let entries = schema.get("additionalProperties");
    if let Some(entries) = entries.filter(|entries| entries.get("properties").is_some()) {
        return leaves(entries, &format!("{path}[]"), found);
    }
    match schema.get("properties").and_then(Value::as_object) {
        Some(properties) if !is_template => {
            for (name, schema) in properties {
                leaves(schema, &format!("{path}.{name}"), found);
            }
        }
        _ => drop(found.insert(path.to_owned())),
    }
}

/// A path of the list as the schema spells it: entries of a map are all alike.
fn of_schema(path: &str) -> String {
    path.replace("[Launcher]", "[]").replace("[Worker]", "[]")
}

#[test]
fn every_field_that_a_crd_takes_is_on_the_list_and_no_other() {
    for resource in RESOURCES {
        let crd = crd(resource);
        for version in crd["spec"]["versions"].as_array().expect("it has versions") {
            let mut taken = BTreeSet::new();
            let spec = &version["schema"]["openAPIV3Schema"]["properties"]["spec"];
            leaves(spec, "spec", &mut taken);
            for dialect in resource.dialects {
                let listed: BTreeSet<String> =
                    fields(dialect).map(|field| of_schema(field.path)).collect();
                assert_eq!(listed, taken, "{} in {}", dialect.name, version["name"]);
            }
        }
    }
}

fn kubeflow() -> Value {
    let template = json!({"spec": {"containers": [
        {"name": "mpi", "image": "a"}, {"name": "other", "image": "a"}]}});
    json!({"metadata": {"name": "a", "namespace": "n", "uid": "u"}, "spec": {"mpiReplicaSpecs": {
        "Launcher": {"template": template}, "Worker": {"replicas": 2, "template": template}}}})
}

/// A job of T9k in which this field can make a difference.
fn t9k(path: &str) -> Value {
    let template = |container: &str| {
        json!({"spec": {"initContainers": [{"name": "i", "image": "i"}],
            "containers": [{"name": container, "image": "a"}]}})
    };
    let mut worker = json!({"replicas": 2, "cmd": ["a"], "template": template("mpi-worker")});
    if path.contains(".process") {
        worker["processesPerWorker"] = 2.into();
        worker["processRecovery"] = json!({"enable": true});
    }
    let mut job = json!({"metadata": {"name": "a", "namespace": "n", "uid": "u"},
        "spec": {"worker": worker}});
    if path.contains(".mpiConfig") || path.starts_with("spec.replicaSpecs") {
        let policy = json!({"policy": "OnFailure", "limit": 1});
        job["spec"] = json!({"mpiConfig": {"script": ["a"]}, "replicaSpecs": [
            {"type": "worker", "replicas": 2, "restartPolicy": policy, "template": template("worker")}]});
    }
    if path.contains("t9kScheduler.priority") {
        job["spec"]["scheduler"] = json!({"t9kScheduler": {"queue": "q"}});
    }
    let given = json!([{"type": "worker", "command": ["a"]}]);
    if path.contains("debug.replicaSpecs") {
        job["spec"]["runMode"] = json!({"debug": {"enabled": true, "replicaSpecs": given}});
    }
    if path.contains("pause.resumeSpecs") {
        job["spec"]["runMode"] = json!({"pause": {"resumeSpecs": given}});
        job["status"] = json!({"conditions": [{"type": "Paused", "status": "False"}]});
    }
    job
}

fn bdap() -> Value {
    let template = json!({"spec": {"containers": [{"name": "a", "image": "a"}]}});
    json!({"metadata": {"name": "a", "namespace": "n", "uid": "u"}, "spec": {"numWorkers": 2,
        "launcherTemplate": template, "workerTemplate": template}})
}

/// An OpenMPI with both transfers, so that every parameter of theirs can make a difference.
fn openmpi() -> Value {
    json!({"metadata": {"name": "a", "namespace": "n", "uid": "u"}, "spec": {
        "image": "a", "secret": "a", "s3Secret": "a",
        "downloadDataFrom": "s3://a/in", "downloadDataTo": "in",
        "uploadDataFrom": "out", "uploadDataTo": "s3://a/out"}})
}

/// Sets a field, where lists have one item.
fn set(job: &mut Value, path: &str, value: Value) {
    let path = path.replace("[]", ".0").replace('[', ".").replace(']', "");
    let mut place = job;
    for name in path.split('.') {
        place = match name.parse::<usize>() {
            Ok(index) => &mut place[index],
            Err(_) => &mut place[name],
        };
    }
    *place = value;
}

fn try_out(dialect: &Dialect, base: &Value, field: &Field) {
    let what = format!("{} of {}", field.path, dialect.name);
    let sample = serde_json::from_str(field.sample).unwrap_or_else(|e| panic!("{what}: {e}"));
    let before = (dialect.lower)(base).unwrap_or_else(|e| panic!("{what}: the base: {e:?}"));
    let mut job = base.clone();
    set(&mut job, field.path, sample);
    let after = (dialect.lower)(&job);
    let named = |errors: &[dialects::FieldError]| {
        let (last, parent) = (field.path.rsplit('.').next(), field.path.rsplit_once('.'));
        errors.iter().any(|error| {
            last.is_some_and(|last| error.path.ends_with(last))
                || parent.is_some_and(|(parent, _)| error.path == parent)
                || error.path == "spec.replicaSpecs"
        })
    };
    match (field.answer, after) {
        (Answer::Honoured, Ok(after)) => assert_ne!(before, after, "{what} makes no difference"),
        (Answer::Honoured | Answer::Refused, Err(errors)) => {
            assert!(named(&errors), "{what} is not named: {errors:?}");
        }
        (Answer::Refused, Ok(_)) => panic!("{what} is taken"),
        (Answer::Routes, _) if field.path == "spec.muster.dialect" => {
            let row = RESOURCES[0].dialect_of(&job).name;
            assert_eq!(row, "v1", "{what}");
        }
        (Answer::Routes, _) => assert!((dialect.managed_elsewhere)(&job), "{what}"),
    }
}

#[test]
fn every_field_on_the_list_makes_a_difference_or_is_refused_by_name() {
    for dialect in [kubeflow_v2beta1::DIALECT, kubeflow_v1::DIALECT] {
        fields(&dialect).for_each(|field| try_out(&dialect, &kubeflow(), field));
    }
    let dialect = t9k_v1beta1::DIALECT;
    fields(&dialect).for_each(|field| try_out(&dialect, &t9k(field.path), field));
    let dialect = bdap_v1::DIALECT;
    fields(&dialect).for_each(|field| try_out(&dialect, &bdap(), field));
    let dialect = openmpi_v1alpha1::DIALECT;
    fields(&dialect).for_each(|field| try_out(&dialect, &openmpi(), field));
}

/// Lines of the component's acceptance list that need what no test machine has.
const OPENMPI_TESTED: &str = "
Of the component's acceptance list, these are tested with the nearest real thing:

| line | tested with |
|---|---|
| 11, a worker that is scheduled after 400 s | a worker that is scheduled when the master has begun to ask for it |
| 12, GPUs per worker | the pods' limits and the hostfile; no node has GPUs |
| 13, NVIDIA's driver | the sidecar itself, with another file in place of /proc/driver/nvidia/version |
| 20, Horovod with GPUs | its YAML is accepted and lowered; the image cannot be had |
| 21, Horovod without GPUs | LD_LIBRARY_PATH put together as there and forwarded by Open MPI 4 and 5; the image cannot be had |
";

/// What the lists do not say.
fn note(dialect: &str) -> &'static str {
    match dialect {
        "bdap" => {
            "\nWhat differs from its first operator: [decision 23](decisions/0023-bdap-choices.md). Of its \
             acceptance list, two lines are tested with the nearest thing there is: `horovodrun` (12, 13) is \
             a script that calls `/etc/mpi/kubexec.sh` as Horovod's launcher does, in an image of Open MPI; \
             GPUs (23) are limits and tolerations that reach the workers' pods, without a GPU. `kubectl get \
             mpi -A` lists its jobs; on one machine (`muster run`) its transport is not there.\n"
        }
        "openmpi" => OPENMPI_TESTED,
        _ => "",
    }
}

fn page() -> String {
    let mut page = String::from(
        "# The APIs that jobs are written in\n\n\
         Printed by a test from the dialects' own lists (`MUSTER_UPDATE_GOLDEN=1 cargo test -p dialects \
         --test field_by_field`); do not edit.\n\n\
         Every field of `spec` is *honoured*, *routes* the job (says whose it is), or is *refused* by its \
         name, at admission or in the status. Pod templates pass through whole. What the versions of \
         kubeflow.org mean by the same field differs; the version that a job was written in decides, not \
         the one it is read in: [decision 20](decisions/0020-one-resource-two-dialects.md).\n",
    );
    for resource in RESOURCES {
        for dialect in resource.dialects {
            let title = match dialect.name {
                "t9k" | "bdap" | "openmpi" => {
                    format!("{}/{} {}", resource.group, resource.version, resource.kind)
                }
                version => format!("{}/{version} {}", resource.group, resource.kind),
            };
            write!(
                page,
                "\n## `{title}`\n\n| field | | meaning |\n|---|---|---|\n"
            )
            .expect("a string takes every line");
            let mut rows: Vec<&Field> = fields(dialect).collect();
            rows.sort_by_key(|field| field.path);
            for field in rows {
                let answer = match field.answer {
                    Answer::Honoured => "honoured",
                    Answer::Routes => "routes",
                    Answer::Refused => "refused",
                };
                writeln!(page, "| `{}` | {answer} | {} |", field.path, field.meaning)
                    .expect("a string takes every line");
            }
            page.push_str(note(dialect.name));
        }
    }
    page
}

#[test]
fn the_page_says_what_the_lists_say() {
    let file = repository(PAGE);
    if std::env::var("MUSTER_UPDATE_GOLDEN").is_ok() {
        std::fs::write(&file, page()).expect("the page can be written");
    }
    let written = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(written, page(), "run this test with MUSTER_UPDATE_GOLDEN=1");
}
