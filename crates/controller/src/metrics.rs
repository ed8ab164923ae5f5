//! Numbers for monitoring. Decides their names: those that begin with `mpi_operator_` are as
//! dashboards for the Kubeflow operator know them, ours begin with `muster_`.

mod format;
mod jobs;
mod queue;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Metric, Registry};

use crate::event_loop;
use crate::requests::Requests;

pub(crate) use self::format::Format;
pub(crate) use self::jobs::{Jobs, Now};
pub(crate) use self::queue::Queue;

/// All numbers.
#[derive(Debug)]
pub(crate) struct Metrics {
    pub(crate) jobs: Jobs,
    pub(crate) requests: Requests,
    pub(crate) is_leader: Gauge,
    pub(crate) reconcile_seconds: Histogram,
    pub(crate) event_loop_block: event_loop::Longest,
    queue: Queue,
    reconcile_errors: Family<ByKind, Counter>,
    undecodable_objects: Family<ByKind, Counter>,
    namespaces_over_budget: Family<ByKind, Counter>,
    build_info: Family<Build, Gauge>,
    registry: Registry,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByKind {
    kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Build {
    version: &'static str,
    commit: &'static str,
}

impl Metrics {
    /// All at zero.
    pub(crate) fn new() -> Self {
        let mut metrics = Self {
            jobs: Jobs::default(),
            requests: Requests::default(),
            is_leader: Gauge::default(),
            reconcile_seconds: Histogram::new(exponential_buckets(0.001, 4.0, 8)),
            event_loop_block: Gauge::default(),
            queue: Queue::default(),
            reconcile_errors: Family::default(),
            undecodable_objects: Family::default(),
            namespaces_over_budget: Family::default(),
            build_info: Family::default(),
            registry: Registry::default(),
        };
        let build = Build {
            version: env!("CARGO_PKG_VERSION"),
            commit: option_env!("MUSTER_GIT_SHA").unwrap_or("unknown"),
        };
        metrics.build_info.get_or_create(&build).set(1);
        metrics.register();
        metrics
    }

    fn register(&mut self) {
        self.requests.register(&mut self.registry);
        let mut names = Names(&mut self.registry);
        self.jobs.register(&mut names);
        self.queue.register(&mut names);
        names.add(
            "mpi_operator_is_leader",
            "Is this client the leader of this mpi-operator client set?",
            &self.is_leader,
        );
        names.add(
            "muster_reconcile_seconds",
            "How long one reconcile of one job took",
            &self.reconcile_seconds,
        );
        names.add(
            "muster_event_loop_block_seconds_max",
            "The longest time since the start during which one task kept all others waiting",
            &self.event_loop_block,
        );
        names.add(
            "muster_reconcile_errors",
            "Reconciles that failed, by the step that failed",
            &self.reconcile_errors,
        );
        names.add(
            "muster_undecodable_objects",
            "Objects of which some part had an unknown shape",
            &self.undecodable_objects,
        );
        names.add(
            "muster_namespaces_over_budget",
            "Namespaces that came to have more labelled objects than the operator keeps",
            &self.namespaces_over_budget,
        );
        names.add(
            "muster_build_info",
            "The operator's version, as labels of the number 1",
            &self.build_info,
        );
    }

    /// Jobs that wait for a pass of one controller, which are counted with those of the others.
    pub(crate) fn queue(&self) -> Queue {
        self.queue.another()
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

    /// All of them, as text.
    pub(crate) fn text(&self, format: Format) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("writing to a string cannot fail");
        format.of(text)
    }
}

/// What takes the names of numbers. A counter is named without `_total`, which the text format adds.
struct Names<'r>(&'r mut Registry);

impl Names<'_> {
    fn add(&mut self, name: &str, help: &str, metric: &(impl Metric + Clone)) {
        self.0.register(name, help, metric.clone());
    }
}

#[cfg(test)]
mod tests {
    use contract::Reason;
    use jiff::SignedDuration;
    use planner::fixtures::{job, world};
    use planner::{LifePart, Phase, Verdict};

    use super::*;
    use crate::memory::{Ending, Memory};
    use crate::wire::ObjectKey;

    fn assert_has(metrics: &Metrics, lines: &[&str]) {
        let text = metrics.text(Format::Classic);
        for line in lines {
            let has = text.lines().any(|found| found == *line);
            assert!(has, "{line} is not in\n{text}");
        }
    }

    fn now() -> Now {
        let mut status = planner::plan(&world(job("ring").workers(2))).status;
        status.phase = Phase::Gathering;
        status.reason = Some(Reason::PullingImage);
        (status.wanted, status.ready) = (2, 1);
        Now::new("kubeflow.org/v2beta1", &status)
    }

    fn failed() -> Verdict {
        Verdict::Failed {
            reason: "BackoffLimitExceeded".to_owned(),
            message: String::new(),
        }
    }

