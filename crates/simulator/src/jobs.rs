//! The jobs that users submit, one file each in `jobs/`, and the cluster that they are submitted to.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use dialects::{RESOURCES, Resource};
use minicluster::{Answer, Cluster, Config, NodeConfig};
use serde_json::Value;

/// Where a job says how many workers it has; in an annotation of each file.
const WORKERS_ANNOTATION: &str = "simulator/workers";

const FILES: &[(&str, &str)] = &[
    ("v2beta1-ssh", include_str!("../jobs/v2beta1-ssh.yaml")),
    ("v2beta1-agent", include_str!("../jobs/v2beta1-agent.yaml")),
    ("v2beta1-waits", include_str!("../jobs/v2beta1-waits.yaml")),
    (
        "v2beta1-deadline",
        include_str!("../jobs/v2beta1-deadline.yaml"),
    ),
    (
        "v2beta1-recovers",
        include_str!("../jobs/v2beta1-recovers.yaml"),
    ),
    ("v1", include_str!("../jobs/v1.yaml")),
    ("v1-replaces", include_str!("../jobs/v1-replaces.yaml")),
    ("t9k", include_str!("../jobs/t9k.yaml")),
    ("openmpi", include_str!("../jobs/openmpi.yaml")),
    ("bdap", include_str!("../jobs/bdap.yaml")),
];

const DEFINITIONS: &[&str] = &[
    include_str!("../../../deploy/crds/kubeflow.org_mpijobs.yaml"),
    include_str!("../../../deploy/crds/batch.tensorstack.dev_mpijobs.yaml"),
    include_str!("../../../deploy/crds/batch.test.bdap.com_mpijobs.yaml"),
    include_str!("../../../deploy/crds/muster.dev_openmpis.yaml"),
];

/// A job to submit.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    pub(crate) object: Value,
    /// Where its objects live.
    pub(crate) path: String,
    /// JSON pointer to the number of workers.
    workers: String,
    /// The job ends after a while, whatever happens.
    pub(crate) has_deadline: bool,
    pub(crate) resource: &'static Resource,
}

/// The names of all jobs.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|(name, _)| *name)
}

/// The job of this name.
pub(crate) fn template(name: &str) -> &'static Template {
    static TEMPLATES: LazyLock<BTreeMap<&str, Template>> = LazyLock::new(|| {
        let read = |(name, text): &(&'static str, &str)| (*name, read(text));
        FILES.iter().map(read).collect()
    });
    TEMPLATES.get(name).expect("it is one of `names`")
}

fn read(text: &str) -> Template {
    let object: Value = serde_saphyr::from_str(text).expect("the file is YAML");
    let (group, _) = object["apiVersion"]
        .as_str()
        .and_then(|version| version.split_once('/'))
        .expect("it has a group");
    let resource = RESOURCES
        .iter()
        .find(|resource| resource.group == group)
        .expect("the group is served");
    let version = object["apiVersion"].as_str().unwrap_or_default();
    let workers = object["metadata"]["annotations"][WORKERS_ANNOTATION].as_str();
    let dialect = resource.dialect_of(&object);
    let lowered = (dialect.lower)(&object);
    Template {
        has_deadline: lowered.is_ok_and(|job| job.limits().deadline_secs.is_some()),
        path: format!("/apis/{version}/namespaces/default/{}", resource.plural),
        workers: workers
            .expect("the file says where the number is")
            .to_owned(),
        resource,
        object,
    }
}

impl Template {
    /// The job with so many workers.
    pub(crate) fn with_workers(&self, count: u32) -> Value {
        let mut object = self.object.clone();
        *object
            .pointer_mut(&self.workers)
            .expect("the pointer is right") = count.into();
        object
    }

    /// A merge patch that changes the number of workers.
    pub(crate) fn scaling(&self, count: u32) -> Value {
        nested(
            self.workers.trim_start_matches('/').split('/'),
            count.into(),
        )
    }

    /// A merge patch that suspends or resumes the job, where its dialect can.
    pub(crate) fn suspension(&self, suspended: bool) -> Option<Value> {
        let field = self.resource.dialect_of(&self.object).suspend_field?;
        Some(nested(field.split('.'), suspended.into()))
    }
}

fn nested<'a>(path: impl DoubleEndedIterator<Item = &'a str>, value: Value) -> Value {
    path.rev()
        .fold(value, |inner, name| serde_json::json!({name: inner}))
}

/// A cluster with the shipped definitions. Reading them takes long, so that clones of one are used.
pub(crate) fn cluster() -> Cluster {
    static PREPARED: LazyLock<Cluster> = LazyLock::new(prepare);
    PREPARED.clone()
}

fn prepare() -> Cluster {
    let node = NodeConfig {
        name: "node-0".to_owned(),
        ip: "10.0.0.1".to_owned(),
        cpu: "800".to_owned(),
        memory: "1600Gi".to_owned(),
        extended: Vec::new(),
        pods: 1000,
    };
    let config = Config {
        node: Some(node),
        // No operator applies on the server's side.
        managed_fields: false,
        ..Config::default()
    };
    let mut cluster = Cluster::new(config);
    for definition in DEFINITIONS {
        let uri = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let request = http::Request::post(uri).header("content-type", "application/yaml");
        let request = request
            .body(definition.as_bytes().to_vec())
            .expect("the parts are valid");
        let Answer::Whole(answer) = cluster.handle(jiff::Timestamp::UNIX_EPOCH, request) else {
            unreachable!("a create is answered at once");
        };
        assert_eq!(answer.status(), 201, "a definition was refused");
    }
    cluster.tick(jiff::Timestamp::UNIX_EPOCH);
    cluster
}
