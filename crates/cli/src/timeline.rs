//! When each pod of a job was in which phase, from the times in its objects. Decides where one phase ends
//! and the next begins, what to believe when the clocks of two machines disagree, and which rows of a very
//! large job are kept. Must not know a cluster, and prints nothing.

pub(crate) mod bars;

use std::collections::BTreeMap;

use contract::milestone::{Milestone, StartPhase};
use jiff::Timestamp;
use planner::PodStart;
use serde::Serialize;
use serde_json::Value;

use crate::view::{JobView, PodView, launcher};

/// Workers of a larger job are left out, except for those that failed or were slow.
pub(crate) const ROWS_MAX: usize = 1_000;

/// What a pod does, in the order in which pods do it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) enum PodPhase {
    /// The job exists, and the pod does not yet.
    Queued,
    /// The pod has no node yet.
    Scheduling,
    /// The node pulls an image.
    Pulling,
    /// The node prepares the pod and starts its containers.
    Starting,
    /// The container runs, and waits for the other pods.
    Waiting,
    /// The ranks run.
    Running,
}

impl PodPhase {
    pub(crate) const ALL: [Self; 6] = [
        Self::Queued,
        Self::Scheduling,
        Self::Pulling,
        Self::Starting,
        Self::Waiting,
        Self::Running,
    ];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "Queued",
            Self::Scheduling => "Scheduling",
            Self::Pulling => "Pulling",
            Self::Starting => "Starting",
            Self::Waiting => "Waiting",
            Self::Running => "Running",
        }
    }
}

/// A part of the life of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Span {
    pub(crate) phase: PodPhase,
    pub(crate) from: Timestamp,
    pub(crate) to: Timestamp,
    pub(crate) seconds: i64,
}

/// A pod, and what it did when.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Row {
    pub(crate) pod: String,
    pub(crate) role: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) node: String,
    pub(crate) state: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) exit_code: Option<i64>,
    pub(crate) phases: Vec<Span>,
    /// Seconds by which a time of this pod lay before the one that must precede it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) clock_skew_seconds: Option<i64>,
}

impl Row {
    pub(crate) fn is_launcher(&self) -> bool {
        self.role == LAUNCHER
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.exit_code.is_some_and(|code| code != 0) || self.state == "Failed"
    }

    /// Time until its container ran.
    fn start_seconds(&self) -> i64 {
        let before = |span: &&Span| span.phase < PodPhase::Waiting;
        let spans = self.phases.iter().filter(before);
        spans.map(|span| span.seconds).sum()
    }
}

const LAUNCHER: &str = "launcher";
const WORKER: &str = "worker";

/// The lives of the pods of a job.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Timeline {
    pub(crate) from: Timestamp,
    pub(crate) to: Timestamp,
    /// How many pods there are; rows has all launchers, and at most [`ROWS_MAX`] workers.
    pub(crate) pods: usize,
    pub(crate) rows: Vec<Row>,
}

impl Timeline {
    /// Launchers first, in the order of their creation, then workers in the order of their places.
    pub(crate) fn of(
        job: JobView<'_>,
        pods: &[Value],
        events: &[Value],
        now: Timestamp,
    ) -> Option<Self> {
        let from = time(job.created())?;
        let end = if job.is_finished() {
            let last = || pods.iter().filter_map(|pod| last_end(PodView(pod))).max();
            // Nothing has ended later than now, whatever a status says.
            ended(job).or_else(last).map(|end| end.min(now))
        } else {
            Some(now)
        };
        let pulls = Pulls::of(events);
        let ranks_began = milestone(job, Milestone::RanksStarted)
            .or_else(|| launcher(pods).and_then(|pod| main_times(pod).0));
        let job_times = JobTimes {
            created: from,
            ranks_began,
            end,
            now,
        };
        let mut rows: Vec<(_, Row)> = pods
            .iter()
            .map(|pod| {
                let pod = PodView(pod);
                let order = match pod.is_launcher() {
                    true => (0, 0, pod.created().to_owned(), pod.name().to_owned()),
                    false => (
                        1,
                        pod.index().map_or(u32::MAX, |index| index),
                        pod.created().to_owned(),
                        pod.name().to_owned(),
                    ),
                };
                (order, row(pod, &pulls, &job_times))
            })
            .collect();
        rows.sort_by(|(one, _), (other, _)| one.cmp(other));
        let rows: Vec<Row> = rows.into_iter().map(|(_, row)| row).collect();
        let last = rows.iter().flat_map(|row| &row.phases).map(|span| span.to);
        let to = last.chain(end).max().unwrap_or(from).max(from);
        Some(Self {
            from,
            to,
            pods: rows.len(),
            rows: telling(rows),
        })
    }
}

/// What the phases of every pod depend on.
struct JobTimes {
    created: Timestamp,
    ranks_began: Option<Timestamp>,
    end: Option<Timestamp>,
    now: Timestamp,
}

