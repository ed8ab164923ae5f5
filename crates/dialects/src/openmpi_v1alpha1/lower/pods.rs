//! The pods of a component, whole: master and workers differ in what asks for a node, and in the
//! sidecar. Names, paths, modes and words of the command line are the component's, since scripts rely on
//! them.

use contract::commands::sidecar;
use contract::files::{AGENT_PROGRAM, TERMINATION_LOG};
use contract::{commands, env};
use serde_json::{Map, Value, json};

use super::super::defaults;
use super::{Wanted, names};

/// The sidecar of the workers.
pub(super) const CONTROLLER: &str = "openmpi-controller";
const JOB: &str = "openmpi-job";
const DATA_VOLUME: &str = "openmpi-data";
const SECRETS_VOLUME: &str = "openmpi-secrets";
const ASSETS_VOLUME: &str = "openmpi-assets";
/// Where `init.sh` looks for signals of the sidecar, below the directory that they share.
const SIGNALS: &str = ".openmpi-controller";
/// How the component's own sidecar is started.
const CONTROLLER_PROGRAM: [&str; 2] = [
    "python",
    "/kubeflow/openmpi/openmpi-controller/controller/main.py",
];

/// The master's template.
pub(super) fn master(wanted: &Wanted<'_>) -> Value {
    let mut spec = common(wanted);
    spec["containers"] = json!([container(wanted, "master")]);
    json!({"spec": spec})
}

/// The workers' template.
pub(super) fn worker(wanted: &Wanted<'_>) -> Value {
    let mut spec = common(wanted);
    let mut main = container(wanted, "worker");
    let limits = limits(wanted);
    if !limits.is_empty() {
        main["resources"] = json!({"limits": limits});
    }
    spec["containers"] = json!([main, controller(wanted)]);
    if !wanted.node_selector.is_empty() {
        let selector = wanted.node_selector.iter();
        spec["nodeSelector"] = selector
            .map(|(key, value)| ((*key).to_owned(), Value::from(*value)))
            .collect();
    }
    if wanted.job.spec.use_host_network == Some(true) {
        spec["hostNetwork"] = true.into();
    }
    json!({"spec": spec})
}

fn common(wanted: &Wanted<'_>) -> Value {
    let given = &wanted.job.spec;
    let scheduler = given.scheduler_name.as_deref();
    let mut spec = json!({
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirstWithHostNet",
        "schedulerName": scheduler.unwrap_or(defaults::SCHEDULER),
        "volumes": volumes(wanted),
    });
    let security = security(wanted);
    if !security.is_empty() {
        spec["securityContext"] = security.into();
    }
    if !wanted.pull_secrets.is_empty() {
        let names = wanted.pull_secrets.iter();
        spec["imagePullSecrets"] = names.map(|name| json!({"name": name})).collect();
    }
    let account = given.service_account_name.as_ref();
    spec["serviceAccountName"] = account.unwrap_or(&wanted.job.metadata.name).as_str().into();
    spec
}

fn security(wanted: &Wanted<'_>) -> Map<String, Value> {
    let given = &wanted.job.spec;
    let mut security = Map::new();
    if let Some(user) = given.run_as_user {
        security.insert("runAsUser".to_owned(), user.into());
    }
    if let Some(group) = given.run_as_group {
        security.insert("runAsGroup".to_owned(), group.into());
        // So that the group may read the keys.
        security.insert("fsGroup".to_owned(), group.into());
    }
    if !wanted.groups.is_empty() {
        security.insert("supplementalGroups".to_owned(), json!(wanted.groups));
    }
    security
}

fn volumes(wanted: &Wanted<'_>) -> Vec<Value> {
    let assets = names(wanted.job).config;
    let mut items = vec![json!({"key": "init.sh", "path": "init.sh", "mode": 0o555})];
    let others = ["hostfile", "mca-params.conf", "ssh_config", "sshd_config"];
    items.extend(others.map(|file| json!({"key": file, "path": file})));
    let mut volumes = vec![
        json!({"name": DATA_VOLUME, "emptyDir": {}}),
        json!({"name": SECRETS_VOLUME, "secret": {"secretName": wanted.secret, "defaultMode": 0o400}}),
        json!({"name": ASSETS_VOLUME,
            "configMap": {"name": assets, "items": items, "defaultMode": 0o644}}),
    ];
    volumes.extend(wanted.job.spec.volumes.iter().cloned());
    volumes
}

