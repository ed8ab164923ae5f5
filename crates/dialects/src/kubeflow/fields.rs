//! The fields of kubeflow.org's MPIJob that mean the same in every version, its status, and the resource
//! itself. What a field means in one version only is in the `fields.rs` of that version.

use contract::labels::OPERATOR_NAME;
use contract::mpi::Mpi;

use super::checks::{AT_STARTUP, AUTO, CLEAN_POLICIES, WAIT_FOR_WORKERS};
use super::rules;
use crate::definition::{Definition, TIMES};
use crate::field::Literal::Boolean;
use crate::field::{
    BOOLEAN, Field, FieldType, INT32, INT64, OBJECT, Shape, TEMPLATE, TEXT, TIME, fields,
};
use crate::muster_status::TRUTH_VALUES;

/// `restartPolicy`, in every version that there is; v2beta1 has fewer.
pub(crate) const RESTART_POLICY: Shape =
    TEXT.one_of(&["", "Never", "OnFailure", "Always", "ExitCode"]);
/// `cleanPodPolicy`.
pub(crate) const CLEAN_POD_POLICY: Shape = TEXT.one_of(&CLEAN_POLICIES);
/// A whole number that is not negative.
pub(crate) const COUNT: Shape = INT32.at_least(0);

/// The list.
pub(crate) const SHARED: &[Field] = fields! {
    Honoured "spec.slotsPerWorker": COUNT, "3"
        => "How many MPI ranks a host can run. 1 if not set.";
    Honoured "spec.mpiImplementation": TEXT.one_of(&Mpi::NAMES), r#""Intel""#
        => "The MPI that the program was built with. It decides the format of the host list and the launcher's environment. OpenMPI if not set.";
    Honoured "spec.launcherCreationPolicy": TEXT.one_of(&["", AT_STARTUP, WAIT_FOR_WORKERS]), r#""WaitForWorkersReady""#
        => "When the launcher is created: AtStartup, with the workers, or WaitForWorkersReady, once all workers are Ready. AtStartup if not set.";
    Honoured "spec.runLauncherAsWorker": BOOLEAN, "true"
        => "True: the launcher runs ranks too, as the first host of the list. False if not set.";
    Honoured "spec.sshAuthMountPath": TEXT, r#""/keys""#
        => "Where every pod mounts the job's SSH keys, in transport SSH. /root/.ssh if not set.";
    Honoured "spec.mainContainer": TEXT, r#""other""#
        => "Name of the workers' container in which ranks start. The first container if not set.";
    Honoured "spec.cleanPodPolicy": CLEAN_POD_POLICY, r#""All""#
        => "The same as runPolicy.cleanPodPolicy, which takes precedence if both are set.";
    "spec.mpiReplicaSpecs": OBJECT.max_items(2).required()
        => "The pods of the job, by role: Launcher and Worker.";
    Checked "spec.mpiReplicaSpecs[Launcher].replicas": INT32, "2" => "Must be 1.";
    Honoured "spec.mpiReplicaSpecs[Launcher].template": TEMPLATE.required(), r#"{"spec": {"containers": [{"name": "mpi", "image": "b"}]}}"#
        => "The launcher's pod.";
    Honoured "spec.mpiReplicaSpecs[Worker].template": TEMPLATE.required(), r#"{"spec": {"containers": [{"name": "mpi", "image": "b"}]}}"#
        => "The workers' pods.";
    Honoured "spec.runPolicy.activeDeadlineSeconds": INT64.at_least(0), "60"
        => "How many seconds the job may be active before it fails. No limit if not set.";
    Honoured "spec.runPolicy.suspend": BOOLEAN.or(Boolean(false)), "true"
        => "While this is true, the job has no pods. False if not set.";
    "spec.runPolicy.schedulingPolicy": OBJECT => "Settings for a gang scheduler.";
    Honoured "spec.runPolicy.schedulingPolicy.minAvailable": COUNT, "2"
        => "How many pods the scheduler must place at once. If not set, the launcher and all workers, or only the workers with WaitForWorkersReady.";
    Honoured "spec.runPolicy.schedulingPolicy.queue": TEXT, r#""q""#
        => "Queue of the pod group. Immutable in v1.";
    Honoured "spec.runPolicy.schedulingPolicy.minResources": Shape::of(FieldType::AnyObject), r#"{"cpu": "1"}"#
        => "Resources that must be free for the pod group: quantities by resource name, optionally nested under `requests`. If not set, the sum over minAvailable pods.";
    Honoured "spec.runPolicy.schedulingPolicy.priorityClass": TEXT, r#""p""#
        => "Priority class of the pod group.";
    Honoured "spec.runPolicy.schedulingPolicy.scheduleTimeoutSeconds": COUNT, "9"
        => "How many seconds the scheduler may wait for the pod group.";
    Honoured "spec.muster.slotsPerWorker": TEXT.one_of(&[AUTO]), r#""Auto""#
        => "Auto: one rank for each accelerator of a worker, otherwise for each CPU of its limit, otherwise one. Takes precedence over slotsPerWorker.";
    Routes "spec.muster.dialect": TEXT, r#""v1""#
        => "The API version that the job was written in. The API server sets it. status.muster.dialect takes precedence once it is set.";
};

const STATUS: &[Field] = fields! {
    "status.conditions[].status": TEXT.one_of(&TRUTH_VALUES) => "";
    "status.lastReconcileTime": TIME => "";
    "status.replicaStatuses[*].active": INT32 => "";
    "status.replicaStatuses[*].succeeded": INT32 => "";
    "status.replicaStatuses[*].failed": INT32 => "";
    "status.replicaStatuses[*].selector": TEXT => "";
    "status.replicaStatuses[*].labelSelector": Shape::of(FieldType::AtomicObject) => "";
    "status.replicaStatuses[*].labelSelector.matchLabels": Shape::of(FieldType::MapOf(&TEXT)) => "";
    "status.replicaStatuses[*].labelSelector.matchExpressions[].key": TEXT.required() => "";
    "status.replicaStatuses[*].labelSelector.matchExpressions[].operator": TEXT.required() => "";
    "status.replicaStatuses[*].labelSelector.matchExpressions[].values": Shape::of(FieldType::List(Some(&TEXT)))
        => "";
};

/// The custom resource definition.
pub(crate) const DEFINITION: Definition = Definition {
    description: "A program that runs under mpirun: one launcher and its workers.",
    is_installed: true,
    labels: &[
        ("app", OPERATOR_NAME),
        ("app.kubernetes.io/component", "mpijob"),
        ("app.kubernetes.io/name", OPERATOR_NAME),
        ("kustomize.component", OPERATOR_NAME),
    ],
    short_names: &[],
    scale: Some((
        ".spec.mpiReplicaSpecs.Worker.replicas",
        ".status.replicaStatuses.Worker.active",
    )),
    state_column: ("State", "string", ".status.muster.phase"),
    wide_columns: &[("Dialect", "string", ".status.muster.dialect")],
    status: &[TIMES, STATUS],
    rules: rules::all,
};
