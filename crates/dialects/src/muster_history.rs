//! The past of a job in `status.muster`: how it is written, and how it is read back. What is there may have been
//! written by anybody who may write a status, so whatever cannot be understood is left out. Decides nothing about
//! the job.

use contract::Reason;
use contract::milestone::{ATTEMPTS_MAX, LATE_WORKERS_MAX, Milestone, StartPhase};
use jiff::{RoundMode, Timestamp, TimestampRound, Unit};
use planner::text::{printable, truncated};
use planner::{History, LateWorker, LauncherAttempt};
use serde_json::{Map, Value, json};

use crate::conditions::text;
use crate::time;

/// The fields of `status.muster` that are about the past.
pub(crate) const NAMES: [&str; 3] = [MILESTONES, SLOWEST, ATTEMPTS];

const MILESTONES: &str = "milestones";
const SLOWEST: &str = "slowest";
const ATTEMPTS: &str = "attempts";
/// Longest name of a pod or a node.
const NAME_BYTES_MAX: usize = 253;

/// Writes the past of a job that was created at this time.
pub(crate) fn write(history: &History, created: &str, muster: &mut Value) {
    let mut milestones = Map::new();
    let created = time::read(created);
    let created = created.map(|at| (Milestone::Created, at));
    let others = history.milestones.iter().map(|(name, at)| (*name, *at));
    let others = others.filter(|(name, _)| *name != Milestone::Created);
    for (name, at) in created.into_iter().chain(others) {
        milestones.insert(name.as_str().to_owned(), precise(at).into());
    }
    if !milestones.is_empty() {
        muster[MILESTONES] = milestones.into();
    }
    let slowest: Vec<Value> = history.slowest.iter().map(late_worker).collect();
    if !slowest.is_empty() {
        muster[SLOWEST] = slowest.into();
    }
    let attempts: Vec<Value> = history.attempts.iter().map(attempt).collect();
    if !attempts.is_empty() {
        muster[ATTEMPTS] = attempts.into();
    }
}

/// The final `muster`, with what happened after the job's end; null where nothing is new.
pub(crate) fn concluded(stored: &Value, history: &History) -> Value {
    let cleaned_up = Milestone::CleanedUp.as_str();
    let at = history.milestones.get(&Milestone::CleanedUp);
    let known = stored.get(MILESTONES).and_then(Value::as_object);
    match (at, known) {
        (Some(at), Some(known)) if !known.contains_key(cleaned_up) => {
            let mut muster = stored.clone();
            muster[MILESTONES][cleaned_up] = precise(*at).into();
            muster
        }
        _ => Value::Null,
    }
}

/// What `muster` tells of the past.
pub(crate) fn read(muster: &Value) -> History {
    let milestones = Milestone::ALL.into_iter().filter_map(|milestone| {
        let at = muster.get(MILESTONES)?.get(milestone.as_str())?.as_str()?;
        Some((milestone, time::read(at)?))
    });
    // When it was created is in its metadata.
    let milestones =
        milestones.filter(|(name, at)| *name != Milestone::Created && is_writable(*at));
    let items = |name: &str| {
        muster
            .get(name)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
    };
    History {
        milestones: milestones.collect(),
        slowest: items(SLOWEST)
            .filter_map(read_late_worker)
            .take(LATE_WORKERS_MAX)
            .collect(),
        attempts: items(ATTEMPTS)
            .filter_map(read_attempt)
            .take(ATTEMPTS_MAX)
            .collect(),
    }
}

fn late_worker(late: &LateWorker) -> Value {
    let mut item = json!({
        "worker": late.worker,
        "phase": late.phase.as_str(),
        "seconds": bounded(late.seconds),
    });
    if !late.node.is_empty() {
        item["node"] = late.node.as_str().into();
    }
    item
}

fn read_late_worker(item: &Value) -> Option<LateWorker> {
    let name = |key: &str| truncated(&printable(text(item, key)), NAME_BYTES_MAX);
    Some(LateWorker {
        worker: Some(name("worker")).filter(|name| !name.is_empty())?,
        node: name("node"),
        phase: StartPhase::from_text(text(item, "phase"))?,
        seconds: number(item, "seconds")?,
    })
}

fn attempt(attempt: &LauncherAttempt) -> Value {
    let mut item = json!({"number": bounded(attempt.number)});
    for (key, at) in [
        ("startedAt", attempt.started_at),
        ("endedAt", attempt.ended_at),
    ] {
        if let Some(at) = at {
            item[key] = precise(at).into();
        }
    }
    if let Some(reason) = attempt.reason {
        item["reason"] = reason.as_str().into();
    }
    item
}

fn read_attempt(item: &Value) -> Option<LauncherAttempt> {
    let at = |key: &str| time::read(text(item, key)).filter(|at| is_writable(*at));
    Some(LauncherAttempt {
        number: number(item, "number")?,
        started_at: at("startedAt"),
        ended_at: at("endedAt"),
        reason: Reason::from_text(text(item, "reason")),
    })
}

fn number(item: &Value, key: &str) -> Option<u32> {
    let number = item.get(key)?.as_u64()?;
    u32::try_from(number)
        .ok()
        .filter(|number| bounded(*number) == *number)
}

/// No larger than the API server takes.
fn bounded(number: u32) -> u32 {
    number.min(i32::MAX.unsigned_abs())
}

/// The API server takes times of other years, but not in the way in which they are written.
fn is_writable(at: Timestamp) -> bool {
    at >= Timestamp::UNIX_EPOCH
}

/// As precise as the source: in whole seconds, or in milliseconds.
fn precise(at: Timestamp) -> String {
    let round = TimestampRound::new()
        .smallest(Unit::Millisecond)
        .mode(RoundMode::Trunc);
    at.round(round).unwrap_or(at).to_string()
}