fn container(wanted: &Wanted<'_>, role: &str) -> Value {
    let given = &wanted.job.spec;
    let init = given.init.as_deref().unwrap_or(defaults::INIT);
    let exec = given.exec.as_deref().unwrap_or(defaults::EXEC);
    let mut mounts = vec![
        json!({"name": DATA_VOLUME, "mountPath": defaults::DATA}),
        json!({"name": ASSETS_VOLUME, "mountPath": defaults::ASSETS}),
        json!({"name": SECRETS_VOLUME, "mountPath": defaults::SECRETS}),
    ];
    mounts.extend(given.volume_mounts.iter().cloned());
    let policy = given.image_pull_policy.as_deref();
    json!({
        "name": JOB,
        "image": wanted.image,
        "imagePullPolicy": policy.unwrap_or(defaults::IMAGE_PULL_POLICY),
        "command": [
            "sh", literal(init), role, wanted.workers.to_string(), literal(exec),
            wanted.init_secs.to_string(),
        ],
        "workingDir": defaults::DATA,
        "ports": [{"containerPort": defaults::SSH_PORT, "protocol": "TCP"}],
        "volumeMounts": mounts,
        "terminationMessagePath": TERMINATION_LOG,
        "terminationMessagePolicy": "File",
    })
}

/// The kubelet makes one `$` of two, and puts values in place of `$(NAMES)`; a shell command must reach
/// its shell as it was written.
fn literal(words: &str) -> String {
    words.replace('$', "$$")
}

/// The sidecar may copy files and nothing else. Without a user of the job's own it is root: what the job
/// wrote is to be uploaded, whoever its image's user is. Of root's powers it keeps the one for that.
fn confined(user: Option<i64>) -> Value {
    let mut context = json!({
        "allowPrivilegeEscalation": false,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": true,
        "seccompProfile": {"type": "RuntimeDefault"},
    });
    match user {
        Some(1..) => context["runAsNonRoot"] = true.into(),
        Some(_) | None => {
            context["runAsUser"] = 0.into();
            context["capabilities"]["add"] = json!(["DAC_OVERRIDE"]);
        }
    }
    context
}

fn limits(wanted: &Wanted<'_>) -> Map<String, Value> {
    let given = &wanted.job.spec;
    let mut limits = Map::new();
    let mut limit = |name: &str, amount: Value| limits.insert(name.to_owned(), amount);
    if wanted.gpus > 0 {
        limit("nvidia.com/gpu", wanted.gpus.to_string().into());
    }
    for (name, amount) in [("cpu", &given.cpu), ("memory", &given.memory)] {
        if let Some(amount) = amount {
            limit(name, amount.as_str().into());
        }
    }
    for (name, amount) in &wanted.resources {
        limit(name, (*amount).into());
    }
    limits
}

fn controller(wanted: &Wanted<'_>) -> Value {
    let given = &wanted.job.spec;
    let mut words = vec![(sidecar::NAMESPACE, wanted.job.metadata.namespace.clone())];
    match wanted.own_controller() {
        Some(_) => words.push(("--master", names(wanted.job).launcher)),
        None => words.extend([
            (sidecar::JOB, wanted.job.metadata.name.clone()),
            (sidecar::SIGNAL_DIR, SIGNALS.to_owned()),
        ]),
    }
    words.extend([
        (sidecar::GPUS, wanted.gpus.to_string()),
        (sidecar::TIMEOUT_SECS, wanted.init_secs.to_string()),
    ]);
    let words = words.into_iter();
    let words = words.flat_map(|(option, value)| [option.to_owned(), value]);
    let mut words: Vec<String> = words.collect();
    for (option, value) in [
        (sidecar::DOWNLOAD_FROM, &given.download_data_from),
        (sidecar::DOWNLOAD_TO, &given.download_data_to),
        (sidecar::UPLOAD_FROM, &given.upload_data_from),
        (sidecar::UPLOAD_TO, &given.upload_data_to),
    ] {
        if let Some(value) = value {
            words.extend([option.to_owned(), literal(value)]);
        }
    }
    let program: &[&str] = match wanted.own_controller() {
        Some(_) => &CONTROLLER_PROGRAM,
        None => &[AGENT_PROGRAM, commands::SIDECAR],
    };
    let program = program.iter().map(|word| (*word).to_owned());
    let mut mounts = vec![json!({"name": DATA_VOLUME, "mountPath": defaults::DATA})];
    mounts.extend(given.volume_mounts.iter().cloned());
    let mut container = json!({
        "name": CONTROLLER,
        "command": program.chain(words).collect::<Vec<_>>(),
        "workingDir": defaults::DATA,
        "volumeMounts": mounts,
        "terminationMessagePath": TERMINATION_LOG,
        "terminationMessagePolicy": "File",
    });
    match wanted.own_controller() {
        Some(image) => {
            container["image"] = image.into();
            container["imagePullPolicy"] = "Always".into();
        }
        None => {
            // On the network of a node, a pod does not have its own name.
            let name = json!({"fieldRef": {"fieldPath": "metadata.name"}});
            container["env"] = json!([{"name": env::POD, "valueFrom": name}]);
            container["securityContext"] = confined(given.run_as_user);
        }
    }
    if let Some(secret) = &given.s3_secret {
        container["envFrom"] = json!([{"secretRef": {"name": secret}}]);
    }
    container
}