    /// Every number that there is.
    fn all() -> (Metrics, Memory, planner::Job) {
        let (metrics, memory) = (Metrics::new(), Memory::default());
        let job = job("ring");
        memory.learn(&job.owner.uid);
        let jobs = &metrics.jobs;
        jobs.created.inc();
        jobs.show_launcher(&memory, &job.owner, &job.names.launcher);
        jobs.show(&memory, &job.owner.uid, now());
        let ending = Ending {
            reason: Some(Reason::CommandFailed),
            parts: vec![(LifePart::Gate, SignedDuration::from_secs(7))],
        };
        jobs.count_end("kubeflow.org/v2beta1", &failed(), Some(ending));
        metrics.count_error("apply");
        metrics.count_undecodable("Pod");
        metrics.count_left_out("Pod");
        let uri = "/api/v1/namespaces/team-a/pods".parse().unwrap();
        let (method, time) = (http::Method::POST, std::time::Duration::from_millis(5));
        metrics.requests.count(&method, &uri, Some(200), time);
        (metrics, memory, job)
    }

    #[test]
    fn dashboards_find_the_names_they_know() {
        let (metrics, memory, job) = all();
        assert_has(
            &metrics,
            &[
                "# TYPE mpi_operator_jobs_created_total counter",
                "mpi_operator_jobs_created_total 1",
                "mpi_operator_jobs_successful_total 0",
                "mpi_operator_jobs_failed_total 1",
                "mpi_operator_job_info{launcher=\"ring-launcher\",namespace=\"team-a\"} 1",
                "mpi_operator_is_leader 0",
                "muster_reconcile_errors_total{kind=\"apply\"} 1",
            ],
        );
        memory.forget(&job.owner.uid, &key(&job));
        metrics.jobs.hide(&job.owner.uid);
        let text = metrics.text(Format::Classic);
        assert!(!text.contains("ring-launcher"), "{text}");
    }

    #[test]
    fn jobs_are_counted_by_what_is_true_of_them_now() {
        let (metrics, memory, job) = all();
        let state = "muster_jobs{dialect=\"kubeflow.org/v2beta1\",state";
        let wanted = [
            &format!("{state}=\"Gathering\"}} 1"),
            "muster_jobs_waiting{reason=\"PullingImage\"} 1",
            "muster_workers{state=\"wanted\"} 2",
            "muster_workers{state=\"ready\"} 1",
        ];
        assert_has(&metrics, &wanted);
        metrics.jobs.show(&memory, &job.owner.uid, now());
        assert_has(&metrics, &wanted);

        let status = planner::plan(&world(job.clone()).settled().running()).status;
        let running = Now::new("kubeflow.org/v2beta1", &status);
        metrics.jobs.show(&memory, &job.owner.uid, running);
        let phase = status.phase.as_str();
        assert_has(
            &metrics,
            &[
                &format!("{state}=\"Gathering\"}} 0"),
                &format!("{state}=\"{phase}\"}} 1"),
                "muster_jobs_waiting{reason=\"PullingImage\"} 0",
            ],
        );
        memory.forget(&job.owner.uid, &key(&job));
        metrics.jobs.hide(&job.owner.uid);
        metrics.jobs.show(&memory, &job.owner.uid, running);
        assert_has(
            &metrics,
            &[
                &format!("{state}=\"{phase}\"}} 0"),
                "muster_workers{state=\"wanted\"} 0",
            ],
        );
    }

    #[test]
    fn an_end_is_counted_with_its_reason_and_the_parts_of_the_life() {
        let (metrics, _, _) = all();
        let labels = "dialect=\"kubeflow.org/v2beta1\"";
        let part = format!("{labels},phase=\"gate\"");
        assert_has(
            &metrics,
            &[
                &format!(
                    "muster_jobs_finished_total{{{labels},result=\"failed\",reason=\"CommandFailed\"}} 1"
                ),
                &format!("muster_job_phase_seconds_count{{{part}}} 1"),
                &format!("muster_job_phase_seconds_sum{{{part}}} 7.0"),
            ],
        );
    }

    fn key(job: &planner::Job) -> ObjectKey {
        ObjectKey::new(&job.owner.namespace, &job.owner.name)
    }

    /// `MUSTER_UPDATE_GOLDEN=1` writes the table of the page.
    #[test]
    fn the_page_lists_all_of_them() {
        let text = all().0.text(Format::Classic);
        let mut rows: Vec<String> = Vec::new();
        for line in text.lines() {
            let words = |begin: &str| line.strip_prefix(begin)?.split_once(' ');
            if let Some((name, help)) = words("# HELP ") {
                rows.push(format!("| `{name}` | {} |", help.trim_end_matches('.')));
            } else if let Some((name, kind)) = words("# TYPE ") {
                let row = rows.last_mut().expect("help comes first");
                *row = row.replace(&format!("`{name}` |"), &format!("`{name}` | {kind} |"));
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
        let (metrics, memory, job) = all();
        assert!(metrics.text(Format::Classic).contains("ring-launcher"));
        memory.forget(&job.owner.uid, &key(&job));
        metrics.jobs.hide(&job.owner.uid);
        metrics
            .jobs
            .show_launcher(&memory, &job.owner, &job.names.launcher);
        assert!(!metrics.text(Format::Classic).contains("ring-launcher"));
    }
}
