//! The requests of a measurement, from the API server's audit log. Decides what is counted and which
//! request is which moment of a job; must not know who is better.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use e2e::audit::{Audit, Request};
use jiff::Timestamp;

/// Requests about one namespace, oldest first.
pub(super) struct Ledger {
    all: Vec<Request>,
    user: String,
}

impl Ledger {
    /// What was asked since, and which of it by this user.
    pub(super) fn read(audit: &Audit, namespace: &str, user: &str) -> Result<Self> {
        let all = audit.requests_in(namespace)?;
        Ok(Self::of(all, user))
    }

    fn of(mut all: Vec<Request>, user: &str) -> Self {
        all.retain(|request| !request.is_open);
        all.sort_by_key(|request| request.received);
        let user = user.to_owned();
        Self { all, user }
    }

    /// The operator's writes.
    pub(super) fn writes(&self) -> impl Iterator<Item = &Request> {
        let own = move |request: &&Request| request.user == self.user && request.is_write();
        self.all.iter().filter(own)
    }

    /// The operator's writes of a verb and a resource that were accepted.
    fn accepted<'a>(
        &'a self,
        verb: &'a str,
        resource: &'a str,
    ) -> impl Iterator<Item = &'a Request> {
        let is = move |write: &&Request| {
            write.verb == verb && write.resource == resource && write.code < 300
        };
        self.writes().filter(is)
    }

    /// When the first of somebody's jobs came.
    pub(super) fn submitted(&self) -> Result<Timestamp> {
        let is_job = |request: &&Request| request.verb == "create" && request.resource == "mpijobs";
        let first = self.all.iter().find(is_job).context("no job was created")?;
        Ok(first.received)
    }

    /// Pods that the operator made.
    pub(super) fn pods_made(&self) -> usize {
        self.accepted("create", "pods").count()
    }

    /// When the last of them was accepted.
    pub(super) fn last_pod_made(&self) -> Result<Timestamp> {
        let made = self
            .accepted("create", "pods")
            .map(|request| request.answered);
        made.max().context("no pod was created")
    }

    /// The write that made a job what was seen then: the last one of its status that had come.
    pub(super) fn status_written(&self, job: &str, seen: Timestamp) -> Result<Timestamp> {
        let of_job = self.writes().filter(|write| {
            write.resource == "mpijobs/status" && write.name == job && write.code < 300
        });
        let before = of_job.filter(|write| write.received <= seen);
        let last = before.last().context("nobody wrote the status")?;
        Ok(last.answered)
    }

    /// When the kubelet last said something about a launcher, which was its end.
    pub(super) fn launcher_ended(&self) -> Result<Timestamp> {
        let mut said = self.all.iter().filter(|request| {
            request.resource == "pods/status" && request.name.contains("-launcher")
        });
        let last = said.next_back().context("no launcher ended")?;
        Ok(last.answered)
    }

    /// How often the operator asked for pods to go.
    pub(super) fn deletes(&self) -> usize {
        let delete =
            |write: &&Request| write.verb.starts_with("delete") && write.resource == "pods";
        self.writes().filter(delete).count()
    }

    /// When the last pod was gone.
    pub(super) fn last_pod_gone(&self) -> Result<Timestamp> {
        let gone = self.all.iter().filter(|request| {
            request.verb.starts_with("delete") && request.resource == "pods" && request.code < 300
        });
        gone.map(|request| request.answered)
            .max()
            .context("no pod was deleted")
    }

    /// Writes that were refused, that asked again for a deletion, or that changed nothing: accepted
    /// updates of jobs and ConfigMaps beyond the changes that a watch saw.
    pub(super) fn wasted(&self, jobs_changed: usize, maps_changed: usize) -> usize {
        let refused = self.writes().filter(|write| write.code >= 300).count();
        let deletes: Vec<_> = self.accepted("delete", "pods").collect();
        let deleted: BTreeSet<_> = deletes.iter().map(|write| &write.name).collect();
        let updates = |resources: &[&str]| {
            let update = |write: &&Request| {
                ["update", "patch"].contains(&write.verb.as_str())
                    && resources.contains(&write.resource.as_str())
                    && write.code < 300
            };
            self.writes().filter(update).count()
        };
        refused
            + (deletes.len() - deleted.len())
            + updates(&["mpijobs", "mpijobs/status"]).saturating_sub(jobs_changed)
            + updates(&["configmaps"]).saturating_sub(maps_changed)
    }

    /// The most writes of which each began after the one before was answered, up to the launcher's
    /// Job: so many answers a start waits for.
    pub(super) fn depth(&self) -> usize {
        let launcher = self.accepted("create", "jobs").next();
        let Some(launcher) = launcher else { return 0 };
        let mut writes: Vec<_> = self
            .writes()
            .filter(|write| write.answered <= launcher.answered)
            .collect();
        writes.sort_by_key(|write| write.answered);
        let mut depth = 0;
        let mut free = Timestamp::MIN;
        for write in writes {
            if write.received >= free {
                depth += 1;
                free = write.answered;
            }
        }
        depth
    }
}

/// Seconds from one moment to another.
pub(super) fn secs(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(verb: &str, resource: &str, name: &str, times: (i64, i64)) -> Request {
        let at = |millis| Timestamp::from_millisecond(millis).expect("a time");
        Request {
            enforced: String::new(),
            violations: String::new(),
            verb: verb.to_owned(),
            group: String::new(),
            resource: resource.to_owned(),
            namespace: "a".to_owned(),
            name: name.to_owned(),
            user: "me".to_owned(),
            code: 200,
            uri: String::new(),
            received: at(times.0),
            answered: at(times.1),
            is_open: false,
        }
    }

    #[test]
    fn what_waits_for_each_other_is_counted_and_what_overlaps_is_not() {
        let all = vec![
            request("create", "secrets", "s", (0, 10)),
            request("create", "pods", "p0", (11, 20)),
            request("create", "pods", "p1", (12, 21)),
            request("create", "jobs", "l", (13, 22)),
            request("patch", "mpijobs/status", "j", (30, 31)),
        ];
        assert_eq!(Ledger::of(all, "me").depth(), 2);
    }

    #[test]
    fn waste_is_what_changed_nothing() {
        let mut refused = request("create", "pods", "p0", (0, 1));
        refused.code = 409;
        let all = vec![
            refused,
            request("delete", "pods", "p1", (2, 3)),
            request("delete", "pods", "p1", (4, 5)),
            request("update", "mpijobs/status", "j", (6, 7)),
            request("update", "mpijobs/status", "j", (8, 9)),
            request("update", "configmaps", "c", (10, 11)),
        ];
        let ledger = Ledger::of(all, "me");
        assert_eq!(ledger.wasted(1, 1), 3);
        assert_eq!((ledger.deletes(), ledger.pods_made()), (2, 0));
        assert_eq!(Ledger::of(Vec::new(), "me").wasted(0, 0), 0);
    }

    #[test]
    fn the_write_that_was_seen_is_the_last_before() -> Result<()> {
        let all = vec![
            request("patch", "mpijobs/status", "j", (0, 5)),
            request("patch", "mpijobs/status", "j", (10, 16)),
            request("patch", "mpijobs/status", "j", (20, 25)),
        ];
        // The watch may be faster than the answer to the one who wrote.
        let seen = Timestamp::from_millisecond(15)?;
        let written = Ledger::of(all, "me").status_written("j", seen)?;
        assert_eq!(written, Timestamp::from_millisecond(16)?);
        Ok(())
    }
}
