//! What still runs for a job that cannot be read any more. Decides how to stop it without knowing what the
//! job asks for; a job that can be read is the planner's.

use planner::{Action, Kind};
use serde_json::json;

use crate::cache::Cache;
use crate::object_index::Entry;
use crate::wire::Facts;

/// Removes everything that runs for the job with this UID, and keeps others from making it again.
pub(crate) fn remove_running(cache: &Cache, job_uid: &str) -> Vec<Action> {
    let of_kind = |kind: Kind| {
        cache.with(&kind, |index| {
            let own = index.owned_by(job_uid).filter_map(remove);
            own.collect::<Vec<_>>()
        })
    };
    [Kind::StatefulSet, Kind::Job, Kind::Pod]
        .into_iter()
        .flat_map(of_kind)
        .collect()
}

fn remove(entry: &Entry) -> Option<Action> {
    let (kind, leaves) = match &entry.child.facts {
        Facts::Pod(pod) => (Kind::Pod, pod.deleting),
        Facts::Job(job) => (Kind::Job, job.deleting),
        Facts::WorkerSet(set) => (Kind::StatefulSet, set.deleting || set.replicas == 0),
        _ => return None,
    };
    if leaves || entry.delete_requested {
        return None;
    }
    let name = entry.child.key.name.as_ref().to_owned();
    let uid = entry.child.uid.as_ref().to_owned();
    Some(match kind {
        Kind::StatefulSet => Action::Patch {
            kind,
            name,
            uid,
            subresource: None,
            merge: json!({"spec": {"replicas": 0}}),
        },
        kind => Action::Delete { kind, name, uid },
    })
}
