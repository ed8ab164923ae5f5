//! The account of a job with the API server: made before the launcher, kept in step with the job,
//! and never anybody else's.

use planner::fixtures::{job, world};
use planner::observed::{AccountObject, Slot};
use planner::{Action, Job, Kind, Observed, Reason, WaitingOn, check, plan};
use serde_json::json;

use super::{created_one, deeds, deeds_of, patch};

const NAME: &str = "demo-launcher";

fn demo() -> Job {
    job("demo").workers(2).provided().with_account()
}

fn site(job: Job) -> Observed {
    world(job).with(|world| world.site.agent_image = Some("muster-agent".to_owned()))
}

#[test]
fn the_role_comes_before_its_binding_and_both_before_the_launcher() {
    let steps = plan(&site(demo())).steps;
    let kinds: Vec<Vec<String>> = steps
        .iter()
        .map(|step| step.iter().flat_map(deeds_of).collect())
        .collect();
    assert_eq!(
        kinds,
        [
            vec![
                "create Service demo",
                "create ConfigMap demo-config",
                "create ServiceAccount demo-launcher",
                "create Role demo-launcher",
            ],
            vec![
                "create RoleBinding demo-launcher",
                "create Pod demo-worker-0",
                "create Pod demo-worker-1",
            ],
            vec!["create Pod demo-launcher"],
        ]
    );
}

#[test]
fn its_objects_are_the_jobs_own_and_say_what_it_may_do() {
    let made = plan(&site(demo()));
    let account = created_one(&made, Kind::ServiceAccount, NAME);
    assert_eq!(account["metadata"]["ownerReferences"][0]["uid"], "uid-demo");
    assert_eq!(account["metadata"]["labels"]["app"], "demo");
    let role = created_one(&made, Kind::Role, NAME);
    let see = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]});
    assert_eq!(role["rules"], json!([see]), "no pod is known to be its own");
    let seen = site(demo()).settled();
    let enter = json!({
        "apiGroups": [""],
        "resources": ["pods/exec"],
        "verbs": ["get", "create"],
        "resourceNames": ["demo-worker-0", "demo-worker-1"],
    });
    let role = seen.account.role.ours().expect("it was made");
    assert_eq!(role.rules, json!([see, enter]));
    let binding = created_one(&made, Kind::RoleBinding, NAME);
    assert_eq!(
        binding["roleRef"],
        json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": NAME})
    );
    assert_eq!(
        binding["subjects"],
        json!([{"kind": "ServiceAccount", "name": NAME, "namespace": "team-a"}])
    );
}

#[test]
fn a_job_without_one_has_none() {
    let made = deeds(&plan(&site(job("demo").workers(2).provided())));
    let account = ["ServiceAccount", "Role", "RoleBinding"];
    let one = |deed: &String| account.iter().any(|kind| deed.contains(kind));
    assert!(!made.iter().any(one), "{made:?}");
}

#[test]
fn rights_follow_the_number_of_workers() {
    let more = site(demo()).settled().with(|world| {
        world.job = job("demo").workers(3).provided().with_account();
    });
    assert_eq!(deeds(&plan(&more)), ["create Pod demo-worker-2"]);
    let settled = more.settled();
    assert_eq!(
        names(&settled),
        json!(["demo-worker-0", "demo-worker-1", "demo-worker-2"])
    );
    assert!(plan(&settled).steps.is_empty());
}

fn names(world: &Observed) -> serde_json::Value {
    let role = world.account.role.ours().expect("it was made");
    role.rules[1]["resourceNames"].clone()
}

#[test]
fn nobody_is_let_into_a_pod_that_only_has_the_name_of_a_worker() {
    let held = site(demo()).with(|world| world.foreign_pods.push("demo-worker-1".to_owned()));
    let made = deeds(&plan(&held));
    assert!(!made.iter().any(|deed| deed.contains("Role")), "{made:?}");
}

#[test]
fn s04_a_right_ends_with_the_pod_and_not_when_somebody_is_seen_on_its_name() {
    let missing = site(demo()).settled().with(|world| {
        world.workers.pop();
    });
    assert_eq!(names(&missing), json!(["demo-worker-0", "demo-worker-1"]));
    let rules = patch_of(&missing, &Kind::Role)["rules"].clone();
    assert_eq!(rules[1]["resourceNames"], json!(["demo-worker-0"]));
    let leaving = site(demo()).settled().with(|world| {
        world.workers[1].deleting = true;
    });
    let rules = patch_of(&leaving, &Kind::Role)["rules"].clone();
    assert_eq!(rules[1]["resourceNames"], json!(["demo-worker-0"]));
    let blocked = missing.with(|world| world.foreign_pods.push("demo-worker-1".to_owned()));
    assert_eq!(deeds(&plan(&blocked)), ["patch Role demo-launcher"]);
}

