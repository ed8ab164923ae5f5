//! What the operator knows of jobs and cannot read from the cluster: refusals, names that others hold,
//! its own last writes. It saves requests; a restart loses it without harm.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dialects::Event;
use jiff::{SignedDuration, Timestamp};
use planner::observed::{Pod, Refusal};
use planner::site::FoundGang;
use planner::{KeyRecord, Kind, LifePart, Reason, more_hopeful_cause, text};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::backoff::doubled;
use crate::mounts::MountEvents;
use crate::pace::Pace;
use crate::restraint::Restraint;
use crate::wire::{ObjectKey, UserJob};

/// A refused object is retried after this long, then twice as long each time…
const REFUSED_FIRST: Duration = Duration::from_secs(5);
/// …up to this long: people free quotas and change policies.
const REFUSED_MAX: Duration = Duration::from_secs(60);
/// A name is usually held by an object of an older job, which the garbage collector is deleting.
const TAKEN_FIRST: Duration = Duration::from_millis(500);
const TAKEN_MAX: Duration = Duration::from_secs(30);
/// How long, and of how many jobs, the time of the last change is kept.
const CHANGE_KEPT: Duration = Duration::from_secs(10);
const CHANGES_MAX: usize = 512;
/// An API server that fails this often in a row, or for this long, on one object is likely to go on:
/// the job's status then shows it.
const FAILURES_TO_REPORT: u32 = 3;
const FAILING_TO_REPORT: Duration = Duration::from_secs(10);
/// The cause of a failed pull fits, and others cannot fill the memory with theirs.
const CAUSE_BYTES_MAX: usize = 1024;

/// What we know of jobs.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    jobs: Mutex<HashMap<String, JobMemory>>,
    taken: Mutex<BTreeMap<(Kind, ObjectKey), Taken>>,
    changed: Mutex<HashMap<ObjectKey, Instant>>,
}

/// What we know of one job, by UID.
#[derive(Debug, Default)]
pub(crate) struct JobMemory {
    /// Answer to our last status write, while the watch has not caught up with it.
    pub(crate) written: Option<Arc<UserJob>>,
    /// When we wrote it.
    pub(crate) written_at: Option<Instant>,
    /// The API server may have another version of the job than this one, or another job, or none.
    pub(crate) outdated: Option<u64>,
    /// Our last status write, if its answer was lost.
    pub(crate) unanswered: Option<UnansweredWrite>,
    /// When its status may be written next.
    pub(crate) pace: Pace,
    /// Whether it was written too often.
    pub(crate) restraint: Restraint,
    /// What is known of the key Secret.
    pub(crate) key: KeySecret,
    /// The record of the keys, where the CRD drops it from the status.
    pub(crate) unstored_keys: Option<KeyRecord>,
    /// Since when a Secret that we do not remember has had the name of the job's own.
    pub(crate) key_collided_at: Option<Instant>,
    /// The API server answered whether the launcher's Job exists, which the watch does not show.
    pub(crate) launcher_looked_up: bool,
    /// When we first saw it, if nobody had begun with it then.
    pub(crate) first_seen: Option<Instant>,
    /// It has, or had, a launcher.
    pub(crate) had_launcher: bool,
    /// The generation whose status the API server rejects, so that only events report it.
    pub(crate) status_rejected_generation: Option<i64>,
    /// Which gang scheduler was found for it, until its status records that.
    pub(crate) found_gang: Option<FoundGang>,
    /// It was found for the start that follows the suspension which the status still records.
    pub(crate) gang_is_of_resume: bool,
    /// How it ended, while its status does not record that yet.
    pub(crate) ending: Option<Ending>,
    /// Passes that failed in a row.
    pub(crate) failures: u32,
    /// The last pass had more to do than one pass does.
    pub(crate) unfinished: bool,
    generation: i64,
    refused: BTreeMap<(Kind, String), Refused>,
    /// Events of pods that do not start.
    pub(crate) mount_events: Option<MountEvents>,
    /// Since when containers wait, and why: no pod records it.
    waits: BTreeMap<ContainerWait, (Timestamp, String)>,
}

/// A status write that the API server may have carried out, and what to tell of it then.
#[derive(Debug)]
pub(crate) struct UnansweredWrite {
    /// The version that it was to change.
    pub(crate) version: u64,
    /// The status of the job before, as its dialect reads it.
    pub(crate) before: Value,
    pub(crate) status: Value,
    pub(crate) events: Vec<Event>,
}

