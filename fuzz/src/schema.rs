//! What must hold of schemas of custom resources in minicluster: pruning, defaults and validation.

use serde_json::{Value, json};

use crate::api_server::{ApiServer, DEFINITIONS_PATH, assert_names_a_field};

const OBJECTS_MAX: usize = 6;

/// The first line is the schema of a spec; each other line is a spec.
pub fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let mut lines = text.lines();
    let schema = lines
        .next()
        .and_then(|line| serde_json::from_str(line).ok());
    let Some(schema) = schema.filter(Value::is_object) else {
        return;
    };
    let mut server = ApiServer::bare();
    let (code, answer) = server.post(DEFINITIONS_PATH, &definition(&schema));
    if code != 201 {
        assert!((400..500).contains(&code), "{code}: {answer}");
        return assert_names_a_field(code, &answer);
    }
    for (number, line) in lines.take(OBJECTS_MAX).enumerate() {
        if let Ok(spec) = serde_json::from_str(line) {
            store(&mut server, &format!("a{number}"), &spec);
        }
    }
}

fn definition(spec: &Value) -> Value {
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.fuzz.example.com"},
        "spec": {
            "group": "fuzz.example.com",
            "scope": "Namespaced",
            "names": {"kind": "Widget", "listKind": "WidgetList", "plural": "widgets", "singular": "widget"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

/// An object is refused, and a field is named; or it is stored, and storing it again changes nothing.
fn store(server: &mut ApiServer, name: &str, spec: &Value) {
    const COLLECTION: &str = "/apis/fuzz.example.com/v1/namespaces/default/widgets";
    let object = json!({"apiVersion": "fuzz.example.com/v1", "kind": "Widget",
        "metadata": {"name": name}, "spec": spec});
    let (code, answer) = server.post(COLLECTION, &object);
    let path = format!("{COLLECTION}/{name}");
    if code != 201 {
        assert!((400..500).contains(&code), "{code}: {answer}");
        assert_names_a_field(code, &answer);
        assert_eq!(server.get(&path).0, 404, "it is refused and stored");
        return;
    }
    let (_, stored) = server.get(&path);
    assert_eq!(stored, answer);
    let (code, again) = server.put(&path, &stored);
    assert_eq!(
        (code, &again),
        (200, &stored),
        "what is stored is not stored again"
    );
    assert_nothing_is_new(spec, &stored["spec"]);
}

/// Nothing that was given has another value; what is gone was pruned, and what came was filled in.
fn assert_nothing_is_new(given: &Value, stored: &Value) {
    match (given, stored) {
        (Value::Object(given), Value::Object(stored)) => {
            for (key, value) in given {
                if let Some(stored) = stored.get(key).filter(|_| !value.is_null()) {
                    assert_nothing_is_new(value, stored);
                }
            }
        }
        (Value::Array(given), Value::Array(stored)) => {
            assert_eq!(given.len(), stored.len(), "items are gone or new");
            let pairs = given.iter().zip(stored);
            pairs
                .filter(|(given, _)| !given.is_null())
                .for_each(|(a, b)| assert_nothing_is_new(a, b));
        }
        (Value::Number(given), Value::Number(stored)) => {
            assert_eq!(given.as_f64(), stored.as_f64())
        }
        (Value::Null, _) => {}
        (given, stored) => assert_eq!(given, stored),
    }
}
