//! Suspend and resume.

use planner::fixtures::{job, noon_and, world};
use planner::job::{CleanUp, Mpi};
use planner::observed::{PodPhase, Slot};
use planner::{Job, Observed, Phase, WaitingOn, plan};
use serde_json::{Value, json};

use super::{created_one, deeds, patch};

#[test]
fn a_job_created_suspended_gets_everything_but_pods() {
    for mpi in Mpi::ALL {
        let held = world(job("demo").workers(8).suspended().with(|job| job.mpi = mpi));
        let plan = plan(&held);
        let expected = [
            "create Service demo",
            "create ConfigMap demo-config",
            "create Secret demo-ssh",
            "create Job demo-launcher",
        ];
        assert_eq!(deeds(&plan), expected);
        let job = created_one(&plan, planner::Kind::Job, "demo-launcher");
        assert_eq!(job["spec"]["suspend"], true);
        assert_eq!(plan.status.started_at, None);
        assert_eq!(plan.status.phase, Phase::Suspended);
        assert!(plan.status.suspended);
    }
}

#[test]
fn at_rest_a_suspended_job_waits_for_its_user() {
    let plan = plan(&world(job("demo").workers(2).suspended()).settled());
    assert_eq!(plan.because, WaitingOn::Resume);
}

fn suspended_while_running() -> Observed {
    world(job("demo").workers(8))
        .running()
        .with(|world| world.job.lifecycle.suspended = true)
}

#[test]
fn suspending_stops_the_launcher_and_removes_the_workers_at_once() {
    let plan = plan(&suspended_while_running());
    let deeds = deeds(&plan);
    assert_eq!(deeds[0], "patch Job demo-launcher");
    assert!(
        deeds[1].starts_with("delete workers demo-worker-0 demo-worker-1"),
        "{deeds:?}"
    );
    assert_eq!(patch(&plan), json!({"spec": {"suspend": true}}));
    assert_eq!(plan.status.workers, planner::Count::default());
    assert_eq!(
        plan.status.launcher.expect("it exists").active,
        1,
        "its pod still runs"
    );
    assert!(!plan.status.running);
    assert_eq!(
        plan.status.started_at,
        suspended_while_running().recorded.started_at
    );
}

#[test]
fn suspending_removes_workers_that_ended_too_whatever_the_clean_up_policy() {
    for clean in [CleanUp::Nothing, CleanUp::Running, CleanUp::All] {
        let ended = suspended_while_running()
            .workers_are(PodPhase::Failed)
            .with(|world| {
                world.job.lifecycle.clean_up = clean;
            });
        let deeds = deeds(&plan(&ended));
        assert!(
            deeds[1].starts_with("delete workers demo-worker-0"),
            "{deeds:?}"
        );
    }
}

#[test]
fn a_refusal_does_not_keep_a_suspended_job_from_losing_its_pods() {
    let refused =
        suspended_while_running().refusing(planner::Kind::Pod, "demo-worker-8", 403, "no");
    assert_eq!(plan(&refused).status.phase, Phase::Suspended);
    assert_eq!(deeds(&plan(&refused)).len(), 2);
}

fn resumed(job: Job) -> Observed {
    world(job.suspended()).settled().recorded().with(|world| {
        world.job.lifecycle.suspended = false;
        world.now = noon_and(60);
    })
}

#[test]
fn resuming_makes_workers_and_starts_the_launcher_and_the_clock() {
    let resumed = resumed(job("demo").workers(2)).with(|world| world.service = Slot::Absent);
    let plan = plan(&resumed);
    let expected = [
        "create Service demo",
        "create Pod demo-worker-0",
        "create Pod demo-worker-1",
        "patch Job demo-launcher",
    ];
    assert_eq!(deeds(&plan), expected);
    assert_eq!(patch(&plan), json!({"spec": {"suspend": false}}));
    assert_eq!(plan.status.started_at, Some(noon_and(60)));
}

#[test]
fn a_launcher_is_resumed_when_the_workers_of_the_last_run_have_ended() {
    let running = world(job("demo").workers(2)).running();
    let mut going = running.workers[0].clone();
    going.deleting = true;
    let resumed = resumed(job("demo").workers(2));
    let early = resumed.clone().with(|world| world.workers.push(going));
    assert_eq!(deeds(&plan(&early)), ["create Pod demo-worker-1"]);
    let starts = deeds(&plan(&resumed));
    assert_eq!(starts.last().unwrap(), "patch Job demo-launcher");
}

