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

use futures::io::AsyncBufReadExt as _;
use futures::stream::{self, BoxStream, Stream, StreamExt as _};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::api::ListParams;
use kube::client::Body;
use kube::core::Request;
use kube::runtime::watcher::{Error, Event};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use crate::answer;
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
    /// Where the objects live in the API.
    pub(crate) path: String,
    /// `label=value`, or empty.
    pub(crate) labels: String,
    /// Pages that may be in memory at once, over all sources.
    pub(crate) pages: Arc<Semaphore>,
    pub(crate) read: Reader<T>,
    /// Since when it is neither listed nor watched.
    pub(crate) gap: Arc<WatchGap>,
}

/// How a stored object is read, and its `resourceVersion`.
pub(crate) type Reader<T> = Arc<dyn Fn(&str) -> Result<(T, u64), serde_json::Error> + Send + Sync>;

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
        lines: Lines,
    },
}

/// The events of a watch.
struct Lines {
    lines: BoxStream<'static, std::io::Result<String>>,
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
            State::Watching { version, lines } => self.next_event(version, lines).await,
        }
    }

    async fn start_watch(&self, version: String) -> Step<T> {
        self.gap.begin();
        match self.watch(&version).await {
            Ok(_) if self.gap.is_long() => (None, State::Start),
            Ok(lines) => {
                self.gap.end();
                (None, State::Watching { version, lines })
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

    async fn next_event(&self, version: String, mut lines: Lines) -> Step<T> {
        match timeout(WATCH_STALLS, lines.lines.next()).await {
            Ok(Some(Ok(line))) => self.event(&line, version, lines),
            Ok(Some(Err(error))) => broken(error, version),
            Ok(None) if lines.begun.elapsed() < WATCH_MIN => {
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
        let request = request.map_err(kube::Error::BuildRequest)?.map(Body::from);
        let answer = answer::begin(&self.client, request).await?;
        if !answer.status().is_success() {
            return Err(answer::refusal(answer).await);
        }
        let bytes_max = if page == 1 {
            usize::MAX
        } else {
            PAGE_BYTES_MAX
        };
        let Some(bytes) = answer::read(answer.into_body(), bytes_max).await? else {
            return Ok(None);
        };
        let list: List<'_> = serde_json::from_slice(&bytes).map_err(kube::Error::SerdeError)?;
        let items = list.items.unwrap_or_default();
        let mut objects = VecDeque::with_capacity(items.len());
        for item in &items {
            let (object, _) = (self.read)(item.get()).map_err(kube::Error::SerdeError)?;
            objects.push_back(object);
        }
        let each = bytes.len() / items.len().max(1);
        Ok(Some(State::Listing {
            objects,
            token: list.metadata.token.filter(|token| !token.is_empty()),
            version: list.metadata.resource_version,
            page: (PAGE_BYTES / each.max(1)).clamp(1, PAGE_MAX),
        }))
    }

    async fn watch(&self, version: &str) -> Result<Lines, kube::Error> {
        let request = self.watch_request(version)?;
        let answer = answer::begin(&self.client, request).await?;
        if !answer.status().is_success() {
            return Err(answer::refusal(answer).await);
        }
        let body = answer.into_body().into_data_stream();
        let body = body.map(|part| part.map_err(std::io::Error::other));
        Ok(Lines {
            lines: futures::TryStreamExt::into_async_read(body).lines().boxed(),
            begun: Instant::now(),
        })
    }

    fn event(&self, line: &str, version: String, lines: Lines) -> Step<T> {
        let Ok(WatchLine { kind, object }) = serde_json::from_str(line) else {
            let error = std::io::Error::other("the connection broke in the middle of an event");
            return broken(error, version);
        };
        let (object, kind) = (object.get(), kind.as_str());
        match kind {
            "BOOKMARK" => {
                let version = bookmark(object).unwrap_or(version);
                (None, State::Watching { version, lines })
            }
            "ADDED" | "MODIFIED" | "DELETED" => match (self.read)(object) {
                Ok((_, 0)) => (Some(Err(Error::NoResourceVersion)), State::Start),
                Ok((object, version)) => {
                    let version = version.to_string();
                    let event = match kind {
                        "DELETED" => Event::Delete(object),
                        _ => Event::Apply(object),
                    };
                    (Some(Ok(event)), State::Watching { version, lines })
                }
                Err(error) => {
                    let error = Error::WatchFailed(kube::Error::SerdeError(error));
                    (Some(Err(error)), State::Watching { version, lines })
                }
            },
            _ => {
                let status = serde_json::from_str(object).unwrap_or_default();
                // What was missed is gone from the API server's history, or it does not say.
                (Some(Err(Error::WatchError(Box::new(status)))), State::Start)
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
        let request = http::Request::get(uri).body(Body::empty());
        request.map_err(kube::Error::HttpError)
    }
}

/// The next watch goes on where this one broke.
fn broken<T>(error: std::io::Error, version: String) -> Step<T> {
    let error = Error::WatchFailed(kube::Error::ReadEvents(error));
    (Some(Err(error)), State::Listed { version })
}

fn bookmark(object: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Bookmark {
        metadata: ListMetadata,
    }
    let bookmark: Bookmark = serde_json::from_str(object).ok()?;
    Some(bookmark.metadata.resource_version).filter(|version| !version.is_empty())
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

#[derive(Deserialize)]
struct List<'a> {
    metadata: ListMetadata,
    #[serde(borrow)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ListMetadata {
    resource_version: String,
    #[serde(rename = "continue")]
    token: Option<String>,
}

#[derive(Deserialize)]
struct WatchLine<'a> {
    #[serde(rename = "type")]
    kind: String,
    #[serde(borrow)]
    object: &'a RawValue,
}
