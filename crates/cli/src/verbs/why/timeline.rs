//! `muster why JOB --timeline`: what each pod did when, as bars or as data. Where the pods are gone, the times that
//! the job's status keeps.

use anyhow::Result;
use contract::milestone::Milestone;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::backend::Backend;
use crate::timeline::bars::{self, Canvas};
use crate::timeline::{Timeline, milestone};
use crate::view::JobView;
use crate::{out, table, terminal};

/// Version of the data; fields are only ever added.
const SCHEMA: &str = "muster/v1";

/// What is known of the job's past. Without the right to read pods, that is its status.
pub(super) async fn of(backend: &Backend, job: JobView<'_>, is_json: bool) -> Result<String> {
    let (pods, unread) = match backend.pods(job).await {
        Ok(pods) => (pods, None),
        Err(error) => (Vec::new(), Some(format!("{error:#}"))),
    };
    let timeline = Timeline::of(job, &pods, &[], Timestamp::now());
    let timeline = timeline.filter(|timeline| !timeline.rows.is_empty());
    if is_json {
        return Ok(data(job, timeline.as_ref(), unread.as_deref()));
    }
    let canvas = Canvas {
        columns: terminal::columns(),
        is_ascii: terminal::is_ascii(),
        is_coloured: out::coloured() && terminal::size().is_some(),
    };
    Ok(text(job, timeline.as_ref(), unread.as_deref(), canvas))
}

fn data(job: JobView<'_>, timeline: Option<&Timeline>, unread: Option<&str>) -> String {
    let muster = &job.0["status"]["muster"];
    let mut data = json!({
        "schema": SCHEMA,
        "name": job.name(),
        "namespace": job.namespace(),
        "phase": job.phase(),
        "finished": job.is_finished(),
    });
    for field in ["reason", "milestones", "slowest", "attempts"] {
        if !muster[field].is_null() {
            data[field] = muster[field].clone();
        }
    }
    if let Some(timeline) = timeline {
        data["timeline"] = json!(timeline);
    }
    if let Some(unread) = unread {
        data["missing"] = json!([unread]);
    }
    format!("{data:#}\n")
}

fn text(
    job: JobView<'_>,
    timeline: Option<&Timeline>,
    unread: Option<&str>,
    canvas: Canvas,
) -> String {
    let mut text = String::new();
    match (timeline, unread) {
        (Some(timeline), _) => {
            if let Some(queued) = bars::queued(timeline) {
                text += &format!("{} had no pods for {queued}.\n", job.name());
            }
            text += &bars::text(timeline, canvas);
        }
        (None, Some(unread)) => {
            text += &format!("The pods are missing here: {unread}\n");
        }
        (None, None) if job.is_finished() => {
            text += &format!(
                "The pods of {} are gone; its status keeps these times.\n",
                job.name()
            );
        }
        (None, None) => text += &format!("{} has no pods.\n", job.name()),
    }
    text += &milestones(job);
    text += &slowest(job);
    text + &attempts(job)
}

fn milestones(job: JobView<'_>) -> String {
    let created = milestone(job, Milestone::Created);
    let rows: Vec<Vec<String>> = Milestone::ALL
        .into_iter()
        .filter_map(|name| {
            let at = milestone(job, name)?;
            let after = created.map(|created| at.duration_since(created).as_secs_f64());
            let after = after.map(|secs| format!("+{}", table::run_time(secs)));
            Some(vec![
                at.to_string(),
                after.unwrap_or_default(),
                name.as_str().to_owned(),
                name.meaning().to_owned(),
            ])
        })
        .collect();
    section(&["TIME", "AFTER", "MILESTONE", "MEANING"], &rows)
}

fn slowest(job: JobView<'_>) -> String {
    let rows = items(job, "slowest").map(|late| {
        let secs = late["seconds"].as_i64().unwrap_or_default();
        vec![
            word(late, "worker"),
            word(late, "phase"),
            table::seconds(secs),
            word(late, "node"),
        ]
    });
    section(
        &["SLOWEST", "PHASE", "TIME", "NODE"],
        &rows.collect::<Vec<_>>(),
    )
}

fn attempts(job: JobView<'_>) -> String {
    let rows = items(job, "attempts").map(|attempt| {
        let at = |field: &str| word(attempt, field).parse::<Timestamp>().ok();
        let lasted = at("startedAt").zip(at("endedAt"));
        let lasted =
            lasted.map(|(from, to)| table::run_time(to.duration_since(from).as_secs_f64()));
        vec![
            attempt["number"].as_u64().unwrap_or_default().to_string(),
            word(attempt, "startedAt"),
            lasted.unwrap_or_default(),
            word(attempt, "reason"),
        ]
    });
    section(
        &["ATTEMPT", "STARTED", "TIME", "REASON"],
        &rows.collect::<Vec<_>>(),
    )
}

