//! The wire: what a stored `batch.tensorstack.dev/v1beta1` MPIJob holds, in all three shapes that
//! this one version has had. A field of the wrong shape is an error that names its path, and then
//! counts as absent. Sets no defaults and checks no values.

use std::collections::BTreeMap;

use contract::labels::{QUEUE_LABEL, QUEUE_PRIORITY_LABEL};
use planner::job::Queue;
use serde_json::Value;

use crate::FieldError;
use crate::metadata::Metadata;
use crate::muster_fields::{self, Muster};
use crate::reader::{Place, Reader};
use crate::template;

/// An MPIJob. Texts are empty where absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct MpiJob {
    pub(super) metadata: Metadata,
    /// Of Kueue, by the labels.
    pub(super) queue: Option<Queue>,
    /// `status.conditions` has a pause, past or present.
    pub(super) was_paused: bool,
    pub(super) spec: Spec,
}

/// `spec`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Spec {
    /// `worker`, of the first and the second shape.
    pub(super) worker: Option<Worker>,
    pub(super) mca: Option<BTreeMap<String, String>>,
    pub(super) mpi_home: String,
    /// `mpiConfig`, of the third shape.
    pub(super) mpi_config: Option<MpiConfig>,
    /// `replicaSpecs`, of the third shape.
    pub(super) replica_specs: Option<Vec<ReplicaSpec>>,
    /// `ssh.sshAuthMountPath`, or `ssh.authMountPath` as a sister kind has it.
    pub(super) ssh_auth_mount_path: String,
    /// `ssh.sshdPath`.
    pub(super) sshd_path: String,
    /// `runPolicy.cleanUpWorkers`.
    pub(super) clean_up_workers: Option<bool>,
    /// `scheduler.t9kScheduler` is there.
    pub(super) t9k_scheduler: Option<T9kScheduler>,
    /// `runMode.debug`.
    pub(super) debug: Mode,
    /// `runMode.pause`.
    pub(super) pause: Mode,
    /// `muster`: what the API has no field for.
    pub(super) muster: Muster,
}

/// `spec.worker`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Worker {
    pub(super) replicas: Option<i64>,
    /// `extraMPIArgs`.
    pub(super) extra_mpi_args: Option<Vec<String>>,
    pub(super) cmd: Vec<String>,
    /// `template`, as written; null if absent.
    pub(super) template: Value,
    /// `processesPerWorker`, of the first shape.
    pub(super) processes_per_worker: Option<i64>,
    /// `processRecovery`, of the first shape.
    pub(super) process_recovery: Option<Recovery>,
}

/// `spec.worker.processRecovery`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Recovery {
    pub(super) enable: bool,
    pub(super) limit: Option<i64>,
}

/// `spec.mpiConfig`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MpiConfig {
    pub(super) mca: BTreeMap<String, String>,
    pub(super) home: String,
    pub(super) extra_args: Vec<String>,
    pub(super) script: Vec<String>,
}

/// An entry of `spec.replicaSpecs`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ReplicaSpec {
    /// `type`.
    pub(super) kind: String,
    pub(super) replicas: Option<i64>,
    /// `restartPolicy.policy`.
    pub(super) restart_policy: String,
    /// `restartPolicy.limit`.
    pub(super) restart_limit: Option<i64>,
    /// `template`, as written; null if absent.
    pub(super) template: Value,
}

/// `spec.scheduler.t9kScheduler`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct T9kScheduler {
    pub(super) queue: String,
    pub(super) priority: Option<i64>,
}

/// A mode of `spec.runMode`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Mode {
    /// `enabled`; older manuals write `enable`.
    pub(super) enabled: bool,
    /// `replicaSpecs` or `resumeSpecs`: how replicas of a type start then.
    pub(super) overrides: Vec<Override>,
}

/// How replicas of a type start in a mode.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Override {
    /// `type`.
    pub(super) kind: String,
    pub(super) skip_init_container: bool,
    pub(super) command: Vec<String>,
    /// `args`; only when a pause ends.
    pub(super) args: Vec<String>,
}

/// Reads a stored object, with everything in it that has the wrong shape.
pub(super) fn read(job: &Value) -> (MpiJob, Vec<FieldError>) {
    let mut reader = Reader::default();
    let root = Place::root(job);
    let read = MpiJob {
        spec: spec(&mut reader, &root),
        metadata: Metadata::read(&mut reader, &root),
        queue: queue(&mut reader, &root),
        was_paused: was_paused(job),
    };
    (read, reader.into_errors())
}

fn queue(reader: &mut Reader, root: &Place<'_>) -> Option<Queue> {
    let labels = reader.group(&root.field("metadata"), "labels");
    let name = reader.string(&labels.entry(QUEUE_LABEL));
    let priority_class = reader.string(&labels.entry(QUEUE_PRIORITY_LABEL));
    (!name.is_empty()).then_some(Queue {
        name,
        priority_class,
    })
}

fn was_paused(job: &Value) -> bool {
    let conditions = job.pointer("/status/conditions").and_then(Value::as_array);
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| condition["type"] == "Paused")
}

