//! The Secret with a job's keys: named first, made then, used last.

use planner::fixtures::{job, noon_and, world};
use planner::observed::{Key, Observed, Refusal, Slot};
use planner::{KeyRecord, Kind, Phase, Reason, plan};

use super::deeds;

fn unrecorded(world: Observed) -> Observed {
    world.with(|world| world.recorded.keys = None)
}

fn by_agent() -> Observed {
    let world = world(job("demo").workers(1).by_agent());
    world.with(|world| world.site.agent_image = Some("agent".to_owned()))
}

#[test]
fn s06_nothing_that_needs_keys_is_made_before_their_secret_is_recorded() {
    for (world, secret) in [
        (world(job("demo").workers(1)), "demo-ssh"),
        (by_agent(), "demo-agent-n0nce"),
    ] {
        let first = plan(&unrecorded(world.clone()));
        assert_eq!(
            deeds(&first),
            ["create Service demo", "create ConfigMap demo-config"]
        );
        assert_eq!(first.status.phase, Phase::Preparing);
        let record = first.status.keys.expect("the plan names the Secret");
        assert_eq!(record.secret, secret);
        let second = world.with(|world| world.recorded.keys = Some(record));
        assert!(deeds(&plan(&second)).contains(&format!("create Secret {secret}")));
    }
}

#[test]
fn s06_a_suspended_job_has_no_launcher_before_its_secret_is_recorded() {
    let suspended = by_agent().with(|world| world.job.lifecycle.suspended = true);
    let first = deeds(&plan(&unrecorded(suspended.clone())));
    assert_eq!(
        first,
        ["create Service demo", "create ConfigMap demo-config"]
    );
    let second = deeds(&plan(&suspended));
    assert!(second.contains(&"create Job demo-launcher".to_owned()));
}

#[test]
fn s10_a_name_that_is_taken_is_not_recorded() {
    let taken = unrecorded(world(job("demo").workers(1)));
    let taken = taken.with(|world| world.key = Slot::Foreign);
    let plan = plan(&taken);
    assert_eq!(plan.status.keys, None);
    assert_eq!(plan.status.phase, Phase::Blocked);
}

/// A quota refuses before the API server looks for the name.
#[test]
fn s10_a_name_that_may_be_taken_is_not_recorded_and_the_refusal_is_reported() {
    let refused = unrecorded(world(job("demo").workers(1)));
    let refused = refused.with(|world| {
        world.key = Slot::Foreign;
        world.refused.push(Refusal {
            kind: Kind::Secret,
            name: "demo-ssh".to_owned(),
            code: 403,
            message: "exceeded quota".to_owned(),
            retry_at: world.now,
        });
    });
    let plan = plan(&refused);
    assert_eq!(plan.status.keys, None);
    assert_eq!(plan.status.phase, Phase::Blocked);
    assert_eq!(plan.status.reason, Some(Reason::QuotaExceeded));
}

/// The launcher's Job mounts the Secret by its name, and cannot be changed.
#[test]
fn s08_a_resumed_job_that_has_grown_gets_more_keys_under_the_same_name() {
    let running = by_agent().running();
    let record = running.recorded.keys.clone();
    let grown = running.with(|world| world.job.worker_pods().count = 500);
    assert_eq!(
        plan(&grown).status.keys,
        record,
        "its pods hold the old ones"
    );
    let workers = deeds(&plan(&grown));
    let made = workers.iter().filter(|deed| deed.starts_with("create Pod"));
    assert_eq!(made.count(), 255, "one of 256 is there");

    let held = grown.with(|world| world.job.lifecycle.suspended = true);
    let held = held.settled().recorded();
    assert_eq!(held.key, Slot::<Key>::Absent);
    let resumed = held.with(|world| world.job.lifecycle.suspended = false);
    let wanted = KeyRecord {
        secret: "demo-agent-n0nce".to_owned(),
        workers: Some(2000),
    };
    assert_eq!(plan(&resumed).status.keys, Some(wanted));
}

/// A worker without a key would wait for it until the job fails.
#[test]
fn s08_a_job_that_outgrows_its_keys_goes_on_and_says_what_to_do() {
    let running = by_agent().running();
    let grown = running.with(|world| world.job.worker_pods().count = 300);
    let grown = grown.settled().workers_ready();
    assert_eq!(grown.workers.len(), 256);
    for secs in [0, 60, 86_400] {
        let later = grown.clone().with(|world| world.now = noon_and(secs));
        let plan = plan(&later);
        assert_eq!(deeds(&plan), Vec::<String>::new());
        assert_eq!(plan.status.outcome, None, "after {secs} s");
        assert_eq!(plan.status.reason, Some(Reason::TooLarge));
        let message = &plan.status.message;
        assert!(message.contains("keys for 256 workers"), "{message}");
        assert!(message.contains("suspend and resume"), "{message}");
    }
}
