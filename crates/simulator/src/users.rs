//! What users do to their job. They use kubectl, which does not fail because of the weather.

use jiff::Timestamp;
use minicluster::Cluster;
use serde_json::json;

use crate::jobs::Template;
use crate::objects;
use crate::schedule::UserAction;
use crate::sets::send;

/// Does it, and returns the status code of the answer; 0 where there is nothing to do.
pub(crate) fn act(
    cluster: &mut Cluster,
    now: Timestamp,
    job: &Template,
    workers: u32,
    action: UserAction,
) -> u16 {
    let path = format!("{}/{}", job.path, objects::name(&job.object));
    match action {
        UserAction::Submit => send(cluster, now, "POST", &job.path, &job.with_workers(workers)),
        UserAction::Suspend | UserAction::Resume => {
            match job.suspension(action == UserAction::Suspend) {
                Some(patch) => send(cluster, now, "PATCH", &path, &patch),
                None => 0,
            }
        }
        UserAction::Scale(count) => send(cluster, now, "PATCH", &path, &job.scaling(count)),
        UserAction::Touch => {
            let patch = json!({"metadata": {"annotations": {"touched": now.to_string()}}});
            send(cluster, now, "PATCH", &path, &patch)
        }
        UserAction::Bloat => {
            let patch = json!({"metadata": {"annotations": {"large": "x".repeat(BLOAT_BYTES)}}});
            send(cluster, now, "PATCH", &path, &patch)
        }
        UserAction::Delete => send(cluster, now, "DELETE", &path, &json!({})),
        UserAction::Recreate => {
            send(
                cluster,
                now,
                "DELETE",
                &path,
                &json!({"propagationPolicy": "Background"}),
            );
            send(cluster, now, "POST", &job.path, &job.with_workers(workers))
        }
    }
}

/// More than the operator keeps of any job.
const BLOAT_BYTES: usize = 100 << 10;

/// Submits a second job, under another name than the first.
pub(crate) fn submit_beside(cluster: &mut Cluster, now: Timestamp, job: &Template) -> u16 {
    let mut object = job.object.clone();
    object["metadata"]["name"] = "other".into();
    send(cluster, now, "POST", &job.path, &object)
}
