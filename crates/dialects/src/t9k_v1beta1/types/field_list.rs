//! What becomes of each field of a T9k job, in all three shapes.

use crate::field::Field;

/// The list.
pub(crate) const FIELDS: &[Field] = &[
    Field::honoured(
        "spec.worker.replicas",
        r#"3"#,
        "How many workers; 1 if not set.",
    ),
    Field::honoured(
        "spec.worker.extraMPIArgs",
        r#"["-N", "4"]"#,
        "Words for mpirun, in order, before the program; slots follow from them.",
    ),
    Field::honoured("spec.worker.cmd", r#"["b"]"#, "What every process runs."),
    Field::honoured(
        "spec.worker.template",
        r#"{"spec": {"containers": [{"name": "mpi-worker", "image": "b"}]}}"#,
        "The workers' pods, and the launcher's without what they ask of a node.",
    ),
    Field::honoured(
        "spec.worker.processesPerWorker",
        r#"5"#,
        "First shape: as -N.",
    ),
    Field::honoured(
        "spec.worker.processRecovery.enable",
        r#"false"#,
        "First shape: as --enable-recovery.",
    ),
    Field::honoured(
        "spec.worker.processRecovery.limit",
        r#"7"#,
        "First shape: as --max-restarts.",
    ),
    Field::honoured(
        "spec.mca",
        r#"{"pml": "ob1"}"#,
        "MCA parameters for mpirun.",
    ),
    Field::honoured(
        "spec.mpiHome",
        r#""/opt/mpi""#,
        "Where mpirun and its daemons are.",
    ),
    Field::honoured(
        "spec.mpiConfig.mca",
        r#"{"pml": "ob1"}"#,
        "Third shape: as mca.",
    ),
    Field::honoured(
        "spec.mpiConfig.home",
        r#""/opt/mpi""#,
        "Third shape: as mpiHome.",
    ),
    Field::honoured(
        "spec.mpiConfig.extraArgs",
        r#"["-N", "4"]"#,
        "Third shape: as worker.extraMPIArgs.",
    ),
    Field::honoured(
        "spec.mpiConfig.script",
        r#"["b"]"#,
        "Third shape: as worker.cmd.",
    ),
    Field::honoured(
        "spec.replicaSpecs[].type",
        r#""master""#,
        "Third shape: launcher or worker.",
    ),
    Field::honoured(
        "spec.replicaSpecs[].replicas",
        r#"3"#,
        "Third shape: as worker.replicas; 1 launcher.",
    ),
    Field::honoured(
        "spec.replicaSpecs[].restartPolicy.policy",
        r#""Always""#,
        "Third shape: Always, OnFailure or Never; OnFailure if not set.",
    ),
    Field::honoured(
        "spec.replicaSpecs[].restartPolicy.limit",
        r#"4"#,
        "Third shape: how often containers are started again, over the whole job; never if not set.",
    ),
    Field::honoured(
        "spec.replicaSpecs[].template",
        r#"{"spec": {"containers": [{"name": "worker", "image": "b"}]}}"#,
        "Third shape: as worker.template; the launcher may have its own.",
    ),
    Field::honoured(
        "spec.ssh.sshAuthMountPath",
        r#""/keys""#,
        "Where keys are mounted; /root/.ssh if not set.",
    ),
    Field::honoured(
        "spec.ssh.authMountPath",
        r#""/keys""#,
        "The same, as a sister kind spells it.",
    ),
    Field::honoured(
        "spec.ssh.sshdPath",
        r#""/opt/sshd""#,
        "sshd of the workers; /usr/sbin/sshd if not set.",
    ),
    Field::honoured(
        "spec.runPolicy.cleanUpWorkers",
        r#"true"#,
        "Workers go at the end, the launcher stays.",
    ),
    Field::honoured(
        "spec.scheduler.t9kScheduler.queue",
        r#""q""#,
        "The pods wait in this queue, in a PodGroup of scheduler.tensorstack.dev.",
    ),
    Field::honoured(
        "spec.scheduler.t9kScheduler.priority",
        r#"5"#,
        "Priority of that group, 0 to 100; 0 if not set.",
    ),
    Field::honoured(
        "spec.runMode.debug.enabled",
        r#"true"#,
        "Pods come up, and nothing is started in them.",
    ),
    Field::honoured(
        "spec.runMode.debug.enable",
        r#"true"#,
        "The same, as older manuals spell it.",
    ),
    Field::honoured(
        "spec.runMode.debug.replicaSpecs[].type",
        r#""launcher""#,
        "launcher or worker.",
    ),
    Field::honoured(
        "spec.runMode.debug.replicaSpecs[].skipInitContainer",
        r#"true"#,
        "No init containers while debugging.",
    ),
    Field::honoured(
        "spec.runMode.debug.replicaSpecs[].command",
        r#"["b"]"#,
        "Command while debugging; sleep inf, and sshd -D for workers, if not set.",
    ),
    Field::honoured(
        "spec.runMode.debug.replicaSpecs[].args",
        r#"["b"]"#,
        "Arguments of that command.",
    ),
    Field::honoured(
        "spec.runMode.pause.enabled",
        r#"true"#,
        "The job holds no pods.",
    ),
    Field::honoured(
        "spec.runMode.pause.enable",
        r#"true"#,
        "The same, as older manuals spell it.",
    ),
    Field::honoured(
        "spec.runMode.pause.resumeSpecs[].type",
        r#""launcher""#,
        "launcher or worker; immutable.",
    ),
    Field::honoured(
        "spec.runMode.pause.resumeSpecs[].skipInitContainer",
        r#"true"#,
        "No init containers after a pause; immutable.",
    ),
    Field::honoured(
        "spec.runMode.pause.resumeSpecs[].command",
        r#"["b"]"#,
        "Command after a pause; immutable.",
    ),
    Field::honoured(
        "spec.runMode.pause.resumeSpecs[].args",
        r#"["b"]"#,
        "Arguments of that command; immutable.",
    ),
    Field::honoured(
        "spec.muster.transport",
        r#""Agent""#,
        "How mpirun reaches the workers; SSH if not set.",
    ),
];
