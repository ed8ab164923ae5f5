//! The wire: what a stored `batch.tensorstack.dev/v1beta1` MPIJob holds, in all three shapes that
//! this one version has had. A field of the wrong shape is an error that names its path, and then
//! counts as absent. Fills in nothing and judges no value.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::FieldError;
use crate::metadata::Metadata;
use crate::muster_fields::{self, Muster};
use crate::reader::{Place, Reader};
use crate::template;

/// An MPIJob. Texts are empty where absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MpiJob {
    /// `metadata`.
    pub metadata: Metadata,
    /// `status.conditions` tells of a pause, past or present.
    pub was_paused: bool,
    /// `spec`.
    pub spec: Spec,
}

/// `spec`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spec {
    /// `worker`, of the first and the second shape.
    pub worker: Option<Worker>,
    /// `mca`.
    pub mca: Option<BTreeMap<String, String>>,
    /// `mpiHome`.
    pub mpi_home: String,
    /// `mpiConfig`, of the third shape.
    pub mpi_config: Option<MpiConfig>,
    /// `replicaSpecs`, of the third shape.
    pub replica_specs: Option<Vec<ReplicaSpec>>,
    /// `ssh.sshAuthMountPath`, or `ssh.authMountPath` as a sister kind has it.
    pub ssh_auth_mount_path: String,
    /// `ssh.sshdPath`.
    pub sshd_path: String,
    /// `runPolicy.cleanUpWorkers`.
    pub clean_up_workers: Option<bool>,
    /// `scheduler.t9kScheduler` is there.
    pub t9k_scheduler: Option<T9kScheduler>,
    /// `runMode.debug`.
    pub debug: Mode,
    /// `runMode.pause`.
    pub pause: Mode,
    /// `muster`: what the API has no field for.
    pub muster: Muster,
}

/// `spec.worker`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Worker {
    /// `replicas`.
    pub replicas: Option<i64>,
    /// `extraMPIArgs`.
    pub extra_mpi_args: Option<Vec<String>>,
    /// `cmd`.
    pub cmd: Vec<String>,
    /// `template`, as written; null if absent.
    pub template: Value,
    /// `processesPerWorker`, of the first shape.
    pub processes_per_worker: Option<i64>,
    /// `processRecovery`, of the first shape.
    pub process_recovery: Option<Recovery>,
}

/// `spec.worker.processRecovery`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// `enable`.
    pub enable: bool,
    /// `limit`.
    pub limit: Option<i64>,
}

/// `spec.mpiConfig`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MpiConfig {
    /// `mca`.
    pub mca: BTreeMap<String, String>,
    /// `home`.
    pub home: String,
    /// `extraArgs`.
    pub extra_args: Vec<String>,
    /// `script`.
    pub script: Vec<String>,
}

/// An entry of `spec.replicaSpecs`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReplicaSpec {
    /// `type`.
    pub kind: String,
    /// `replicas`.
    pub replicas: Option<i64>,
    /// `restartPolicy.policy`.
    pub restart_policy: String,
    /// `restartPolicy.limit`.
    pub restart_limit: Option<i64>,
    /// `template`, as written; null if absent.
    pub template: Value,
}

/// `spec.scheduler.t9kScheduler`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct T9kScheduler {
    /// `queue`.
    pub queue: String,
    /// `priority`.
    pub priority: Option<i64>,
}

/// A mode of `spec.runMode`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mode {
    /// `enabled`; older manuals write `enable`.
    pub enabled: bool,
    /// `replicaSpecs` or `resumeSpecs`: how replicas of a type start then.
    pub overrides: Vec<Override>,
}

/// How replicas of a type start in a mode.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Override {
    /// `type`.
    pub kind: String,
    /// `skipInitContainer`.
    pub skip_init_container: bool,
    /// `command`.
    pub command: Vec<String>,
    /// `args`; only when a pause ends.
    pub args: Vec<String>,
}

/// Reads a stored object, with everything in it that has the wrong shape.
pub fn read(job: &Value) -> (MpiJob, Vec<FieldError>) {
    let mut reader = Reader::default();
    let root = Place::root(job);
    let read = MpiJob {
        spec: spec(&mut reader, &root.field("spec")),
        metadata: Metadata::read(&mut reader, &root),
        was_paused: was_paused(job),
    };
    (read, reader.into_errors())
}

fn was_paused(job: &Value) -> bool {
    let conditions = job.pointer("/status/conditions").and_then(Value::as_array);
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| condition["type"] == "Paused")
}

fn spec(reader: &mut Reader, place: &Place<'_>) -> Spec {
    if reader.object(place).is_none() {
        return Spec::default();
    }
    let ssh = place.field("ssh");
    let (mut mount, mut sshd_path) = (String::new(), String::new());
    if reader.object(&ssh).is_some() {
        mount = reader.string(&ssh.field("sshAuthMountPath"));
        if mount.is_empty() {
            mount = reader.string(&ssh.field("authMountPath"));
        }
        sshd_path = reader.string(&ssh.field("sshdPath"));
    }
    let policy = place.field("runPolicy");
    let clean_up_workers = match reader.object(&policy) {
        Some(_) => reader.boolean(&policy.field("cleanUpWorkers")),
        None => None,
    };
    let modes = place.field("runMode");
    let has_modes = reader.object(&modes).is_some();
    let mut mode = |name: &str, overrides: &str| match has_modes {
        true => mode(reader, &modes.field(name), overrides),
        false => Mode::default(),
    };
    let (debug, pause) = (mode("debug", "replicaSpecs"), mode("pause", "resumeSpecs"));
    Spec {
        worker: worker(reader, &place.field("worker")),
        mca: texts_by_name(reader, &place.field("mca")),
        mpi_home: reader.string(&place.field("mpiHome")),
        mpi_config: mpi_config(reader, &place.field("mpiConfig")),
        replica_specs: replica_specs(reader, &place.field("replicaSpecs")),
        ssh_auth_mount_path: mount,
        sshd_path,
        clean_up_workers,
        t9k_scheduler: scheduler(reader, &place.field("scheduler")),
        debug,
        pause,
        muster: muster_fields::read(reader, &place.field("muster")),
    }
}

fn worker(reader: &mut Reader, place: &Place<'_>) -> Option<Worker> {
    reader.object(place)?;
    let template = place.field("template");
    template::look(reader, &template);
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
        template::look(reader, &template);
        let policy = place.field("restartPolicy");
        let has_policy = reader.object(&policy).is_some();
        ReplicaSpec {
            kind: reader.string(&place.field("type")),
            replicas: reader.int32(&place.field("replicas")),
            restart_policy: match has_policy {
                true => reader.string(&policy.field("policy")),
                false => String::new(),
            },
            restart_limit: match has_policy {
                true => reader.int32(&policy.field("limit")),
                false => None,
            },
            template: template.value().cloned().unwrap_or_default(),
        }
    });
    Some(read.collect())
}

fn scheduler(reader: &mut Reader, place: &Place<'_>) -> Option<T9kScheduler> {
    reader.object(place)?;
    let place = place.field("t9kScheduler");
    reader.object(&place)?;
    Some(T9kScheduler {
        queue: reader.string(&place.field("queue")),
        priority: reader.int32(&place.field("priority")),
    })
}

fn mode(reader: &mut Reader, place: &Place<'_>, overrides: &str) -> Mode {
    if reader.object(place).is_none() {
        return Mode::default();
    }
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
