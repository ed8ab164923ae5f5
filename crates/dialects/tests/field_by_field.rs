//! No field is ignored silently: a dialect's list says how it handles every field that its CRD accepts, and
//! what it says is true.
#![expect(clippy::disallowed_methods, reason = "the CRDs are files")]

#[path = "bases/jobs.rs"]
mod jobs;

use std::collections::BTreeSet;
use std::path::Path;

use dialects::definition::definition;
use dialects::field::{Field, Handling};
use dialects::{Dialect, FieldError, RESOURCES, Resource, openmpi_v1alpha1};
use serde_json::{Value, json};

use jobs::{base, set};

/// The fields that users write.
fn fields(dialect: &Dialect) -> impl Iterator<Item = (&'static Field, Handling)> {
    let all = dialect.fields.iter().copied().flatten();
    all.filter_map(|field| Some((field, field.handling?)))
}

/// kubectl reads YAML 1.1, in which these words are booleans, as keys too.
#[test]
fn no_name_of_a_field_is_a_boolean_in_yaml() {
    let words = ["y", "yes", "n", "no", "on", "off", "true", "false"];
    for dialect in RESOURCES.iter().flat_map(|resource| resource.dialects) {
        for (field, _) in fields(dialect) {
            let is_boolean = |part: &str| words.contains(&part.to_ascii_lowercase().as_str());
            assert!(!field.path.split('.').any(is_boolean), "{}", field.path);
        }
    }
}

fn crd(resource: &Resource) -> Value {
    let file = format!(
        "../../deploy/crds/{}_{}.yaml",
        resource.group, resource.plural
    );
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let text = std::fs::read_to_string(file).expect("the CRD can be read");
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
fn every_field_that_a_crd_accepts_is_listed_and_no_other() {
    for resource in RESOURCES {
        let crd = crd(resource);
        for version in crd["spec"]["versions"].as_array().expect("it has versions") {
            let mut taken = BTreeSet::new();
            let spec = &version["schema"]["openAPIV3Schema"]["properties"]["spec"];
            leaves(spec, "spec", &mut taken);
            for dialect in resource.dialects {
                let listed = fields(dialect).map(|(field, _)| of_schema(field.path));
                let listed: BTreeSet<String> = listed.collect();
                assert_eq!(listed, taken, "{} in {}", dialect.name, version["name"]);
            }
        }
    }
}

fn try_out(dialect: &Dialect, base: &Value, field: &Field, handling: Handling) {
    let what = format!("{} of {}", field.path, dialect.name);
    let sample = serde_json::from_str(field.sample).unwrap_or_else(|e| panic!("{what}: {e}"));
    let before = (dialect.lower)(base).unwrap_or_else(|e| panic!("{what}: the base: {e:?}"));
    let mut job = base.clone();
    set(&mut job, field.path, sample);
    let after = (dialect.lower)(&job);
    match handling {
        Handling::Honoured => {
            let after = after.unwrap_or_else(|e| panic!("{what} is refused: {e:?}"));
            assert_ne!(before, after, "{what} makes no difference");
        }
        Handling::Checked => {
            let errors = after.expect_err(&what);
            let is_named = |error: &FieldError| error.path == field.path;
            assert!(
                errors.iter().any(is_named),
                "{what} is not named: {errors:?}"
            );
        }
        Handling::Routes if field.path == "spec.muster.dialect" => {
            assert_eq!(RESOURCES[0].dialect_of(&job).name, "v1", "{what}");
        }
        Handling::Routes => {
            assert!(!(dialect.managed_elsewhere)(base), "{what}: the base");
            assert!((dialect.managed_elsewhere)(&job), "{what}");
        }
    }
}

#[test]
fn every_field_is_handled_as_listed() {
    for dialect in RESOURCES.iter().flat_map(|resource| resource.dialects) {
        for (field, handling) in fields(dialect) {
            try_out(dialect, &base(dialect, field.path), field, handling);
        }
    }
}

/// Every place of a schema that has rules, with them.
fn rules<'v>(schema: &'v Value, found: &mut Vec<&'v Value>) {
    if let Some(Value::Array(rules)) = schema.get("x-kubernetes-validations") {
        found.extend(rules);
    }
    match schema {
        Value::Object(entries) => entries.values().for_each(|entry| rules(entry, found)),
        Value::Array(items) => items.iter().for_each(|item| rules(item, found)),
        _ => {}
    }
}

#[test]
fn every_rule_names_its_field() {
    for resource in RESOURCES {
        let definition = definition(resource, &json!({}));
        let mut found = Vec::new();
        rules(&definition, &mut found);
        let count = match resource.group {
            "kubeflow.org" => 14 * resource.dialects.len(),
            "batch.tensorstack.dev" => 10,
            "batch.test.bdap.com" => 2,
            "muster.dev" => 35,
            other => panic!("write the number of rules of {other} here"),
        };
        assert_eq!(found.len(), count, "{}", resource.group);
        for rule in found {
            let message = rule["message"].as_str().expect("a rule has a message");
            let (path, problem) = message.split_once(": ").expect("a path and a problem");
            let is_path = path == "metadata.name" || path.starts_with("spec.");
            assert!(is_path && !problem.is_empty(), "{message}");
        }
    }
}

#[test]
fn every_parameter_of_the_component_has_its_default() {
    let definition = definition(&openmpi_v1alpha1::RESOURCE, &json!({}));
    let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let parameters = &schema["properties"]["spec"]["properties"];
    assert_eq!(parameters.as_object().map(serde_json::Map::len), Some(29));
    for (name, default) in [
        ("workers", json!(4)),
        ("gpu", json!(0)),
        ("cpu", json!("null")),
        ("memory", json!("null")),
        ("nodeSelector", json!("null")),
        ("initTimeout", json!(300)),
        ("imagePullPolicy", json!("IfNotPresent")),
        ("schedulerName", json!("default-scheduler")),
        ("controllerImage", json!("jiez/openmpi-controller:0.0.3")),
        ("volumes", json!([])),
        ("useHostNetwork", json!("false")),
        ("exec", json!("null")),
    ] {
        assert_eq!(parameters[name]["default"], default, "{name}");
    }
}
