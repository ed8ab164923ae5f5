//! What must hold of patches of every kind in minicluster.

use serde_json::Value;

use crate::api_server::{APPLY, ApiServer, JSON_PATCH, MERGE, STRATEGIC, assert_names_a_field};

const PATCHES_MAX: usize = 6;

/// The first line has the kind of patch and the resource; the second is the object, the others are patches of it.
pub fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let mut lines = text.lines();
    let words = lines.next().unwrap_or_default().split_once(' ');
    let Some((media_type, resource)) = words.and_then(|(kind, resource)| {
        let media_type = match kind {
            "merge" => MERGE,
            "strategic" => STRATEGIC,
            "json" => JSON_PATCH,
            "apply" => APPLY,
            _ => return None,
        };
        Some((media_type, collection(resource)?))
    }) else {
        return;
    };
    let object = lines
        .next()
        .and_then(|line| serde_json::from_str(line).ok());
    let Some(object) = object.filter(Value::is_object) else {
        return;
    };
    let mut server = ApiServer::shipped();
    let (code, created) = server.post(&format!("{resource}?fieldManager=maker"), &object);
    if code != 201 {
        return assert_names_a_field(code, &created);
    }
    let name = created["metadata"]["name"]
        .as_str()
        .expect("what was created has a name");
    let path = format!("{resource}/{name}");
    for patch in lines.take(PATCHES_MAX) {
        patch_once(&mut server, &path, media_type, patch);
    }
}

fn collection(resource: &str) -> Option<&'static str> {
    Some(match resource {
        "configmaps" => "/api/v1/namespaces/default/configmaps",
        "pods" => "/api/v1/namespaces/default/pods",
        "services" => "/api/v1/namespaces/default/services",
        "jobs" => "/apis/batch/v1/namespaces/default/jobs",
        "mpijobs" => "/apis/kubeflow.org/v2beta1/namespaces/default/mpijobs",
        _ => return None,
    })
}

/// A patch that is refused changes nothing; one that is accepted is stored, and changes nothing if it comes again.
fn patch_once(server: &mut ApiServer, path: &str, media_type: &str, patch: &str) {
    let (_, before) = server.get(path);
    let query = if media_type == APPLY {
        "?fieldManager=one&force=true"
    } else {
        "?fieldManager=one"
    };
    let uri = format!("{path}{query}");
    let (code, answer) = server.ask("PATCH", &uri, media_type, patch.to_owned());
    let (_, after) = server.get(path);
    if code != 200 {
        // A JSON patch that does not fit fits no field.
        if media_type != JSON_PATCH {
            assert_names_a_field(code, &answer);
        }
        // A real API server, too, fails if one of these has a field that no schema has.
        let may_fail = [STRATEGIC, APPLY].contains(&media_type);
        assert!((400..500).contains(&code) || may_fail, "{code}: {answer}");
        assert_eq!(before, after, "a refused patch changed the object");
        return;
    }
    assert_eq!(answer, after, "another object was stored");
    for kept in ["uid", "name", "namespace", "creationTimestamp"] {
        assert_eq!(before["metadata"][kept], after["metadata"][kept]);
    }
    // JSON patches add to lists and move; all other patches say how the object should be.
    if media_type == JSON_PATCH {
        return;
    }
    let (code, answer) = server.ask("PATCH", &uri, media_type, patch.to_owned());
    let (_, again) = server.get(path);
    if code == 409 {
        // It names the version that it was made for.
        return assert_names_a_field(code, &answer);
    }
    assert_eq!(code, 200, "a patch that was accepted is refused: {answer}");
    assert_eq!(after, again, "a patch changes something twice");
}
