//! Pages that change while somebody looks. Decides when a change is sent, and that only what has changed is. Must not
//! know what a section shows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value};
use tokio::sync::watch;

use super::answer::{self, Answer, Gone, Messages};
use super::{Ui, jobs_page};
use crate::backend::Watched;
use crate::report::data::Report;
use crate::report::{Facts, page};
use crate::view::JobView;

/// Changes come in crowds, and nobody reads faster than this.
const PACE: Duration = Duration::from_millis(200);
/// A bar that grows, or an age, is drawn anew after this time although nothing has changed.
const GROWTH: Duration = Duration::from_secs(5);

/// Kind of a message that holds sections by their id.
const SECTIONS: &str = "sections";

/// The list of jobs, from now on.
pub(super) fn jobs(ui: Arc<Ui>) -> Answer {
    let (answer, messages) = answer::messages();
    tokio::spawn(async move {
        let mut rings = ui.bell.subscribe();
        let mut sent = BTreeMap::new();
        loop {
            let sections = jobs_page::sections(&ui);
            let sent = send(&messages, &mut sent, sections).await;
            if sent.is_err() || !next(&mut rings, &messages, true).await {
                return;
            }
        }
    });
    answer
}

/// One job, from now on.
pub(super) fn job(ui: Arc<Ui>, uid: String) -> Answer {
    let (answer, messages) = answer::messages();
    tokio::spawn(async move {
        let Some(job) = ui.found(&uid).await else {
            let trouble = jobs_page::trouble(&["The job was deleted.".to_owned()]);
            // Without an end: a browser would ask again and again.
            if send(&messages, &mut BTreeMap::new(), vec![trouble])
                .await
                .is_ok()
            {
                messages.gone().await;
            }
            return;
        };
        let mut look = JobLook::begin(&ui, job);
        let mut rings = look.bell.subscribe();
        let mut rings_of_jobs = ui.bell.subscribe();
        let mut sent = BTreeMap::new();
        loop {
            let sections = look.sections(&ui, &uid).await;
            if send(&messages, &mut sent, sections).await.is_err() {
                return;
            }
            let grows = !JobView(&look.job).is_finished() && look.deleted_at.is_none();
            let goes_on = tokio::select! {
                goes_on = next(&mut rings, &messages, grows) => goes_on,
                goes_on = next(&mut rings_of_jobs, &messages, grows) => goes_on,
            };
            if !goes_on {
                return;
            }
        }
    });
    answer
}

/// The report of a job as it is now.
pub(super) async fn report(ui: &Ui, uid: &str) -> Option<Report> {
    let job = ui.found(uid).await?;
    let backend = ui.backend.renewed().ok()?;
    let facts = Facts::of_job(&backend, job).await;
    Some(facts.report(Timestamp::now()))
}

/// Waits for a change, or until the picture is old. False once nobody looks any more.
async fn next(rings: &mut watch::Receiver<()>, messages: &Messages, grows: bool) -> bool {
    let change = async {
        let changed = match grows {
            true => tokio::time::timeout(GROWTH, rings.changed()).await,
            false => Ok(rings.changed().await),
        };
        // The rest of the crowd.
        tokio::time::sleep(PACE).await;
        rings.mark_unchanged();
        changed
    };
    tokio::select! {
        changed = change => !matches!(changed, Ok(Err(_))),
        () = messages.gone() => false,
    }
}

/// Sends the sections that differ from those that were sent.
async fn send(
    messages: &Messages,
    sent: &mut BTreeMap<&'static str, String>,
    sections: Vec<page::Section>,
) -> Result<(), Gone> {
    let mut changed = Map::new();
    for section in sections {
        let html = section.html.as_str();
        if sent.get(section.id).map(String::as_str) != Some(html) {
            changed.insert(section.id.to_owned(), html.into());
            sent.insert(section.id, html.to_owned());
        }
    }
    if changed.is_empty() {
        return Ok(());
    }
    messages.send(SECTIONS, None, &changed.into()).await
}

/// What one browser sees of one job.
struct JobLook {
    /// The last that was seen of it; it stays when the job is deleted.
    job: Value,
    /// When that was noticed. Its time does not go on.
    deleted_at: Option<Timestamp>,
    pods: Option<Watched>,
    events: Vec<Watched>,
    bell: watch::Sender<()>,
    /// What was shown last.
    last: Option<Facts>,
    /// Of what that was gathered, once the job is over.
    gathered: Option<State>,
}

/// What tells that nothing of a job that is over has changed: versions of it, its pods and its events, by UID.
#[derive(Debug, PartialEq, Eq)]
struct State {
    versions: BTreeMap<String, String>,
    /// What could not be read then may be read now.
    troubles: Vec<String>,
}

impl State {
    fn of<'o>(objects: impl Iterator<Item = &'o Value>, troubles: &[String]) -> Self {
        let text = |object: &Value, field: &str| {
            let text = object["metadata"][field].as_str();
            text.unwrap_or_default().to_owned()
        };
        let version_of = |object| (text(object, "uid"), text(object, "resourceVersion"));
        Self {
            versions: objects.map(version_of).collect(),
            troubles: troubles.to_vec(),
        }
    }

    /// Whether nothing would be gained if this were gathered again.
    fn is_same(&self, now: &Self, is_whole: bool) -> bool {
        self.versions == now.versions && (is_whole || self.troubles == now.troubles)
    }
}

impl JobLook {
    fn begin(ui: &Ui, job: Value) -> Self {
        let (bell, _) = watch::channel(());
        let view = JobView(&job);
        Self {
            pods: ui.backend.watch_pods(view, &bell),
            events: ui.backend.watch_events(view, &bell),
            job,
            deleted_at: None,
            bell,
            last: None,
            gathered: None,
        }
    }

