//! The wire: what a stored MPIJob of kubeflow.org holds, in the fields of all its versions, read
//! field by field. A field of the wrong shape is an error that names its path, and then counts as
//! absent. Sets no defaults and checks no values.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::FieldError;
use crate::metadata::Metadata;
pub use crate::muster_fields::Muster;
use crate::reader::{Place, Reader};
use crate::{muster_fields, template};

/// Key of the launcher in `mpiReplicaSpecs`.
pub const LAUNCHER: &str = "Launcher";
/// Key of the workers in `mpiReplicaSpecs`.
pub const WORKER: &str = "Worker";

/// Volcano's queue, as an annotation of the job.
const QUEUE_ANNOTATION: &str = "scheduling.volcano.sh/queue-name";

/// An MPIJob. Texts are empty where absent, unless the API tells the two apart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MpiJob {
    /// `metadata`.
    pub metadata: Metadata,
    /// The annotation that names a Volcano queue.
    pub queue: String,
    /// `spec`.
    pub spec: Spec,
}

/// `spec`.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "fields.rs says what each field means")]
pub struct Spec {
    pub slots_per_worker: Option<i64>,
    /// `muster.slotsPerWorker`: whether the number follows from what a worker asks for.
    pub slots_choice: String,
    pub run_launcher_as_worker: Option<bool>,
    /// `runPolicy`; absent and empty are the same.
    pub run_policy: RunPolicy,
    /// `mpiReplicaSpecs`, without the entries that are null.
    pub replicas: Option<BTreeMap<String, ReplicaSpec>>,
    pub ssh_auth_mount_path: String,
    pub launcher_creation_policy: String,
    pub mpi_implementation: String,
    /// `cleanPodPolicy`: where v1 had it first.
    pub clean_pod_policy: Option<String>,
    /// `mainContainer`: the workers' container that ranks run in.
    pub main_container: String,
    /// `muster`: what the API has no field for.
    pub muster: Muster,
}

/// `spec.runPolicy`.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "fields.rs says what each field means")]
pub struct RunPolicy {
    /// `cleanPodPolicy`; an empty text is not absent.
    pub clean_pod_policy: Option<String>,
    pub ttl_seconds_after_finished: Option<i64>,
    pub active_deadline_seconds: Option<i64>,
    pub backoff_limit: Option<i64>,
    pub suspend: Option<bool>,
    /// `managedBy`; an empty text is not absent.
    pub managed_by: Option<String>,
    /// `schedulingPolicy`; absent and empty are the same.
    pub scheduling: SchedulingPolicy,
}

/// `spec.runPolicy.schedulingPolicy`.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "fields.rs says what each field means")]
pub struct SchedulingPolicy {
    pub min_available: Option<i64>,
    pub queue: String,
    /// `minResources`, quantities as written.
    pub min_resources: Option<BTreeMap<String, Value>>,
    pub priority_class: String,
    pub schedule_timeout_seconds: Option<i64>,
}

/// An entry of `spec.mpiReplicaSpecs`.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "fields.rs says what each field means")]
pub struct ReplicaSpec {
    pub replicas: Option<i64>,
    pub restart_policy: String,
    /// `template`, as written; null if absent.
    pub template: Value,
}

impl ReplicaSpec {
    /// The template has a container.
    pub fn has_container(&self) -> bool {
        template::containers(&self.template).next().is_some()
    }

    /// The template has a container of this name.
    pub fn has_container_named(&self, name: &str) -> bool {
        template::containers(&self.template).any(|container| container["name"] == name)
    }
}

/// Reads a stored object, with everything in it that has the wrong shape.
pub fn read(job: &Value) -> (MpiJob, Vec<FieldError>) {
    let mut reader = Reader::default();
    let root = Place::root(job);
    let job = MpiJob {
        metadata: Metadata::read(&mut reader, &root),
        queue: queue(&mut reader, &root),
        spec: spec(&mut reader, &root),
    };
    (job, reader.into_errors())
}

/// The annotation that names a Volcano queue.
fn queue(reader: &mut Reader, root: &Place<'_>) -> String {
    let annotations = reader.group(&root.field("metadata"), "annotations");
    reader.string(&annotations.entry(QUEUE_ANNOTATION))
}

fn spec(reader: &mut Reader, root: &Place<'_>) -> Spec {
    let place = &reader.group(root, "spec");
    Spec {
        replicas: replicas(reader, &place.field("mpiReplicaSpecs")),
        slots_per_worker: reader.int32(&place.field("slotsPerWorker")),
        slots_choice: reader.string(&place.field("muster").field("slotsPerWorker")),
        run_launcher_as_worker: reader.boolean(&place.field("runLauncherAsWorker")),
        run_policy: run_policy(reader, place),
        ssh_auth_mount_path: reader.string(&place.field("sshAuthMountPath")),
        launcher_creation_policy: reader.string(&place.field("launcherCreationPolicy")),
        mpi_implementation: reader.string(&place.field("mpiImplementation")),
        clean_pod_policy: reader.optional_string(&place.field("cleanPodPolicy")),
        main_container: reader.string(&place.field("mainContainer")),
        muster: muster_fields::read(reader, place),
    }
}

fn replicas(reader: &mut Reader, place: &Place<'_>) -> Option<BTreeMap<String, ReplicaSpec>> {
    let entries = reader
        .object(place)?
        .iter()
        .filter(|(_, entry)| !entry.is_null());
    let read = entries.map(|(key, _)| (key.clone(), replica_spec(reader, &place.entry(key))));
    Some(read.collect())
}

fn replica_spec(reader: &mut Reader, place: &Place<'_>) -> ReplicaSpec {
    reader.object(place);
    let template = place.field("template");
    template::check_shape(reader, &template);
    ReplicaSpec {
        replicas: reader.int32(&place.field("replicas")),
        restart_policy: reader.string(&place.field("restartPolicy")),
        template: template.value().cloned().unwrap_or_default(),
    }
}

fn run_policy(reader: &mut Reader, spec: &Place<'_>) -> RunPolicy {
    let place = &reader.group(spec, "runPolicy");
    let deadline = place.field("activeDeadlineSeconds");
    RunPolicy {
        clean_pod_policy: reader.optional_string(&place.field("cleanPodPolicy")),
        ttl_seconds_after_finished: reader.int32(&place.field("ttlSecondsAfterFinished")),
        active_deadline_seconds: reader.integer(&deadline, i64::MAX),
        backoff_limit: reader.int32(&place.field("backoffLimit")),
        suspend: reader.boolean(&place.field("suspend")),
        managed_by: reader.optional_string(&place.field("managedBy")),
        scheduling: scheduling(reader, place),
    }
}

fn scheduling(reader: &mut Reader, run_policy: &Place<'_>) -> SchedulingPolicy {
    let place = reader.group(run_policy, "schedulingPolicy");
    // Kubeflow's own guide nests them under `requests`, its schema does not: both are meant.
    let flat = place.field("minResources");
    let nested = flat.field("requests");
    let is_nested = nested.value().is_some_and(Value::is_object);
    let resources = if is_nested { nested } else { flat };
    let min_resources = reader.map_of(&resources, "a quantity", template::is_quantity_shaped);
    SchedulingPolicy {
        min_available: reader.int32(&place.field("minAvailable")),
        queue: reader.string(&place.field("queue")),
        min_resources: min_resources.map(|map| {
            map.iter()
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect()
        }),
        priority_class: reader.string(&place.field("priorityClass")),
        schedule_timeout_seconds: reader.int32(&place.field("scheduleTimeoutSeconds")),
    }
}