fn spec(reader: &mut Reader, root: &Place<'_>) -> Spec {
    let place = &reader.group(root, "spec");
    let ssh = reader.group(place, "ssh");
    let mut mount = reader.string(&ssh.field("sshAuthMountPath"));
    if mount.is_empty() {
        mount = reader.string(&ssh.field("authMountPath"));
    }
    let policy = reader.group(place, "runPolicy");
    let modes = reader.group(place, "runMode");
    Spec {
        worker: worker(reader, &place.field("worker")),
        mca: texts_by_name(reader, &place.field("mca")),
        mpi_home: reader.string(&place.field("mpiHome")),
        mpi_config: mpi_config(reader, &place.field("mpiConfig")),
        replica_specs: replica_specs(reader, &place.field("replicaSpecs")),
        ssh_auth_mount_path: mount,
        sshd_path: reader.string(&ssh.field("sshdPath")),
        clean_up_workers: reader.boolean(&policy.field("cleanUpWorkers")),
        t9k_scheduler: scheduler(reader, place),
        debug: mode(reader, &modes, "debug", "replicaSpecs"),
        pause: mode(reader, &modes, "pause", "resumeSpecs"),
        muster: muster_fields::read(reader, place),
    }
}

fn worker(reader: &mut Reader, place: &Place<'_>) -> Option<Worker> {
    reader.object(place)?;
    let template = place.field("template");
    template::check_shape(reader, &template);
    let recovery = place.field("processRecovery");
    let process_recovery = reader.object(&recovery).map(|_| Recovery {
        enable: reader
            .boolean(&recovery.field("enable"))
            .unwrap_or_default(),
        limit: reader.int32(&recovery.field("limit")),
    });
    let extra = place.field("extraMPIArgs");
    Some(Worker {
        replicas: reader.int32(&place.field("replicas")),
        extra_mpi_args: extra.value().map(|_| texts(reader, &extra)),
        cmd: texts(reader, &place.field("cmd")),
        template: template.value().cloned().unwrap_or_default(),
        processes_per_worker: reader.int32(&place.field("processesPerWorker")),
        process_recovery,
    })
}

fn mpi_config(reader: &mut Reader, place: &Place<'_>) -> Option<MpiConfig> {
    reader.object(place)?;
    let mca = texts_by_name(reader, &place.field("mca"));
    Some(MpiConfig {
        mca: mca.unwrap_or_default(),
        home: reader.string(&place.field("home")),
        extra_args: texts(reader, &place.field("extraArgs")),
        script: texts(reader, &place.field("script")),
    })
}

fn replica_specs(reader: &mut Reader, place: &Place<'_>) -> Option<Vec<ReplicaSpec>> {
    let items = reader.list_of(place, "an object", Value::is_object)?;
    let places = (0..items.len()).filter_map(|index| place.item(index));
    let read = places.map(|place| {
        let template = place.field("template");
        template::check_shape(reader, &template);
        let policy = reader.group(&place, "restartPolicy");
        ReplicaSpec {
            kind: reader.string(&place.field("type")),
            replicas: reader.int32(&place.field("replicas")),
            restart_policy: reader.string(&policy.field("policy")),
            restart_limit: reader.int32(&policy.field("limit")),
            template: template.value().cloned().unwrap_or_default(),
        }
    });
    Some(read.collect())
}

fn scheduler(reader: &mut Reader, place: &Place<'_>) -> Option<T9kScheduler> {
    let place = reader.group(place, "scheduler").field("t9kScheduler");
    reader.object(&place)?;
    Some(T9kScheduler {
        queue: reader.string(&place.field("queue")),
        priority: reader.int32(&place.field("priority")),
    })
}

fn mode(reader: &mut Reader, modes: &Place<'_>, name: &str, overrides: &str) -> Mode {
    let place = reader.group(modes, name);
    let enabled = reader.boolean(&place.field("enabled"));
    let enable = reader.boolean(&place.field("enable"));
    let list = place.field(overrides);
    let items = reader.list_of(&list, "an object", Value::is_object);
    let places = (0..items.map_or(0, Vec::len)).filter_map(|index| list.item(index));
    let overrides = places.map(|place| Override {
        kind: reader.string(&place.field("type")),
        skip_init_container: reader
            .boolean(&place.field("skipInitContainer"))
            .unwrap_or_default(),
        command: texts(reader, &place.field("command")),
        args: texts(reader, &place.field("args")),
    });
    Mode {
        overrides: overrides.collect(),
        enabled: enabled.or(enable).unwrap_or_default(),
    }
}

fn texts(reader: &mut Reader, place: &Place<'_>) -> Vec<String> {
    let items = reader.list_of(place, "a string", Value::is_string);
    let items = items.into_iter().flatten().filter_map(Value::as_str);
    items.map(str::to_owned).collect()
}

fn texts_by_name(reader: &mut Reader, place: &Place<'_>) -> Option<BTreeMap<String, String>> {
    let entries = reader.map_of(place, "a string", Value::is_string)?;
    let text = |(name, value): (&String, &Value)| Some((name.clone(), value.as_str()?.to_owned()));
    Some(entries.iter().filter_map(text).collect())
}
