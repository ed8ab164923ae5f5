//! Warns where a job will run otherwise than its author seems to think: a policy that another one overrides, workers
//! that nobody can log in to, a mount of nothing, accelerators without ranks, a loop that waits for what is there.
//! Says nothing about what it cannot know.

use contract::files::{CONFIG_VOLUME, SSH_VOLUME};
use dialects::worker_slots::{Basis, WorkerSlots};
use planner::Job;
use planner::job::{Access, Workers};
use serde_json::Value;

use super::{Finding, Severity, error, text_at};
use crate::yaml::{Document, escaped};

const REPLICAS: &str = "/spec/mpiReplicaSpecs";
/// Programs that are certainly no sshd.
const IDLERS: [&str; 5] = ["sleep", "tail", "cat", "python", "python3"];
/// What begins a loop without an end of its own, and what asks for a host in one.
const LOOPS: [&str; 2] = ["until", "while"];
const HOST_TESTS: [&str; 6] = ["ssh", "nslookup", "getent", "ping", "mpirun", "mpiexec"];
/// Whoever reads it in such a loop goes through the workers.
const HOST_LIST: &str = "/etc/mpi/hostfile";
/// Volumes that muster adds.
const OUR_VOLUMES: [&str; 2] = [CONFIG_VOLUME, SSH_VOLUME];

pub(super) fn check(document: &Document, job: &Job) -> Vec<Finding> {
    if !document
        .value
        .pointer(REPLICAS)
        .is_some_and(Value::is_object)
    {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for role in ["Launcher", "Worker"] {
        findings.extend(overridden_policy(document, role));
        findings.extend(mounts_of_nothing(document, role));
        findings.extend(resources_of_pods(document, role));
    }
    if is_by_ssh(job) {
        findings.extend(no_sshd(document));
        findings.extend(foreign_home(document));
    }
    findings.extend(slots(document));
    if has_gate(job) {
        findings.extend(needless_wait(document));
    }
    findings
}

/// The pods have the policy of the replica, whatever their template says.
fn overridden_policy(document: &Document, role: &str) -> Option<Finding> {
    let replica = format!("{REPLICAS}/{role}");
    let at = format!("{replica}/template/spec/restartPolicy");
    let said = text_at(&document.value, &at);
    let counts = match text_at(&document.value, &format!("{replica}/restartPolicy")) {
        "" => "Never",
        counts => counts,
    };
    // What this policy becomes depends on the exit code.
    if said.is_empty() || said == counts || counts == "ExitCode" {
        return None;
    }
    let mut finding = warning(
        "OverriddenByReplica",
        format!("the pods get restartPolicy {counts}, not {said}"),
        document,
        &at,
    );
    finding.label = format!("{role}.restartPolicy counts");
    finding.advice = format!("write restartPolicy beside {role}.template, or remove it here");
    Some(finding)
}

fn containers(document: &Document, role: &str) -> Vec<String> {
    let spec = format!("{REPLICAS}/{role}/template/spec");
    let lists = ["containers", "initContainers"].into_iter();
    let lists = lists.flat_map(|list| {
        let list = format!("{spec}/{list}");
        let count = document
            .value
            .pointer(&list)
            .and_then(Value::as_array)
            .map_or(0, Vec::len);
        (0..count).map(move |index| format!("{list}/{index}"))
    });
    lists.collect()
}

/// The API server refuses the pod, and not the job.
fn mounts_of_nothing(document: &Document, role: &str) -> Vec<Finding> {
    let object = &document.value;
    let volumes = object.pointer(&format!("{REPLICAS}/{role}/template/spec/volumes"));
    let volumes: Vec<&str> = volumes
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|volume| volume["name"].as_str())
        .collect();
    let mut findings = Vec::new();
    for container in containers(document, role) {
        let mounts = object.pointer(&format!("{container}/volumeMounts"));
        let count = mounts.and_then(Value::as_array).map_or(0, Vec::len);
        for index in 0..count {
            let at = format!("{container}/volumeMounts/{index}/name");
            let name = text_at(object, &at);
            if name.is_empty() || volumes.contains(&name) || OUR_VOLUMES.contains(&name) {
                continue;
            }
            let message = format!("no volume of the pod is called {name}");
            let mut finding = warning("MountWithoutVolume", message, document, &at);
            finding.advice = format!("add it to {role}.template.spec.volumes");
            findings.push(finding);
        }
    }
    findings
}

