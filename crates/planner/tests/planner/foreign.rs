//! Names that others hold, and objects that the API server refuses.

use contract::labels::JOB_UID_LABEL;
use planner::fixtures::{job, noon_and, world};
use planner::observed::Slot;
use planner::{Kind, Observed, Phase, Reason, WaitingOn, plan};

use super::deeds;

fn taken(change: impl FnOnce(&mut Observed)) -> Observed {
    world(job("demo").workers(2)).settled().with(change)
}

#[test]
fn a_name_held_by_others_stops_everything_and_is_named() {
    let cases: [(Observed, Kind, &str); 5] = [
        (
            taken(|w| w.launcher = Slot::Foreign),
            Kind::Job,
            "demo-launcher",
        ),
        (taken(|w| w.service = Slot::Foreign), Kind::Service, "demo"),
        (
            taken(|w| w.config = Slot::Foreign),
            Kind::ConfigMap,
            "demo-config",
        ),
        (taken(|w| w.key = Slot::Foreign), Kind::Secret, "demo-ssh"),
        (
            taken(|w| {
                w.workers.clear();
                w.foreign_pods = vec!["demo-worker-1".to_owned()];
            }),
            Kind::Pod,
            "demo-worker-1",
        ),
    ];
    for (observed, kind, name) in cases {
        let plan = plan(&observed);
        assert!(plan.steps.is_empty(), "hands off: {:?}", deeds(&plan));
        assert_eq!(plan.status.phase, Phase::Blocked);
        assert_eq!(plan.status.reason, Some(Reason::NameTaken));
        let expected = format!(
            "Resource \"{name}\" of Kind \"{}\" already exists and is not managed by MPIJob",
            kind.as_str()
        );
        assert_eq!(plan.status.message, expected);
        let waiting = WaitingOn::Name {
            kind,
            name: name.to_owned(),
        };
        assert_eq!(plan.because, waiting);
    }
}

#[test]
fn the_job_goes_on_when_the_name_is_free() {
    let blocked = taken(|world| world.service = Slot::Foreign).recorded();
    assert_eq!(plan(&blocked).status.phase, Phase::Blocked);
    let free = blocked.with(|world| world.service = Slot::Absent);
    assert_eq!(deeds(&plan(&free)), ["create Service demo"]);
    assert_eq!(plan(&free.settled()).status.phase, Phase::Gathering);
}

#[test]
fn a_refusal_is_said_and_not_repeated_before_its_time() {
    let refused = world(job("demo").workers(2)).refusing(
        Kind::Pod,
        "demo-worker-0",
        422,
        "Pod \"demo-worker-0\" is invalid: spec.containers[0].image: Required value",
    );
    let early = plan(&refused);
    assert!(early.steps.is_empty());
    assert_eq!(early.status.reason, Some(Reason::Invalid));
    assert!(
        early
            .status
            .message
            .contains("spec.containers[0].image: Required value")
    );
    assert_eq!(early.wake, Some(noon_and(60)));

    let later = plan(&refused.with(|world| world.now = noon_and(60)));
    assert!(deeds(&later).contains(&"create Pod demo-worker-0".to_owned()));
}

#[test]
fn refusals_have_their_own_words() {
    let cases = [
        (
            403,
            "pods \"x\" is forbidden: exceeded quota: gpu",
            Reason::QuotaExceeded,
        ),
        (
            403,
            "pods \"x\" is forbidden: violates PodSecurity \"restricted\"",
            Reason::PodSecurityDenied,
        ),
        (403, "no", Reason::Refused),
        (400, "bad", Reason::Invalid),
    ];
    for (code, message, reason) in cases {
        let refused =
            world(job("demo").workers(2)).refusing(Kind::Pod, "demo-worker-1", code, message);
        assert_eq!(plan(&refused).status.reason, Some(reason), "{message}");
    }
}

