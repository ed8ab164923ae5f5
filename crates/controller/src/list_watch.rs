//! Lists a kind of objects, then watches it, without end. Decides how much of a list is in memory at once,
//! where a watch goes on after an interruption, and when only a new list helps. Knows nothing of what
//! the objects mean.
//!
//! A page is bounded in bytes, because anybody may store objects of a megabyte: the number of objects in
//! the next page follows from the size of those before, and a page that is still too large is dropped
//! unread and asked for again with fewer objects.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, BoxStream, Stream, StreamExt as _};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::api::ListParams;
use kube::client::Body;
use kube::core::Request;
use kube::runtime::watcher::{Error, Event};
use serde::de::Error as _;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use crate::answer;
use crate::encoding::{Encoded, Encoding, WatchEvent};
use crate::requests::Requests;
use crate::watch_gap::WatchGap;

/// Objects in a first page, and at most in any.
const FIRST_PAGE: usize = 20;
const PAGE_MAX: usize = 500;
/// A page should have this many bytes…
const PAGE_BYTES: usize = 1 << 20;
/// …and is dropped if it has more than this many, unless it has one object only.
const PAGE_BYTES_MAX: usize = 4 << 20;
/// A watch that ends before this is not worth being started again at once: something between us and the
/// API server ends it.
const WATCH_MIN: Duration = Duration::from_secs(1);
/// How long the API server keeps a watch open. It is alive if it shows something in a third of that: a
/// bookmark comes about once a minute.
const WATCH_SECS: u64 = 900;
const WATCH_STALLS: Duration = Duration::from_secs(WATCH_SECS / 3);

/// What is listed and watched.
#[derive(Clone)]
pub(crate) struct Source<T> {
    pub(crate) client: Client,
    /// Each page counts among these.
    pub(crate) requests: Requests,
    /// Where the objects live in the API.
    pub(crate) path: String,
    /// `label=value`, or empty.
    pub(crate) labels: String,
    /// Pages that may be in memory at once, over all sources.
    pub(crate) pages: Arc<Semaphore>,
    /// What the API server is asked for; it may send JSON all the same.
    pub(crate) encoding: Encoding,
    pub(crate) read: Reader<T>,
    /// Since when it is neither listed nor watched.
    pub(crate) gap: Arc<WatchGap>,
}

/// How a stored object is read, and its `resourceVersion`.
pub(crate) type Reader<T> =
    Arc<dyn Fn(Encoded<'_>) -> Result<(T, u64), serde_json::Error> + Send + Sync>;

/// Lists and watches. After an error, the next item is another attempt: the caller decides when.
pub(crate) fn list_watch<T: Send + 'static>(
    source: Source<T>,
) -> impl Stream<Item = Result<Event<T>, Error>> + Send {
    stream::unfold((source, State::Start), |(source, mut state)| async move {
        loop {
            let (item, next) = source.step(state).await;
            state = next;
            if let Some(item) = item {
                return Some((item, (source, state)));
            }
        }
    })
}

enum State<T> {
    Start,
    Listing {
        objects: VecDeque<T>,
        /// Where the next page begins; none after the last.
        token: Option<String>,
        /// Of the list, once a page was read.
        version: String,
        page: usize,
    },
    Listed {
        version: String,
    },
    Watching {
        version: String,
        events: Events,
    },
}

/// The events of a watch.
struct Events {
    frames: BoxStream<'static, std::io::Result<Vec<u8>>>,
    encoding: Encoding,
    begun: Instant,
}

type Step<T> = (Option<Result<Event<T>, Error>>, State<T>);

