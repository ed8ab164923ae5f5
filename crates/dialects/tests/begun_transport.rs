//! A job keeps the transport it was begun with, whatever the operator's default is by now, and whatever its
//! spec says.

use std::path::Path;

use dialects::kubeflow_v2beta1::DIALECT;
use planner::site::{Site, Transport};
use planner::{Job, Observed};
use serde_json::{Value, json};

fn job() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/pi.yaml");
    #[expect(clippy::disallowed_methods, reason = "examples are files")]
    let text = std::fs::read_to_string(path).expect("the example can be read");
    let mut job: Value = serde_saphyr::from_str(&text).expect("the example is YAML");
    job["metadata"]["namespace"] = "default".into();
    job["metadata"]["uid"] = "7".into();
    job
}

/// What it would use where the default is SSH, and where it is Agent.
fn transports(job: &Job) -> [&'static str; 2] {
    [Transport::Ssh, Transport::Agent].map(|transport| {
        job.transport(&Site {
            transport,
            ..Site::default()
        })
    })
}

fn reported(job: &Value, transport: Transport) -> Value {
    let site = Site {
        transport,
        ..Site::default()
    };
    let wanted = (DIALECT.lower)(job).expect("the example is valid");
    let now = jiff::Timestamp::UNIX_EPOCH;
    let plan = planner::plan(&Observed::alone(wanted, site, now));
    let finding = dialects::Finding::Planned(&plan.status);
    let mut job = job.clone();
    job["status"] = (DIALECT.report)(&job, &finding, now).status;
    job
}

#[test]
fn the_default_of_the_first_day_holds_for_the_whole_life() {
    let job = job();
    let fresh = (DIALECT.lower)(&job).expect("the example is valid");
    assert_eq!(transports(&fresh), ["SSH", "Agent"], "nothing was begun");
    for begun in [Transport::Ssh, Transport::Agent] {
        let job = reported(&job, begun);
        let later = (DIALECT.lower)(&job).expect("it is still valid");
        assert_eq!(transports(&later), [begun.as_str(); 2]);
    }
}

#[test]
fn what_the_job_says_itself_comes_first_until_it_has_keys() {
    let mut job = reported(&job(), Transport::Agent);
    job["spec"]["muster"]["transport"] = "SSH".into();
    let begun = (DIALECT.lower)(&job).expect("it is valid");
    assert_eq!(transports(&begun), ["Agent"; 2]);
    let muster = job["status"]["muster"].as_object_mut();
    muster.expect("it was reported").remove("keys");
    let not_begun = (DIALECT.lower)(&job).expect("it is valid");
    assert_eq!(transports(&not_begun), ["SSH"; 2]);
}

/// Clients whose types do not have the field drop it.
#[test]
fn a_job_whose_transport_was_dropped_goes_on_as_it_began() {
    use dialects::{kubeflow_v1, t9k_v1beta1};
    let keys = json!({"keys": {"secret": "pi-keys"}});
    let t9k = json!({
        "apiVersion": "batch.tensorstack.dev/v1beta1",
        "kind": "MPIJob",
        "metadata": {"name": "walk", "namespace": "default", "uid": "8"},
        "spec": {"worker": {"replicas": 1, "cmd": ["./walk"],
            "template": {"spec": {"containers": [{"name": "mpi-worker", "image": "w"}]}}}},
    });
    for (dialect, mut job, begun) in [
        (&kubeflow_v1::DIALECT, job(), "SSH"),
        (&t9k_v1beta1::DIALECT, t9k, "Agent"),
    ] {
        job["status"]["muster"] = keys.clone();
        job["status"]["muster"]["transport"] = begun.into();
        let later = (dialect.lower)(&job).expect("it is valid");
        assert_eq!(transports(&later), [begun; 2]);
    }
}
