//! Requests to the API server. Decides how long one may take and how many run at once, and waits when
//! the API server answers with Retry-After. Knows nothing of jobs.
//!
//! Answers are returned as text: kube's own decoding logs what it cannot read, and the contents of a
//! Secret must never reach a log.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kube::Client;
use kube::Resource as _;
use kube::api::{
    DeleteParams, GetParams, ListParams, Patch, PatchParams, PostParams, Preconditions,
    PropagationPolicy,
};
use kube::core::{ApiResource, DynamicObject, Request};
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout, timeout_at};

use crate::api_error::ApiError;

/// Name under which the API server records what we wrote.
const FIELD_MANAGER: &str = "muster-operator";
/// One request may take this long, waits that the server asked for included. Longer than the default
/// timeout of admission webhooks (10 s), so that the API server can still name the one that hangs.
const DEADLINE: Duration = Duration::from_secs(12);
/// Requests that run at once, over all jobs: each is a connection.
const IN_FLIGHT_MAX: usize = 64;

/// A client of the API server.
#[derive(Clone)]
pub(crate) struct Api {
    client: Client,
    pause: Arc<Pause>,
    slots: Arc<Semaphore>,
}

/// Until when the API server asked us to wait, by Retry-After.
#[derive(Debug, Default)]
pub(crate) struct Pause(Mutex<Option<Instant>>);

/// What a request is about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target<'a> {
    pub(crate) resource: &'a ApiResource,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
}

impl Api {
    /// Uses this client, which must not retry by itself.
    pub(crate) fn new(client: Client, pause: Arc<Pause>) -> Self {
        Self {
            client,
            pause,
            slots: Arc::new(Semaphore::new(IN_FLIGHT_MAX)),
        }
    }

    /// The client, for watches.
    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    /// POST.
    pub(crate) async fn create(
        &self,
        target: Target<'_>,
        body: &Value,
    ) -> Result<String, ApiError> {
        let body = serde_json::to_vec(body).map_err(ApiError::Unreadable)?;
        self.send(target.path().create(&post_params(), body)).await
    }

    /// GET.
    pub(crate) async fn get(&self, target: Target<'_>) -> Result<String, ApiError> {
        self.send(target.path().get(target.name, &GetParams::default()))
            .await
    }

    /// GET; `None` if the object does not exist.
    pub(crate) async fn find(&self, target: Target<'_>) -> Result<Option<String>, ApiError> {
        found(self.get(target).await)
    }

    /// GET of the metadata alone: the contents of the object do not reach us.
    pub(crate) async fn find_metadata(
        &self,
        target: Target<'_>,
    ) -> Result<Option<String>, ApiError> {
        let params = GetParams::default();
        let request = target.path().get_metadata(target.name, &params);
        found(self.send(request).await)
    }