/// What Kueue writes into the template of an admitted job.
fn admitted(job: &mut Job) {
    job.launcher.role.template["metadata"] = json!({
        "labels": {"flavor": "spot"},
        "annotations": {"foo": "bar"},
    });
    let spec = &mut job.launcher.role.template["spec"];
    spec["nodeSelector"] = json!({"pool": "a"});
    spec["tolerations"] = json!([{"key": "gpu", "operator": "Exists"}]);
    spec["schedulingGates"] = json!([{"name": "gate"}]);
    spec["affinity"] = json!({"nodeAffinity": {"x": 1}, "podAffinity": {"y": 2}});
    spec["containers"][0]["image"] = "changed".into();
}

fn admitted_patch() -> Value {
    json!({"spec": {"suspend": false, "template": {
        "metadata": {"labels": {"flavor": "spot"}, "annotations": {"foo": "bar"}},
        "spec": {
            "nodeSelector": {"pool": "a"},
            "tolerations": [{"key": "gpu", "operator": "Exists"}],
            "schedulingGates": [{"name": "gate"}],
            "affinity": {"nodeAffinity": {"x": 1}},
        },
    }}})
}

#[test]
fn resuming_carries_scheduling_directives_over_and_nothing_else() {
    let admitted = resumed(job("demo").workers(1)).with(|world| admitted(&mut world.job));
    assert_eq!(patch(&plan(&admitted)), admitted_patch());
}

#[test]
fn a_start_time_left_by_an_older_kubernetes_is_cleared_first() {
    let mut older = resumed(job("demo").workers(1)).with(|world| {
        admitted(&mut world.job);
        let Slot::Ours(launcher) = &mut world.launcher else {
            panic!("it exists")
        };
        launcher.started_at = Some(world.now);
    });
    let first = plan(&older);
    assert_eq!(
        deeds(&first).last().unwrap(),
        "patch Job demo-launcher/status"
    );
    older.carry_out(&first);
    assert_eq!(patch(&plan(&older)), admitted_patch());
}

#[test]
fn a_second_resume_replaces_node_selectors_and_keeps_foreign_labels() {
    let again = resumed(job("demo").workers(1)).with(|world| {
        admitted(&mut world.job);
        let Slot::Ours(launcher) = &mut world.launcher else {
            panic!("it exists")
        };
        launcher.directives.node_selector = json!({"pool": "old", "zone": "z"});
        launcher
            .directives
            .labels
            .insert("theirs".to_owned(), "x".to_owned());
    });
    let template = patch(&plan(&again))["spec"]["template"].clone();
    assert_eq!(
        template["spec"]["nodeSelector"],
        json!({"pool": "a", "zone": null})
    );
    assert!(template["metadata"]["labels"].get("theirs").is_none());
}

#[test]
fn a_waiting_launcher_stays_suspended_after_a_resume_until_its_workers_are_ready() {
    let resumed = resumed(job("demo").workers(2).launcher_waits()).settled();
    let Slot::Ours(launcher) = &resumed.launcher else {
        panic!("it exists")
    };
    assert!(
        launcher.suspended,
        "the workers were made, the launcher was not started"
    );
    assert_eq!(resumed.workers.len(), 2);
    let ready = resumed.workers_ready();
    assert_eq!(patch(&plan(&ready)), json!({"spec": {"suspend": false}}));
}

/// A Job's template cannot change later, so it must not exist before the agent can be in it.
#[test]
fn a_suspended_job_gets_no_launcher_without_the_agent_that_it_needs() {
    let blind = world(job("demo").workers(2).by_agent().suspended());
    assert_eq!(deeds(&plan(&blind)), [""; 0]);
    assert_eq!(plan(&blind).status.phase, Phase::Suspended);
    let equipped = blind.with(|world| world.site.agent_image = Some("muster-agent:1".to_owned()));
    let made = deeds(&plan(&equipped));
    assert!(
        made.contains(&"create Job demo-launcher".to_owned()),
        "{made:?}"
    );
}
