//! The launcher that runs commands in its workers through the API server: the promised script, which is
//! our agent, and an account that may do so. Nothing else of the user's template is touched.

use contract::commands;
use contract::files::{
    AGENT_COPY, AGENT_MOUNT_PATH, AGENT_VOLUME, CONFIG_MOUNT_PATH, CONFIG_VOLUME, EXEC_SCRIPT,
    HOSTFILE,
};
use serde_json::{Value, json};

use super::agent;
use super::pod::Draft;
use crate::job::{Account, Job};
use crate::mpi;
use crate::site::Site;

/// Makes a launcher run commands in its workers.
pub(crate) fn launch(job: &Job, site: &Site, account: &Account, image: &str, draft: &mut Draft) {
    act_as(account, draft);
    for (name, value) in mpi::exec_promises() {
        draft.variable(name, &value);
    }
    for (name, value) in mpi::exec_defaults(job, site) {
        draft.variable(name, &value);
    }
    draft.volume(json!({"name": AGENT_VOLUME, "emptyDir": {}}));
    draft.mount(AGENT_VOLUME, AGENT_MOUNT_PATH);
    draft.volume(files(job));
    draft.mount(CONFIG_VOLUME, CONFIG_MOUNT_PATH);
    agent::install(image, draft);
}

/// The whole directory is mounted, so that a running launcher sees the list of hosts change.
fn files(job: &Job) -> Value {
    let items = json!([
        {"key": EXEC_SCRIPT, "path": EXEC_SCRIPT, "mode": 0o555},
        {"key": HOSTFILE, "path": HOSTFILE, "mode": 0o444},
    ]);
    json!({"name": CONFIG_VOLUME, "configMap": {"name": job.names.config, "items": items}})
}

/// What is at the promised path.
pub(crate) fn script() -> String {
    let kubexec = commands::KUBEXEC;
    format!("#!/bin/sh\nexec {AGENT_COPY} {kubexec} \"$@\"\n")
}

/// The pod is, for the API server, who the job's account is.
fn act_as(account: &Account, draft: &mut Draft) {
    let spec = &mut draft.spec;
    // Its old name, which the API server would hold against the new one.
    spec.remove("serviceAccount");
    spec.insert(
        "serviceAccountName".to_owned(),
        account.name.as_str().into(),
    );
    spec.insert("automountServiceAccountToken".to_owned(), true.into());
}
