//! What launcher and worker pods have in common: labels, names, first container.

use contract::files::{SSH_PRIVATE_KEY, SSH_PUBLIC_KEY, SSH_VOLUME};
use contract::labels::{
    JOB_NAME_LABEL, JOB_ROLE_LABEL, JOB_UID_LABEL, OPERATOR_NAME, OPERATOR_NAME_LABEL,
    QUEUE_GROUP_LABEL, QUEUE_GROUP_SIZE_ANNOTATION, QUEUE_LABEL, QUEUE_MANAGED_LABEL,
    QUEUE_PARENT_ANNOTATION, QUEUE_PRIORITY_LABEL,
};
use serde_json::{Map, Value, json};

use super::{list, object, owner_reference};
use crate::action::{Kind, Object};
use crate::job::{HostNames, Job, Login, Queue, Role};

/// Root's own directory: there sshd insists on a private key that only root reads. Elsewhere
/// another user must be able to.
const ROOT_SSH: &str = "/root/.ssh";

/// Metadata and spec of a pod, from the user's template.
pub(crate) struct Draft {
    pub(crate) metadata: Map<String, Value>,
    pub(crate) spec: Map<String, Value>,
    /// Which container MPI runs in.
    main: usize,
}

/// The user's template with what every pod of the job gets.
pub(crate) fn draft(
    job: &Job,
    role: &Role,
    restart: &str,
    role_name: &str,
    hostname: Option<&str>,
) -> Draft {
    let template = role.template.as_object();
    let part = |key: &str| {
        template
            .and_then(|t| t.get(key))
            .and_then(Value::as_object)
            .cloned()
            .unwrap_or_default()
    };
    let (written, mut spec) = (part("metadata"), part("spec"));

    let mut metadata = Map::new();
    for key in ["labels", "annotations"] {
        if let Some(Value::Object(entries)) = written.get(key) {
            metadata.insert(key.to_owned(), Value::Object(entries.clone()));
        }
    }
    let labels = object(&mut metadata, "labels");
    labels.insert(OPERATOR_NAME_LABEL.to_owned(), OPERATOR_NAME.into());
    labels.insert(JOB_NAME_LABEL.to_owned(), job.owner.name.as_str().into());
    labels.insert(JOB_ROLE_LABEL.to_owned(), role_name.into());
    labels.insert(JOB_UID_LABEL.to_owned(), job.owner.uid.as_str().into());
    for (name, value) in &role.labels {
        labels.insert(name.clone(), value.as_str().into());
    }
    if let Some(queue) = &job.queue {
        join(&mut metadata, job, queue);
    }

    if let Some(hostname) = hostname {
        spec.insert("hostname".to_owned(), hostname.into());
    }
    if job.host_names() == HostNames::Service {
        spec.insert("subdomain".to_owned(), job.names.service.as_str().into());
    }
    spec.insert("restartPolicy".to_owned(), restart.into());
    if spec.get("hostNetwork") == Some(&Value::Bool(true)) {
        // Otherwise the pod would ask the node's resolver, which knows no other pod.
        spec.insert("dnsPolicy".to_owned(), "ClusterFirstWithHostNet".into());
    }
    let main = main_container(&spec, role.container.as_deref());
    Draft {
        metadata,
        spec,
        main,
    }
}

/// Makes a pod one of the group that is all pods of the job.
fn join(metadata: &mut Map<String, Value>, job: &Job, queue: &Queue) {
    let labels = object(metadata, "labels");
    labels.insert(QUEUE_LABEL.to_owned(), queue.name.as_str().into());
    labels.insert(QUEUE_MANAGED_LABEL.to_owned(), "true".into());
    labels.insert(QUEUE_GROUP_LABEL.to_owned(), job.owner.name.as_str().into());
    if !queue.priority_class.is_empty() {
        let class = queue.priority_class.as_str().into();
        labels.insert(QUEUE_PRIORITY_LABEL.to_owned(), class);
    }
    let size = u64::from(job.worker_count()) + 1;
    let annotations = object(metadata, "annotations");
    for (name, value) in [
        (QUEUE_GROUP_SIZE_ANNOTATION, size.to_string()),
        (QUEUE_PARENT_ANNOTATION, OPERATOR_NAME.to_owned()),
    ] {
        annotations.insert(name.to_owned(), value.into());
    }
}

fn main_container(spec: &Map<String, Value>, name: Option<&str>) -> usize {
    let containers = spec.get("containers").and_then(Value::as_array);
    let named = |container: &Value| name.is_some_and(|name| container["name"] == name);
    let found = containers.and_then(|containers| containers.iter().position(named));
    found.unwrap_or_default()
}

