//! Warns of settings that are the user's to make and that keep ranks from their hosts: variables of the
//! launcher that win over muster's, and workers on the node's network whose sshd may be anywhere. Says
//! nothing about what it cannot know, such as the contents of `envFrom`.

use contract::files::CONFIG_MOUNT_PATH;
use contract::mpi::Setting;
use planner::job::{Access, Workers};
use planner::{Job, SshPorts};
use serde_json::Value;

use super::{Finding, Severity, error, text_at};
use crate::yaml::Document;

const LAUNCHER: &str = "/spec/mpiReplicaSpecs/Launcher/template/spec/containers/0";
const HOST_NETWORK: &str = "/spec/mpiReplicaSpecs/Worker/template/spec/hostNetwork";

pub(super) fn check(document: &Document, job: &Job) -> Vec<Finding> {
    let mut findings = overriding(document, job);
    findings.extend(unknown_port(document, job));
    findings
}

/// Variables of the launcher that win over ours and lead mpirun elsewhere.
fn overriding(document: &Document, job: &Job) -> Vec<Finding> {
    let object = &document.value;
    let variables = object.pointer(&format!("{LAUNCHER}/env"));
    let count = variables.and_then(Value::as_array).map_or(0, Vec::len);
    let mut findings = Vec::new();
    for index in 0..count {
        let pointer = format!("{LAUNCHER}/env/{index}");
        let name = text_at(object, &format!("{pointer}/name"));
        let value = text_at(object, &format!("{pointer}/value"));
        let Some(setting) = setting(job, name) else {
            continue;
        };
        let elsewhere = match setting {
            Setting::HostList if !value.starts_with(CONFIG_MOUNT_PATH) => {
                format!("mpirun looks for its hosts there, and not in {CONFIG_MOUNT_PATH}")
            }
            Setting::RemoteShell if is_by_agent(job) => {
                "mpirun calls that program, and not muster's agent".to_owned()
            }
            _ => continue,
        };
        let message = format!("{name} is set in the template and wins over muster's value");
        findings.push(Finding {
            label: elsewhere,
            advice: format!("remove {name}, unless this is meant"),
            ..warning("OverridesMuster", message, document, &pointer)
        });
    }
    findings
}

/// The node's own sshd has the usual port there.
fn unknown_port(document: &Document, job: &Job) -> Option<Finding> {
    let Workers::Pods(pods) = &job.workers else {
        return None;
    };
    let (Access::Ssh(login) | Access::SiteDefault(login)) = &pods.access else {
        return None;
    };
    let on_host = document.value.pointer(HOST_NETWORK) == Some(&Value::Bool(true));
    if !on_host || !login.gate || SshPorts::of(job, login).is_certain {
        return None;
    }
    let message =
        "the workers are on their node's network, and nothing says where their sshd listens";
    Some(Finding {
        label: "port 22 is that of the node's own sshd".to_owned(),
        advice: "set spec.muster.sshPort, so that the launcher can wait for the workers".to_owned(),
        ..warning("SshPortUnknown", message.to_owned(), document, HOST_NETWORK)
    })
}

fn setting(job: &Job, name: &str) -> Option<Setting> {
    let launchers = job.mpi.launchers().iter();
    let mut variables = launchers.flat_map(|launcher| launcher.variables);
    let variable = variables.find(|variable| variable.name == name)?;
    Some(variable.setting)
}

fn is_by_agent(job: &Job) -> bool {
    matches!(&job.workers, Workers::Pods(pods) if matches!(pods.access, Access::Agent(..)))
}

fn warning(reason: &'static str, message: String, document: &Document, at: &str) -> Finding {
    Finding {
        severity: Severity::Warning,
        ..error(reason, message, document.value_mark(at))
    }
}
