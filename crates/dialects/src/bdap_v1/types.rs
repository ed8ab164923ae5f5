//! The wire: what a stored `batch.test.bdap.com/v1` MPIJob holds. A field of the wrong shape is an
//! error that names its path, and then counts as absent. Sets no defaults and checks no values.

use serde_json::Value;

use crate::FieldError;
use crate::metadata::Metadata;
use crate::reader::{Place, Reader};
use crate::template;

/// An MPIJob. Texts are empty where absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct MpiJob {
    pub(super) metadata: Metadata,
    pub(super) spec: Spec,
}

/// `spec`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Spec {
    pub(super) num_workers: Option<i64>,
    /// `launcherTemplate`.
    pub(super) launcher: Template,
    /// `workerTemplate`.
    pub(super) worker: Template,
    /// `muster.cleanPodPolicy`.
    pub(super) clean_pod_policy: String,
}

/// A pod template, and what is read of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Template {
    /// As written; null if absent.
    pub(super) written: Value,
    /// Number of containers.
    pub(super) containers: usize,
    /// `spec.restartPolicy`.
    pub(super) restart_policy: String,
}

/// Reads a stored object of any shape.
pub(super) fn read(object: &Value) -> (MpiJob, Vec<FieldError>) {
    let mut reader = Reader::default();
    let root = Place::root(object);
    let job = MpiJob {
        metadata: Metadata::read(&mut reader, &root),
        spec: read_spec(&mut reader, &root),
    };
    (job, reader.into_errors())
}

fn read_spec(reader: &mut Reader, root: &Place<'_>) -> Spec {
    let place = reader.group(root, "spec");
    let muster = reader.group(&place, "muster");
    Spec {
        num_workers: reader.int32(&place.field("numWorkers")),
        launcher: read_template(reader, &place.field("launcherTemplate")),
        worker: read_template(reader, &place.field("workerTemplate")),
        clean_pod_policy: reader.string(&muster.field("cleanPodPolicy")),
    }
}

fn read_template(reader: &mut Reader, place: &Place<'_>) -> Template {
    template::check_shape(reader, place);
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
    Template {
        written: written.cloned().unwrap_or_default(),
        containers: containers.map_or(0, Vec::len),
        restart_policy: reader.string(&spec.field("restartPolicy")),
    }
}
