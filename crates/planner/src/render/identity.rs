//! Service, ConfigMap and key Secret: what gives the pods their names, host list and key.

use std::collections::BTreeMap;

use contract::files::{AGENT_SHIM, DISCOVER_HOSTS, EXEC_SCRIPT, HOSTFILE};
use contract::labels::{APP_LABEL, JOB_NAME_LABEL, OPERATOR_NAME, OPERATOR_NAME_LABEL};
use contract::mpi::HostListSyntax;
use serde_json::json;

use super::{exec, hostfile, metadata};
use crate::action::{Kind, Object};
use crate::job::Job;
use crate::observed::{Observed, PodPhase};
use crate::site::{Site, Transport};

/// The headless Service that names the pods.
pub(crate) fn service(job: &Job) -> Object {
    let name = job.service_name();
    let mut body = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(job, &name),
        "spec": {
            "clusterIP": "None",
            "selector": service_selector(job),
            "publishNotReadyAddresses": publish_not_ready(job),
        },
    });
    if let Some(own) = &job.bootstrap {
        let port = |(name, port): (&String, &u16)| json!({"name": name, "port": port, "targetPort": port, "protocol": "TCP"});
        body["spec"]["ports"] = own.service_ports.iter().map(port).collect();
    }
    Object {
        kind: Kind::Service,
        name,
        body,
    }
}

/// Launcher and workers alike.
pub(crate) fn service_selector(job: &Job) -> BTreeMap<String, String> {
    if job.bootstrap.is_some() {
        return BTreeMap::from([(APP_LABEL.to_owned(), job.owner.name.clone())]);
    }
    BTreeMap::from([
        (OPERATOR_NAME_LABEL.to_owned(), OPERATOR_NAME.to_owned()),
        (JOB_NAME_LABEL.to_owned(), job.owner.name.clone()),
    ])
}

/// A launcher that is a host must resolve before it is Ready, or it could not reach itself.
pub(crate) fn publish_not_ready(job: &Job) -> bool {
    job.launcher_is_host
}

/// The ConfigMap with the host list.
pub(crate) fn config(observed: &Observed) -> Object {
    let job = &observed.job;
    let name = job.config_name();
    let body = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(job, &name),
        "data": config_data(observed),
    });
    Object {
        kind: Kind::ConfigMap,
        name,
        body,
    }
}

/// The files. The discovery script follows the pods of an elastic job only: for all others
/// it would be rewritten once per pod and never read.
pub(crate) fn config_data(observed: &Observed) -> BTreeMap<String, String> {
    let (job, site) = (&observed.job, &observed.site);
    if let Some(own) = &job.bootstrap {
        return own.files.clone();
    }
    if job.transport(site) == Transport::Exec {
        return BTreeMap::from([
            (
                HOSTFILE.to_owned(),
                hostfile::hostfile(job, site, job.mpi.host_list()),
            ),
            (EXEC_SCRIPT.to_owned(), exec::script()),
        ]);
    }
    let discoverable = if job.elastic {
        let running = |pod: &&crate::observed::Pod| pod.phase == PodPhase::Running;
        observed
            .workers
            .iter()
            .filter(running)
            .map(|pod| pod.name.clone())
            .collect()
    } else {
        (0..job.worker_count())
            .map(|index| job.worker_name(index))
            .collect()
    };
    let mut data = BTreeMap::from([
        (
            HOSTFILE.to_owned(),
            hostfile::hostfile(job, site, job.mpi.host_list()),
        ),
        (
            DISCOVER_HOSTS.to_owned(),
            hostfile::discover_hosts(job, site, discoverable),
        ),
    ]);
    if job.transport(site) == Transport::Agent {
        for syntax in HostListSyntax::ALL {
            let list = hostfile::hostfile(job, site, syntax);
            data.insert(syntax.file().to_owned(), list);
        }
    }
    if job.exec_script {
        let script = match job.transport(site) {
            Transport::Agent => format!("#!/bin/sh\nexec {AGENT_SHIM} \"$@\"\n"),
            Transport::Exec => exec::script(),
            Transport::Ssh => "#!/bin/sh\nexec ssh \"$@\"\n".to_owned(),
        };
        data.insert(EXEC_SCRIPT.to_owned(), script);
    }
    data
}

/// The Secret for the keys, still without them.
pub(crate) fn key(job: &Job, site: &Site) -> Object {
    let name = job.key_name(site);
    let body = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata(job, &name),
        "type": match job.transport(site) {
            Transport::Ssh => "kubernetes.io/ssh-auth",
            Transport::Agent | Transport::Exec => "Opaque",
        },
    });
    Object {
        kind: Kind::Secret,
        name,
        body,
    }
}
