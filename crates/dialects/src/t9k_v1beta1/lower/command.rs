//! The commands and templates of a T9k job: mpirun made of fields, sshd for the workers, and what
//! the run modes put in their place. Knows the seed's words, not the planner's.

use serde_json::{Map, Value, json};

use super::super::defaults::{DEBUG_SSHD, SSHD};
use super::super::types::{MpiJob, Override};
use super::shape::Wanted;
use super::{LAUNCHER, WORKER};
use crate::template::containers;

/// Name of the launcher's container.
const LAUNCHER_CONTAINER: &str = "mpi-launcher";
/// What the launcher has in common with a worker: the environment, not the resources.
const SHARED: [&str; 8] = [
    "image",
    "imagePullPolicy",
    "env",
    "envFrom",
    "workingDir",
    "volumeMounts",
    "volumeDevices",
    "securityContext",
];
/// Words of mpirun before a number of processes per host.
const PER_HOST: [&str; 5] = ["-N", "-npernode", "--npernode", "-ppn", "--N"];
/// Words of mpirun before a number of processes in all.
const IN_ALL: [&str; 5] = ["-np", "--np", "-n", "--n", "-c"];
/// Words of mpirun before a mapping.
const MAPPING: [&str; 2] = ["-map-by", "--map-by"];

/// Ranks per host, from mpirun's own words: Open MPI refuses to start more than the host list says.
/// One where they say nothing.
pub(super) fn slots(args: &[String], replicas: u32) -> u32 {
    let after = |words: &[&str]| {
        let at = args.iter().position(|arg| words.contains(&arg.as_str()))?;
        args.get(at + 1).map(String::as_str)
    };
    let number = |text: &str| text.parse::<u32>().ok().filter(|number| *number > 0);
    let per_resource = |text: &str| number(text.strip_prefix("ppr:")?.split(':').next()?);
    let per_host = after(&PER_HOST).and_then(number);
    per_host
        .or_else(|| after(&MAPPING).and_then(per_resource))
        .or_else(|| {
            after(&IN_ALL)
                .and_then(number)
                .map(|all| all.div_ceil(replicas))
        })
        .unwrap_or(1)
}

/// The workers' template: their container waits for the launcher, whatever command it has.
pub(super) fn worker_template(job: &MpiJob, wanted: &Wanted<'_>) -> Value {
    let spec = &job.spec;
    let sshd = |default: &str| match spec.sshd_path.as_str() {
        "" => default.to_owned(),
        path => path.to_owned(),
    };
    let given = override_of(job, WORKER);
    let (command, args) = match given.map(|given| (&given.command, &given.args)) {
        Some((command, args)) if !command.is_empty() => (command.clone(), args.clone()),
        _ if spec.debug.enabled => (vec![sshd(DEBUG_SSHD), "-D".to_owned()], Vec::new()),
        _ => (vec![sshd(SSHD), "-De".to_owned()], Vec::new()),
    };
    let mut template = wanted.template.clone();
    let list = template.pointer_mut("/spec/containers");
    let list = list.and_then(Value::as_array_mut).into_iter().flatten();
    for container in list.filter(|container| container["name"] == wanted.container) {
        set_command(container, command.clone(), args.clone());
    }
    drop_init_containers(&mut template, given);
    template
}

/// The launcher's template: the environment of a worker, alone in its pod.
pub(super) fn launcher_template(job: &MpiJob, wanted: &Wanted<'_>) -> Value {
    let given = override_of(job, LAUNCHER);
    let (command, args) = match given.map(|given| (&given.command, &given.args)) {
        Some((command, args)) if !command.is_empty() => (command.clone(), args.clone()),
        _ if job.spec.debug.enabled => (vec!["sleep".to_owned(), "inf".to_owned()], Vec::new()),
        _ => (mpirun(wanted), Vec::new()),
    };
    let mut template = match wanted.launcher_template {
        Some(own) => own.clone(),
        None => derived(wanted),
    };
    if let Some(container) = template.pointer_mut("/spec/containers/0") {
        let own = container.get("command").is_some_and(Value::is_array);
        if !(own && wanted.launcher_template.is_some()) {
            set_command(container, command, args);
        }
    }
    drop_init_containers(&mut template, given);
    template
}

/// A worker's template with its MPI container alone, and that without what it asks of a node.
fn derived(wanted: &Wanted<'_>) -> Value {
    let mut containers = containers(wanted.template);
    let worker = containers.find(|container| container["name"] == wanted.container);
    let shared = SHARED.into_iter().filter_map(|key| {
        let value = worker?.get(key)?;
        Some((key.to_owned(), value.clone()))
    });
    let mut container: Map<String, Value> = shared.collect();
    container.insert("name".to_owned(), LAUNCHER_CONTAINER.into());
    let mut template = wanted.template.clone();
    if let Some(list) = template.pointer_mut("/spec/containers") {
        *list = json!([container]);
    }
    template
}

/// The command line. The absolute path of an mpirun is also where its daemons are looked for on
/// other hosts. Processes that sshd starts do not see their container's variables, so mpirun carries
/// them along.
fn mpirun(wanted: &Wanted<'_>) -> Vec<String> {
    let program = match wanted.home.trim_end_matches('/') {
        "" => "mpirun".to_owned(),
        home => format!("{home}/bin/mpirun"),
    };
    let mca = wanted
        .mca
        .iter()
        .flat_map(|(name, value)| ["--mca".to_owned(), name.clone(), value.clone()]);
    let mut containers = containers(wanted.template);
    let worker = containers.find(|container| container["name"] == wanted.container);
    let variables = worker.and_then(|worker| worker.get("env")?.as_array());
    let names = variables.into_iter().flatten();
    let names = names.filter_map(|variable| variable["name"].as_str());
    let forwarded = names.flat_map(|name| ["-x".to_owned(), name.to_owned()]);
    let words = [program].into_iter().chain(mca).chain(forwarded);
    let words = words.chain(wanted.args.iter().cloned());
    words.chain(wanted.program.iter().cloned()).collect()
}

/// How replicas of a type start in the mode that the job is in. What a pause left behind counts as
/// long as no other mode does.
fn override_of<'a>(job: &'a MpiJob, kind: &str) -> Option<&'a Override> {
    let spec = &job.spec;
    let overrides = match (spec.debug.enabled, job.was_paused && !spec.pause.enabled) {
        (true, _) => &spec.debug.overrides,
        (false, true) => &spec.pause.overrides,
        (false, false) => return None,
    };
    overrides.iter().find(|given| given.kind == kind)
}

fn set_command(container: &mut Value, command: Vec<String>, args: Vec<String>) {
    container["command"] = json!(command);
    match (args.is_empty(), container.as_object_mut()) {
        (true, Some(container)) => drop(container.remove("args")),
        (_, _) => container["args"] = json!(args),
    }
}

fn drop_init_containers(template: &mut Value, given: Option<&Override>) {
    let skipped = given.is_some_and(|given| given.skip_init_container);
    if let Some(spec) = template.pointer_mut("/spec").filter(|_| skipped)
        && let Some(spec) = spec.as_object_mut()
    {
        spec.remove("initContainers");
    }
}
