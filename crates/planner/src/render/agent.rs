//! The agent in the pods of a job: its init container, its volumes, and the commands that run under
//! it. Decides what a pod is given; what the agent does with it is the agent's business.
//!
//! Everything here satisfies Pod Security `restricted`, whatever the user's own containers do.

use contract::files::{
    AGENT_CONTAINER, AGENT_COPY, AGENT_MOUNT_PATH, AGENT_PROGRAM, AGENT_VOLUME, CONFIG_MOUNT_PATH,
    CONFIG_VOLUME, HOSTS_FILE, HOSTS_MOUNT_PATH, HOSTS_VOLUME, LAUNCHER_KEY, LAUNCHER_PUBLIC_KEY,
    TLS_MOUNT_PATH, TLS_VOLUME, VALID_UNTIL, WORKER_KEY,
};
use contract::labels::HOSTS_ANNOTATION;
use contract::protocol::AGENT_PORT;
use contract::{Reason, commands, env};
use serde_json::{Map, Value, json};

use super::pod::Draft;
use super::{hostfile, list, object};
use crate::job::{Job, Login, Recovery};
use crate::mpi;
use crate::site::Site;
use crate::ssh_port::{SshPorts, is_on_host_network};
use crate::worker_batch::{OwnPort, WorkerWords};

/// Seconds that a pod has beyond those of its ranks: the agent then ends what is left, and reports.
const STOP_REST_SECS: u64 = 15;
const TERMINATION_GRACE: &str = "terminationGracePeriodSeconds";
/// What Kubernetes gives a pod that does not say.
const TERMINATION_GRACE_SECS: u64 = 30;
/// Seconds for which the gate waits for an sshd on the node's network whose port nobody said.
const HOST_NETWORK_SSH_PATIENCE: &str = "10";

/// Makes a worker serve, with a key of its own, and on a port of its own where it has one.
pub(crate) fn serve(job: &Job, image: &str, secret: &str, worker: &WorkerWords, draft: &mut Draft) {
    draft.without_token();
    let replaced = |recovery: &&Recovery| recovery.on.contains(&Reason::WorkerLost);
    // An elastic program goes on with the others.
    if let Some(recovery) = job.recovery.as_ref().filter(replaced)
        && !job.elastic
    {
        wait_for_stop(recovery, draft);
    }
    let (own, public) = (&worker.key_item, LAUNCHER_PUBLIC_KEY);
    keys(secret, &[(own, WORKER_KEY), (public, public)], draft);
    install(image, draft);

    let own_port = worker.port.as_ref();
    if let Some(OwnPort { text, number }) = own_port {
        draft.variable(env::PORT, text);
        // The scheduler then puts no two of them on one node that want the same port.
        let port = json!({"name": AGENT_CONTAINER, "containerPort": number, "hostPort": number});
        list(draft.main_container(), "ports").push(port);
    }
    let port = own_port.map_or_else(|| AGENT_PORT.into(), |own| own.number.clone());
    let container = draft.main_container();
    let mut own = words(container, "command");
    let arguments = words(container, "args");
    // The agent is there instead of it.
    let is_sshd = |word: &String| word.rsplit('/').next() == Some("sshd");
    if own.iter().chain(&arguments).next().is_some_and(is_sshd) {
        container.remove("args");
        own.clear();
        probe_agent(container, &port);
    }
    let any = !own.is_empty() || !words(container, "args").is_empty();
    let serve = [AGENT_COPY, commands::SERVE].map(str::to_owned);
    let command = serve.into_iter().chain(any.then(|| "--".to_owned()));
    let command: Vec<String> = command.chain(own).collect();
    container.insert("command".to_owned(), json!(command));
}

/// A probe that asked the sshd whether it is there asks the agent instead.
fn probe_agent(container: &mut Map<String, Value>, port: &Value) {
    for probe in ["readinessProbe", "livenessProbe", "startupProbe"] {
        let asked = container
            .get_mut(probe)
            .and_then(|probe| probe.get_mut("tcpSocket"));
        if let Some(Value::Object(socket)) = asked {
            socket.insert("port".to_owned(), port.clone());
        }
    }
}

/// Lets a launcher prove to its workers that it is theirs.
pub(crate) fn keys_of_launcher(secret: &str, draft: &mut Draft) {
    keys(secret, &[(LAUNCHER_KEY, LAUNCHER_KEY)], draft);
}

