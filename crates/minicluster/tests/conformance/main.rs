//! One body, two arms: each case runs against the cluster in a value and against a real API
//! server, and the whole answers are compared: code, reason, message, object, order of events.
//!
//! `KUBECONFIG=… cargo test -p minicluster --test conformance`. Without a real API server there is
//! nothing to conform to, so that the test fails rather than passes.
#![expect(
    clippy::disallowed_methods,
    reason = "a test is a shell of its own: it has a clock and an environment"
)]

mod arms;
mod cases;
mod normal;
mod sequences;
mod step;
mod types;

use arms::{Arm, Mini, Real};
use futures::StreamExt as _;
use serde_json::Value;
use step::Case;

async fn real() -> Real {
    let Some(path) = std::env::var_os("KUBECONFIG") else {
        panic!(
            "the conformance tests compare with a real API server: start one (`cargo xtask \
             cluster up --nodes 0`) and give its kubeconfig file in KUBECONFIG"
        );
    };
    Real::connect(path.as_ref())
        .await
        .expect("the API server in KUBECONFIG answers")
}

/// Cases that run on the real arm at once.
const AT_ONCE: usize = 12;

/// What differs between the answers of the two arms.
fn compare(case: &Case, ours: &[Value], theirs: &[Value]) -> Vec<String> {
    let mut differences = Vec::new();
    for (index, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
        let mut found = Vec::new();
        normal::differ(ours, theirs, "", &mut found);
        if !found.is_empty() {
            let step = &case.steps[index];
            differences.push(format!("  step {index} {} {}", step.method, step.path));
            differences.extend(found.into_iter().map(|line| format!("    {line}")));
        }
    }
    differences
}

#[tokio::test]
async fn both_arms_answer_alike() {
    let mut real = real().await;
    let only = std::env::var("CASE").unwrap_or_default();
    let run = std::process::id();
    let (mut equal, mut unequal) = (0, Vec::new());
    let mut mini = Mini::new();
    for arm in [&mut mini as &mut dyn Arm, &mut real] {
        cases::prepare(arm).await;
    }
    let all = cases::all();
    let chosen = all
        .iter()
        .enumerate()
        .filter(|(_, case)| case.name.contains(&only));
    let theirs = futures::stream::iter(chosen).map(|(index, case)| {
        let mut real = real.clone();
        async move {
            let namespace = format!("conf-{run}-{index}");
            (case, case.run(&namespace, &mut real).await, namespace)
        }
    });
    let mut theirs = theirs.buffered(AT_ONCE);
    while let Some((case, theirs, namespace)) = theirs.next().await {
        let ours = case.run(&namespace, &mut mini).await;
        let differences = compare(case, &ours, &theirs);
        if differences.is_empty() {
            equal += 1;
        } else {
            unequal.push(format!("{}:\n{}", case.name, differences.join("\n")));
        }
    }
    println!("{equal} cases equal on both arms, {} not", unequal.len());
    assert!(
        equal + unequal.len() > 0,
        "no case has CASE={only} in its name"
    );
    assert!(unequal.is_empty(), "{}", unequal.join("\n"));
}
