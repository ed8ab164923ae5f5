//! The state of a job and of its pods, read from their objects. Decides which pod is the launcher and
//! how a pod's state is named. Must not know a cluster, and prints nothing.

use contract::agent_report::AgentReport;
use contract::labels::{JOB_ROLE_LABEL, JOB_UID_LABEL, REPLICA_INDEX_LABEL};
use serde_json::Value;

use crate::manifest;

/// A job object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JobView<'v>(pub(crate) &'v Value);

/// A pod object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PodView<'v>(pub(crate) &'v Value);

/// How a container ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) container: String,
    pub(crate) code: i64,
    pub(crate) signal: Option<i64>,
    pub(crate) reason: String,
    pub(crate) message: String,
}

impl<'v> JobView<'v> {
    pub(crate) fn name(self) -> &'v str {
        manifest::name(self.0)
    }

    pub(crate) fn namespace(self) -> &'v str {
        manifest::namespace(self.0).unwrap_or("default")
    }

    pub(crate) fn uid(self) -> &'v str {
        self.0["metadata"]["uid"].as_str().unwrap_or("")
    }

    /// A word of `status.muster`.
    pub(crate) fn word(self, field: &str) -> &'v str {
        self.0["status"]["muster"][field].as_str().unwrap_or("")
    }

    /// Waiting, Running, Suspended, Succeeded or Failed; empty before the operator has seen it.
    pub(crate) fn phase(self) -> &'v str {
        self.word("phase")
    }

    pub(crate) fn is_finished(self) -> bool {
        self.0["status"]["muster"]["finished"] == true
    }

    pub(crate) fn created(self) -> &'v str {
        self.0["metadata"]["creationTimestamp"]
            .as_str()
            .unwrap_or("")
    }

    /// `status.<field>`, a time.
    pub(crate) fn time(self, field: &str) -> &'v str {
        self.0["status"][field].as_str().unwrap_or("")
    }

    /// The dialect it was written in.
    pub(crate) fn dialect(self) -> String {
        match self.word("dialect") {
            "" => {
                let version = manifest::text(self.0, "apiVersion");
                version.rsplit('/').next().unwrap_or("").to_owned()
            }
            word => word.to_owned(),
        }
    }

    /// Ranks that its hosts have room for.
    pub(crate) fn ranks(self) -> Option<u64> {
        let job = manifest::lower(self.0)?.ok()?;
        let hosts = u64::from(job.worker_count()) + u64::from(job.launcher.host.is_some());
        Some(hosts * u64::from(job.slots.max(1)))
    }

    /// Seconds between its start and its end, where both are known: measured by `muster run`, or
    /// the difference of two times of the status, which are whole.
    pub(crate) fn seconds(self) -> Option<f64> {
        if let Some(measured) = self.0["status"]["muster"]["seconds"].as_f64() {
            return Some(measured);
        }
        let at = |field: &str| self.time(field).parse::<jiff::Timestamp>().ok();
        let (start, end) = (at("startTime")?, at("completionTime")?);
        Some(end.duration_since(start).as_secs_f64())
    }
}

