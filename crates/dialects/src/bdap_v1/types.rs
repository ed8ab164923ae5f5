//! The wire: what a stored `batch.test.bdap.com/v1` MPIJob holds. A field of the wrong shape is an
//! error that names its path, and then counts as absent. Fills in nothing and judges no value.

use serde_json::Value;

use crate::FieldError;
use crate::metadata::Metadata;
use crate::reader::{Place, Reader};
use crate::template;

/// An MPIJob. Texts are empty where absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MpiJob {
    /// `metadata`.
    pub metadata: Metadata,
    /// `spec`.
    pub spec: Spec,
}

/// `spec`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spec {
    /// `numWorkers`.
    pub num_workers: Option<i64>,
    /// `launcherTemplate`.
    pub launcher: Template,
    /// `workerTemplate`.
    pub worker: Template,
    /// `muster.cleanPodPolicy`.
    pub clean_pod_policy: String,
}

/// A pod template, and what is read of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Template {
    /// As written; null if absent.
    pub written: Value,
    /// Number of containers.
    pub containers: usize,
    /// `spec.restartPolicy`.
    pub restart_policy: String,
    /// `spec.serviceAccountName`, or `spec.serviceAccount` as it was once called.
    pub service_account: String,
}

/// Reads a stored object of any shape.
pub fn read(object: &Value) -> (MpiJob, Vec<FieldError>) {
    let mut reader = Reader::default();
    let root = Place::root(object);
    let spec = root.field("spec");
    let job = MpiJob {
        metadata: Metadata::read(&mut reader, &root),
        spec: match reader.object(&spec) {
            Some(_) => read_spec(&mut reader, &spec),
            None => Spec::default(),
        },
    };
    (job, reader.into_errors())
}

fn read_spec(reader: &mut Reader, place: &Place<'_>) -> Spec {
    let muster = place.field("muster");
    let clean_pod_policy = match reader.object(&muster) {
        Some(_) => reader.string(&muster.field("cleanPodPolicy")),
        None => String::new(),
    };
    Spec {
        num_workers: reader.int32(&place.field("numWorkers")),
        launcher: read_template(reader, &place.field("launcherTemplate")),
        worker: read_template(reader, &place.field("workerTemplate")),
        clean_pod_policy,
    }
}

fn read_template(reader: &mut Reader, place: &Place<'_>) -> Template {
    template::look(reader, place);
    let written = place.value().filter(|value| value.is_object());
    let spec = place.field("spec");
    if !spec.value().is_some_and(Value::is_object) {
        return Template {
            written: written.cloned().unwrap_or_default(),
            ..Template::default()
        };
    }
    let containers = spec.field("containers");
    let containers = containers.value().and_then(Value::as_array);
    let service_account = [
        reader.string(&spec.field("serviceAccountName")),
        reader.string(&spec.field("serviceAccount")),
    ];
    let mut service_account = service_account.into_iter();
    Template {
        written: written.cloned().unwrap_or_default(),
        containers: containers.map_or(0, Vec::len),
        restart_policy: reader.string(&spec.field("restartPolicy")),
        service_account: service_account
            .find(|name| !name.is_empty())
            .unwrap_or_default(),
    }
}