impl UnansweredWrite {
    /// A write of this status to this job.
    pub(crate) fn new(job: &UserJob, whole: &Value, status: Value, events: Vec<Event>) -> Self {
        let before = whole.get("status").cloned().unwrap_or_default();
        Self {
            version: job.version(),
            before: json!({"status": before}),
            status,
            events,
        }
    }
}

/// How a job ended, besides its verdict.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ending {
    pub(crate) reason: Option<Reason>,
    pub(crate) parts: Vec<(LifePart, SignedDuration)>,
}

/// One wait of one container.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ContainerWait {
    pod_uid: String,
    container: String,
    reason: String,
}

/// What is known of the key Secret, which is not watched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum KeySecret {
    /// Nothing is remembered.
    #[default]
    Unknown,
    /// We created it.
    Exists,
    /// We created it, and somebody may have deleted it.
    Doubtful,
    /// It does not exist.
    Gone,
}

#[derive(Debug)]
struct Refused {
    code: u16,
    message: String,
    delay: Duration,
    times: u32,
    first_at: Instant,
    last_at: Instant,
    reported: bool,
}

#[derive(Debug)]
struct Taken {
    job: ObjectKey,
    delay: Duration,
    since: Instant,
}

impl Memory {
    /// The job exists.
    pub(crate) fn learn(&self, uid: &str) {
        let mut jobs = lock(&self.jobs);
        if !jobs.contains_key(uid) {
            jobs.insert(uid.to_owned(), JobMemory::default());
        }
    }

    /// Reads or changes what is known of a job. For a deleted job, nothing is known and nothing is
    /// kept.
    pub(crate) fn with<T>(&self, uid: &str, look: impl FnOnce(&mut JobMemory) -> T) -> T {
        match lock(&self.jobs).get_mut(uid) {
            Some(job) => look(job),
            None => look(&mut JobMemory::default()),
        }
    }

    /// The job exists, as far as the watch has said.
    pub(crate) fn is_known(&self, uid: &str) -> bool {
        lock(&self.jobs).contains_key(uid)
    }

    /// The job is gone.
    pub(crate) fn forget(&self, uid: &str, job: &ObjectKey) {
        lock(&self.jobs).remove(uid);
        lock(&self.taken).retain(|_, taken| taken.job != *job);
        lock(&self.changed).remove(job);
    }

    /// Somebody else deleted an object of the job, and maybe the key Secret, too. Maybe it was the
    /// garbage collector, because the job itself is gone.
    pub(crate) fn object_vanished(&self, uid: &str) {
        let mut jobs = lock(&self.jobs);
        let Some(job) = jobs.get_mut(uid) else {
            return;
        };
        job.outdated = Some(u64::MAX);
        if job.key == KeySecret::Exists {
            job.key = KeySecret::Doubtful;
        }
    }

    /// A child of the job changed just now.
    pub(crate) fn child_changed(&self, job: &ObjectKey) {
        let mut changed = lock(&self.changed);
        // Anybody may label pods as ours, with owners that do not exist.
        if changed.len() >= CHANGES_MAX {
            changed.retain(|_, at| at.elapsed() < CHANGE_KEPT);
        }
        changed.insert(job.clone(), Instant::now());
    }

    /// When a child of the job last changed.
    pub(crate) fn last_change(&self, job: &ObjectKey) -> Option<Instant> {
        lock(&self.changed).get(job).copied()
    }

    /// An object of somebody else holds the name.
    pub(crate) fn mark_name_taken(&self, kind: &Kind, key: &ObjectKey, job: ObjectKey) {
        let mut taken = lock(&self.taken);
        let key = (kind.clone(), key.clone());
        let delay = doubled(
            taken.get(&key).map(|taken| taken.delay),
            TAKEN_FIRST,
            TAKEN_MAX,
        );
        taken.insert(
            key,
            Taken {
                job,
                delay,
                since: Instant::now(),
            },
        );
    }

    /// When to try the name again, if that is later than `now`.
    pub(crate) fn name_taken_until(
        &self,
        kind: &Kind,
        key: &ObjectKey,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let taken = lock(&self.taken);
        if taken.is_empty() {
            return None;
        }
        let taken = taken.get(&(kind.clone(), key.clone()))?;
        let until = retry_at(taken.since, taken.delay, now);
        (until > now).then_some(until)
    }