impl<'v> PodView<'v> {
    pub(crate) fn name(self) -> &'v str {
        manifest::name(self.0)
    }

    pub(crate) fn namespace(self) -> &'v str {
        manifest::namespace(self.0).unwrap_or("default")
    }

    fn label(self, name: &str) -> &'v str {
        self.0["metadata"]["labels"][name].as_str().unwrap_or("")
    }

    /// UID of its job.
    pub(crate) fn job_uid(self) -> &'v str {
        self.label(JOB_UID_LABEL)
    }

    pub(crate) fn is_launcher(self) -> bool {
        dialects::is_launcher_role(self.label(JOB_ROLE_LABEL))
    }

    /// Its place among the hosts.
    pub(crate) fn index(self) -> Option<u32> {
        self.label(REPLICA_INDEX_LABEL).parse().ok()
    }

    pub(crate) fn node(self) -> &'v str {
        self.0["spec"]["nodeName"].as_str().unwrap_or("")
    }

    pub(crate) fn phase(self) -> &'v str {
        self.0["status"]["phase"].as_str().unwrap_or("Pending")
    }

    /// Name of the container that runs the program.
    pub(crate) fn main_container(self) -> &'v str {
        self.0["spec"]["containers"][0]["name"]
            .as_str()
            .unwrap_or("")
    }

    pub(crate) fn created(self) -> &'v str {
        self.0["metadata"]["creationTimestamp"]
            .as_str()
            .unwrap_or("")
    }

    pub(crate) fn is_ready(self) -> bool {
        let conditions = self.0["status"]["conditions"].as_array();
        conditions
            .into_iter()
            .flatten()
            .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
    }

    fn statuses(self) -> impl Iterator<Item = &'v Value> + use<'v> {
        ["initContainerStatuses", "containerStatuses"]
            .into_iter()
            .flat_map(move |list| self.0["status"][list].as_array().into_iter().flatten())
    }

    /// The first container that failed, or else the last that ended; none while the pod runs and
    /// none of its containers has failed.
    pub(crate) fn ended(self) -> Option<Ended> {
        let ends: Vec<Ended> = self
            .statuses()
            .filter_map(|status| {
                let now = &status["state"]["terminated"];
                let before = &status["lastState"]["terminated"];
                let end = if now.is_object() { now } else { before };
                let text = |field: &str| end[field].as_str().unwrap_or("").to_owned();
                Some(Ended {
                    container: status["name"].as_str().unwrap_or("").to_owned(),
                    code: end["exitCode"].as_i64()?,
                    signal: end["signal"].as_i64().filter(|signal| *signal > 0),
                    reason: text("reason"),
                    message: sentence(end["message"].as_str().unwrap_or("")),
                })
            })
            .collect();
        let failed = ends.iter().find(|end| end.code != 0).cloned();
        let is_over = matches!(self.phase(), "Succeeded" | "Failed");
        failed.or_else(|| ends.into_iter().next_back().filter(|_| is_over))
    }

    /// What the agent says of a program that did not succeed at its first attempt in this pod.
    pub(crate) fn recovered(self) -> Option<AgentReport> {
        let mut messages = self.statuses().filter_map(|status| {
            let end = &status["state"]["terminated"];
            end["message"].as_str().filter(|_| end["exitCode"] == 0)
        });
        let report = messages.find_map(planner::read_agent_report);
        report.filter(|report| report.attempts > 1)
    }

    /// What the agent says of the last run in this pod.
    pub(crate) fn agent_report(self) -> Option<AgentReport> {
        let mut messages = self
            .statuses()
            .filter_map(|status| status["state"]["terminated"]["message"].as_str());
        messages.find_map(planner::read_agent_report)
    }

    /// Why it does not start: reason and message of the kubelet or the scheduler.
    pub(crate) fn waiting(self) -> Option<(String, String)> {
        let waiting = self.statuses().find_map(|status| {
            let waiting = &status["state"]["waiting"];
            let reason = waiting["reason"].as_str()?;
            let message = waiting["message"].as_str().unwrap_or("");
            Some((reason.to_owned(), message.to_owned()))
        });
        waiting.or_else(|| {
            let conditions = self.0["status"]["conditions"].as_array();
            let unscheduled = conditions.into_iter().flatten().find(|condition| {
                condition["type"] == "PodScheduled" && condition["status"] == "False"
            })?;
            let text = |field: &str| unscheduled[field].as_str().unwrap_or("").to_owned();
            Some((text("reason"), text("message")))
        })
    }

    /// One word for its state.
    pub(crate) fn state(self) -> String {
        match self.phase() {
            "Running" if self.is_ready() => "Ready".to_owned(),
            "Pending" => self
                .waiting()
                .map_or_else(|| "Pending".to_owned(), |(reason, _)| reason),
            phase => phase.to_owned(),
        }
    }
}

/// The first line of a termination message. The agent writes one line of JSON, which has a message
/// for people.
fn sentence(message: &str) -> String {
    match planner::read_agent_report(message) {
        Some(report) => report.message,
        None => {
            let line = message.lines().find(|line| !line.is_empty());
            line.unwrap_or_default().to_owned()
        }
    }
}

/// The launcher's pod that counts: the newest.
pub(crate) fn launcher(pods: &[Value]) -> Option<PodView<'_>> {
    let launchers = pods.iter().map(PodView).filter(|pod| pod.is_launcher());
    launchers.max_by_key(|pod| pod.created().to_owned())
}

/// Workers in the order of their places.
pub(crate) fn workers(pods: &[Value]) -> Vec<PodView<'_>> {
    let mut workers: Vec<PodView<'_>> = pods
        .iter()
        .map(PodView)
        .filter(|pod| !pod.is_launcher())
        .collect();
    workers.sort_by_key(|pod| (pod.index(), pod.name().to_owned()));
    workers
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(phase: &str, main: Value) -> Value {
        let ended = json!({"terminated": {"exitCode": 0, "message": ""}});
        json!({"status": {"phase": phase,
            "initContainerStatuses": [{"name": "muster-agent", "state": ended}],
            "containerStatuses": [{"name": "main", "state": main}]}})
    }

    #[test]
    fn a_pod_that_runs_has_no_exit_code() {
        let running = pod("Running", json!({"running": {}}));
        assert_eq!(PodView(&running).ended(), None);
        let over = pod("Succeeded", json!({"terminated": {"exitCode": 0}}));
        assert_eq!(PodView(&over).ended().map(|end| end.code), Some(0));
        let mut restarted = pod("Running", json!({"running": {}}));
        restarted["status"]["containerStatuses"][0]["lastState"] =
            json!({"terminated": {"exitCode": 3}});
        assert_eq!(PodView(&restarted).ended().map(|end| end.code), Some(3));
    }

    #[test]
    fn of_the_agent_s_json_only_the_sentence_is_shown() {
        let words = r#"{"muster":1,"verdict":"RankFailed","exit":66,"message":"rank 3 failed"}"#;
        let end = json!({"terminated": {"exitCode": 66, "message": format!("{words}\n")}});
        let shown = |pod: &Value| PodView(pod).ended().map(|end| end.message);
        assert_eq!(shown(&pod("Failed", end)).as_deref(), Some("rank 3 failed"));
        let end = json!({"terminated": {"exitCode": 1, "message": "\nno such file\nbye"}});
        assert_eq!(shown(&pod("Failed", end)).as_deref(), Some("no such file"));
    }
}
