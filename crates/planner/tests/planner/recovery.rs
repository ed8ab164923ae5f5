//! Programs that are started again in their pods: what the launcher is told of it, and what the status says
//! of a program that succeeded in the end.

use contract::env;
use planner::fixtures::{job, noon};
use planner::job::Recovery;
use planner::observed::{Observed, PodPhase};
use planner::{Job, Reason, plan};
use serde_json::Value;

use crate::agent::{by_agent, command, launcher};

fn recovering(reset_secs: Option<u64>) -> Job {
    job("demo").workers(2).with(|job| {
        command(job, &["mpirun", "solve"]);
        job.recovery = Some(Recovery {
            restarts: 3,
            on: vec![Reason::RankKilled, Reason::WorkerLost],
            reset_secs,
        });
    })
}

/// What the main container and the gate are given, as `NAME=VALUE`.
fn variables(world: &Observed) -> Vec<String> {
    let launcher = launcher(world);
    let containers = ["containers", "initContainers"].map(|list| launcher[list].clone());
    let containers = containers.iter().filter_map(Value::as_array).flatten();
    let variables = containers.filter_map(|container| container["env"].as_array());
    let pair = |variable: &Value| {
        let part = |key: &str| variable[key].as_str().unwrap_or_default().to_owned();
        format!("{}={}", part("name"), part("value"))
    };
    variables.flatten().map(pair).collect()
}

#[test]
fn the_launcher_is_told_how_often_and_why() {
    let plain = variables(&by_agent(recovering(None).with(|job| job.recovery = None)));
    let told = |reset| {
        let mut variables = variables(&by_agent(recovering(reset)));
        variables.retain(|variable| !plain.contains(variable));
        variables
    };
    let common = [
        "MUSTER_RESTARTS=3",
        "MUSTER_RESTART_ON=RankKilled,WorkerLost",
    ];
    assert_eq!(told(None), common);
    assert_eq!(
        told(Some(60)),
        [&common[..], &["MUSTER_RESTART_RESET=60"]].concat()
    );
    let ours = [env::RESTARTS, env::RESTART_ON, env::RESTART_RESET];
    let is_ours = |variable: &String| ours.iter().any(|name| variable.starts_with(name));
    assert!(!plain.iter().any(is_ours), "{plain:?}");
}

#[test]
fn a_success_that_took_several_attempts_says_so() {
    let ended = |recovered: Option<&str>| {
        let world = by_agent(recovering(None)).running().with(|world| {
            world.launcher_pods[0].phase = PodPhase::Succeeded;
            world.launcher_pods[0].finished_at = Some(noon());
            world.launcher_pods[0].recovered = recovered.map(str::to_owned);
        });
        plan(&world).status.message
    };
    assert_eq!(ended(None), "the launcher ended with 0");
    assert_eq!(
        ended(Some("attempt 2 succeeded")),
        "the launcher ended with 0: attempt 2 succeeded"
    );
}
