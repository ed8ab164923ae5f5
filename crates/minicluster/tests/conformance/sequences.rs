//! Requests in random order, from a seed, on both arms: whatever a few clients do to a few
//! objects, the two servers agree on every answer.

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Value, json};

use crate::arms::{Arm, Mini};
use crate::cases;
use crate::step::{Case, case};

/// Sequences, and requests in each.
const SEQUENCES: u8 = 24;
const REQUESTS: usize = 20;

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![Just(json!("v")), Just(json!("w")), Just(Value::Null)]
}

/// Fields of a ConfigMap that several clients fight for.
fn data() -> impl Strategy<Value = Value> {
    (value(), value(), value()).prop_map(
        |(a, b, label)| json!({"metadata": {"labels": {"l": label}}, "data": {"a": a, "b": b}}),
    )
}

fn without_nulls(mut body: Value) -> Value {
    for path in ["/data", "/metadata/labels"] {
        if let Some(Value::Object(fields)) = body.pointer_mut(path) {
            fields.retain(|_, value| !value.is_null());
        }
    }
    body
}

fn step(case: Case, (verb, name, manager, body): (u8, &'static str, &'static str, Value)) -> Case {
    let at = cases::cm(name);
    let by = cases::cm(&format!("{name}?fieldManager={manager}"));
    let mut whole = without_nulls(body.clone());
    whole["metadata"]["name"] = name.into();
    whole["apiVersion"] = "v1".into();
    whole["kind"] = "ConfigMap".into();
    match verb {
        0 | 1 => case.post(cases::cm(&format!("?fieldManager={manager}")), whole),
        2 => case.put(by, whole),
        3..=5 => case.merge(by, body),
        6 | 7 => case.apply(by, whole),
        8 => case.apply(
            cases::cm(&format!("{name}?fieldManager={manager}&force=true")),
            whole,
        ),
        9 => case.delete(at, Value::Null),
        10 => case.merge(by, json!({"metadata": {"finalizers": ["x.example/a"]}})),
        11 => case.merge(by, json!({"metadata": {"finalizers": null}})),
        12 => case.json(by, json!([{"op": "add", "path": "/data/a", "value": "j"}])),
        13 => case.strategic(by, body),
        14 => case.get(cases::cm("?labelSelector=l%3Dv")),
        _ => case.get(at),
    }
}

fn sequence() -> impl Strategy<Value = Case> {
    let names = prop_oneof![Just("one"), Just("two")];
    let managers = prop_oneof![Just("anna"), Just("bert")];
    let request = (0_u8..16, names, managers, data());
    proptest::collection::vec(request, REQUESTS)
        .prop_map(|requests| requests.into_iter().fold(case("a random sequence"), step))
}

#[tokio::test]
async fn random_sequences_are_answered_alike() {
    let mut real = crate::real().await;
    let seed = std::env::var("SEED")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(1_u8);
    for round in 0..SEQUENCES {
        let seed = seed.wrapping_mul(SEQUENCES).wrapping_add(round);
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]);
        let mut runner = TestRunner::new_with_rng(Config::default(), rng);
        let tree = sequence()
            .new_tree(&mut runner)
            .expect("the strategy makes values");
        let case = tree.current();
        let namespace = format!("seq-{}-{seed}", std::process::id());
        let mut mini = Mini::new();
        let ours = case.run(&namespace, &mut mini as &mut dyn Arm).await;
        let theirs = case.run(&namespace, &mut real as &mut dyn Arm).await;
        let differences = crate::compare(&case, &ours, &theirs);
        assert!(
            differences.is_empty(),
            "seed {seed} (run it alone with SEED): {}\n{}",
            case.steps
                .iter()
                .map(|step| format!("{} {} {}\n", step.method, step.path, step.body))
                .collect::<String>(),
            differences.join("\n")
        );
    }
    println!("{SEQUENCES} random sequences of {REQUESTS} requests equal on both arms");
}
