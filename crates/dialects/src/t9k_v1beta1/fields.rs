//! The fields of T9k's MPIJob in all three shapes, its status and its definition. What a job of one
//! shape lacks, or has of another, is refused.

use super::lower::{PRIORITIES, REPLICA_TYPES, RESTART_POLICIES, WORKERS_MAX};
use crate::definition::{Definition, LABELS, Rule};
use crate::field::{BOOLEAN, Field, FieldType, INT32, LIST, OBJECT, Shape, TEMPLATE, TEXT, fields};
use crate::muster_fields::{TRANSPORT, transport_rule};

/// The cost of a rule over a list is estimated from the longest list there may be.
const CONTAINERS: Shape = LIST.max_items(64);
const CONTAINER_NAME: Shape = TEXT.max_length(63);
const WORDS: Shape = Shape::of(FieldType::List(Some(&TEXT.max_length(4096)))).max_items(256);
const PARAMETERS: Shape = Shape::of(FieldType::MapOf(&TEXT));
const REPLICAS: Shape = INT32.between(1, WORKERS_MAX);
const REPLICA_TYPE: Shape = TEXT.one_of(&REPLICA_TYPES).required();
const ABSOLUTE_PATH: Shape = TEXT.matching("^/");

/// The list.
pub(super) const FIELDS: &[Field] = fields! {
    "spec.worker": OBJECT => "The workers, and the environment of the launcher.";
    Honoured "spec.worker.replicas": REPLICAS, "3" => "How many workers: 1 to 10000. 1 if not set.";
    Honoured "spec.worker.extraMPIArgs": WORDS, r#"["-N", "4"]"#
        => "Arguments of mpirun, in order, before the program. They also determine the number of slots.";
    Honoured "spec.worker.cmd": WORDS, r#"["b"]"# => "The program that every process runs.";
    Honoured "spec.worker.template": TEMPLATE.required(), r#"{"spec": {"containers": [{"name": "mpi-worker", "image": "b"}]}}"#
        => "The workers' pods. muster derives the launcher's pod from it: only the container mpi-worker, without its resources.";
    "spec.worker.template.spec.containers": CONTAINERS => "";
    "spec.worker.template.spec.containers[].name": CONTAINER_NAME => "";
    Honoured "spec.worker.processesPerWorker": INT32.between(1, 65_535), "5"
        => "First shape: the same as the argument -N.";
    "spec.worker.processRecovery": OBJECT
        => "First shape: whether Open MPI restarts failed processes. extraMPIArgs replaced it.";
    Honoured "spec.worker.processRecovery.enable": BOOLEAN, "false"
        => "First shape: the same as the argument --enable-recovery.";
    Honoured "spec.worker.processRecovery.limit": INT32.at_least(0), "7"
        => "First shape: the same as the argument --max-restarts.";
    Honoured "spec.mca": PARAMETERS, r#"{"pml": "ob1"}"# => "MCA parameters of Open MPI, by name.";
    Honoured "spec.mpiHome": TEXT, r#""/opt/mpi""#
        => "Root of the Open MPI installation, where mpirun and its daemons are.";
    "spec.mpiConfig": OBJECT
        => "Third shape: what to run. It stands beside replicaSpecs and replaces worker.";
    Honoured "spec.mpiConfig.mca": PARAMETERS, r#"{"pml": "ob1"}"#
        => "Third shape: the same as mca.";
    Honoured "spec.mpiConfig.home": TEXT, r#""/opt/mpi""# => "Third shape: the same as mpiHome.";
    Honoured "spec.mpiConfig.extraArgs": WORDS, r#"["-N", "4"]"#
        => "Third shape: the same as worker.extraMPIArgs.";
    Honoured "spec.mpiConfig.script": WORDS, r#"["b"]"# => "Third shape: the same as worker.cmd.";
    "spec.replicaSpecs": LIST.max_items(2)
        => "Third shape: the replicas by type. They stand beside mpiConfig and replace worker.";
    Honoured "spec.replicaSpecs[].type": REPLICA_TYPE, r#""worker""#
        => "Third shape: launcher or worker.";
    Honoured "spec.replicaSpecs[].replicas": REPLICAS, "3"
        => "Third shape: number of replicas of this type: 1 launcher, 1 to 10000 workers. 1 if not set.";
    Honoured "spec.replicaSpecs[].restartPolicy.policy": TEXT.one_of(&RESTART_POLICIES), r#""Always""#
        => "Third shape: when the kubelet restarts a container that ended. OnFailure if not set.";
    Honoured "spec.replicaSpecs[].restartPolicy.limit": INT32.at_least(0), "4"
        => "Third shape: how many restarts of containers the whole job may have. 0 if not set.";
    Honoured "spec.replicaSpecs[].template": Shape::of(FieldType::Template { is_partial: true }), r#"{"spec": {"containers": [{"name": "worker", "image": "b"}]}}"#
        => "Third shape: the same as worker.template, with a container named worker. The launcher may have its own template.";
    "spec.replicaSpecs[].template.spec.containers": CONTAINERS => "";
    "spec.replicaSpecs[].template.spec.containers[].name": CONTAINER_NAME => "";
    Honoured "spec.ssh.sshAuthMountPath": ABSOLUTE_PATH, r#""/keys""#
        => "Where every pod mounts the job's SSH keys. /root/.ssh if not set.";
    Honoured "spec.ssh.authMountPath": ABSOLUTE_PATH, r#""/keys""#
        => "The same as ssh.sshAuthMountPath, in the spelling of T9k's other kinds of job.";
    Honoured "spec.ssh.sshdPath": ABSOLUTE_PATH, r#""/opt/sshd""#
        => "Path of the workers' sshd. If not set, /usr/sbin/sshd, and in debug mode /usr/bin/sshd.";
    Honoured "spec.runPolicy.cleanUpWorkers": BOOLEAN, "true"
        => "True: muster deletes the workers when the job is over. The launcher always stays. False if not set.";
    Honoured "spec.scheduler.t9kScheduler.queue": TEXT.required(), r#""q""#
        => "The queue of the job's PodGroup (scheduler.tensorstack.dev).";
    Honoured "spec.scheduler.t9kScheduler.priority": INT32.between(*PRIORITIES.start(), *PRIORITIES.end()), "5"
        => "Priority of the job's PodGroup: 0 to 100. 0 if not set.";
    "spec.runMode.debug": OBJECT => "The pods start, and no program runs in them.";
    Honoured "spec.runMode.debug.enabled": BOOLEAN, "true"
        => "Debug mode: the pods start, but do not run the program.";
    Honoured "spec.runMode.debug.enable": BOOLEAN, "true"
        => "The same as runMode.debug.enabled, in the spelling of older manuals.";
    "spec.runMode.debug.replicaSpecs": LIST.max_items(2) => "What replicas of a type run instead.";
    Honoured "spec.runMode.debug.replicaSpecs[].type": REPLICA_TYPE, r#""launcher""#
        => "launcher or worker.";
    Honoured "spec.runMode.debug.replicaSpecs[].skipInitContainer": BOOLEAN, "true"
        => "True: in debug mode, the replica has no init containers.";
    Honoured "spec.runMode.debug.replicaSpecs[].command": WORDS, r#"["b"]"#
        => "Command in debug mode. If not set, the launcher runs sleep inf, and workers run sshd -D.";
    Honoured "spec.runMode.debug.replicaSpecs[].args": WORDS, r#"["b"]"#
        => "Arguments of the command in debug mode.";
    "spec.runMode.pause": OBJECT => "The job has no pods. May be changed at any time.";
    Honoured "spec.runMode.pause.enabled": BOOLEAN, "true"
        => "While this is true, the job has no pods.";
    Honoured "spec.runMode.pause.enable": BOOLEAN, "true"
        => "The same as runMode.pause.enabled, in the spelling of older manuals.";
    "spec.runMode.pause.resumeSpecs": LIST.max_items(2)
        => "How replicas of a type start after a pause. Immutable.";
    Honoured "spec.runMode.pause.resumeSpecs[].type": REPLICA_TYPE, r#""launcher""#
        => "launcher or worker. Immutable.";
    Honoured "spec.runMode.pause.resumeSpecs[].skipInitContainer": BOOLEAN, "true"
        => "True: after a pause, the replica has no init containers. Immutable.";
    Honoured "spec.runMode.pause.resumeSpecs[].command": WORDS, r#"["b"]"#
        => "Command after a pause. Immutable.";
    Honoured "spec.runMode.pause.resumeSpecs[].args": WORDS, r#"["b"]"#
        => "Arguments of the command after a pause. Immutable.";
    Honoured "spec.muster.transport": TRANSPORT, r#""Agent""#
        => "How mpirun reaches the workers: SSH, through the image's sshd, or Agent, through muster's agent. SSH if not set. Cannot be changed.";
};

