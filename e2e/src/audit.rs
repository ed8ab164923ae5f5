//! What the API server's audit log says was asked of it: by whom, about what, with which answer.
//! Decides what counts as a write; must not know how many are too many.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use serde_json::Value;

use crate::Cluster;

/// The log from a moment on.
#[derive(Clone, Debug)]
pub struct Audit {
    path: PathBuf,
    /// Nothing where the cluster is somebody else's, whose log is elsewhere.
    start: Option<u64>,
}

/// One request that was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// `create`, `patch`, `deletecollection`, `watch`…
    pub verb: String,
    /// API group of the object; empty for Kubernetes' oldest.
    pub group: String,
    /// `pods`, or `mpijobs/status`.
    pub resource: String,
    /// Namespace of the object, or empty.
    pub namespace: String,
    /// Name of the object, or empty for a collection.
    pub name: String,
    /// Who asked.
    pub user: String,
    /// HTTP status code of the answer.
    pub code: u16,
    /// Path and query.
    pub uri: String,
    /// The Pod Security level, such as `restricted:latest`, without which it would have been refused.
    pub enforced: String,
    /// What Pod Security's audit found against it.
    pub violations: String,
    /// When it came.
    pub received: Timestamp,
    /// When its answer was complete, or had begun in the case of a watch that is open.
    pub answered: Timestamp,
    /// The answer goes on: a watch has one line when it begins, and another at its end.
    pub is_open: bool,
}

impl Request {
    /// It asked for a change.
    pub fn is_write(&self) -> bool {
        let writes = ["create", "update", "patch", "delete", "deletecollection"];
        writes.contains(&self.verb.as_str()) && !self.uri.contains("dryRun=All")
    }

    /// It concerned the election of a leader, which goes on whatever jobs there are.
    pub fn is_election(&self) -> bool {
        self.resource == "leases"
    }

    /// It asked which APIs there are, not for an object.
    pub fn is_discovery(&self) -> bool {
        self.resource.is_empty()
    }

    fn of_line(line: &str) -> Result<Self> {
        let entry: Value = serde_json::from_str(line).context("a line that is no JSON")?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let object = &entry["objectRef"];
        let resource = match object["subresource"].as_str() {
            Some(part) => format!("{}/{part}", text(&object["resource"])),
            None => text(&object["resource"]),
        };
        let code = entry["responseStatus"]["code"].as_u64().unwrap_or_default();
        Ok(Self {
            verb: text(&entry["verb"]),
            group: text(&object["apiGroup"]),
            resource,
            namespace: text(&object["namespace"]),
            name: text(&object["name"]),
            user: text(&entry["user"]["username"]),
            code: code.try_into().unwrap_or_default(),
            uri: text(&entry["requestURI"]),
            enforced: text(&entry["annotations"]["pod-security.kubernetes.io/enforce-policy"]),
            violations: text(&entry["annotations"]["pod-security.kubernetes.io/audit-violations"]),
            received: time(&entry["requestReceivedTimestamp"])?,
            answered: time(&entry["stageTimestamp"])?,
            is_open: entry["stage"] == "ResponseStarted",
        })
    }
}

fn time(value: &Value) -> Result<Timestamp> {
    let text = value.as_str().context("a line without a time")?;
    text.parse()
        .with_context(|| format!("`{text}` is not a time"))
}

impl Audit {
    /// From now on.
    pub fn from_now(cluster: &Cluster) -> Result<Self> {
        let path = cluster.state.join("log/audit.log");
        let start = match path.metadata() {
            Ok(log) => Some(log.len()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => {
                return Err(error).with_context(|| format!("looking at {}", path.display()));
            }
        };
        Ok(Self { path, start })
    }

    /// What this user asked since, oldest first.
    pub fn requests_of(&self, user: &str) -> Result<Vec<Request>> {
        self.requests(user, |request| request.user == user)
    }

    /// What anybody asked since about a namespace and what is in it, oldest first.
    pub fn requests_in(&self, namespace: &str) -> Result<Vec<Request>> {
        self.requests(namespace, |request| request.namespace == namespace)
    }

    /// The requests that are meant; only lines with this word in quotes need a closer look.
    fn requests(&self, word: &str, is_meant: impl Fn(&Request) -> bool) -> Result<Vec<Request>> {
        let start = self.start.context(
            "this cluster's audit log is not here: this test needs a cluster that `cargo xtask test` starts",
        )?;
        let mut log = File::open(&self.path)?;
        log.seek(SeekFrom::Start(start))?;
        let mut text = String::new();
        log.read_to_string(&mut text)?;
        // The last line may still be in the making.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let word = format!("\"{word}\"");
        let lines = whole.lines().filter(|line| line.contains(&word));
        let requests = lines.map(Request::of_line).collect::<Result<Vec<_>>>()?;
        Ok(requests.into_iter().filter(is_meant).collect())
    }

    /// Fails if anything that this user asked for since was beyond its rights.
    pub fn assert_never_forbidden(&self, user: &str) -> Result<()> {
        let mut forbidden = self.requests_of(user)?;
        forbidden.retain(|request| matches!(request.code, 401 | 403));
        ensure!(
            forbidden.is_empty(),
            "the shipped rights lack:\n{}",
            table(&forbidden)
        );
        Ok(())
    }

    /// The changes that this user asked for since, but for the election of a leader.
    pub fn writes_of(&self, user: &str) -> Result<Vec<Request>> {
        let all = self.requests_of(user)?;
        Ok(all
            .into_iter()
            .filter(|request| request.is_write() && !request.is_election())
            .collect())
    }
}

/// How often each thing was asked: one line for each, most frequent first.
pub fn table(requests: &[Request]) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for request in requests {
        let refused = if request.code < 300 {
            String::new()
        } else {
            format!(" → {}", request.code)
        };
        *counts
            .entry(format!("{} {}{refused}", request.verb, request.resource))
            .or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts
        .iter()
        .fold(String::new(), |mut table, (what, count)| {
            writeln!(table, "{count:>6}  {what}")
                .expect("a string takes all that is written to it");
            table
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"verb":"patch","user":{"username":"me"},"requestURI":"/x",
        "objectRef":{"resource":"mpijobs","namespace":"a","name":"pi","subresource":"status"},
        "responseStatus":{"code":409},"stage":"ResponseComplete",
        "requestReceivedTimestamp":"2026-01-01T00:00:00.000001Z",
        "stageTimestamp":"2026-01-01T00:00:00.250001Z"}"#;

    #[test]
    fn a_line_says_who_asked_what_and_what_came_of_it() {
        let request = Request::of_line(LINE).expect("a line of the log");
        assert_eq!(request.resource, "mpijobs/status");
        assert_eq!((request.user.as_str(), request.code), ("me", 409));
        assert!(request.is_write() && !request.is_election() && !request.is_open);
        let took = request.answered.duration_since(request.received);
        assert_eq!(took.as_millis(), 250);
        assert_eq!(table(&[request]), "     1  patch mpijobs/status → 409\n");
    }

    #[test]
    fn a_look_is_no_write() {
        let line = LINE.replace("patch", "watch");
        assert!(
            !Request::of_line(&line)
                .expect("a line of the log")
                .is_write()
        );
    }
}
