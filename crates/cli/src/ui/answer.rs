//! Answers of the page's server. Decides the headers of all of them: what a browser may load and run, and that
//! nothing is kept.

use std::convert::Infallible;

use bytes::Bytes;
use futures::stream;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderName, HeaderValue, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Frame;
use serde_json::Value;
use tokio::sync::mpsc;

/// An answer, whole or without end.
pub(super) type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

pub(super) const HTML: &str = "text/html; charset=utf-8";
pub(super) const CSS: &str = "text/css; charset=utf-8";
pub(super) const JS: &str = "text/javascript; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";
const EVENTS: &str = "text/event-stream";

/// Scripts and styles come from here alone, and no page of others may show this one in itself.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
    connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
/// Messages that wait for a browser that is slow.
const MESSAGES_MAX: usize = 16;

/// A whole answer.
pub(super) fn whole(code: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Answer {
    let body = Full::new(body.into()).boxed_unsync();
    headed(code, kind, body)
}

/// A sentence instead of what was asked for.
pub(super) fn refusal(code: StatusCode, why: &str) -> Answer {
    whole(code, TEXT, format!("{why}\n"))
}

/// The browser goes on at another address of this page.
pub(super) fn elsewhere(address: &str) -> Answer {
    let mut answer = refusal(StatusCode::SEE_OTHER, &format!("the page is at {address}"));
    if let Ok(address) = HeaderValue::from_str(address) {
        answer.headers_mut().insert(LOCATION, address);
    }
    answer
}

/// The browser opens the same address again.
pub(super) fn again() -> Answer {
    let text = "<!doctype html><title>muster</title><link rel=\"icon\" href=\"data:,\">\
        <meta http-equiv=\"refresh\" content=\"0\">";
    whole(StatusCode::OK, HTML, text)
}

fn headed(code: StatusCode, kind: &'static str, body: UnsyncBoxBody<Bytes, Infallible>) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = code;
    let headers = [
        (CONTENT_TYPE, kind),
        (CONTENT_SECURITY_POLICY, POLICY),
        (CACHE_CONTROL, "no-store"),
        (REFERRER_POLICY, "no-referrer"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
    ];
    for (name, value) in headers {
        answer
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    answer
}

/// Sends messages to one browser, until it goes.
#[derive(Clone)]
pub(super) struct Messages(mpsc::Sender<Bytes>);

/// The browser has gone.
#[derive(Debug)]
pub(super) struct Gone;

impl Messages {
    /// A message of this kind. The number, if there is one, comes back when the browser connects again.
    pub(super) async fn send(
        &self,
        kind: &'static str,
        number: Option<u64>,
        data: &Value,
    ) -> Result<(), Gone> {
        let number = number
            .map(|number| format!("id: {number}\n"))
            .unwrap_or_default();
        // JSON has no line ends, which would end the message.
        let text = format!("{number}event: {kind}\ndata: {data}\n\n");
        self.0.send(text.into()).await.map_err(|_| Gone)
    }

    /// Waits until the browser has gone.
    pub(super) async fn gone(&self) {
        self.0.closed().await;
    }
}

/// An answer of messages (server-sent events), and what sends them.
pub(super) fn messages() -> (Answer, Messages) {
    let (sender, receiver) = mpsc::channel(MESSAGES_MAX);
    let frames = stream::unfold(receiver, |mut receiver: mpsc::Receiver<Bytes>| async {
        let bytes = receiver.recv().await?;
        Some((Ok(Frame::data(bytes)), receiver))
    });
    let answer = headed(
        StatusCode::OK,
        EVENTS,
        StreamBody::new(frames).boxed_unsync(),
    );
    (answer, Messages(sender))
}