/// A pod as a whole can ask for few resources. The API server refuses one that asks for others, and not the job.
fn resources_of_pods(document: &Document, role: &str) -> Vec<Finding> {
    let spec = format!("{role}.template.spec");
    let mut findings = Vec::new();
    for list in ["limits", "requests"] {
        let at = format!("{REPLICAS}/{role}/template/spec/resources/{list}");
        let resources = document.value.pointer(&at).and_then(Value::as_object);
        let names = resources.into_iter().flat_map(|resources| resources.keys());
        let is_of_pods =
            |name: &str| matches!(name, "cpu" | "memory") || name.starts_with("hugepages-");
        for name in names.filter(|name| !is_of_pods(name)) {
            let message = format!("only containers can ask for {name}: pods with this are refused");
            let at = format!("{at}/{}", escaped(name));
            let mut finding = warning("RefusedForPods", message, document, &at);
            finding.advice = format!("move {spec}.resources into {spec}.containers[]");
            findings.push(finding);
        }
    }
    findings
}

/// mpirun logs in to workers that run no sshd.
fn no_sshd(document: &Document) -> Option<Finding> {
    let container = format!("{REPLICAS}/Worker/template/spec/containers/0");
    let words = ["command", "args"].into_iter().flat_map(|list| {
        let list = document.value.pointer(&format!("{container}/{list}"));
        list.and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
    });
    let words: Vec<&str> = words.collect();
    let program = words.first()?.rsplit('/').next().unwrap_or_default();
    if !IDLERS.contains(&program) || words.iter().any(|word| word.contains("ssh")) {
        return None;
    }
    let at = format!("{container}/command");
    let message =
        format!("the workers run {program} and no sshd, so mpirun cannot start ranks there");
    let mut finding = warning("NoSshd", message, document, &at);
    finding.label = "transport SSH needs sshd here".to_owned();
    finding.advice = "remove the command, or set spec.muster.transport: Agent".to_owned();
    Some(finding)
}

/// An ordinary user does not look for keys in root's home.
fn foreign_home(document: &Document) -> Option<Finding> {
    let object = &document.value;
    if !text_at(object, "/spec/sshAuthMountPath").is_empty() {
        return None;
    }
    let spec = format!("{REPLICAS}/Launcher/template/spec");
    let places = [
        format!("{spec}/containers/0/securityContext"),
        format!("{spec}/securityContext"),
    ];
    let user = |place: &String| {
        let at = format!("{place}/runAsUser");
        Some((object.pointer(&at)?.as_u64()?, at))
    };
    let (user, at) = places.iter().find_map(user)?;
    if user == 0 {
        return None;
    }
    let message = format!("the launcher runs as user {user}, and its keys are in /root/.ssh");
    let mut finding = warning("KeysInRootsHome", message, document, &at);
    finding.advice = "set spec.sshAuthMountPath to the .ssh directory of that user".to_owned();
    Some(finding)
}

/// A loop in the launcher that waits for the workers: it begins when all of them have answered.
fn needless_wait(document: &Document) -> Option<Finding> {
    let container_words = |container: String| {
        ["command", "args"].into_iter().flat_map(move |list| {
            let list = format!("{container}/{list}");
            let words = document.value.pointer(&list).and_then(Value::as_array);
            let count = words.map_or(0, Vec::len);
            (0..count).map(move |index| format!("{list}/{index}"))
        })
    };
    let containers = containers(document, "Launcher").into_iter();
    let mut words = containers.flat_map(container_words);
    let at = words.find(|at| is_wait(text_at(&document.value, at)))?;
    let message = "the launcher waits for its workers in a loop".to_owned();
    let mut finding = warning("NeedlessWait", message, document, &at);
    finding.advice = "remove the loop: muster starts the launcher's program when all workers answer, and says which \
                      do not"
        .to_owned();
    Some(finding)
}