fn items<'v>(job: JobView<'v>, list: &str) -> impl Iterator<Item = &'v Value> {
    let items = job.0["status"]["muster"][list].as_array();
    items.into_iter().flatten()
}

fn word(item: &Value, field: &str) -> String {
    item[field].as_str().unwrap_or_default().to_owned()
}

/// A table after an empty line; nothing where it has no rows.
fn section(heads: &[&str], rows: &[Vec<String>]) -> String {
    match rows.is_empty() {
        true => String::new(),
        false => format!("\n{}", table::shown(heads, rows)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CANVAS: Canvas = Canvas {
        columns: 80,
        is_ascii: false,
        is_coloured: false,
    };

    fn over() -> Value {
        json!({
            "metadata": {"name": "train", "namespace": "lab", "creationTimestamp": "2026-11-15T12:00:00Z"},
            "status": {"muster": {
                "phase": "Failed", "finished": true, "reason": "RankKilled",
                "milestones": {
                    "created": "2026-11-15T12:00:00Z", "admitted": "2026-11-15T12:00:00Z",
                    "workersReady": "2026-11-15T12:02:09Z", "ranksStarted": "2026-11-15T12:02:10.250Z",
                    "ended": "2026-11-15T12:10:00Z",
                },
                "slowest": [{"worker": "train-worker-5", "node": "node-c2", "phase": "Pulling", "seconds": 127}],
                "attempts": [
                    {"number": 1, "startedAt": "2026-11-15T12:02:09Z", "endedAt": "2026-11-15T12:05:00Z",
                     "reason": "RankKilled"},
                    {"number": 2, "startedAt": "2026-11-15T12:05:02Z"},
                ],
            }},
        })
    }

    /// Pods, events and logs are gone.
    #[test]
    fn the_job_alone_tells_what_happened_when_and_to_whom() {
        let job = over();
        assert_eq!(
            text(JobView(&job), None, None, CANVAS),
            "The pods of train are gone; its status keeps these times.\n\
             \n\
             TIME                     AFTER   MILESTONE     MEANING\n\
             2026-11-15T12:00:00Z     +0s     created       The job was created.\n\
             2026-11-15T12:00:00Z     +0s     admitted      The job was first reconciled, or was resumed.\n\
             2026-11-15T12:02:09Z     +2m9s   workersReady  All workers were Ready.\n\
             2026-11-15T12:02:10.25Z  +2m10s  ranksStarted  Ranks ran on all hosts that took part.\n\
             2026-11-15T12:10:00Z     +10m    ended         The job ended.\n\
             \n\
             SLOWEST         PHASE    TIME  NODE\n\
             train-worker-5  Pulling  2m7s  node-c2\n\
             \n\
             ATTEMPT  STARTED               TIME   REASON\n\
             1        2026-11-15T12:02:09Z  2m51s  RankKilled\n\
             2        2026-11-15T12:05:02Z  -      -\n"
        );
    }

    #[test]
    fn as_data_it_is_the_same() {
        let job = over();
        let data: Value = serde_json::from_str(&data(JobView(&job), None, None)).unwrap();
        for field in ["milestones", "slowest", "attempts", "reason"] {
            assert_eq!(data[field], job["status"]["muster"][field]);
        }
        assert_eq!(data["schema"], "muster/v1");
    }

    #[test]
    fn whoever_may_not_read_pods_sees_the_status_and_which_right_is_missing() {
        let text = text(
            JobView(&over()),
            None,
            Some("you may not list pods"),
            CANVAS,
        );
        assert!(
            text.starts_with("The pods are missing here: you may not list pods\n"),
            "{text}"
        );
        assert!(text.contains("train-worker-5"), "{text}");
    }

    /// Whoever may write a job's status may write anything there.
    #[test]
    fn s07_hostile_statuses_do_no_harm() {
        let evil = "\u{1b}[2J<script>\n";
        let mut job = over();
        let muster = &mut job["status"]["muster"];
        muster["slowest"] =
            json!([{"worker": evil, "node": evil, "phase": evil, "seconds": i64::MIN}, 7, null]);
        muster["attempts"] = json!([{"number": -1, "startedAt": evil, "reason": evil}, "x"]);
        muster["milestones"] =
            json!({"created": "9999-12-30T00:00:00Z", "ended": evil, "admitted": 3});
        let text = text(JobView(&job), None, None, CANVAS);
        assert!(!text.contains('\u{1b}'), "{text:?}");
        job["status"]["muster"] = json!("nothing");
        super::text(JobView(&job), None, None, CANVAS);
    }
}
