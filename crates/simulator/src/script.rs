//! Schedules as text, for scenarios that people write. Decides the language:
//!
//! ```text
//! # a comment
//! job v2beta1-agent             a file of jobs/; comes first
//! beside v1                     a second job, submitted with the first and left alone
//! workers 2
//! operators 2                   that lead at once
//! program fails-once            or succeeds, fails, never-starts
//! at 3.5 suspend                seconds; or resume, scale N, touch, bloat, delete, recreate
//! fault 0:7:crash-after         REPLICA:WRITE:FAULT
//! ```

use anyhow::{Context as _, bail};

use crate::jobs;
use crate::schedule::{Fate, Schedule, UserAction};

/// Reads a schedule.
pub fn parse(text: &str) -> anyhow::Result<Schedule> {
    let mut schedule = Schedule {
        seed: 1,
        job: "",
        beside: None,
        workers: 2,
        replicas: 1,
        fate: Fate::Succeeds,
        script: vec![(0, UserAction::Submit)],
        faults: Vec::new(),
    };
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if !line.is_empty() {
            read(&mut schedule, line).with_context(|| format!("in {line:?}"))?;
        }
    }
    if schedule.job.is_empty() {
        bail!("there is no job");
    }
    Ok(schedule)
}

fn read(schedule: &mut Schedule, line: &str) -> anyhow::Result<()> {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        ["job", name] => {
            let known = jobs::names().find(|known| *known == name);
            schedule.job = known.context("there is no such job")?;
        }
        ["beside", name] => {
            let known = jobs::names().find(|known| *known == name);
            schedule.beside = Some(known.context("there is no such job")?);
        }
        ["seed", number] => schedule.seed = number.parse()?,
        ["workers", number] => schedule.workers = number.parse()?,
        ["operators", number] => schedule.replicas = number.parse()?,
        ["program", fate] => {
            schedule.fate = match fate {
                "succeeds" => Fate::Succeeds,
                "fails-once" => Fate::FailsOnce,
                "fails" => Fate::Fails,
                "never-starts" => Fate::Stuck,
                _ => bail!("no such fate"),
            };
        }
        ["fault", fault] => schedule.faults.push(fault.parse()?),
        ["at", secs, ref action @ ..] => {
            let secs: f64 = secs.parse()?;
            let action = match *action {
                ["suspend"] => UserAction::Suspend,
                ["resume"] => UserAction::Resume,
                ["scale", count] => UserAction::Scale(count.parse()?),
                ["touch"] => UserAction::Touch,
                ["bloat"] => UserAction::Bloat,
                ["delete"] => UserAction::Delete,
                ["recreate"] => UserAction::Recreate,
                _ => bail!("no such action"),
            };
            let millis = std::time::Duration::from_secs_f64(secs).as_millis();
            schedule.script.push((u64::try_from(millis)?, action));
        }
        _ => bail!("no such line"),
    }
    Ok(())
}