const STATUS: &[Field] = fields! {
    "status.phase": TEXT => "Pending, Running, Paused, Resuming, Succeeded, Failed or Unknown.";
    "status.tasks[].type": TEXT => "";
    "status.tasks[].restartCount": INT32 => "";
    "status.tasks[].omitted": INT32
        => "How many replicas `status` does not name: it names at most 1000. `aggregate` counts all.";
    "status.tasks[].status[].phase": TEXT => "";
    "status.tasks[].status[].name": TEXT => "";
    "status.tasks[].status[].uid": TEXT => "";
    "status.tasks[].status[].containers[].containerPhase": TEXT => "";
    "status.tasks[].status[].containers[].exitCode": INT32 => "";
    "status.aggregate.creating": INT32 => "";
    "status.aggregate.deleted": INT32 => "";
    "status.aggregate.failed": INT32 => "";
    "status.aggregate.pending": INT32 => "";
    "status.aggregate.running": INT32 => "";
    "status.aggregate.succeeded": INT32 => "";
    "status.aggregate.unknown": INT32 => "";
};

/// The custom resource definition.
pub(super) const DEFINITION: Definition = Definition {
    description: "A program that runs under mpirun, in the shape of the T9k platform.",
    is_installed: false,
    labels: LABELS,
    short_names: &["mj"],
    scale: None,
    state_column: ("Phase", "string", ".status.phase"),
    wide_columns: &[
        ("Running", "integer", ".status.aggregate.running"),
        ("Pending", "integer", ".status.aggregate.pending"),
        ("Failed", "integer", ".status.aggregate.failed"),
    ],
    status: &[STATUS],
    rules,
};

