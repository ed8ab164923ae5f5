//! Jobs and StatefulSets as objects: defaults, refusals, what may change. They are suspended, so
//! that no controller is in the way.

use serde_json::{Value, json};

use super::path;
use crate::step::{Case, case};

/// A Job.
pub(crate) fn job(name: &str, suspended: bool) -> Value {
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "finalizers": ["x.example/stay"]},
        "spec": {
            "suspend": suspended,
            "managedBy": "x.example/nobody",
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none:1"}]}},
        },
    })
}

fn with(name: &'static str, change: impl FnOnce(&mut Value)) -> Case {
    let mut body = job("a", true);
    change(&mut body);
    case(name).post(jobs("?dryRun=All"), body)
}

fn jobs(name: &str) -> String {
    path("apis/batch/v1", "jobs", name)
}

pub(crate) fn cases() -> Vec<Case> {
    let dry = |change: Value| json!({"spec": change});
    let start = |name: &'static str| case(name).post(jobs(""), job("a", true));
    let sets = |name: &str| path("apis/apps/v1", "statefulsets", name);
    let set = |spec: Value| json!({"metadata": {"name": "a"}, "spec": spec});
    let template = json!({"metadata": {"labels": {"x": "y"}}, "spec": {"containers": [{"name": "main", "image": "none:1"}]}});
    vec![
        with("a job's defaults", |_| {}),
        with("a job with settings", |job| {
            job["spec"]["backoffLimit"] = 0.into();
            job["spec"]["activeDeadlineSeconds"] = 9.into();
            job["spec"]["ttlSecondsAfterFinished"] = 0.into();
            job["spec"]["podReplacementPolicy"] = "Failed".into();
            job["spec"]["template"]["metadata"] = json!({"labels": {"x": "y"}});
        }),
        with("a job that always restarts", |job| job["spec"]["template"]["spec"]["restartPolicy"] = "Always".into()),
        with("a job without a restart policy", |job| {
            job["spec"]["template"]["spec"] = json!({"containers": [{"name": "main", "image": "none:1"}]});
        }),
        with("a job with a negative limit", |job| job["spec"]["backoffLimit"] = (-1).into()),
        with("a job without a template", |job| job["spec"] = json!({"suspend": true})),
        with("a job with a mistake in its template", |job| job["spec"]["template"]["spec"]["containers"][0]["image"] = "".into()),
        with("an unknown field in a job", |job| job["spec"]["extra"] = 1.into()),
        start("a job's template stays").merge(jobs("a?dryRun=All"), dry(json!({"template": {"spec": {"containers": [{"name": "main", "image": "other:1"}]}}}))),
        start("a suspended job may be told where to run").merge(jobs("a?dryRun=All"), dry(json!({"template": {"metadata": {"annotations": {"a": "b"}}, "spec": {"nodeSelector": {"x": "y"}}}}))),
        start("a job's limit changes").merge(jobs("a?dryRun=All"), dry(json!({"backoffLimit": 3, "activeDeadlineSeconds": 7, "ttlSecondsAfterFinished": 5}))),
        start("a job's parallelism changes").merge(jobs("a?dryRun=All"), dry(json!({"parallelism": 2}))),
        start("a job's completions stay").merge(jobs("a?dryRun=All"), dry(json!({"completions": 2}))),
        case("a stateful set").post(sets("?dryRun=All"), set(json!({"selector": {"matchLabels": {"x": "y"}}, "serviceName": "s", "template": template.clone()}))),
        case("a stateful set without a selector").post(sets("?dryRun=All"), set(json!({"serviceName": "s", "template": template}))),
    ]
}