    async fn sections(&mut self, ui: &Ui, uid: &str) -> Vec<page::Section> {
        let job = ui.jobs.iter().find_map(|jobs| jobs.get(uid));
        let mut sentences = self.trouble(ui);
        if job.is_none() {
            // Whoever may not read one of the APIs always has trouble, and this is the greater news.
            let deleted = "The job was deleted. This is what was known of it.";
            sentences.insert(0, deleted.to_owned());
        }
        let trouble = jobs_page::trouble(&sentences);
        let is_deleted = job.is_none();
        if let Some(job) = job {
            self.job = job;
        }
        if !is_deleted && JobView(&self.job).is_finished() {
            let state = self.state(&sentences).await;
            let last = self.last.as_ref();
            let is_whole = last.is_some_and(|facts| facts.missing.is_empty());
            let gathered = self.gathered.as_ref().zip(state.as_ref());
            // The API server is not asked again for what has not changed.
            if gathered.is_some_and(|(before, now)| before.is_same(now, is_whole)) {
                return vec![trouble];
            }
            self.gathered = state;
        }
        let last = self.last.take().unwrap_or_default();
        let facts = match is_deleted {
            true => last,
            false => {
                let mut facts = self.facts(ui).await;
                // The pods of a job that is over are removed; whoever looks at them still wants to.
                if JobView(&self.job).is_finished()
                    && facts.pods.is_empty()
                    && !last.pods.is_empty()
                {
                    (facts.pods, facts.events) = (last.pods, last.events);
                    facts.logs.extend(last.logs);
                }
                facts
            }
        };
        let now = Timestamp::now();
        self.deleted_at = is_deleted.then(|| self.deleted_at.unwrap_or(now));
        let report = facts.report(self.deleted_at.unwrap_or(now));
        let mut sections = page::sections(&report);
        if facts.job.is_null() {
            sections.clear();
        }
        // The page was served with the ends of logs, and they stay until there are others.
        sections.retain(|section| section.id != "logs" || !facts.logs.is_empty());
        self.last = Some(facts);
        sections.push(trouble);
        sections
    }

    /// Of a job that is over. None where nobody tells when its pods change.
    async fn state(&self, troubles: &[String]) -> Option<State> {
        let pods = self.pods.as_ref()?;
        let mut rings = self.bell.subscribe();
        // Else all would be gathered twice, without the pods and with them.
        while !self.events.iter().chain([pods]).all(Watched::has_answer) {
            rings.changed().await.ok()?;
        }
        let pods = pods.objects();
        let events = self.own_events(&pods);
        let objects = pods.iter().chain(&events).chain([&self.job]);
        Some(State::of(objects, troubles))
    }

    /// Events of the job and of these pods, oldest first.
    fn own_events(&self, pods: &[Value]) -> Vec<Value> {
        let uids = pods
            .iter()
            .filter_map(|pod| pod["metadata"]["uid"].as_str());
        let uids: BTreeSet<&str> = uids.chain([JobView(&self.job).uid()]).collect();
        let own = |event: &Value| {
            let uid = event["involvedObject"]["uid"].as_str();
            uid.is_some_and(|uid| uids.contains(uid))
        };
        let events = self.events.iter().flat_map(Watched::objects);
        let mut events: Vec<Value> = events.filter(own).collect();
        events.sort_by_key(|event| crate::backend::event_time(event).to_owned());
        events
    }

    /// What keeps the page from being up to date.
    fn trouble(&self, ui: &Ui) -> Vec<String> {
        let watched = ui.jobs.iter().chain(&self.pods).chain(&self.events);
        let trouble: BTreeSet<String> = watched.filter_map(Watched::trouble).collect();
        trouble.into_iter().collect()
    }

    async fn facts(&mut self, ui: &Ui) -> Facts {
        let job = JobView(&self.job);
        // A record changes as a whole, and what is over changes no more except by losing its pods.
        let Some(pods) = self.pods.as_ref().filter(|_| !job.is_finished()) else {
            return match ui.backend.renewed() {
                Ok(backend) => Facts::of_job(&backend, self.job.clone()).await,
                Err(error) => Facts {
                    job: self.job.clone(),
                    missing: vec![format!("{error:#}")],
                    ..Facts::default()
                },
            };
        };
        let pods = pods.objects();
        let events = self.own_events(&pods);
        Facts {
            events,
            pods,
            address: ui.backend.address(job.name()),
            job: self.job.clone(),
            ..Facts::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_job_that_is_over_is_gathered_again_when_it_or_its_own_pods_changed() {
        let object = |uid: &str, version: &str| json!({"metadata": {"uid": uid, "resourceVersion": version}});
        let of = |objects: &[(&str, &str)], troubles: &[String]| {
            let objects: Vec<Value> = objects.iter().map(|(u, v)| object(u, v)).collect();
            State::of(objects.iter(), troubles)
        };
        let before = of(&[("j", "5"), ("p", "6")], &[]);
        assert!(before.is_same(&of(&[("p", "6"), ("j", "5")], &[]), true));
        for changed in [
            &[("j", "7"), ("p", "6")][..],
            &[("j", "5")],
            &[("j", "5"), ("p", "8")],
            &[("j", "5"), ("q", "6")],
        ] {
            assert!(!before.is_same(&of(changed, &[]), true), "{changed:?}");
        }
        let away = of(&[("j", "5"), ("p", "6")], &["away".to_owned()]);
        assert!(away.is_same(&before, true), "an outage takes nothing away");
        assert!(
            !away.is_same(&before, false),
            "what was missing may be there now"
        );
    }
}
