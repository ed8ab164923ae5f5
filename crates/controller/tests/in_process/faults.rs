//! A tower service between the controller and its API. Records every request, and disturbs those
//! that a rule names.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::{FutureExt as _, StreamExt as _};
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, BodyStream, Full, StreamBody};
use minicluster::service::{Body, Service, Shared};
use serde_json::json;
use tokio::sync::Notify;

type Answer = Response<UnsyncBoxBody<Bytes, std::convert::Infallible>>;

/// One request of the controller.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) accept: String,
    pub(crate) body: String,
}

impl Call {
    /// A write or read of objects, as `VERB plural[/name[/subresource]]`; watches are `WATCH plural`.
    pub(crate) fn line(&self) -> String {
        let parts: Vec<&str> = self.path.split('/').collect();
        let from = match parts.iter().position(|part| *part == "namespaces") {
            Some(at) => at + 2,
            None if parts[1] == "api" => 3,
            None => 4,
        };
        let verb = match self.method.as_str() {
            "GET" if self.query.contains("watch=true") => "WATCH",
            // Nothing is written.
            "POST" if self.query.contains("dryRun") => "TRY",
            method => method,
        };
        format!("{verb} {}", parts[from.min(parts.len() - 1)..].join("/"))
    }
}

/// What happens to a request.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// The API server receives it this much later.
    Delay(Duration),
    /// The API server answers with this code and text, this much later, whatever it holds.
    Canned(Duration, u16, String),
    /// The API server acts, and the connection breaks before its answer arrives.
    DropAnswer,
    /// The API server does not act and answers with this code, reason and message.
    Status(u16, &'static str, &'static str),
    /// Whoever sends it panics.
    Panic,
}

struct Rule {
    fault: Fault,
    times: usize,
    names: Box<dyn Fn(&Call) -> bool + Send>,
}

/// The API, with faults.
#[derive(Clone)]
pub(crate) struct Faults {
    inner: Service,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    rules: Mutex<Vec<Rule>>,
    calls: Mutex<Vec<Call>>,
    cut: Notify,
}

impl Faults {
    pub(crate) fn new(shared: &Shared) -> Self {
        Self {
            inner: shared.service(),
            state: Arc::default(),
        }
    }

    /// Disturbs the next `times` requests whose [`Call::line`] begins with `line`.
    pub(crate) fn inject(&self, line: &'static str, times: usize, fault: Fault) {
        self.inject_if(times, fault, move |call| call.line().starts_with(line));
    }

    /// Disturbs the next `times` requests that `names` picks.
    pub(crate) fn inject_if(
        &self,
        times: usize,
        fault: Fault,
        names: impl Fn(&Call) -> bool + Send + 'static,
    ) {
        let names = Box::new(names);
        lock(&self.state.rules).push(Rule {
            fault,
            times,
            names,
        });
    }

    /// Ends all running faults.
    pub(crate) fn heal(&self) {
        lock(&self.state.rules).clear();
    }

    /// Breaks all watches that run now.
    pub(crate) fn cut_watches(&self) {
        self.state.cut.notify_waiters();
    }

    /// Requests so far whose [`Call::line`] begins so.
    pub(crate) fn calls(&self, line: &str) -> Vec<Call> {
        let calls = lock(&self.state.calls);
        let named = calls.iter().filter(|call| call.line().starts_with(line));
        named.cloned().collect()
    }

    /// All writes so far, in order.
    pub(crate) fn writes(&self) -> Vec<String> {
        let calls = lock(&self.state.calls);
        let writes = calls
            .iter()
            .filter(|call| call.method != "GET" && !call.query.contains("dryRun"));
        writes.map(Call::line).collect()
    }

    fn fault(&self, call: &Call) -> Option<Fault> {
        let mut rules = lock(&self.state.rules);
        let rule = rules
            .iter_mut()
            .find(|rule| rule.times > 0 && (rule.names)(call))?;
        rule.times -= 1;
        Some(rule.fault.clone())
    }

    async fn answer(mut self, request: Request<kube::client::Body>) -> Result<Answer, Broken> {
        let (parts, body) = request.into_parts();
        let body = body.collect_bytes().await.map_err(|_| Broken)?;
        let header = parts.headers.get(http::header::ACCEPT);
        let call = Call {
            method: parts.method.to_string(),
            path: parts.uri.path().to_owned(),
            query: parts.uri.query().unwrap_or_default().to_owned(),
            accept: header
                .map_or("", |value| value.to_str().unwrap_or_default())
                .to_owned(),
            body: String::from_utf8_lossy(&body).into_owned(),
        };
        lock(&self.state.calls).push(call.clone());
        let fault = self.fault(&call);
        match fault.clone() {
            Some(Fault::Delay(delay)) => tokio::time::sleep(delay).await,
            Some(Fault::Canned(delay, code, body)) => {
                tokio::time::sleep(delay).await;
                return Ok(json_answer(code, body));
            }
            Some(Fault::Status(code, reason, message)) => return Ok(status(code, reason, message)),
            Some(Fault::Panic) => panic!("a test wants this pass to panic"),
            _ => {}
        }
        let request = Request::from_parts(parts, Full::new(body));
        let answer = tower::Service::call(&mut self.inner, request).await;
        let answer = answer.unwrap_or_else(|never| match never {});
        if let Some(Fault::DropAnswer) = fault {
            return Err(Broken);
        }
        Ok(answer.map(|body| self.cuttable(body)))
    }

    fn cuttable(&self, body: Body) -> UnsyncBoxBody<Bytes, std::convert::Infallible> {
        let state = Arc::clone(&self.state);
        let cut = async move { state.cut.notified().await };
        StreamBody::new(BodyStream::new(body).take_until(cut.boxed())).boxed_unsync()
    }
}

fn status(code: u16, reason: &str, message: &str) -> Answer {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "code": code, "reason": reason, "message": message,
    });
    json_answer(code, body.to_string())
}

fn json_answer(code: u16, body: String) -> Answer {
    Response::builder()
        .status(code)
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(Full::from(body).boxed_unsync())
        .expect("the parts are valid")
}

/// The connection broke.
#[derive(Debug)]
pub(crate) struct Broken;

impl std::fmt::Display for Broken {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("the connection broke")
    }
}

impl std::error::Error for Broken {}

impl tower::Service<Request<kube::client::Body>> for Faults {
    type Response = Answer;
    type Error = Broken;
    type Future = Pin<Box<dyn Future<Output = Result<Answer, Broken>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Self::Future {
        Box::pin(self.clone().answer(request))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