/// Whether a script asks again and again for its hosts.
fn is_wait(script: &str) -> bool {
    let lines: Vec<&str> = script
        .lines()
        .map(str::trim)
        .filter(|line| !line.starts_with('#'))
        .collect();
    let words = lines.join("\n");
    let words = words.split(|char: char| char.is_whitespace() || ";()'\"`".contains(char));
    let words: Vec<&str> = words.collect();
    let Some(begin) = words.iter().position(|word| LOOPS.contains(word)) else {
        return false;
    };
    let looped = &words[begin..];
    let end = looped.iter().position(|word| *word == "done");
    let looped = &looped[..end.unwrap_or(looped.len())];
    let asks = looped.iter().any(|word| HOST_TESTS.contains(word));
    (asks && looped.contains(&"sleep")) || looped.contains(&HOST_LIST)
}

/// Another number of ranks than a worker seems to have room for. One is a choice that many make.
fn slots(document: &Document) -> Option<Finding> {
    let object = &document.value;
    let at = "/spec/slotsPerWorker";
    let said = object.pointer(at).filter(|slots| !slots.is_null());
    let said = said.map(|slots| slots.as_u64().unwrap_or_default());
    let container = worker_container(object)?;
    let WorkerSlots { slots, basis } = WorkerSlots::of(object.pointer(&container)?);
    let is_auto = text_at(object, "/spec/muster/slotsPerWorker") == "Auto";
    let is_too_many = said.is_some_and(|said| said > slots.into());
    let is_another = said.is_some_and(|said| said > 1 && said != u64::from(slots));
    let said_words = said.unwrap_or(1);
    let (reason, message, advice, at) = match (is_auto, said, &basis) {
        (true, Some(said), _) if said != u64::from(slots) => (
            "SlotsUnused",
            format!(
                "slotsPerWorker is {said}, but spec.muster.slotsPerWorker makes it {slots}: a worker has {basis}"
            ),
            "remove one of the two".to_owned(),
            at.to_owned(),
        ),
        (true, ..) => return None,
        (false, None, Basis::Accelerators(count)) if *count > 1 => (
            "SlotsUnset",
            format!("each worker has {basis} and one slot, because slotsPerWorker is not set"),
            format!(
                "set slotsPerWorker: {slots} if each rank uses one accelerator, or spec.muster.slotsPerWorker: Auto"
            ),
            format!("{container}/resources"),
        ),
        (false, Some(_), Basis::Accelerators(_)) if is_another => (
            "SlotsDiffer",
            format!("each worker has {basis} and {said_words} slots"),
            format!("set slotsPerWorker: {slots} if each rank uses one accelerator"),
            at.to_owned(),
        ),
        (false, Some(_), Basis::CpuLimit(_)) if is_too_many && is_another => (
            "SlotsDiffer",
            format!("each worker has {basis} and {said_words} slots, so its ranks share CPUs"),
            format!("set slotsPerWorker: {slots}, or a higher limit"),
            at.to_owned(),
        ),
        _ => return None,
    };
    let mut finding = warning(reason, message, document, &at);
    finding.advice = advice;
    Some(finding)
}

/// Where the workers' container is in which ranks start.
fn worker_container(object: &Value) -> Option<String> {
    let containers = format!("{REPLICAS}/Worker/template/spec/containers");
    let name = text_at(object, "/spec/mainContainer");
    let list = object.pointer(&containers)?.as_array()?;
    let index = match name {
        "" => 0,
        name => list
            .iter()
            .position(|container| container["name"] == name)?,
    };
    Some(format!("{containers}/{index}"))
}

/// Whether the launcher's program starts when all workers answer.
fn has_gate(job: &Job) -> bool {
    let Workers::Pods(pods) = &job.workers else {
        return false;
    };
    let login = match &pods.access {
        Access::SiteDefault(login) | Access::Ssh(login) | Access::Agent(login, _) => login,
        Access::Provided(_) => return false,
    };
    login.gate && job.worker_count() > 0 && !job.elastic
}

fn is_by_ssh(job: &Job) -> bool {
    let by_ssh = |access: &Access| matches!(access, Access::Ssh(_) | Access::SiteDefault(_));
    matches!(&job.workers, Workers::Pods(pods) if by_ssh(&pods.access))
}

fn warning(reason: &'static str, message: String, document: &Document, at: &str) -> Finding {
    Finding {
        severity: Severity::Warning,
        ..error(reason, message, document.value_mark(at))
    }
}
