//! The types of built-in kinds, from `types.json`: the schemas that a Kubernetes 1.37 API server
//! publishes, without descriptions, plus the mark `x-omit` on fields that it leaves out when they
//! are empty. The conformance tests compare the file with a real server.

use std::sync::{Arc, LazyLock};

use serde_json::{Map, Value};

use crate::resource::Resource;
use crate::schema::{Loader, Schema};
use crate::store::KindId;

/// As text, for the tests.
pub(crate) const DOCUMENT: &str = include_str!("types.json");

/// As read.
pub(crate) static TYPES: LazyLock<Map<String, Value>> =
    LazyLock::new(|| serde_json::from_str(DOCUMENT).expect("types.json is part of this crate"));

/// The built-in kinds and the type of all metadata.
pub(crate) struct Loaded {
    pub(crate) resources: Vec<Resource>,
    pub(crate) metadata: Arc<Schema>,
}

/// Kind, plural, short names, namespaced, has a status.
type Row = (
    &'static str,
    &'static str,
    &'static [&'static str],
    bool,
    bool,
);

const CORE: &[Row] = &[
    ("Namespace", "namespaces", &["ns"], false, true),
    ("Pod", "pods", &["po"], true, true),
    ("Service", "services", &["svc"], true, true),
    ("ConfigMap", "configmaps", &["cm"], true, false),
    ("Secret", "secrets", &[], true, false),
    ("Event", "events", &["ev"], true, false),
    ("ServiceAccount", "serviceaccounts", &["sa"], true, false),
    ("Node", "nodes", &["no"], false, true),
];
const BATCH: &[Row] = &[("Job", "jobs", &[], true, true)];
const APPS: &[Row] = &[("StatefulSet", "statefulsets", &["sts"], true, true)];
const EVENTS: &[Row] = &[("Event", "events", &["ev"], true, false)];
const COORDINATION: &[Row] = &[("Lease", "leases", &[], true, false)];
const RBAC: &[Row] = &[
    ("Role", "roles", &[], true, false),
    ("RoleBinding", "rolebindings", &[], true, false),
    ("ClusterRole", "clusterroles", &[], false, false),
    (
        "ClusterRoleBinding",
        "clusterrolebindings",
        &[],
        false,
        false,
    ),
];
const NETWORKING: &[Row] = &[("NetworkPolicy", "networkpolicies", &["netpol"], true, false)];
const SCHEDULING: &[Row] = &[("PriorityClass", "priorityclasses", &["pc"], false, false)];
const EXTENSIONS: &[Row] = &[(
    "CustomResourceDefinition",
    "customresourcedefinitions",
    &["crd", "crds"],
    false,
    true,
)];

/// Group, where its types are, its kinds.
const GROUPS: [(&str, &str, &[Row]); 9] = [
    ("", "io.k8s.api.core.v1", CORE),
    ("batch", "io.k8s.api.batch.v1", BATCH),
    ("apps", "io.k8s.api.apps.v1", APPS),
    ("events.k8s.io", "io.k8s.api.events.v1", EVENTS),
    (
        "coordination.k8s.io",
        "io.k8s.api.coordination.v1",
        COORDINATION,
    ),
    ("rbac.authorization.k8s.io", "io.k8s.api.rbac.v1", RBAC),
    ("networking.k8s.io", "io.k8s.api.networking.v1", NETWORKING),
    ("scheduling.k8s.io", "io.k8s.api.scheduling.v1", SCHEDULING),
    (
        "apiextensions.k8s.io",
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1",
        EXTENSIONS,
    ),
];

/// Named types, and that of all metadata.
type Schemas = (Vec<(String, Arc<Schema>)>, Arc<Schema>);

/// Reads them all.
pub(crate) fn load() -> Loaded {
    static LOADED: LazyLock<Schemas> = LazyLock::new(|| {
        let mut loader = Loader::new(&TYPES);
        let mut schemas = Vec::new();
        for (_, package, rows) in GROUPS {
            for (kind, ..) in rows {
                let name = format!("{package}.{kind}");
                let schema = loader.named(&name);
                schemas.push((name, schema));
            }
        }
        let metadata = loader.named("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta");
        (schemas, metadata)
    });
    let (schemas, metadata) = &*LOADED;
    let mut schemas = schemas.iter();
    let mut resources = Vec::new();
    for (group, _, rows) in GROUPS {
        for row in rows {
            let (name, schema) = schemas.next().expect("one schema was made for each row");
            resources.push(resource(group, row, name, schema));
        }
    }
    Loaded {
        resources,
        metadata: Arc::clone(metadata),
    }
}

fn resource(group: &str, row: &Row, type_name: &str, schema: &Arc<Schema>) -> Resource {
    let (kind, plural, short_names, namespaced, status) = *row;
    // Events of both groups are the same objects.
    let stored_in = if kind == "Event" { "" } else { group };
    let all = matches!(kind, "Pod" | "Service" | "Job" | "StatefulSet");
    let categories: &[&str] = match kind {
        _ if all => &["all"],
        "CustomResourceDefinition" => &["api-extensions"],
        _ => &[],
    };
    Resource {
        id: KindId::new(stored_in, plural),
        group: group.to_owned(),
        version: "v1".to_owned(),
        kind: kind.to_owned(),
        list_kind: format!("{kind}List"),
        plural: plural.to_owned(),
        singular: kind.to_lowercase(),
        short_names: short_names.iter().map(|name| (*name).to_owned()).collect(),
        categories: categories.iter().map(|name| (*name).to_owned()).collect(),
        namespaced,
        schema: Arc::clone(schema),
        status,
        type_name: type_name.to_owned(),
        custom: None,
    }
}