    /// PATCH with a JSON merge patch.
    pub(crate) async fn merge(
        &self,
        target: Target<'_>,
        subresource: Option<&str>,
        patch: &Value,
    ) -> Result<String, ApiError> {
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.into()),
            ..Default::default()
        };
        let patch = Patch::Merge(patch);
        self.send(match subresource {
            None => target.path().patch(target.name, &params, &patch),
            Some(part) => target
                .path()
                .patch_subresource(part, target.name, &params, &patch),
        })
        .await
    }

    /// PUT.
    pub(crate) async fn replace(
        &self,
        target: Target<'_>,
        body: &Value,
    ) -> Result<String, ApiError> {
        let body = serde_json::to_vec(body).map_err(ApiError::Unreadable)?;
        let request = target.path().replace(target.name, &post_params(), body);
        self.send(request).await
    }

    /// DELETE of the object with this UID, and of its dependents: a Job deleted by default leaves
    /// its pods running.
    pub(crate) async fn delete(&self, target: Target<'_>, uid: &str) -> Result<String, ApiError> {
        let params = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Background),
            preconditions: Some(Preconditions {
                uid: Some(uid.to_owned()),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        self.send(target.path().delete(target.name, &params)).await
    }

    /// DELETE of all objects that the selectors match.
    pub(crate) async fn delete_selected(
        &self,
        target: Target<'_>,
        labels: &str,
        fields: &str,
    ) -> Result<String, ApiError> {
        let mut selection = ListParams::default().labels(labels);
        if !fields.is_empty() {
            selection = selection.fields(fields);
        }
        let params = DeleteParams::default();
        let request = target.path().delete_collection(&params, &selection);
        self.send(request).await
    }

    /// GET of at most one object, to learn whether the API exists.
    pub(crate) async fn probe(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
    ) -> Result<String, ApiError> {
        let path = Request::new(DynamicObject::url_path(resource, namespace));
        self.send(path.list(&ListParams::default().limit(1))).await
    }

    /// GET of all objects that a field selector matches.
    pub(crate) async fn list_selected(
        &self,
        target: Target<'_>,
        fields: &str,
    ) -> Result<String, ApiError> {
        let selection = ListParams::default().fields(fields);
        self.send(target.path().list(&selection)).await
    }

    /// Any request.
    pub(crate) async fn send(
        &self,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<String, ApiError> {
        let request = request.map_err(|error| ApiError::from(kube::Error::BuildRequest(error)))?;
        // The deadline does not include the wait for a slot of our own.
        let _slot = self
            .slots
            .acquire()
            .await
            .expect("the semaphore is never closed");
        let deadline = Instant::now() + DEADLINE;
        let unanswered = ApiError::TimedOut {
            secs: DEADLINE.as_secs(),
        };
        loop {
            let Ok(()) = timeout_at(deadline, self.pause.over()).await else {
                return Err(unanswered);
            };
            let answer = timeout(
                deadline.saturating_duration_since(Instant::now()),
                self.client.request_text(request.clone()),
            );
            let Ok(answer) = answer.await else {
                return Err(unanswered);
            };
            match answer.map_err(ApiError::from) {
                Err(error) if self.worth_waiting(&error, deadline) => {}
                other => return other,
            }
        }
    }

    /// The API server named a time to retry at, and it is before our deadline.
    fn worth_waiting(&self, error: &ApiError, deadline: Instant) -> bool {
        matches!(error.code(), Some(429 | 503))
            && self.pause.until().is_some_and(|until| until < deadline)
    }
}

fn found(answer: Result<String, ApiError>) -> Result<Option<String>, ApiError> {
    match answer {
        Err(error) if error.code() == Some(404) => Ok(None),
        answer => answer.map(Some),
    }
}

fn post_params() -> PostParams {
    PostParams {
        field_manager: Some(FIELD_MANAGER.into()),
        dry_run: false,
    }
}

impl Target<'_> {
    fn path(&self) -> Request {
        Request::new(DynamicObject::url_path(self.resource, Some(self.namespace)))
    }
}

impl Pause {
    /// Notes the Retry-After of an answer.
    pub(crate) fn note<B>(&self, answer: &http::Response<B>) {
        if !matches!(answer.status().as_u16(), 429 | 503) {
            return;
        }
        let header = answer.headers().get(http::header::RETRY_AFTER);
        let secs = header.and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
        if let Some(secs) = secs {
            let until = Instant::now() + Duration::from_secs(secs.min(60));
            let mut pause = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            *pause = (*pause).max(Some(until));
        }
    }

    fn until(&self) -> Option<Instant> {
        let pause = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pause.filter(|until| *until > Instant::now())
    }

    async fn over(&self) {
        while let Some(until) = self.until() {
            tokio::time::sleep_until(until).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(code: u16, retry_after: Option<&str>) -> http::Response<()> {
        let mut answer = http::Response::builder().status(code);
        if let Some(secs) = retry_after {
            answer = answer.header("Retry-After", secs);
        }
        answer.body(()).expect("the parts are valid")
    }

    #[tokio::test(start_paused = true)]
    async fn the_server_is_given_the_time_it_asks_for() {
        let pause = Pause::default();
        pause.note(&answer(200, Some("9")));
        pause.note(&answer(429, None));
        assert_eq!(pause.until(), None);

        let start = Instant::now();
        pause.note(&answer(429, Some("3")));
        pause.note(&answer(503, Some("1")));
        pause.over().await;
        assert_eq!(Instant::now() - start, Duration::from_secs(3));
    }
}
