//! The fields that mean the same in every version of kubeflow.org. Says what becomes of each.

use crate::field::Field;

/// The list.
pub(crate) const SHARED: &[Field] = &[
    Field::honoured(
        "spec.slotsPerWorker",
        r#"3"#,
        "Ranks per host; 1 if not set.",
    ),
    Field::honoured(
        "spec.mpiImplementation",
        r#""Intel""#,
        "Family of MPI; OpenMPI if not set.",
    ),
    Field::honoured(
        "spec.launcherCreationPolicy",
        r#""WaitForWorkersReady""#,
        "When the launcher is created; with its workers if not set.",
    ),
    Field::honoured(
        "spec.runLauncherAsWorker",
        r#"true"#,
        "The launcher takes ranks too.",
    ),
    Field::honoured(
        "spec.sshAuthMountPath",
        r#""/keys""#,
        "Where keys are mounted in transport SSH; /root/.ssh if not set.",
    ),
    Field::honoured(
        "spec.mainContainer",
        r#""other""#,
        "Container of the workers that ranks run in; the first if not set.",
    ),
    Field::honoured(
        "spec.mpiReplicaSpecs[Launcher].replicas",
        r#"2"#,
        "Must be 1.",
    ),
    Field::honoured(
        "spec.mpiReplicaSpecs[Launcher].template",
        r#"{"spec": {"containers": [{"name": "mpi", "image": "b"}]}}"#,
        "The launcher's pod.",
    ),
    Field::honoured(
        "spec.mpiReplicaSpecs[Worker].template",
        r#"{"spec": {"containers": [{"name": "mpi", "image": "b"}]}}"#,
        "The workers' pods.",
    ),
    Field::honoured(
        "spec.runPolicy.activeDeadlineSeconds",
        r#"60"#,
        "The job fails when it was active for so long.",
    ),
    Field::honoured(
        "spec.runPolicy.suspend",
        r#"true"#,
        "The job holds no pods.",
    ),
    Field::honoured(
        "spec.runPolicy.schedulingPolicy.minAvailable",
        r#"2"#,
        "Pods that a gang scheduler places at once.",
    ),
    Field::honoured(
        "spec.runPolicy.schedulingPolicy.queue",
        r#""q""#,
        "Queue of the gang; immutable in v1.",
    ),
    Field::honoured(
        "spec.runPolicy.schedulingPolicy.minResources",
        r#"{"cpu": "1"}"#,
        "Resources that must be free for the gang.",
    ),
    Field::honoured(
        "spec.runPolicy.schedulingPolicy.priorityClass",
        r#""p""#,
        "Priority of the gang.",
    ),
    Field::honoured(
        "spec.runPolicy.schedulingPolicy.scheduleTimeoutSeconds",
        r#"9"#,
        "How long the gang's scheduler may wait.",
    ),
    Field::routes(
        "spec.muster.dialect",
        r#""v1""#,
        "The version that the job was written in; filled in by the API server, and what was first recorded in the status wins.",
    ),
];
