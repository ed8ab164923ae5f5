//! Jobs: what is filled in, refused and generated. Decides nothing about running them.

use serde_json::{Value, json};

use super::{defaults, pod};
use crate::status::Cause;
use crate::value::{fill, items, text};

/// Fills in what a user left out.
pub(crate) fn default(object: &mut Value) {
    let spec = &mut object["spec"];
    if spec["completions"].is_null() && spec["parallelism"].is_null() {
        fill(spec, "completions", 1);
    }
    fill(spec, "parallelism", 1);
    if spec["backoffLimitPerIndex"].is_null() {
        fill(spec, "backoffLimit", 6);
    } else {
        fill(spec, "backoffLimit", i32::MAX);
    }
    fill(spec, "manualSelector", false);
    fill(spec, "completionMode", "NonIndexed");
    fill(spec, "suspend", false);
    let replace = if spec["podFailurePolicy"].is_null() {
        "TerminatingOrFailed"
    } else {
        "Failed"
    };
    fill(spec, "podReplacementPolicy", replace);
    defaults::pod_spec(&mut object["spec"]["template"]["spec"]);
    let labels = object["spec"]["template"]["metadata"]["labels"].clone();
    let unlabelled = super::metadata::is_empty(&object["metadata"]["labels"]);
    if unlabelled && !super::metadata::is_empty(&labels) {
        object["metadata"]["labels"] = labels;
    }
}

/// The selector and labels by which a new Job finds its pods.
pub(crate) fn generate_selector(object: &mut Value) {
    let spec = &mut object["spec"];
    if spec["manualSelector"] == true {
        return;
    }
    let (uid, name) = (
        object["metadata"]["uid"].clone(),
        object["metadata"]["name"].clone(),
    );
    let own = &object["metadata"]["labels"];
    // A Job that has no labels of its own has those of its template, whatever they become.
    let shared =
        super::metadata::is_empty(own) || *own == object["spec"]["template"]["metadata"]["labels"];
    let spec = &mut object["spec"];
    let labels = &mut spec["template"]["metadata"]["labels"];
    if labels.is_null() {
        *labels = json!({});
    }
    labels["controller-uid"] = uid.clone();
    labels["batch.kubernetes.io/controller-uid"] = uid.clone();
    labels["job-name"] = name.clone();
    labels["batch.kubernetes.io/job-name"] = name;
    if spec["selector"].is_null() {
        spec["selector"] = json!({});
    }
    let wanted = &mut spec["selector"]["matchLabels"];
    if wanted.is_null() {
        *wanted = json!({});
    }
    wanted["batch.kubernetes.io/controller-uid"] = uid;
    if shared {
        object["metadata"]["labels"] = object["spec"]["template"]["metadata"]["labels"].clone();
    }
}

/// What is wrong with a Job.
pub(crate) fn validate(object: &Value, before: Option<&Value>, causes: &mut Vec<Cause>) {
    let spec = &object["spec"];
    for field in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
    ] {
        if spec[field].as_i64().is_some_and(|value| value < 0) {
            let path = format!("spec.{field}");
            causes.push(Cause::invalid(
                &path,
                &spec[field],
                "must be greater than or equal to 0",
            ));
        }
    }
    pod::validate_template(&spec["template"], "spec.template", causes);
    let restart = &spec["template"]["spec"]["restartPolicy"];
    let path = "spec.template.spec.restartPolicy";
    match text(restart) {
        "OnFailure" | "Never" => {}
        "" | "Always" => causes.push(Cause::required(
            path,
            "valid values: \"OnFailure\", \"Never\"",
        )),
        _ => {}
    }
    if let Some(before) = before {
        validate_update(object, before, causes);
    }
}

fn validate_update(object: &Value, before: &Value, causes: &mut Vec<Cause>) {
    let (new, old) = (&object["spec"], &before["spec"]);
    for field in [
        "completions",
        "selector",
        "template",
        "completionMode",
        "podFailurePolicy",
        "backoffLimitPerIndex",
        "managedBy",
        "successPolicy",
    ] {
        let (mut after, mut was) = (new[field].clone(), old[field].clone());
        // A suspended Job that never started may still be told where to run.
        let startable = old["suspend"] == true && before["status"]["startTime"].is_null();
        if field == "template" && startable {
            relax(&mut after);
            relax(&mut was);
        }
        if after != was {
            let path = match field {
                "template" if startable => "spec.template.spec".to_owned(),
                field => format!("spec.{field}"),
            };
            causes.push(Cause::invalid(&path, &new[field], "field is immutable"));
        }
    }
}

fn relax(template: &mut Value) {
    let spec = &mut template["spec"];
    for field in ["nodeSelector", "tolerations", "affinity", "schedulingGates"] {
        spec[field] = json!(null);
    }
    for field in ["labels", "annotations"] {
        template["metadata"][field] = json!(null);
    }
    let count = items(&template["spec"]["containers"]).len();
    for index in 0..count {
        template["spec"]["containers"][index]["resources"] = json!(null);
    }
}