fn row(pod: PodView<'_>, pulls: &Pulls, job: &JobTimes) -> Row {
    let end = pod.ended();
    let mut writer = SpanWriter {
        at: job.created,
        skew: 0,
        spans: Vec::new(),
    };
    let is_over = matches!(pod.phase(), "Succeeded" | "Failed");
    let over = last_end(pod).filter(|_| is_over);
    // Where a phase that has not ended is drawn to.
    let open = over.or(job.end).unwrap_or(job.now);
    let began = main_times(pod).0;
    let scheduled = condition_time(pod, "PodScheduled");
    let created = time(pod.created()).unwrap_or(job.created);
    writer.until(PodPhase::Queued, created);
    // A pod that has a node was scheduled, also where no condition says when.
    let scheduled = scheduled.or_else(|| (!pod.node().is_empty()).then_some(created));
    writer.until(PodPhase::Scheduling, scheduled.unwrap_or(open));
    // The launcher's init container runs as soon as the node has started it, and waits for the workers.
    let ready = match pod.is_launcher() {
        true => init_began(pod).or(began),
        false => began,
    };
    if scheduled.is_some() {
        match pulls.of_pod(pod) {
            Some(Pull { ended: Some(ended) }) => {
                writer.until(
                    PodPhase::Pulling,
                    ready.map_or(ended, |ready| ended.min(ready)),
                );
            }
            Some(Pull { ended: None }) if ready.is_none() => {
                writer.until(PodPhase::Pulling, open);
            }
            // Events go after an hour; conditions stay as long as the pod.
            _ => writer.by_conditions(pod, created, ready.unwrap_or(open)),
        }
        writer.until(PodPhase::Starting, ready.unwrap_or(open));
    }
    if ready.is_some() {
        let waits_until = match pod.is_launcher() {
            true => began,
            false => job.ranks_began,
        };
        match waits_until {
            Some(ranks_began) if ranks_began < open => {
                writer.quietly_until(PodPhase::Waiting, ranks_began);
                writer.quietly_until(PodPhase::Running, open);
            }
            _ => writer.quietly_until(PodPhase::Waiting, open),
        }
    }
    Row {
        pod: pod.name().to_owned(),
        role: if pod.is_launcher() { LAUNCHER } else { WORKER },
        node: pod.node().to_owned(),
        state: pod.state(),
        exit_code: end.map(|end| end.code),
        phases: writer.spans,
        clock_skew_seconds: (writer.skew > CLOCK_PRECISION_SECS).then_some(writer.skew),
    }
}

/// Times in objects are whole seconds, so one second proves nothing.
const CLOCK_PRECISION_SECS: i64 = 1;

/// Writes one phase after the other.
struct SpanWriter {
    at: Timestamp,
    skew: i64,
    spans: Vec<Span>,
}

impl SpanWriter {
    /// The phase ends at this time. A time before its beginning is another machine's clock: the phase is
    /// then empty, and the difference is noted.
    fn until(&mut self, phase: PodPhase, to: Timestamp) {
        self.skew = self.skew.max(self.at.as_second() - to.as_second());
        self.quietly_until(phase, to);
    }

    /// What the pod's own status tells of its images, volumes and init containers.
    fn by_conditions(&mut self, pod: PodView<'_>, created: Timestamp, until: Timestamp) {
        for span in start(pod).spans(created, until) {
            let phase = match span.phase {
                StartPhase::Pulling => PodPhase::Pulling,
                StartPhase::Starting => PodPhase::Starting,
                StartPhase::Scheduling | StartPhase::Waiting => continue,
            };
            self.quietly_until(phase, span.to);
        }
    }

    /// The same where the order of the two times says nothing about clocks.
    fn quietly_until(&mut self, phase: PodPhase, to: Timestamp) {
        if to > self.at {
            self.spans.push(Span {
                phase,
                from: self.at,
                to,
                seconds: to.as_second() - self.at.as_second(),
            });
            self.at = to;
        }
    }
}

/// When images were there, by the UID of the pod.
struct Pulls(BTreeMap<String, Pull>);

/// A pull that began.
#[derive(Clone, Copy)]
struct Pull {
    ended: Option<Timestamp>,
}

impl Pulls {
    fn of(events: &[Value]) -> Self {
        let mut pulls: BTreeMap<String, Pull> = BTreeMap::new();
        let of_reason = |reason: &'static str| {
            let has = move |event: &&Value| event["reason"] == reason;
            events.iter().filter(has)
        };
        let uid = |event: &Value| event["involvedObject"]["uid"].as_str().map(str::to_owned);
        for uid in of_reason("Pulling").filter_map(uid) {
            pulls.insert(uid, Pull { ended: None });
        }
        // The kubelet also writes Pulled for an image that the node has, without Pulling before it.
        for event in of_reason("Pulled") {
            let pull = uid(event).and_then(|uid| pulls.get_mut(&uid));
            if let Some(pull) = pull {
                let ended = time(crate::backend::event_time(event));
                pull.ended = pull.ended.max(ended);
            }
        }
        Self(pulls)
    }

    fn of_pod(&self, pod: PodView<'_>) -> Option<Pull> {
        let uid = pod.0["metadata"]["uid"].as_str().unwrap_or("");
        self.0.get(uid).copied().or_else(|| {
            let (reason, _) = pod.waiting()?;
            let is_pull = matches!(reason.as_str(), "ErrImagePull" | "ImagePullBackOff");
            is_pull.then_some(Pull { ended: None })
        })
    }
}

