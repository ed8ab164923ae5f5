//! Numbers for monitoring. Decides their names: those that begin with `mpi_operator_` are as
//! dashboards for the Kubeflow operator know them, ours begin with `muster_`.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use planner::job::Owner;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::event_loop;
use crate::memory::Memory;

/// What the text is, for HTTP.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// All numbers.
#[derive(Debug)]
pub(crate) struct Metrics {
    pub(crate) jobs_created: Counter,
    pub(crate) jobs_successful: Counter,
    pub(crate) jobs_failed: Counter,
    pub(crate) is_leader: Gauge,
    pub(crate) reconcile_seconds: Histogram,
    pub(crate) event_loop_block: event_loop::Longest,
    reconcile_errors: Family<ByKind, Counter>,
    undecodable_objects: Family<ByKind, Counter>,
    namespaces_over_budget: Family<ByKind, Counter>,
    job_info: Family<JobInfo, Gauge>,
    /// What `job_info` shows, by the UID of the job: a deleted job cannot be asked.
    launchers: Mutex<HashMap<String, JobInfo>>,
    registry: Registry,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByKind {
    kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct JobInfo {
    launcher: String,
    namespace: String,
}

impl JobInfo {
    fn new(namespace: &str, launcher: &str) -> Self {
        let (launcher, namespace) = (launcher.to_owned(), namespace.to_owned());
        Self {
            launcher,
            namespace,
        }
    }
}

impl Metrics {
    /// All at zero.
    pub(crate) fn new() -> Self {
        let mut metrics = Self {
            jobs_created: Counter::default(),
            jobs_successful: Counter::default(),
            jobs_failed: Counter::default(),
            is_leader: Gauge::default(),
            reconcile_seconds: Histogram::new(exponential_buckets(0.001, 4.0, 8)),
            event_loop_block: Gauge::default(),
            reconcile_errors: Family::default(),
            undecodable_objects: Family::default(),
            namespaces_over_budget: Family::default(),
            job_info: Family::default(),
            launchers: Mutex::default(),
            registry: Registry::default(),
        };
        metrics.register();
        metrics
    }

    /// Counters are registered without `_total`, which the text format adds.
    fn register(&mut self) {
        let registry = &mut self.registry;
        let jobs = [
            ("created", &self.jobs_created),
            ("successful", &self.jobs_successful),
            ("failed", &self.jobs_failed),
        ];
        for (name, counter) in jobs {
            let help = format!("Counts number of MPI jobs {name}");
            registry.register(format!("mpi_operator_jobs_{name}"), help, counter.clone());
        }
        registry.register(
            "mpi_operator_job_info",
            "Information about MPI jobs",
            self.job_info.clone(),
        );
        registry.register(
            "mpi_operator_is_leader",
            "Is this client the leader of this mpi-operator client set?",
            self.is_leader.clone(),
        );
        registry.register(
            "muster_reconcile_seconds",
            "How long one pass over one job took",
            self.reconcile_seconds.clone(),
        );
        registry.register(
            "muster_event_loop_block_seconds_max",
            "The longest time since the start for which one task kept all others waiting",
            self.event_loop_block.clone(),
        );
        registry.register(
            "muster_reconcile_errors",
            "Passes that failed, by the step that did",
            self.reconcile_errors.clone(),
        );
        registry.register(
            "muster_undecodable_objects",
            "Objects of which some part had an unknown shape",
            self.undecodable_objects.clone(),
        );
        registry.register(
            "muster_namespaces_over_budget",
            "Namespaces with more labelled objects than are kept, counted when that begins",
            self.namespaces_over_budget.clone(),
        );
    }

    /// A pass failed at this step.
    pub(crate) fn count_error(&self, step: &'static str) {
        self.reconcile_errors
            .get_or_create(&ByKind { kind: step })
            .inc();
    }

    /// Some part of an object could not be read.
    pub(crate) fn count_undecodable(&self, kind: &'static str) {
        self.undecodable_objects
            .get_or_create(&ByKind { kind })
            .inc();
    }

    /// A namespace has more objects of this kind than are kept.
    pub(crate) fn count_left_out(&self, kind: &'static str) {
        self.namespaces_over_budget
            .get_or_create(&ByKind { kind })
            .inc();
    }

    /// A job has this launcher. A pass may still run when its job is deleted, and a series that it would
    /// show then would never go.
    pub(crate) fn show_launcher(&self, memory: &Memory, job: &Owner, launcher: &str) {
        if !memory.is_known(&job.uid) {
            return;
        }
        let labels = JobInfo::new(&job.namespace, launcher);
        self.job_info.get_or_create(&labels).set(1);
        self.launchers().insert(job.uid.clone(), labels);
    }

    /// The job with this UID is gone.
    pub(crate) fn hide_launcher(&self, job_uid: &str) {
        if let Some(labels) = self.launchers().remove(job_uid) {
            self.job_info.remove(&labels);
        }
    }

    fn launchers(&self) -> MutexGuard<'_, HashMap<String, JobInfo>> {
        self.launchers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// All of them, as text.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("writing to a string cannot fail");
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::ObjectKey;

    #[test]
    fn dashboards_find_the_names_they_know() {
        let metrics = Metrics::new();
        metrics.jobs_created.inc();
        let job = planner::fixtures::job("ring");
        let memory = Memory::default();
        memory.begin(&job.owner.uid);
        metrics.show_launcher(&memory, &job.owner, &job.names.launcher);
        metrics.count_error("apply");
        let text = metrics.text();
        for line in [
            "mpi_operator_jobs_created_total 1",
            "mpi_operator_jobs_successful_total 0",
            "mpi_operator_jobs_failed_total 0",
            "mpi_operator_job_info{launcher=\"ring-launcher\",namespace=\"team-a\"} 1",
            "mpi_operator_is_leader 0",
            "muster_reconcile_errors_total{kind=\"apply\"} 1",
        ] {
            assert!(
                text.lines().any(|found| found == line),
                "{line} is not in\n{text}"
            );
        }
        metrics.hide_launcher(&job.owner.uid);
        assert!(!metrics.text().contains("ring-launcher"));
    }

    /// `MUSTER_UPDATE_GOLDEN=1` writes the table of the page.
    #[test]
    fn the_page_lists_all_of_them() {
        let text = Metrics::new().text();
        let mut rows: Vec<String> = Vec::new();
        for line in text.lines() {
            let words = |begin: &str| line.strip_prefix(begin)?.split_once(' ');
            if let Some((name, help)) = words("# HELP ") {
                rows.push(format!("| `{name}` | {} |", help.trim_end_matches('.')));
            } else if let Some((name, kind)) = words("# TYPE ") {
                let total = if kind == "counter" { "_total" } else { "" };
                let row = rows.last_mut().expect("help comes first");
                *row = row.replace(
                    &format!("`{name}` |"),
                    &format!("`{name}{total}` | {kind} |"),
                );
            }
        }
        rows.sort();
        let table = format!("| name | kind | |\n|---|---|---|\n{}\n", rows.join("\n"));
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../docs/reference/metrics.md"
        );
        let page = std::fs::read_to_string(path).expect("the page can be read");
        if std::env::var_os("MUSTER_UPDATE_GOLDEN").is_some() {
            let (before, after) = page.split_once("| name |").expect("the page has the table");
            let after: String = after
                .split_inclusive('\n')
                .skip_while(|line| line.starts_with('|') || line.ends_with("|\n"))
                .collect();
            std::fs::write(path, format!("{before}{table}{after}"))
                .expect("the page can be written");
            return;
        }
        assert!(
            page.contains(&table),
            "docs/reference/metrics.md must contain\n{table}"
        );
    }

    #[test]
    fn c15_a_pass_that_outlives_its_job_leaves_no_series() {
        let (metrics, memory) = (Metrics::new(), Memory::default());
        let job = planner::fixtures::job("ring");
        memory.begin(&job.owner.uid);
        let show = || metrics.show_launcher(&memory, &job.owner, &job.names.launcher);
        show();
        assert!(metrics.text().contains("ring-launcher"));
        let key = ObjectKey::new(&job.owner.namespace, &job.owner.name);
        memory.forget(&job.owner.uid, &key);
        metrics.hide_launcher(&job.owner.uid);
        show();
        assert!(!metrics.text().contains("ring-launcher"));
    }
}