impl<T: Send + 'static> Source<T> {
    async fn step(&self, state: State<T>) -> Step<T> {
        match state {
            State::Start => {
                self.gap.begin();
                let first = State::Listing {
                    objects: VecDeque::new(),
                    token: None,
                    version: String::new(),
                    page: FIRST_PAGE,
                };
                (Some(Ok(Event::Init)), first)
            }
            State::Listing {
                mut objects,
                token,
                version,
                page,
            } => {
                if let Some(object) = objects.pop_front() {
                    let rest = State::Listing {
                        objects,
                        token,
                        version,
                        page,
                    };
                    return (Some(Ok(Event::InitApply(object))), rest);
                }
                if token.is_none() && !version.is_empty() {
                    self.gap.end();
                    return (Some(Ok(Event::InitDone)), State::Listed { version });
                }
                match self.page(token.as_deref(), page).await {
                    Ok(Some(next)) => (None, next),
                    Ok(None) => {
                        let page = (page / 4).max(1);
                        let again = State::Listing {
                            objects,
                            token,
                            version,
                            page,
                        };
                        (None, again)
                    }
                    Err(error) => (Some(Err(Error::InitialListFailed(error))), State::Start),
                }
            }
            State::Listed { version } => self.start_watch(version).await,
            State::Watching { version, events } => self.next_event(version, events).await,
        }
    }

    async fn start_watch(&self, version: String) -> Step<T> {
        self.gap.begin();
        match self.watch(&version).await {
            Ok(_) if self.gap.is_long() => (None, State::Start),
            Ok(events) => {
                self.gap.end();
                (None, State::Watching { version, events })
            }
            Err(error) => {
                // What happens until the API is back, or allowed again, is in no watch.
                let again = match &error {
                    kube::Error::Api(status) if status.code < 429 => State::Start,
                    _ if self.gap.is_long() => State::Start,
                    _ => State::Listed { version },
                };
                (Some(Err(Error::WatchStartFailed(error))), again)
            }
        }
    }

    async fn next_event(&self, version: String, mut events: Events) -> Step<T> {
        match timeout(WATCH_STALLS, events.frames.next()).await {
            Ok(Some(Ok(frame))) => self.event(&frame, version, events),
            Ok(Some(Err(error))) => broken(error, version),
            Ok(None) if events.begun.elapsed() < WATCH_MIN => {
                let error = std::io::Error::other("the watch ended as soon as it began");
                broken(error, version)
            }
            // The API server ends every watch after a while, and some connections die.
            Ok(None) | Err(_) => (None, State::Listed { version }),
        }
    }

    /// One page; nothing if it is too large.
    async fn page(
        &self,
        token: Option<&str>,
        page: usize,
    ) -> Result<Option<State<T>>, kube::Error> {
        let _slot = self.pages.acquire().await;
        let page_max = u32::try_from(page).unwrap_or(u32::MAX);
        let mut params = ListParams::default().limit(page_max);
        params.label_selector = Some(self.labels.clone()).filter(|labels| !labels.is_empty());
        params.continue_token = token.map(str::to_owned);
        let request = Request::new(&self.path).list(&params);
        let mut request = request.map_err(kube::Error::BuildRequest)?.map(Body::from);
        let headers = request.headers_mut();
        headers.insert(http::header::ACCEPT, self.encoding.accept());
        let bytes_max = if page == 1 {
            usize::MAX
        } else {
            PAGE_BYTES_MAX
        };
        let (uri, start) = (request.uri().clone(), Instant::now());
        let fetched = self.fetch(request, bytes_max).await;
        let (code, time) = (answer::code(&fetched), start.elapsed());
        self.requests.count(&http::Method::GET, &uri, code, time);
        let (encoding, Some(bytes)) = fetched? else {
            return Ok(None);
        };
        let list = encoding.list(&bytes).map_err(kube::Error::SerdeError)?;
        if list.metadata.resource_version.is_empty() {
            // Without it, no watch can begin.
            let error = serde_json::Error::custom("the answer is no list");
            return Err(kube::Error::SerdeError(error));
        }
        let each = bytes.len() / list.items.len().max(1);
        let mut objects = VecDeque::with_capacity(list.items.len());
        for item in list.items {
            let (object, _) = (self.read)(item).map_err(kube::Error::SerdeError)?;
            objects.push_back(object);
        }
        Ok(Some(State::Listing {
            objects,
            token: list.metadata.token.filter(|token| !token.is_empty()),
            version: list.metadata.resource_version,
            page: (PAGE_BYTES / each.max(1)).clamp(1, PAGE_MAX),
        }))
    }

    /// The bytes of an answer; nothing if there are more than this.
    async fn fetch(
        &self,
        request: http::Request<Body>,
        bytes_max: usize,
    ) -> Result<(Encoding, Option<Vec<u8>>), kube::Error> {
        let answer = answer::begin(&self.client, request).await?;
        if !answer.status().is_success() {
            return Err(answer::refusal(answer).await);
        }
        let encoding = Encoding::of(answer.headers());
        let bytes = answer::read(answer.into_body(), bytes_max).await?;
        Ok((encoding, bytes))
    }

    async fn watch(&self, version: &str) -> Result<Events, kube::Error> {
        let request = self.watch_request(version)?;
        let answer = answer::begin(&self.client, request).await?;
        if !answer.status().is_success() {
            return Err(answer::refusal(answer).await);
        }
        let encoding = Encoding::of(answer.headers());
        let body = answer.into_body().into_data_stream();
        let body = body.map(|part| part.map_err(std::io::Error::other));
        Ok(Events {
            frames: encoding.frames(futures::TryStreamExt::into_async_read(body)),
            encoding,
            begun: Instant::now(),
        })
    }

    fn event(&self, frame: &[u8], version: String, events: Events) -> Step<T> {
        let WatchEvent { kind, object } = match (events.encoding.event(frame), events.encoding) {
            (Ok(event), _) => event,
            (Err(_), Encoding::Json) => {
                let error = std::io::Error::other("the connection broke in the middle of an event");
                return broken(error, version);
            }
            // It came whole, so it would be the same again.
            (Err(error), Encoding::Protobuf) => {
                let error = Error::WatchFailed(kube::Error::SerdeError(error));
                return (Some(Err(error)), State::Start);
            }
        };
        match kind.as_str() {
            "BOOKMARK" => {
                let version = object.version().unwrap_or(version);
                (None, State::Watching { version, events })
            }
            "ADDED" | "MODIFIED" | "DELETED" => match (self.read)(object) {
                Ok((_, 0)) => (Some(Err(Error::NoResourceVersion)), State::Start),
                Ok((object, version)) => {
                    let version = version.to_string();
                    let event = match kind.as_str() {
                        "DELETED" => Event::Delete(object),
                        _ => Event::Apply(object),
                    };
                    (Some(Ok(event)), State::Watching { version, events })
                }
                Err(error) => {
                    let error = Error::WatchFailed(kube::Error::SerdeError(error));
                    (Some(Err(error)), State::Watching { version, events })
                }
            },
            _ => {
                let status = Box::new(object.status());
                // What was missed is gone from the API server's history, or it does not say.
                (Some(Err(Error::WatchError(status))), State::Start)
            }
        }
    }

    /// kube allows no watch of more than five minutes.
    fn watch_request(&self, version: &str) -> Result<http::Request<Body>, kube::Error> {
        let labels = match self.labels.as_str() {
            "" => String::new(),
            labels => format!("&labelSelector={}", encoded(labels)),
        };
        let version = encoded(version);
        let uri = format!(
            "{}?watch=true&allowWatchBookmarks=true&timeoutSeconds={WATCH_SECS}\
             &resourceVersion={version}{labels}",
            self.path
        );
        let request = http::Request::get(uri)
            .header(http::header::ACCEPT, self.encoding.accept_watch())
            .body(Body::empty());
        request.map_err(kube::Error::HttpError)
    }
}

