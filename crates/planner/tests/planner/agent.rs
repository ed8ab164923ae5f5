//! The agent in pods: what is rendered for it, what the launcher is told, what its word decides,
//! and how long keys live.

mod cores;
mod ends;
mod pods;
mod starts;

use planner::fixtures::world;
use planner::observed::{Observed, PodPhase};
use planner::{Job, Kind, plan};
use serde_json::{Value, json};

use crate::created_one;

const IMAGE: &str = "muster-agent:1";

fn site_with_agent(world: &mut Observed) {
    world.site.agent_image = Some(IMAGE.to_owned());
}

fn by_ssh(job: Job) -> Observed {
    world(job).with(site_with_agent)
}

pub(crate) fn by_agent(job: Job) -> Observed {
    by_ssh(job.by_agent())
}

pub(crate) fn command(job: &mut Job, words: &[&str]) {
    job.launcher.role.template["spec"]["containers"][0]["command"] = json!(words);
}

fn worker(world: &Observed, index: u32) -> Value {
    let name = format!("demo-worker-{index}");
    created_one(&plan(world), Kind::Pod, &name)["spec"].clone()
}

pub(crate) fn launcher(world: &Observed) -> Value {
    let job = created_one(&plan(world), Kind::Job, "demo-launcher");
    job["spec"]["template"]["spec"].clone()
}

fn variable<'v>(container: &'v Value, name: &str) -> Option<&'v Value> {
    let variables = container["env"].as_array()?.iter();
    variables
        .rev()
        .find(|variable| variable["name"] == name)
        .map(|variable| &variable["value"])
}

fn volume<'v>(spec: &'v Value, name: &str) -> &'v Value {
    let volumes = spec["volumes"].as_array().unwrap().iter();
    let mut found = volumes.filter(|volume| volume["name"] == name);
    let volume = found.next().unwrap_or_else(|| panic!("no volume {name}"));
    assert!(found.next().is_none(), "two volumes {name}");
    volume
}

/// A gated job whose workers run at these addresses, and whose launcher waits.
fn waiting(world: Observed) -> Observed {
    let mut world = world
        .settled()
        .workers_ready()
        .launcher_pod("l-0", PodPhase::Pending)
        .recorded();
    for (index, pod) in world.workers.iter_mut().enumerate() {
        pod.address = format!("10.0.0.{index}");
    }
    world
}
