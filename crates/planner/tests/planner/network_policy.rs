//! The NetworkPolicy of a job that asks for one.

use contract::labels::JOB_UID_LABEL;
use planner::fixtures::{job, world};
use planner::observed::{NetworkPolicyState, Slot};
use planner::{Action, Job, Kind, Observed, Phase, Reason, WaitingOn, check, plan};
use serde_json::json;

use super::{created_one, deeds, patch};

fn isolated() -> Job {
    job("demo").workers(2).with(|job| job.isolated = true)
}

#[test]
fn s09_only_pods_of_the_job_may_connect_to_its_pods() {
    let plan = plan(&world(isolated()));
    let policy = created_one(&plan, Kind::NetworkPolicy, "demo");
    let own = json!({"matchLabels": {(JOB_UID_LABEL): "uid-demo"}});
    let spec = json!({
        "podSelector": own,
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [{"podSelector": own}]}],
    });
    assert_eq!(policy["spec"], spec);
    assert_eq!(policy["metadata"]["ownerReferences"][0]["uid"], "uid-demo");
    // A pod that started before it would be open for a while.
    let is_policy = |action: &Action| matches!(action, Action::Create(object) if object.kind == Kind::NetworkPolicy);
    let is_pod =
        |action: &Action| matches!(action, Action::Create(object) if object.kind == Kind::Pod);
    assert!(plan.steps[0].iter().any(is_policy));
    assert!(!plan.steps[0].iter().any(is_pod), "{:?}", deeds(&plan));
}

#[test]
fn s09_a_job_that_does_not_ask_for_one_costs_no_request() {
    let settled = world(job("demo").workers(2)).settled();
    assert!(settled.network_policy.is_absent());
    let suspended = world(job("demo").workers(2).suspended()).settled();
    assert!(suspended.network_policy.is_absent());
}

#[test]
fn s09_a_policy_that_somebody_opened_is_closed_and_goes_when_it_is_switched_off() {
    let opened = world(isolated()).settled().with(|world| {
        let Slot::Ours(policy) = &mut world.network_policy else {
            panic!("the job has its policy");
        };
        policy.spec["ingress"] = json!([{}]);
        policy.spec["egress"] = json!([]);
    });
    let closes = patch(&plan(&opened));
    assert_eq!(closes["spec"]["egress"], json!(null));
    let own = json!({"matchLabels": {(JOB_UID_LABEL): "uid-demo"}});
    assert_eq!(
        closes["spec"]["ingress"],
        json!([{"from": [{"podSelector": own}]}])
    );
    assert!(plan(&opened.settled()).steps.is_empty());

    for suspended in [false, true] {
        let off = world(isolated()).settled().with(|world| {
            world.job.isolated = false;
            world.job.lifecycle.suspended = suspended;
        });
        let deeds = deeds(&plan(&off));
        assert!(
            deeds.contains(&"delete NetworkPolicy demo".to_owned()),
            "{deeds:?}"
        );
    }
}

#[test]
fn s09_somebody_elses_policy_of_that_name_blocks_the_job_and_is_left_alone() {
    let taken = |job: Job| world(job).with(|world| world.network_policy = Slot::Foreign);
    let blocked = plan(&taken(isolated()));
    assert!(blocked.steps.is_empty(), "{:?}", deeds(&blocked));
    assert_eq!(blocked.status.phase, Phase::Blocked);
    assert_eq!(blocked.status.reason, Some(Reason::NameTaken));
    let waiting = WaitingOn::Name {
        kind: Kind::NetworkPolicy,
        name: "demo".to_owned(),
    };
    assert_eq!(blocked.because, waiting);
    let other = taken(job("demo").workers(2)).settled();
    assert_eq!(other.network_policy, Slot::Foreign);
}

#[test]
fn s09_the_laws_keep_a_job_closed_that_asks_for_it() {
    let observed: Observed = world(isolated()).settled();
    let policy: &NetworkPolicyState = observed.network_policy.ours().expect("it has its policy");
    let mut opens = plan(&observed);
    opens.steps = vec![vec![Action::Delete {
        kind: Kind::NetworkPolicy,
        name: "demo".to_owned(),
        uid: policy.uid.clone(),
    }]];
    let found = check::violations(&observed, &opens);
    assert_eq!(found, ["a job is opened that asks for a NetworkPolicy"]);
}