/// The next watch goes on where this one broke.
fn broken<T>(error: std::io::Error, version: String) -> Step<T> {
    let error = Error::WatchFailed(kube::Error::ReadEvents(error));
    (Some(Err(error)), State::Listed { version })
}

/// A value in a query.
fn encoded(value: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let parts = value.bytes().map(|byte| match plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use planner::Kind;

    use super::*;
    use crate::encoding::tests::{PAGES, WATCH, error_frame};
    use crate::wire::{self, Reading};

    fn frame(bytes: &[u8]) -> Vec<u8> {
        let length = u32::try_from(bytes.len()).expect("a frame is short");
        [&length.to_be_bytes(), bytes].concat()
    }

    /// A source whose API server gives these answers, one after the other, in protobuf.
    fn source(answers: Vec<Vec<u8>>) -> Source<Reading> {
        let answers = Arc::new(Mutex::new(VecDeque::from(answers)));
        let serve = tower::service_fn(move |request: http::Request<Body>| {
            let accept = request.headers()[http::header::ACCEPT].to_str();
            let protobuf = "application/vnd.kubernetes.protobuf";
            assert!(accept.is_ok_and(|accept| accept.starts_with(protobuf)));
            let mut answers = answers.lock().expect("nobody panics here");
            let body = Body::from(answers.pop_front().expect("it is asked no further"));
            let answer = http::Response::builder().header(http::header::CONTENT_TYPE, protobuf);
            async move { answer.body(body) }
        });
        Source {
            client: Client::new(serve, "default"),
            requests: Requests::default(),
            path: "/api/v1/pods".to_owned(),
            labels: String::new(),
            pages: Arc::new(Semaphore::new(1)),
            encoding: Encoding::Protobuf,
            read: Arc::new(|object| {
                let reading = wire::read(&Kind::Pod, object)?;
                let version = reading.child.version;
                Ok((reading, version))
            }),
            gap: Arc::default(),
        }
    }

    fn name(event: &Result<Event<Reading>, Error>) -> String {
        let named = |word: &str, pod: &Reading| format!("{word} {}", pod.child.key.name);
        match event {
            Ok(Event::Init) => "list".to_owned(),
            Ok(Event::InitApply(pod)) => named("listed", pod),
            Ok(Event::InitDone) => "watch".to_owned(),
            Ok(Event::Apply(pod)) => named("stored", pod),
            Ok(Event::Delete(pod)) => named("deleted", pod),
            Err(Error::WatchError(status)) => format!("refused {}", status.code),
            Err(Error::WatchFailed(_)) => "broken".to_owned(),
            Err(error) => format!("{error}"),
        }
    }

    async fn names(answers: Vec<Vec<u8>>, count: usize) -> Vec<String> {
        let events = list_watch(source(answers)).take(count);
        events.map(|event| name(&event)).collect().await
    }

    #[tokio::test]
    async fn pods_are_listed_and_watched_in_protobuf() {
        let pages = PAGES.map(<[u8]>::to_vec);
        let watch = [WATCH, &frame(&error_frame())].concat();
        let answers = [&pages[..], &[watch]].concat();
        let names = names(answers, 4 + 10 + 2).await;
        let listed = [
            "list",
            "listed ring-worker-7",
            "listed ring-worker-8",
            "watch",
        ];
        assert_eq!(names[..4], listed);
        assert_eq!(names[4], "stored ring-worker-7");
        assert_eq!(
            names[13..],
            ["deleted ring-worker-7", "refused 404", "list"]
        );
    }

    #[tokio::test]
    async fn every_page_of_a_list_counts_as_a_request_and_a_watch_does_not() {
        let source = source([&PAGES.map(<[u8]>::to_vec)[..], &[WATCH.to_vec()]].concat());
        let requests = source.requests.clone();
        let events = list_watch(source).take(5);
        assert_eq!(events.collect::<Vec<_>>().await.len(), 5);
        assert_eq!(requests.answered("list", "pods", "200"), 2);
    }

    #[tokio::test]
    async fn an_event_or_a_list_that_is_none_is_an_error_and_no_loop() {
        let page = PAGES[1].to_vec();
        let names = names(vec![page, frame(b"\x0b"), b"k8s\0".to_vec()], 6).await;
        assert_eq!(names[..3], ["list", "listed ring-worker-8", "watch"]);
        assert_eq!(names[3..5], ["broken", "list"]);
        assert!(names[5].contains("the answer is no list"), "{}", names[5]);
    }
}