/// Makes a launcher wait, if it has a gate, and call its workers through the agent.
pub(crate) fn launch(
    job: &Job,
    site: &Site,
    login: &Login,
    image: &str,
    gated: bool,
    draft: &mut Draft,
) {
    draft.without_token();
    hosts(draft);
    for (name, value) in mpi::agent_variables(job, site, login) {
        draft.variable(name, &value);
    }
    if !login.census || job.elastic {
        draft.variable(env::CENSUS, env::OFF);
    }
    if let Some(recovery) = &job.recovery {
        restart_in_place(recovery, job.limits().startup_secs, draft);
        if !job.elastic {
            let signal = recovery.stop.signal.number;
            draft.variable(env::STOP_SIGNAL, &signal.to_string());
            wait_for_stop(recovery, draft);
        }
    }
    let path = draft.main_container().get("terminationMessagePath");
    if let Some(path) = path.and_then(Value::as_str).map(str::to_owned) {
        draft.variable(env::TERMINATION_LOG, &path);
    }

    let mounts = [
        (AGENT_VOLUME, AGENT_MOUNT_PATH),
        (TLS_VOLUME, TLS_MOUNT_PATH),
        (HOSTS_VOLUME, HOSTS_MOUNT_PATH),
        (CONFIG_VOLUME, CONFIG_MOUNT_PATH),
    ];
    if gated {
        let workers = variable(env::WORKERS, &job.worker_count().to_string());
        let variables = [vec![workers], gate_variables(job, site)].concat();
        // The lists are written again when the container is started again; but not where a
        // promised script is mounted among them, which nobody can write over.
        let stays = |variable: &&Value| !login.exec_script || variable["name"] != env::LISTS_DIR;
        for variable in variables.iter().filter(stays) {
            draft.variable_entry(variable.clone());
        }
        let gate = init_container(image, gate(), variables, &mounts, draft);
        let init_containers = list(&mut draft.spec, "initContainers");
        // They wait for nothing else than what the gate writes.
        let readers = init_containers.iter().position(mounts_lists);
        init_containers.insert(readers.unwrap_or(init_containers.len()), gate);
    } else {
        draft.variable(env::WORKERS, &job.worker_count().to_string());
        install(image, draft);
    }
    run_under(&[AGENT_COPY, commands::EXEC, "--"], draft);
}

/// Lets the launcher's wrapper start the command again.
fn restart_in_place(recovery: &Recovery, startup_secs: Option<u64>, draft: &mut Draft) {
    let Recovery {
        restarts,
        on,
        reset_secs,
        stop: _,
    } = recovery;
    let on: Vec<_> = on.iter().map(|reason| reason.as_str()).collect();
    draft.variable(env::RESTARTS, &restarts.to_string());
    draft.variable(env::RESTART_ON, &on.join(","));
    if let Some(secs) = reset_secs {
        draft.variable(env::RESTART_RESET, &secs.to_string());
    }
    // Whoever limits the first start means the others, too.
    if let Some(secs) = startup_secs {
        draft.variable(env::REPLACEMENT_TIMEOUT, &secs.to_string());
    }
}

/// Gives the ranks time to end, and the kubelet patience for that.
fn wait_for_stop(recovery: &Recovery, draft: &mut Draft) {
    let grace_secs = recovery.stop.grace_secs;
    draft.variable(env::STOP_GRACE, &grace_secs.to_string());
    let needed = u64::from(grace_secs) + STOP_REST_SECS;
    let written = draft.spec.get(TERMINATION_GRACE).and_then(Value::as_u64);
    if written.unwrap_or(TERMINATION_GRACE_SECS) < needed {
        draft
            .spec
            .insert(TERMINATION_GRACE.to_owned(), needed.into());
    }
}

/// Copies the agent into the pod.
pub(crate) fn install(image: &str, draft: &mut Draft) {
    let command = json!([AGENT_PROGRAM, commands::INSTALL, AGENT_MOUNT_PATH]);
    let mounts = [(AGENT_VOLUME, AGENT_MOUNT_PATH)];
    let install = init_container(image, command, Vec::new(), &mounts, draft);
    // The user's own need not wait for it.
    list(&mut draft.spec, "initContainers").push(install);
}

/// Whether a container reads the host lists.
fn mounts_lists(container: &Value) -> bool {
    let mounts = container["volumeMounts"].as_array();
    let mut mounts = mounts.into_iter().flatten();
    mounts.any(|mount| mount["name"] == CONFIG_VOLUME)
}

fn gate() -> Value {
    json!([
        AGENT_PROGRAM,
        commands::GATE,
        commands::GATE_INSTALL,
        AGENT_MOUNT_PATH
    ])
}

fn gate_variables(job: &Job, site: &Site) -> Vec<Value> {
    let syntax = job.mpi.host_list().as_str();
    let mut variables = vec![
        variable(env::LISTS_DIR, CONFIG_MOUNT_PATH),
        variable(env::LISTS_SYNTAX, syntax),
        variable(env::SLOTS, &job.slots.to_string()),
    ];
    if job.launcher.host.is_some() {
        let name = hostfile::host(job, site, &job.names.launcher);
        variables.push(variable(env::LAUNCHER_NAME, &name));
        variables.push(json!({
            "name": env::LAUNCHER_ADDRESS,
            "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}},
        }));
    }
    variables
}

