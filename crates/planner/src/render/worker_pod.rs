//! The pods of workers: one body, and what differs between them.

use std::fmt::{self, Write};

use contract::env::ROLE_VARIABLE;
use contract::files::{CONFIG_MOUNT_PATH, CONFIG_VOLUME, EXEC_SCRIPT};
use contract::labels::{REPLICA_INDEX_LABEL, WORKER_ROLE};
use serde_json::{Map, Value, json};

use super::{agent, placement, pod, pod_group, sidecar};
use crate::action::Object;
use crate::job::{HostNames, Job, Login, WorkerPods};
use crate::reach::Reach;
use crate::site::Site;
use crate::worker_batch::{WorkerBatch, WorkerNaming, WorkerWords};

const DEFAULT_CLUSTER_DOMAIN: &str = "cluster.local";
/// What we add to a template, and the API server and the kubelet to a pod: at most, and at least.
const ADDED_BYTES: usize = 4 * 1024;

/// These workers, if there are any.
pub(crate) fn worker_batch(
    job: &Job,
    site: &Site,
    reach: Reach<'_>,
    workers: &WorkerPods,
    indices: Vec<u32>,
) -> Option<WorkerBatch> {
    WorkerBatch::new(indices, WorkerNaming::of(job), |words| {
        worker_pod(job, site, reach, workers, words).body
    })
}

/// What a worker's pod takes, about: its template, and what is added to it.
pub(crate) fn worker_pod_bytes(job: &Job) -> usize {
    let mut length = Length(0);
    let template = &job.workers.role().template;
    write!(length, "{template}").expect("counting cannot fail");
    length.0 + ADDED_BYTES
}

/// Counts what is written, and keeps none of it.
struct Length(usize);

impl Write for Length {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 += text.len();
        Ok(())
    }
}

/// One worker. Whatever differs from another's pod comes from its words, and nowhere else.
pub(crate) fn worker_pod(
    job: &Job,
    site: &Site,
    reach: Reach<'_>,
    workers: &WorkerPods,
    words: &WorkerWords,
) -> Object {
    let (name, hostname) = (&words.name, words.hostname.as_deref());
    let restart = workers.restart.as_str();
    let mut draft = pod::draft(job, &workers.role, restart, WORKER_ROLE, hostname);
    draft.label(REPLICA_INDEX_LABEL, &words.host_index);
    pod_group::enlist(job, site, &mut draft);
    placement::place(job, site, &mut draft);
    if let Reach::Provided { sidecar, .. } = reach {
        if let Some((container, image)) = sidecar {
            sidecar::complete(container, image, &mut draft);
        }
        return draft.into_pod(job, name);
    }

    if job.host_names() == HostNames::Service {
        // Intel MPI and MPICH call the launcher back by its short name.
        draft.search_domain(search_domain(job, site));
    }
    draft.variable(ROLE_VARIABLE, WORKER_ROLE);
    if workers.drops_bare_args {
        drop_bare_args(&mut draft);
    }
    if reach.login().is_some_and(|login| login.exec_script) {
        // Open MPI looks for its remote shell on every host.
        let items = json!([{"key": EXEC_SCRIPT, "path": EXEC_SCRIPT, "mode": 0o555}]);
        let config = json!({"name": job.names.config, "items": items});
        draft.volume(json!({"name": CONFIG_VOLUME, "configMap": config}));
        draft.mount(CONFIG_VOLUME, CONFIG_MOUNT_PATH);
    }
    match reach {
        Reach::Agent { image, secret, .. } => {
            agent::serve(job, image, secret, words, &mut draft);
        }
        Reach::Ssh { login, .. } => serve_ssh(job, login, &mut draft),
        Reach::Exec { .. } | Reach::Provided { .. } => {}
    }
    draft.into_pod(job, name)
}

fn search_domain(job: &Job, site: &Site) -> String {
    let domain = match site.cluster_domain.as_str() {
        "" => DEFAULT_CLUSTER_DOMAIN,
        domain => domain,
    };
    let (service, namespace) = (&job.names.service, &job.owner.namespace);
    format!("{service}.{namespace}.svc.{domain}")
}

/// Arguments without a command are the launcher's, which came along in a shared template.
fn drop_bare_args(draft: &mut pod::Draft) {
    let container = draft.main_container();
    if is_silent(container, "command") {
        container.remove("args");
    }
    if let Some(first) = draft.bystander()
        && is_silent(first, "command")
    {
        first.insert("command".to_owned(), json!(["sleep"]));
        first.insert("args".to_owned(), json!(["365d"]));
    }
}

fn serve_ssh(job: &Job, login: &Login, draft: &mut pod::Draft) {
    draft.without_token();
    draft.ssh_key(job, login);
    let container = draft.main_container();
    if is_silent(container, "command") && is_silent(container, "args") {
        container.insert("command".to_owned(), json!(["/usr/sbin/sshd", "-De"]));
    }
}

fn is_silent(container: &Map<String, Value>, key: &str) -> bool {
    match container.get(key) {
        None | Some(Value::Null) => true,
        Some(value) => value.as_array().is_some_and(Vec::is_empty),
    }
}