    /// The name is free, or the watch shows who holds it. Returns the job that waited for it.
    pub(crate) fn release_name(&self, kind: &Kind, key: &ObjectKey) -> Option<ObjectKey> {
        let mut taken = lock(&self.taken);
        if taken.is_empty() {
            return None;
        }
        taken
            .remove(&(kind.clone(), key.clone()))
            .map(|taken| taken.job)
    }
}

impl JobMemory {
    /// Fills in since when each waiting pod waits, and what it was told in that time.
    pub(crate) fn fill_waiting_since<'p>(
        &mut self,
        pods: impl Iterator<Item = &'p mut Pod>,
        now: Timestamp,
    ) {
        let mut waits = BTreeMap::new();
        for pod in pods {
            if let Some(waiting) = &mut pod.waiting {
                // A failed pull and the back-off before the next one are one wait.
                let is_pull = waiting.reason.contains("ImagePull");
                let wait = ContainerWait {
                    pod_uid: pod.uid.clone(),
                    container: waiting.container.clone(),
                    reason: if is_pull {
                        "ImagePull"
                    } else {
                        &waiting.reason
                    }
                    .to_owned(),
                };
                let known = self.waits.get(&wait);
                if waiting.since == Timestamp::UNIX_EPOCH {
                    waiting.since = known.map_or(now, |(since, _)| *since);
                }
                if is_pull {
                    let earlier = known.map_or("", |(_, cause)| cause);
                    let cause = more_hopeful_cause(earlier, &waiting.message);
                    text::truncated(cause, CAUSE_BYTES_MAX).clone_into(&mut waiting.cause);
                }
                waits.insert(wait, (waiting.since, waiting.cause.clone()));
            }
        }
        self.waits = waits;
    }

    /// A changed job is retried at once.
    pub(crate) fn observe_generation(&mut self, generation: i64) {
        if generation != self.generation {
            self.generation = generation;
            self.refused.clear();
        }
    }

    /// The API server refused an object. Returns whether the job's status should show it.
    pub(crate) fn record_refusal(
        &mut self,
        kind: Kind,
        name: String,
        code: u16,
        message: String,
    ) -> bool {
        let key = (kind, name);
        let before = self.refused.get(&key);
        let times = before.map_or(0, |refused| refused.times) + 1;
        let delay = doubled(
            before.map(|refused| refused.delay),
            REFUSED_FIRST,
            REFUSED_MAX,
        );
        let last_at = Instant::now();
        let first_at = before.map_or(last_at, |refused| refused.first_at);
        let failing_long = last_at.duration_since(first_at) >= FAILING_TO_REPORT;
        let reported = code < 500 || times >= FAILURES_TO_REPORT || failing_long;
        let refused = Refused {
            code,
            message,
            delay,
            times,
            first_at,
            last_at,
            reported,
        };
        self.refused.insert(key, refused);
        reported
    }

    /// The API server accepted the object.
    pub(crate) fn clear_refusal(&mut self, kind: &Kind, name: &str) {
        if !self.refused.is_empty() {
            self.refused.remove(&(kind.clone(), name.to_owned()));
        }
    }

    /// What the status should show: what was refused by decision, or failed again and again.
    pub(crate) fn refusals(&self, now: Timestamp) -> Vec<Refusal> {
        let reported = self.refused.iter().filter(|(_, refused)| refused.reported);
        reported
            .map(|((kind, name), refused)| Refusal {
                kind: kind.clone(),
                name: name.clone(),
                code: refused.code,
                message: refused.message.clone(),
                retry_at: retry_at(refused.last_at, refused.delay, now),
            })
            .collect()
    }
}