/// All rows of a job of usual size. Of a larger one those that tell most: launchers, pods that failed,
/// then pods that took longest to start. Their order stays.
fn telling(rows: Vec<Row>) -> Vec<Row> {
    let launchers = rows.iter().filter(|row| row.is_launcher()).count();
    let rows_max = launchers + ROWS_MAX;
    if rows.len() <= rows_max {
        return rows;
    }
    let mut by_worth: Vec<usize> = (0..rows.len()).collect();
    by_worth.sort_by_key(|at| {
        let row = &rows[*at];
        let worth = (row.is_launcher(), row.has_failed(), row.start_seconds());
        (std::cmp::Reverse(worth), *at)
    });
    let mut kept = vec![false; rows.len()];
    for at in by_worth.into_iter().take(rows_max) {
        kept[at] = true;
    }
    let kept = rows.into_iter().zip(kept).filter(|(_, kept)| *kept);
    kept.map(|(row, _)| row).collect()
}

/// When a pod got how far, by its own status.
fn start(pod: PodView<'_>) -> PodStart {
    let begun = |list: &str| {
        let statuses = pod.0["status"][list].as_array().into_iter().flatten();
        let begun = statuses.map(|status| {
            let state = &status["state"];
            let states = [&state["running"], &state["terminated"]];
            let mut times = states
                .into_iter()
                .filter_map(|state| state["startedAt"].as_str());
            times.next().and_then(time)
        });
        begun.collect::<Vec<_>>()
    };
    let main = begun("containerStatuses");
    let all = [begun("initContainerStatuses"), main.clone()].concat();
    let main: Option<Vec<Timestamp>> = main.into_iter().collect();
    PodStart {
        scheduled_at: condition_time(pod, "PodScheduled"),
        sandbox_at: condition_time(pod, "PodReadyToStartContainers"),
        first_begun_at: all.into_iter().flatten().min(),
        initialized_at: condition_time(pod, "Initialized"),
        begun_at: main.and_then(|times| times.into_iter().max()),
        ready_at: condition_time(pod, "Ready"),
    }
}

/// When the main container of a pod began and ended, the last time.
fn main_times(pod: PodView<'_>) -> (Option<Timestamp>, Option<Timestamp>) {
    let statuses = pod.0["status"]["containerStatuses"].as_array();
    let mut statuses = statuses.into_iter().flatten();
    let Some(status) = statuses.find(|status| status["name"] == pod.main_container()) else {
        return (None, None);
    };
    let at = |value: &Value| value.as_str().and_then(time);
    let ended = &status["state"]["terminated"];
    let began = at(&status["state"]["running"]["startedAt"]).or_else(|| at(&ended["startedAt"]));
    (began, at(&ended["finishedAt"]))
}

/// When the first init container of a pod began.
fn init_began(pod: PodView<'_>) -> Option<Timestamp> {
    let statuses = pod.0["status"]["initContainerStatuses"].as_array();
    let began = statuses.into_iter().flatten().filter_map(|status| {
        let states = ["running", "terminated"].map(|state| &status["state"][state]["startedAt"]);
        states.into_iter().find_map(|began| time(began.as_str()?))
    });
    began.min()
}

/// When the last container of a pod ended.
fn last_end(pod: PodView<'_>) -> Option<Timestamp> {
    let lists = ["initContainerStatuses", "containerStatuses"];
    let statuses = lists
        .iter()
        .flat_map(|list| pod.0["status"][*list].as_array().into_iter().flatten());
    let ends = statuses.filter_map(|status| {
        let end = &status["state"]["terminated"]["finishedAt"];
        end.as_str().and_then(time)
    });
    ends.max()
}

fn condition_time(pod: PodView<'_>, kind: &str) -> Option<Timestamp> {
    let conditions = pod.0["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    let condition = conditions.find(|one| one["type"] == kind && one["status"] == "True")?;
    condition["lastTransitionTime"].as_str().and_then(time)
}

/// A time of `status.muster.milestones`; an older operator does not write them.
pub(crate) fn milestone(job: JobView<'_>, which: Milestone) -> Option<Timestamp> {
    let at = &job.0["status"]["muster"]["milestones"][which.as_str()];
    at.as_str().and_then(time)
}

/// When a job was over.
pub(crate) fn ended(job: JobView<'_>) -> Option<Timestamp> {
    milestone(job, Milestone::Ended).or_else(|| time(job.time("completionTime")))
}

/// A time as objects have it.
pub(crate) fn time(text: &str) -> Option<Timestamp> {
    text.parse().ok()
}

#[cfg(test)]
mod tests;
