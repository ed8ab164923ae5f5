//! What follows the API server's answer to a write: retry at once, look the object up, remember a
//! refusal, or fail the pass. Decides without a client; `apply` carries the decisions out.

use contract::{Reason, labels};
use kube::core::ApiResource;
use planner::{Action, Kind, WorkerBatch};
use serde_json::{Value, json};

use crate::api_error::ApiError;
use crate::lookup::Found;
use crate::wire;

/// Concurrent creates collide while the API server counts a quota. The same create usually
/// succeeds at once, so it is sent up to this many times.
const QUOTA_TRIES: u32 = 5;

/// What to do after a write that failed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Send the same request again.
    RetryNow,
    /// The object is not what we took it for: ask for it.
    LookUp,
    /// Remember the refusal, so that the job's status shows it and the planner waits.
    Remember { code: u16, message: String },
    /// Fail the pass; it is retried later.
    Fail,
}

/// After a create that failed for the `tries`th time.
pub(crate) fn after_create(kind: &Kind, error: &ApiError, tries: u32) -> Next {
    if error.is_already_exists() {
        Next::LookUp
    } else if error.code() == Some(409) && tries < QUOTA_TRIES {
        Next::RetryNow
    } else {
        refusal(kind, error)
    }
}

/// After a patch or a delete that failed.
pub(crate) fn after_change(kind: &Kind, error: &ApiError) -> Next {
    if error.is_other_object() {
        Next::LookUp
    } else {
        refusal(kind, error)
    }
}

/// After a collection delete that failed, or any failure that says nothing about one object.
pub(crate) fn refusal(kind: &Kind, error: &ApiError) -> Next {
    match error {
        ApiError::Answered { code: 404, .. } if matches!(kind, Kind::PodGroup(_)) => {
            let message = unserved(&wire::resource(kind));
            Next::Remember { code: 404, message }
        }
        ApiError::Answered { code, message, .. } if error.is_refusal() || *code >= 500 => {
            Next::Remember {
                code: *code,
                message: message.clone(),
            }
        }
        ApiError::TimedOut { .. } => Next::Remember {
            code: 504,
            message: format!("{error}; an admission webhook may be hanging"),
        },
        _ => Next::Fail,
    }
}

fn unserved(resource: &ApiResource) -> String {
    let (plural, group, version) = (&resource.plural, &resource.group, &resource.version);
    let advice = Reason::WaitingForGang.advice();
    format!("the cluster does not serve {plural}.{group} {version}: {advice}")
}

/// What to do with the object that holds a name we wanted to create.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    /// It is ours: an earlier answer was lost, or another operator created it.
    Keep,
    /// It is ours and our watch cannot see it: label it.
    Adopt { uid: String },
    /// Wait until the name is free.
    Wait,
    /// It is gone already: plan again.
    Replan,
}

/// Who holds the name decides. Users take the label off a pod to keep it for debugging, and the
/// job can have another pod; other objects exist once, so the job takes them back.
pub(crate) fn after_lookup(kind: &Kind, found: Found) -> Holder {
    match found {
        Found::Ours { .. } => Holder::Keep,
        Found::Unlabelled { .. } if *kind == Kind::Pod => Holder::Wait,
        Found::Unlabelled { uid } => Holder::Adopt { uid },
        Found::Foreign => Holder::Wait,
        Found::Absent => Holder::Replan,
    }
}

/// A patch that adds the label that our watch selects by. The Kubeflow operator creates objects
/// without it, and users remove it.
pub(crate) fn adoption() -> Value {
    json!({"metadata": {"labels": {(labels::MANAGED_BY_LABEL): labels::MANAGED_BY}}})
}

/// Requests of one step in one pass. The job's status is then written, and another pass goes on; the
/// Job controller of Kubernetes has the same limit.
const REQUESTS_MAX: usize = 500;

/// A step in the order it is sent, or the first part of it.
pub(crate) struct Batches {
    /// Sent at once, whatever becomes of them.
    pub(crate) independent: Vec<Action>,
    /// Workers to create, the first of them before the others. Pods of one job are alike: what the
    /// API server refuses once it refuses a thousand times.
    pub(crate) workers: Option<WorkerBatch>,
    /// Requests that the whole step has.
    pub(crate) requests: usize,
    /// Some of the step is left for another pass.
    pub(crate) is_partial: bool,
}

/// As much of a step as one pass sends.
pub(crate) fn batches(step: Vec<Action>) -> Batches {
    let mut independent = Vec::new();
    let mut workers = None;
    for action in step {
        match action {
            Action::CreateWorkers(batch) => workers = Some(batch),
            other => independent.push(other),
        }
    }
    let to_create = workers.as_ref().map_or(0, |batch| batch.indices.len());
    let requests = independent.len() + to_create;
    independent.truncate(REQUESTS_MAX);
    if let Some(batch) = &mut workers {
        batch.indices.truncate(REQUESTS_MAX - independent.len());
    }
    Batches {
        independent,
        workers: workers.filter(|batch| !batch.indices.is_empty()),
        requests,
        is_partial: requests > REQUESTS_MAX,
    }
}

#[cfg(test)]
mod tests {
    use planner::site::GangApi;

    use super::*;

    fn answered(code: u16, reason: &str) -> ApiError {
        ApiError::Answered {
            code,
            reason: reason.to_owned(),
            message: "m".to_owned(),
        }
    }

    #[test]
    fn each_failed_create_has_one_consequence() {
        let remember = |code, message: &str| Next::Remember {
            code,
            message: message.to_owned(),
        };
        for (error, tries, expected) in [
            (answered(409, "AlreadyExists"), 1, Next::LookUp),
            (answered(409, "Conflict"), 4, Next::RetryNow),
            (answered(409, "Conflict"), 5, Next::Fail),
            (answered(403, "Forbidden"), 1, remember(403, "m")),
            (answered(500, "InternalError"), 1, remember(500, "m")),
            (answered(401, "Unauthorized"), 1, Next::Fail),
            (
                ApiError::Unreadable(serde::de::Error::custom("x")),
                1,
                Next::Fail,
            ),
            (answered(429, "TooManyRequests"), 1, Next::Fail),
        ] {
            let next = after_create(&Kind::Pod, &error, tries);
            assert_eq!(next, expected, "{error} on try {tries}");
        }
        let missing = refusal(
            &Kind::PodGroup(GangApi::Volcano),
            &answered(404, "NotFound"),
        );
        let advice = matches!(&missing, Next::Remember { message, .. } if message.contains("install the gang"));
        assert!(advice, "{missing:?}");
    }

    #[test]
    fn a_change_of_another_object_is_looked_up() {
        for code in [404, 409] {
            assert_eq!(after_change(&Kind::Job, &answered(code, "")), Next::LookUp);
        }
    }

    #[test]
    fn an_unlabelled_object_is_adopted_unless_it_is_a_pod() {
        let unlabelled = || Found::Unlabelled {
            uid: "u".to_owned(),
        };
        let adopt = Holder::Adopt {
            uid: "u".to_owned(),
        };
        assert_eq!(after_lookup(&Kind::Job, unlabelled()), adopt);
        assert_eq!(after_lookup(&Kind::Pod, unlabelled()), Holder::Wait);
    }
}