#[test]
fn s04_a_plan_that_keeps_the_right_to_a_pod_that_is_gone_breaks_a_law() {
    let missing = site(demo()).settled().with(|world| {
        world.workers.pop();
    });
    let mut made = plan(&missing);
    for action in made.steps.iter_mut().flatten() {
        if let Action::Patch { kind, merge, .. } = action
            && *kind == Kind::Role
        {
            merge["rules"][1]["resourceNames"] = json!(["demo-worker-0", "demo-worker-1"]);
        }
    }
    assert_eq!(
        check::violations(&missing, &made),
        ["a role lets its holder into pods that are not workers"]
    );
}

fn patch_of(world: &Observed, wanted: &Kind) -> serde_json::Value {
    let steps = plan(world).steps;
    let found = steps.iter().flatten().find_map(|action| match action {
        Action::Patch { kind, merge, .. } if kind == wanted => Some(merge.clone()),
        _ => None,
    });
    found.expect("the plan patches it")
}

#[test]
fn a_right_that_names_nothing_is_not_written_since_it_would_mean_everything() {
    let made = plan(&site(job("demo").provided().with_account()));
    let role = created_one(&made, Kind::Role, NAME);
    assert_eq!(role["rules"].as_array().map(Vec::len), Some(1), "{role}");
}

#[test]
fn rights_that_somebody_changed_are_put_right_and_the_account_is_left_alone() {
    let settled = || site(demo()).settled();
    let widened = settled().with(|world| {
        if let Slot::Ours(role) = &mut world.account.role {
            role.rules = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
        }
    });
    assert_eq!(deeds(&plan(&widened)), ["patch Role demo-launcher"]);
    let rebound = settled().with(|world| {
        if let Slot::Ours(binding) = &mut world.account.binding {
            binding.subjects = json!([{"kind": "User", "name": "eve"}]);
        }
    });
    assert_eq!(
        patch(&plan(&rebound))["subjects"],
        json!([{"kind": "ServiceAccount", "name": NAME, "namespace": "team-a"}])
    );
    assert!(plan(&settled()).steps.is_empty());
    let gone = settled().with(|world| world.account.service_account = Slot::Absent);
    assert_eq!(deeds(&plan(&gone)), ["create ServiceAccount demo-launcher"]);
}

#[test]
fn a_name_held_by_others_stops_the_job_and_is_named() {
    type Take = fn(&mut Observed);
    let takes: [(Take, Kind); 3] = [
        (
            |world| world.account.service_account = Slot::Foreign,
            Kind::ServiceAccount,
        ),
        (|world| world.account.role = Slot::Foreign, Kind::Role),
        (
            |world| world.account.binding = Slot::Foreign,
            Kind::RoleBinding,
        ),
    ];
    for (take, kind) in takes {
        let plan = plan(&site(demo()).with(take));
        assert!(plan.steps.is_empty(), "hands off: {:?}", deeds(&plan));
        assert_eq!(plan.status.reason, Some(Reason::NameTaken));
        let message = &plan.status.message;
        assert!(message.contains(NAME), "{message}");
        let name = NAME.to_owned();
        assert_eq!(plan.because, WaitingOn::Name { kind, name });
    }
}

#[test]
fn a_role_that_opens_other_pods_breaks_a_law() {
    let world = site(demo());
    for name in ["db-0", "demo-worker-0"] {
        let mut made = plan(&world);
        for action in made.steps.iter_mut().flatten() {
            if let Action::Create(object) = action
                && object.kind == Kind::Role
            {
                object.body["rules"] = json!([{"resources": ["pods/exec"], "verbs": ["create"],
                    "resourceNames": [name]}]);
            }
        }
        let broken = check::violations(&world, &made);
        let wanted = ["a role lets its holder into pods that are not workers"];
        assert_eq!(broken, wanted, "{name} is nobody's yet");
    }
    let any = world.with(|world| {
        world.job.account_mut().rules[1].names = None;
    });
    assert!(!check::violations(&any, &plan(&any)).is_empty());
    let patched = site(demo()).settled().with(|world| {
        let uid = "uid-demo-launcher-Role".to_owned();
        world.account.role = Slot::Ours(AccountObject {
            uid,
            rules: json!([]),
            subjects: json!(null),
        });
        world.job.account_mut().rules[0].verbs = &["get", "delete"];
    });
    assert_eq!(
        check::violations(&patched, &plan(&patched)),
        ["a role lets its holder change objects"]
    );
}
