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
use kube::client::Body;
use kube::core::{ApiResource, DynamicObject, Request};
use serde_json::Value;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout, timeout_at};

use crate::answer;
use crate::api_error::ApiError;
use crate::requests::Requests;
use crate::tenure::Tenure;

/// Name under which the API server records what we wrote.
const FIELD_MANAGER: &str = "muster-operator";
/// One request may take this long, waits that the server asked for included. Longer than the default
/// timeout of admission webhooks (10 s), so that the API server can still name the one that hangs.
const DEADLINE: Duration = Duration::from_secs(12);
/// Objects that one request deletes at most. The API server gives up after a minute, and needs up to
/// 30 ms for each on a busy machine.
pub(crate) const SELECTED_MAX: usize = 1000;
/// What each object adds to the deadline of a request that deletes many.
const DELETION_EACH: Duration = Duration::from_millis(50);
/// Metadata instead of whole objects.
const METADATA_LIST: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
/// Requests that run at once, over all jobs: each is a connection.
const IN_FLIGHT_MAX: usize = 64;
/// Objects of others in one answer, and their bytes: an ordinary one has one or two kilobytes.
const LISTED_MAX: u32 = 10;
const LISTED_BYTES_MAX: usize = 256 << 10;

/// A client of the API server.
#[derive(Clone)]
pub(crate) struct Api {
    client: Client,
    pause: Arc<Pause>,
    slots: Arc<Semaphore>,
    requests: Requests,
    tenure: Tenure,
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
            requests: Requests::default(),
            tenure: Tenure::default(),
        }
    }

    /// It writes only as long as this lasts.
    pub(crate) fn during(mut self, tenure: Tenure) -> Self {
        self.tenure = tenure;
        self
    }

    /// Its requests count among these.
    pub(crate) fn counted_by(mut self, requests: &Requests) -> Self {
        self.requests = requests.clone();
        self
    }

    /// What its requests count among, and those of its client shall.
    pub(crate) fn requests(&self) -> Requests {
        self.requests.clone()
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
        self.create_text(target, body).await
    }

    /// POST of what is JSON already.
    pub(crate) async fn create_text(
        &self,
        target: Target<'_>,
        body: Vec<u8>,
    ) -> Result<String, ApiError> {
        self.send(target.path().create(&post_params(), body)).await
    }

    /// POST that is not carried out: whether the API server would accept the object.
    pub(crate) async fn try_create(
        &self,
        target: Target<'_>,
        body: &Value,
    ) -> Result<String, ApiError> {
        let body = serde_json::to_vec(body).map_err(ApiError::Unreadable)?;
        let params = PostParams {
            dry_run: true,
            ..post_params()
        };
        self.send(target.path().create(&params, body)).await
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
    pub(crate) async fn delete(
        &self,
        target: Target<'_>,
        uid: &str,
        grace_secs: Option<u32>,
    ) -> Result<String, ApiError> {
        let params = DeleteParams {
            grace_period_seconds: grace_secs,
            propagation_policy: Some(PropagationPolicy::Background),
            preconditions: Some(Preconditions {
                uid: Some(uid.to_owned()),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        self.send(target.path().delete(target.name, &params)).await
    }

    /// DELETE of whatever object has this name; fine if none has.
    pub(crate) async fn delete_named(&self, target: Target<'_>) -> Result<(), ApiError> {
        let request = target.path().delete(target.name, &DeleteParams::default());
        found(self.send(request).await).map(drop)
    }

    /// DELETE of the objects that the selectors match, at most [`SELECTED_MAX`] of them, from where
    /// the page before it ended. Answers with their metadata alone: the pods of a large job would not
    /// fit into our memory. `expected` objects have the time that so many need.
    pub(crate) async fn delete_selected(
        &self,
        target: Target<'_>,
        labels: &str,
        fields: &str,
        page: &str,
        expected: usize,
    ) -> Result<String, ApiError> {
        let mut selection = ListParams::default().labels(labels);
        if !fields.is_empty() {
            selection = selection.fields(fields);
        }
        let params = DeleteParams::default();
        let request = target.path().delete_collection(&params, &selection);
        let request = request.and_then(|mut request| {
            // The token of a page needs no escapes.
            let uri = format!("{}&limit={SELECTED_MAX}&continue={page}", request.uri());
            *request.uri_mut() = uri
                .parse::<http::Uri>()
                .map_err(|error| kube::core::request::Error::BuildRequest(error.into()))?;
            let accept = http::HeaderValue::from_static(METADATA_LIST);
            request.headers_mut().insert(http::header::ACCEPT, accept);
            Ok(request)
        });
        self.send_for(request, deletion_deadline(expected)).await
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

    /// GET of the first objects of a selection, whoever wrote them; `None` if they are too large. The API
    /// server answers with what is stored, not with what it remembers.
    pub(crate) async fn list_selected(
        &self,
        target: Target<'_>,
        selection: ListParams,
    ) -> Result<Option<Vec<u8>>, ApiError> {
        let request = target.path().list(&selection.limit(LISTED_MAX));
        let request = request.map_err(kube::Error::BuildRequest)?.map(Body::from);
        let _slot = self.slot().await;
        let uri = request.uri().clone();
        let listed = async {
            self.pause.over().await;
            let answer = answer::begin(&self.client, request).await?;
            if !answer.status().is_success() {
                return Err(answer::refusal(answer).await);
            }
            answer::read(answer.into_body(), LISTED_BYTES_MAX).await
        };
        let start = Instant::now();
        let listed = timeout(DEADLINE, listed).await;
        let code = listed.as_ref().ok().and_then(answer::code);
        let time = start.elapsed();
        self.requests.count(&http::Method::GET, &uri, code, time);
        let secs = DEADLINE.as_secs();
        Ok(listed.map_err(|_| ApiError::TimedOut { secs })??)
    }

    /// Any request.
    pub(crate) async fn send(
        &self,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<String, ApiError> {
        self.send_for(request, DEADLINE).await
    }

    async fn send_for(
        &self,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
        time: Duration,
    ) -> Result<String, ApiError> {
        let request = request.map_err(|error| ApiError::from(kube::Error::BuildRequest(error)))?;
        // The deadline does not include the wait for a slot of our own.
        let _slot = self.slot().await;
        let deadline = Instant::now() + time;
        let unanswered = ApiError::TimedOut {
            secs: time.as_secs(),
        };
        loop {
            let Ok(()) = timeout_at(deadline, self.pause.over()).await else {
                return Err(unanswered);
            };
            if request.method() != http::Method::GET && self.tenure.is_over() {
                return Err(ApiError::NotLeading);
            }
            let start = Instant::now();
            let answer = timeout(
                deadline.saturating_duration_since(start),
                self.client.request_text(request.clone()),
            );
            let answer = answer.await.map(|answer| answer.map_err(ApiError::from));
            let code = match &answer {
                Ok(Ok(_)) => Some(200),
                Ok(Err(error)) => error.code(),
                Err(_) => None,
            };
            let (method, uri) = (request.method(), request.uri());
            self.requests.count(method, uri, code, start.elapsed());
            let Ok(answer) = answer else {
                return Err(unanswered);
            };
            match answer {
                Err(error) if self.worth_waiting(&error, deadline) => {}
                other => return other,
            }
        }
    }

    async fn slot(&self) -> SemaphorePermit<'_> {
        let slot = self.slots.acquire().await;
        slot.expect("the semaphore is never closed")
    }

    /// The API server named a time to retry at, and it is before our deadline.
    fn worth_waiting(&self, error: &ApiError, deadline: Instant) -> bool {
        matches!(error.code(), Some(429 | 503))
            && self.pause.until().is_some_and(|until| until < deadline)
    }
}

/// How long a request may take that deletes so many objects.
fn deletion_deadline(objects: usize) -> Duration {
    let objects = u32::try_from(objects.min(SELECTED_MAX)).unwrap_or(u32::MAX);
    DEADLINE + DELETION_EACH * objects
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
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn answer(code: u16, retry_after: Option<&str>) -> http::Response<()> {
        let mut answer = http::Response::builder().status(code);
        if let Some(secs) = retry_after {
            answer = answer.header("Retry-After", secs);
        }
        answer.body(()).expect("the parts are valid")
    }

    #[test]
    fn c03_a_deletion_has_time_by_its_size_and_more_than_the_api_server_takes() {
        assert_eq!(deletion_deadline(0), DEADLINE);
        assert!(deletion_deadline(100) > DEADLINE);
        assert!(deletion_deadline(SELECTED_MAX) > Duration::from_secs(60));
        assert_eq!(deletion_deadline(10_000), deletion_deadline(SELECTED_MAX));
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

    #[tokio::test(start_paused = true)]
    async fn nothing_is_written_once_the_lease_is_overdue_and_all_can_be_read() {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        let service = tower::service_fn(move |_: http::Request<Body>| {
            counted.fetch_add(1, Ordering::Relaxed);
            let body = Body::from(b"{}".to_vec());
            std::future::ready(Ok::<_, tower::BoxError>(http::Response::new(body)))
        });
        let tenure = Tenure::default();
        tenure.extend(Instant::now() + Duration::from_secs(15));
        let api = Api::new(kube::Client::new(service, "default"), Arc::default());
        let api = api.during(tenure.clone());
        let resource = crate::wire::resource(&planner::Kind::Pod);
        let target = Target {
            resource: &resource,
            namespace: "team-a",
            name: "ring",
        };
        let body = Value::Null;
        assert!(api.create(target, &body).await.is_ok());
        // The process stood still.
        tokio::time::advance(Duration::from_secs(60)).await;
        let unsent = |answer: Result<String, ApiError>| matches!(answer, Err(ApiError::NotLeading));
        assert!(unsent(api.create(target, &body).await));
        assert!(unsent(api.replace(target, &body).await));
        assert!(unsent(api.merge(target, None, &body).await));
        assert!(unsent(api.delete(target, "u", None).await));
        assert_eq!(count.load(Ordering::Relaxed), 1);
        assert!(api.get(target).await.is_ok());
        tenure.extend(Instant::now() + Duration::from_secs(15));
        assert!(api.create(target, &body).await.is_ok());
    }
}