/// When to try again, by a clock that shows `now`. The clock may have been set since the last try, so it does
/// not tell how long ago that was.
fn retry_at(last: Instant, delay: Duration, now: Timestamp) -> Timestamp {
    let left = delay.saturating_sub(last.elapsed());
    now.checked_add(left).unwrap_or(Timestamp::MAX)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use planner::fixtures::pod;
    use planner::observed::Waiting;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a small number of seconds is a time")
    }

    fn key() -> ObjectKey {
        ObjectKey::new("team-a", "ring")
    }

    fn job() -> ObjectKey {
        ObjectKey::new("team-a", "job")
    }

    #[tokio::test(start_paused = true)]
    async fn refusals_are_retried_with_growing_delays() {
        let mut memory = JobMemory::default();
        let mut waits = Vec::new();
        for _ in 0..6 {
            memory.record_refusal(Kind::Pod, "w".to_owned(), 403, "quota".to_owned());
            waits.push(memory.refusals(at(0))[0].retry_at.as_second());
        }
        assert_eq!(waits, [5, 10, 20, 40, 60, 60]);
        memory.clear_refusal(&Kind::Pod, "w");
        assert!(memory.refusals(at(0)).is_empty());
    }

    #[test]
    fn a_new_generation_is_tried_at_once() {
        let mut memory = JobMemory::default();
        memory.observe_generation(1);
        memory.record_refusal(Kind::Job, "l".to_owned(), 422, "bad".to_owned());
        memory.observe_generation(1);
        assert_eq!(memory.refusals(at(0)).len(), 1);
        memory.observe_generation(2);
        assert!(memory.refusals(at(0)).is_empty());
    }

    #[test]
    fn a_failing_server_is_reported_only_when_it_keeps_failing() {
        let mut memory = JobMemory::default();
        for expected in [0, 0, 1] {
            memory.record_refusal(Kind::Pod, "w".to_owned(), 500, "webhook".to_owned());
            assert_eq!(memory.refusals(at(0)).len(), expected);
        }
    }

    /// What a container that waits since noon is told, second by second, ends up as.
    fn waits(told: &[(i64, &str, &str)]) -> Waiting {
        let mut memory = JobMemory::default();
        let mut pod = pod("w");
        for (second, reason, message) in told {
            pod.waiting = Some(Waiting {
                reason: (*reason).to_owned(),
                message: (*message).to_owned(),
                ..Waiting::default()
            });
            memory.fill_waiting_since([&mut pod].into_iter(), at(100 + second));
        }
        pod.waiting.expect("the pod waits")
    }

    #[test]
    fn c04_the_most_hopeful_cause_of_a_wait_is_remembered() {
        let bare = "Back-off pulling image \"x\"";
        let timeout = "dial tcp: i/o timeout";
        let missing = "docker.io/x: not found";
        let outage = waits(&[
            (0, "ErrImagePull", timeout),
            (12, "ImagePullBackOff", bare),
            (20, "ErrImagePull", missing),
        ]);
        assert_eq!((outage.since, outage.cause.as_str()), (at(100), timeout));
        let typo = waits(&[(0, "ErrImagePull", missing), (20, "ImagePullBackOff", bare)]);
        assert_eq!((typo.since, typo.cause.as_str()), (at(100), missing));
    }

    #[test]
    fn c04_each_container_has_its_own_wait() {
        let mut memory = JobMemory::default();
        let mut pod = pod("w");
        for (second, container) in [(0, "gate"), (30, "main")] {
            pod.waiting = Some(Waiting {
                container: container.to_owned(),
                reason: "ErrImagePull".to_owned(),
                message: container.to_owned(),
                ..Waiting::default()
            });
            memory.fill_waiting_since([&mut pod].into_iter(), at(100 + second));
        }
        let waiting = pod.waiting.expect("the pod waits");
        assert_eq!((waiting.since, waiting.cause.as_str()), (at(130), "main"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_taken_name_is_retried_with_growing_delays_or_once_it_is_free() {
        let memory = Memory::default();
        let until = |kind| memory.name_taken_until(&kind, &key(), at(20));
        memory.mark_name_taken(&Kind::Service, &key(), job());
        assert!(until(Kind::Service).is_some());
        assert!(until(Kind::ConfigMap).is_none());
        tokio::time::advance(TAKEN_FIRST).await;
        assert!(until(Kind::Service).is_none());
        for _ in 0..10 {
            memory.mark_name_taken(&Kind::Service, &key(), job());
        }
        assert_eq!(until(Kind::Service), Some(at(50)));
        assert_eq!(memory.release_name(&Kind::Service, &key()), Some(job()));
        assert!(until(Kind::Service).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_is_set_delays_no_retry() {
        let mut memory = JobMemory::default();
        memory.record_refusal(Kind::Pod, "w".to_owned(), 403, "quota".to_owned());
        tokio::time::advance(Duration::from_secs(2)).await;
        for now in [0, 1_000_000] {
            assert_eq!(memory.refusals(at(now))[0].retry_at, at(now + 3));
        }
    }
}