#[test]
fn every_kind_of_refusal_names_its_object() {
    for (kind, name) in [(Kind::Service, "demo"), (Kind::Secret, "demo-ssh")] {
        let refused = world(job("demo").workers(1)).refusing(kind.clone(), name, 403, "no");
        let message = plan(&refused).status.message;
        assert_eq!(message, format!("{} {name} was refused: no", kind.as_str()));
    }
    let refused = world(job("demo")).refusing(Kind::Job, "demo-launcher", 422, "bad template");
    assert_eq!(
        plan(&refused).status.message,
        "launcher pod created failed: bad template"
    );
}

#[test]
fn refusals_of_one_burst_are_one_until_the_last_may_be_tried_again() {
    let mut burst = world(job("demo").workers(3));
    for (name, secs) in [("demo-worker-0", 5), ("demo-worker-2", 9)] {
        burst = burst.refusing(Kind::Pod, name, 403, name);
        burst.refused.last_mut().expect("just refused").retry_at = noon_and(secs);
    }
    let between = plan(&burst.clone().with(|world| world.now = noon_and(6)));
    assert!(between.steps.is_empty());
    assert!(
        between.status.message.contains("failed: demo-worker-0"),
        "{}",
        between.status.message
    );
    let after = plan(&burst.with(|world| world.now = noon_and(9)));
    assert!(!after.steps.is_empty());
}

/// A pod in the operator's namespace can run as the operator's account.
#[test]
fn s02_a_job_in_the_operators_namespace_gets_no_object_and_is_told_what_to_do() {
    let refused = |change: &dyn Fn(&mut Observed)| {
        world(job("demo").workers(2)).with(|world| {
            world.site.refused_namespace = Some(world.job.owner.namespace.clone());
            change(world);
        })
    };
    let blocked = plan(&refused(&|_| {}));
    assert!(blocked.steps.is_empty(), "{:?}", deeds(&blocked));
    assert_eq!(blocked.status.phase, Phase::Blocked);
    assert_eq!(blocked.status.reason, Some(Reason::NamespaceNotAllowed));
    assert_eq!(blocked.because, WaitingOn::Namespace);
    let message = &blocked.status.message;
    assert!(
        message.contains("--allow-jobs-in-operator-namespace"),
        "{message}"
    );

    let suspended = plan(&refused(&|world| world.job.lifecycle.suspended = true));
    assert!(suspended.steps.is_empty(), "{:?}", deeds(&suspended));

    let elsewhere = refused(&|world| world.site.refused_namespace = Some("ops".to_owned()));
    assert!(!plan(&elsewhere).steps.is_empty());
}

/// Names of jobs are reused, and anybody may write a job's name into a label.
#[test]
fn s13_the_service_selects_pods_by_the_uid_of_the_job() {
    let settled = world(job("demo").workers(2)).settled();
    let selector = |world: &Observed| {
        world
            .service
            .ours()
            .expect("it has a Service")
            .selector
            .clone()
    };
    assert_eq!(selector(&settled)[JOB_UID_LABEL], "uid-demo");
}

/// Pods of another operator lack the label, and must keep their host names until they are gone.
#[test]
fn s13_a_job_that_was_taken_over_keeps_its_host_names() {
    let taken_over = |change: &dyn Fn(&mut Observed)| {
        world(job("demo").workers(2)).settled().with(|world| {
            let Slot::Ours(service) = &mut world.service else {
                panic!("it has a Service");
            };
            service.selector.remove(JOB_UID_LABEL);
            change(world);
        })
    };
    let worker = taken_over(&|world| world.workers[1].labelled = false);
    assert!(
        plan(&worker).steps.is_empty(),
        "{:?}",
        deeds(&plan(&worker))
    );
    let launcher = taken_over(&|world| {
        let Slot::Ours(launcher) = &mut world.launcher else {
            panic!("it has a launcher");
        };
        launcher.directives.labels.remove(JOB_UID_LABEL);
    });
    assert!(
        plan(&launcher).steps.is_empty(),
        "{:?}",
        deeds(&plan(&launcher))
    );
    let all_ours = taken_over(&|_| {});
    assert_eq!(deeds(&plan(&all_ours)), ["patch Service demo"]);
}
