//! The launcher in transport Exec: the promised script, which is our agent, and an account that may run
//! commands in the workers. Nothing else of the user's template is touched.

use contract::commands;
use contract::files::{
    AGENT_COPY, AGENT_MOUNT_PATH, AGENT_PROGRAM, AGENT_VOLUME, CONFIG_MOUNT_PATH, CONFIG_VOLUME,
    EXEC_SCRIPT, HOSTFILE,
};
use contract::labels::LAUNCHER_ROLE;
use serde_json::{Value, json};

use super::agent;
use super::pod::{self, Draft};
use crate::job::Job;
use crate::mpi;
use crate::site::Site;

/// The launcher's template.
pub(crate) fn template(job: &Job, site: &Site) -> Draft {
    let mut draft = pod::draft(job, &job.launcher, LAUNCHER_ROLE, &job.launcher_name());
    act_as(job, &mut draft);
    for (name, value) in mpi::exec_promises() {
        draft.variable(name, &value);
    }
    for (name, value) in mpi::exec_defaults(job) {
        draft.default_variable(name, &value);
    }
    draft.volume(json!({"name": AGENT_VOLUME, "emptyDir": {}}));
    draft.mount(AGENT_VOLUME, AGENT_MOUNT_PATH);
    draft.volume(files(job));
    draft.mount(CONFIG_VOLUME, CONFIG_MOUNT_PATH);
    // Without an image it is not rendered: such a job is blocked.
    if let Some(image) = &site.agent_image {
        let install = json!([AGENT_PROGRAM, commands::INSTALL, AGENT_MOUNT_PATH]);
        let mounts = [(AGENT_VOLUME, AGENT_MOUNT_PATH)];
        agent::init_container(image, install, Vec::new(), &mounts, &mut draft);
    }
    draft
}

/// The whole directory is mounted, so that a running launcher sees the list of hosts change.
fn files(job: &Job) -> Value {
    let items = json!([
        {"key": EXEC_SCRIPT, "path": EXEC_SCRIPT, "mode": 0o555},
        {"key": HOSTFILE, "path": HOSTFILE, "mode": 0o444},
    ]);
    json!({"name": CONFIG_VOLUME, "configMap": {"name": job.config_name(), "items": items}})
}

/// What is at the promised path.
pub(crate) fn script() -> String {
    let kubexec = commands::KUBEXEC;
    format!("#!/bin/sh\nexec {AGENT_COPY} {kubexec} \"$@\"\n")
}

/// The pod is, for the API server, who the job's account is.
pub(crate) fn act_as(job: &Job, draft: &mut Draft) {
    let Some(account) = &job.account else {
        return;
    };
    let spec = &mut draft.spec;
    // Its old name, which the API server would hold against the new one.
    spec.remove("serviceAccount");
    spec.insert(
        "serviceAccountName".to_owned(),
        account.service_account().into(),
    );
    spec.insert("automountServiceAccountToken".to_owned(), true.into());
}
