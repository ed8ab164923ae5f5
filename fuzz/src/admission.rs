//! What must hold of a job between the user and the operator: of what the API server refuses, stores and fills in.

use serde_json::{Value, json};

use crate::api_server::{ApiServer, assert_names_a_field};
use crate::{dialect, edits};

const NAMESPACE: &str = "default";

/// The first line names a dialect; the rest is edits of a job, or a job.
pub fn check(bytes: &[u8]) {
    let end = bytes.iter().position(|byte| *byte == b'\n');
    let (name, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
    let Ok(name) = std::str::from_utf8(name) else {
        return;
    };
    let (Some(base), Some((resource, row))) = (dialect::base(name), dialect::named(name)) else {
        return;
    };
    let rest = rest.get(1..).unwrap_or_default();
    let Some(mut job) = edits::applied(&base, rest).filter(|job| job["metadata"].is_object())
    else {
        return;
    };
    let version = base["apiVersion"].as_str().expect("a base has its version");
    (job["apiVersion"], job["kind"]) = (version.into(), resource.kind.into());
    let metadata = job["metadata"].as_object_mut().expect("it is an object");
    metadata.retain(|field, _| matches!(field.as_str(), "name" | "labels" | "annotations"));
    let mut server = ApiServer::shipped();
    let collection =
        |version: &str| format!("/apis/{version}/namespaces/{NAMESPACE}/{}", resource.plural);
    let (code, answer) = server.post(&collection(version), &job);
    if code != 201 {
        assert!((400..500).contains(&code), "{code}: {answer}");
        return assert_names_a_field(code, &answer);
    }
    let object = job["metadata"]["name"]
        .as_str()
        .expect("an object that was created has a name");
    let stored_in = format!("{}/{}", resource.group, resource.version);
    let path = format!("{}/{object}", collection(&stored_in));
    let (code, stored) = server.get(&path);
    assert_eq!(code, 200, "{stored}");
    if resource.dialect_of(&stored).name != row.name {
        // It says that it was written in another.
        return;
    }
    let mut direct = json!({"metadata": stored["metadata"]});
    if let Some(spec) = job.get("spec") {
        direct["spec"] = spec.clone();
    }
    match ((row.lower)(&direct), (row.lower)(&stored)) {
        (Ok(direct), Ok(stored)) => assert_eq!(direct, stored, "what is filled in changes the job"),
        (Err(_), Err(errors)) => dialect::assert_named(&errors),
        (direct, stored) => panic!("only one of them is a job: {direct:?} and {stored:?}"),
    }
    // Through the version that it was written in: another one has other defaults.
    let own = format!("{}/{object}", collection(version));
    let (_, written) = server.get(&own);
    let (code, again) = server.put(&own, &written);
    assert_eq!(
        (code, &again),
        (200, &written),
        "what is stored is not stored again"
    );
    let status = dialect::exercise(row, &stored);
    assert_is_written(&mut server, &path, &stored, &status);
}

/// The definition has every field of the status that the operator writes.
fn assert_is_written(server: &mut ApiServer, path: &str, stored: &Value, status: &Value) {
    let mut reported = stored.clone();
    reported["status"] = status.clone();
    let (code, written) = server.put(&format!("{path}/status"), &reported);
    assert_eq!(code, 200, "the operator's status is refused: {written}");
    assert_eq!(&written["status"], status, "a part of the status is lost");
}