impl Draft {
    /// The whole pod, the job's own.
    pub(crate) fn into_pod(self, job: &Job, name: &str) -> Object {
        let mut metadata = self.metadata;
        metadata.insert("name".to_owned(), name.into());
        metadata.insert("namespace".to_owned(), job.owner.namespace.as_str().into());
        metadata.insert(
            "ownerReferences".to_owned(),
            json!([owner_reference(&job.owner)]),
        );
        // Moved: `json!` would copy them.
        let body = Value::Object(Map::from_iter([
            ("apiVersion".to_owned(), "v1".into()),
            ("kind".to_owned(), "Pod".into()),
            ("metadata".to_owned(), Value::Object(metadata)),
            ("spec".to_owned(), Value::Object(self.spec)),
        ]));
        Object::new(Kind::Pod, name, body)
    }

    /// The container that MPI runs in.
    pub(crate) fn main_container(&mut self) -> &mut Map<String, Value> {
        self.container(self.main)
    }

    /// The first container, if that is another than the one that MPI runs in.
    pub(crate) fn bystander(&mut self) -> Option<&mut Map<String, Value>> {
        (self.main > 0).then(|| self.container(0))
    }

    fn container(&mut self, index: usize) -> &mut Map<String, Value> {
        let containers = list(&mut self.spec, "containers");
        if !containers.get(index).is_some_and(Value::is_object) {
            containers.insert(index, Value::Object(Map::new()));
        }
        containers[index]
            .as_object_mut()
            .expect("the container was just made an object")
    }

    /// Gives the pod the job's SSH key pair.
    pub(crate) fn ssh_key(&mut self, job: &Job, login: &Login) {
        self.volume(key_volume(job, login));
        self.mount(SSH_VOLUME, &login.ssh_mount_path);
    }

    /// No token: a program of the job needs the API server only if its template asks for an account.
    pub(crate) fn without_token(&mut self) {
        let asked = [
            "automountServiceAccountToken",
            "serviceAccountName",
            "serviceAccount",
        ];
        if !asked.iter().any(|key| self.spec.contains_key(*key)) {
            let key = "automountServiceAccountToken".to_owned();
            self.spec.insert(key, false.into());
        }
    }

    /// Appends a variable, unless there is one of that name: the user's own wins, always.
    pub(crate) fn variable(&mut self, name: &str, value: &str) {
        self.variable_entry(json!({"name": name, "value": value}));
    }

    /// The same, for a whole entry.
    pub(crate) fn variable_entry(&mut self, entry: Value) {
        let variables = list(self.main_container(), "env");
        let is_set = |given: &Value| given["name"] == entry["name"];
        if !variables.iter().any(is_set) {
            variables.push(entry);
        }
    }

    /// The variables so far, of the container that MPI runs in.
    pub(crate) fn variables(&mut self) -> Vec<Value> {
        list(self.main_container(), "env").clone()
    }

    /// Appends a mount.
    pub(crate) fn mount(&mut self, volume: &str, path: &str) {
        list(self.main_container(), "volumeMounts")
            .push(json!({"name": volume, "mountPath": path}));
    }

    /// Appends a mount of one file of a volume.
    pub(crate) fn mount_file(&mut self, volume: &str, directory: &str, file: &str) {
        let path = format!("{directory}/{file}");
        list(self.main_container(), "volumeMounts")
            .push(json!({"name": volume, "mountPath": path, "subPath": file}));
    }

    /// Sets a label.
    pub(crate) fn label(&mut self, name: &str, value: &str) {
        object(&mut self.metadata, "labels").insert(name.to_owned(), value.into());
    }

    /// Appends a volume.
    pub(crate) fn volume(&mut self, volume: Value) {
        list(&mut self.spec, "volumes").push(volume);
    }

    /// Appends a domain to the pod's DNS search list.
    pub(crate) fn search_domain(&mut self, domain: String) {
        list(object(&mut self.spec, "dnsConfig"), "searches").push(domain.into());
    }
}

fn key_volume(job: &Job, login: &Login) -> Value {
    let mut secret = json!({
        "secretName": job.names.ssh_key,
        "items": [
            {"key": SSH_PRIVATE_KEY, "path": "id_rsa"},
            {"key": SSH_PUBLIC_KEY, "path": "id_rsa.pub"},
            {"key": SSH_PUBLIC_KEY, "path": "authorized_keys"},
        ],
    });
    if login.ssh_mount_path == ROOT_SSH {
        secret["defaultMode"] = 0o600.into();
    }
    json!({"name": SSH_VOLUME, "secret": secret})
}
