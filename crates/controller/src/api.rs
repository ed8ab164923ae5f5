//! Requests to the API server. Decides how long one may take and how many run at once, and obeys
//! the server when it asks for patience; what is asked for, and why, is not known here.
//!
//! Answers are handed on as text: kube's own decoding logs what it cannot read, and that must
//! never happen to a Secret.

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

/// A way to the API server.
#[derive(Clone)]
pub(crate) struct Api {
    client: Client,
    pause: Arc<Pause>,
    slots: Arc<Semaphore>,
}

/// Until when the API server asked us to be quiet.
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
    /// Over this client, which must not retry on its own.
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
        let params = PostParams {
            field_manager: Some(FIELD_MANAGER.into()),
            dry_run: false,
        };
        let body = serde_json::to_vec(body).map_err(ApiError::Unreadable)?;
        self.send(target.path().create(&params, body)).await
    }

    /// GET.
    pub(crate) async fn get(&self, target: Target<'_>) -> Result<String, ApiError> {
        self.send(target.path().get(target.name, &GetParams::default()))
            .await
    }

    /// GET of the metadata alone: what is in the object never reaches us.
    pub(crate) async fn get_metadata(&self, target: Target<'_>) -> Result<String, ApiError> {
        self.send(
            target
                .path()
                .get_metadata(target.name, &GetParams::default()),
        )
        .await
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
        let params = PostParams {
            field_manager: Some(FIELD_MANAGER.into()),
            dry_run: false,
        };
        let body = serde_json::to_vec(body).map_err(ApiError::Unreadable)?;
        self.send(target.path().replace(target.name, &params, body))
            .await
    }

    /// DELETE of this very object. Dependents go with it: a Job deleted by default leaves its
    /// pods running.
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

    /// DELETE of everything that is selected.
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
        self.send(
            target
                .path()
                .delete_collection(&DeleteParams::default(), &selection),
        )
        .await
    }

    /// GET of at most one object, anywhere: does the API exist?
    pub(crate) async fn probe(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
    ) -> Result<String, ApiError> {
        let path = Request::new(DynamicObject::url_path(resource, namespace));
        self.send(path.list(&ListParams::default().limit(1))).await
    }

    /// GET of everything that a field selector names.
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
        // The time in our own queue is not the API server's.
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

    /// The server named a time at which to ask again, and it is within our deadline.
    fn worth_waiting(&self, error: &ApiError, deadline: Instant) -> bool {
        matches!(error.code(), Some(429 | 503))
            && self.pause.until().is_some_and(|until| until < deadline)
    }
}

impl Target<'_> {
    fn path(&self) -> Request {
        Request::new(DynamicObject::url_path(self.resource, Some(self.namespace)))
    }
}

impl Pause {
    /// Notes the server's wish, if an answer carries one.
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