/// Makes a launcher wait for the sshd of its workers.
pub(crate) fn await_sshd(job: &Job, login: &Login, image: &str, draft: &mut Draft) {
    hosts(draft);
    let SshPorts { ports, is_certain } = SshPorts::of(job, login);
    let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
    let mut variables = vec![
        variable(env::GATE_TRANSPORT, env::GATE_BY_SSH),
        variable(env::WORKERS, &job.worker_count().to_string()),
        variable(env::SSH_PORTS, &ports.join(",")),
    ];
    if !is_certain && is_on_host_network(&job.workers.role().template) {
        // A worker's sshd may be on the port that counts for nothing, because it is the node's.
        variables.push(variable(env::SSH_PATIENCE, HOST_NETWORK_SSH_PATIENCE));
    }
    let mounts = [
        (AGENT_VOLUME, AGENT_MOUNT_PATH),
        (HOSTS_VOLUME, HOSTS_MOUNT_PATH),
    ];
    draft.volume(json!({"name": AGENT_VOLUME, "emptyDir": {}}));
    draft.mount(AGENT_VOLUME, AGENT_MOUNT_PATH);
    let gate = init_container(image, gate(), variables, &mounts, draft);
    // The user's own need not wait for the workers: the host lists are there from the start.
    list(&mut draft.spec, "initContainers").push(gate);
}

fn variable(name: &str, value: &str) -> Value {
    json!({"name": name, "value": value})
}

/// Where the pod's command is known, it runs under the agent; arguments follow by themselves.
fn run_under(wrapper: &[&str], draft: &mut Draft) {
    let container = draft.main_container();
    let own = words(container, "command");
    if own.is_empty() {
        return;
    }
    let wrapper = wrapper.iter().map(|word| (*word).to_owned());
    let command: Vec<String> = wrapper.chain(own).collect();
    container.insert("command".to_owned(), json!(command));
}

fn words(container: &Map<String, Value>, key: &str) -> Vec<String> {
    let words = container.get(key).and_then(Value::as_array);
    let words = words.into_iter().flatten().filter_map(Value::as_str);
    words.map(str::to_owned).collect()
}

/// The workers' addresses, as a file that follows the annotation.
fn hosts(draft: &mut Draft) {
    let path = format!("metadata.annotations['{HOSTS_ANNOTATION}']");
    draft.volume(json!({
        "name": HOSTS_VOLUME,
        "downwardAPI": {"items": [{"path": HOSTS_FILE, "fieldRef": {"fieldPath": path}}]},
    }));
    draft.mount(HOSTS_VOLUME, HOSTS_MOUNT_PATH);
}

/// The keys of this pod: those of others in the same Secret stay out of it. And the place for the agent
/// itself.
fn keys(secret: &str, own: &[(&str, &str)], draft: &mut Draft) {
    let items = own.iter().chain(&[(VALID_UNTIL, VALID_UNTIL)]);
    let items: Vec<Value> = items
        .map(|(key, path)| json!({"key": key, "path": path}))
        .collect();
    // Any user may run the program: what protects a key is that it is in this pod alone.
    draft.volume(json!({
        "name": TLS_VOLUME,
        "secret": {"secretName": secret, "items": items, "defaultMode": 0o444},
    }));
    draft.mount(TLS_VOLUME, TLS_MOUNT_PATH);
    draft.volume(json!({"name": AGENT_VOLUME, "emptyDir": {}}));
    draft.mount(AGENT_VOLUME, AGENT_MOUNT_PATH);
}

/// A container of ours; the caller decides when it runs.
fn init_container(
    image: &str,
    command: Value,
    variables: Vec<Value>,
    mounts: &[(&str, &str)],
    draft: &mut Draft,
) -> Value {
    let root = draft.spec.get("securityContext");
    let root = root.is_some_and(|context| context["runAsUser"] == 0);
    let mut security = json!({
        "allowPrivilegeEscalation": false,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": true,
        "seccompProfile": {"type": "RuntimeDefault"},
    });
    if !root {
        security["runAsNonRoot"] = true.into();
    }
    let mounts: Vec<Value> = mounts
        .iter()
        .map(|(name, path)| json!({"name": name, "mountPath": path}))
        .collect();
    let mut container = json!({
        "name": AGENT_CONTAINER,
        "image": image,
        "command": command,
        "volumeMounts": mounts,
        "securityContext": security,
    });
    if !variables.is_empty() {
        container["env"] = variables.into();
    }
    if let Some(resources) = resources(draft.main_container()) {
        container["resources"] = resources;
    }
    container
}

/// As the main container has them: the pod then asks for no more than before, keeps its class, and
/// passes a quota that wants every container to say.
fn resources(main: &mut Map<String, Value>) -> Option<Value> {
    let given = main.get("resources")?.as_object()?;
    let mut kept = Map::new();
    for part in ["requests", "limits"] {
        let Some(amounts) = given.get(part).and_then(Value::as_object) else {
            continue;
        };
        for name in ["cpu", "memory", "ephemeral-storage"] {
            if let Some(amount) = amounts.get(name) {
                object(&mut kept, part).insert(name.to_owned(), amount.clone());
            }
        }
    }
    (!kept.is_empty()).then_some(Value::Object(kept))
}