const RULES: [(&str, &str); 8] = [
    (
        "has(self.worker) || has(self.mpiConfig) || has(self.replicaSpecs)",
        "spec.worker: must describe the workers",
    ),
    (
        "!has(self.worker) || !(has(self.mpiConfig) || has(self.replicaSpecs))",
        "spec.worker: must not stand beside spec.mpiConfig or spec.replicaSpecs, which replaced it",
    ),
    (
        "has(self.mpiConfig) == has(self.replicaSpecs)",
        "spec.mpiConfig: must stand beside spec.replicaSpecs",
    ),
    (
        "!has(self.mpiConfig) || !(has(self.mca) || has(self.mpiHome))",
        "spec.mca: like spec.mpiHome, must not stand beside spec.mpiConfig, which replaced them",
    ),
    (
        "!has(self.worker) || !has(self.worker.extraMPIArgs) || !(has(self.worker.processesPerWorker) || has(self.worker.processRecovery))",
        "spec.worker.extraMPIArgs: must not stand beside processesPerWorker or processRecovery, which it replaced",
    ),
    (
        "!has(self.worker) || self.worker.template.spec.containers.exists(container, container.name == 'mpi-worker')",
        "spec.worker.template.spec.containers: must hold a container named \"mpi-worker\"",
    ),
    (
        "!has(self.worker) || has(self.worker.cmd) || (has(self.runMode) && has(self.runMode.debug))",
        "spec.worker.cmd: must say what every process runs",
    ),
    (
        "!has(self.replicaSpecs) || self.replicaSpecs.exists_one(replica, replica.type == 'worker')",
        "spec.replicaSpecs: must have one entry of type worker",
    ),
];

fn rules() -> Vec<Rule> {
    let resume = |spec: &str| {
        let pause = format!("{spec}.runMode.pause");
        format!(
            "(has({spec}.runMode) && has({pause}) && has({pause}.resumeSpecs) ? {pause}.resumeSpecs : [])"
        )
    };
    let same = format!("{} == {}", resume("self"), resume("oldSelf"));
    let mut rules: Vec<Rule> = RULES
        .map(|(rule, message)| Rule::new("spec", rule, message))
        .into();
    rules.push(Rule::new(
        "spec",
        same,
        "spec.runMode.pause.resumeSpecs: is immutable",
    ));
    rules.push(transport_rule());
    rules
}
