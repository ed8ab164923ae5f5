//! The cluster as a tower service, so that a `kube::Client` (or an HTTP server) runs on it. Shares
//! one cluster among many connections; the clock is the caller's.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::{Buf, Bytes};
use futures_core::Stream;
use http_body::Frame;
use jiff::Timestamp;

use crate::api::watch::{Next, Watch};
use crate::kubelet::{Order, PodReport};
use crate::{Answer, Cluster, LogQuery};

/// A stream of a container's output.
pub type LogStream = Pin<Box<dyn Stream<Item = Bytes> + Send>>;
type Logs = dyn Fn(LogQuery) -> LogStream + Send + Sync;
type Clock = dyn Fn() -> Timestamp + Send + Sync;

/// One cluster for everybody. Clones are the same cluster.
#[derive(Clone)]
pub struct Shared(Arc<Inner>);

struct Inner {
    cluster: Mutex<Cluster>,
    clock: Box<Clock>,
    logs: Box<Logs>,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    watches: Vec<Waker>,
    driver: Option<Waker>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Shared")
    }
}

impl Shared {
    /// Shares a cluster. `logs` opens a container's output.
    pub fn new(
        cluster: Cluster,
        clock: impl Fn() -> Timestamp + Send + Sync + 'static,
        logs: impl Fn(LogQuery) -> LogStream + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(Inner {
            cluster: Mutex::new(cluster),
            clock: Box::new(clock),
            logs: Box::new(logs),
            waiting: Mutex::default(),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Cluster> {
        self.0
            .cluster
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at or moves the cluster; watches hear of what changed.
    pub fn with<T>(&self, act: impl FnOnce(&mut Cluster, Timestamp) -> T) -> T {
        let now = (self.0.clock)();
        let (done, changed) = {
            let mut cluster = self.lock();
            let before = cluster.revision();
            let done = act(&mut cluster, now);
            (done, cluster.revision() != before)
        };
        if changed {
            self.wake(true);
        }
        done
    }

    /// One step of the controllers. Call it after changes (see [`Self::changed`]) and at
    /// [`Cluster::next_wake`].
    pub fn tick(&self) -> Vec<Order> {
        let orders = self.with(|cluster, now| cluster.tick(now));
        // Watches may be due to end or to send a bookmark.
        self.wake(false);
        orders
    }

    /// Takes in what the runner says.
    pub fn report(&self, report: PodReport) {
        self.with(|cluster, now| cluster.report(now, report));
        self.wake(true);
    }

    /// Ready once something waits for [`Self::tick`]. For one driver at a time.
    pub fn poll_changed(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut waiting = self
            .0
            .waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        waiting.driver = Some(context.waker().clone());
        drop(waiting);
        if self.lock().is_restless() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }

    /// As a future.
    pub async fn changed(&self) {
        std::future::poll_fn(|context| self.poll_changed(context)).await;
    }

    /// Answers a request.
    pub fn handle(&self, request: http::Request<Vec<u8>>) -> http::Response<Body> {
        let answer = self.with(|cluster, now| cluster.handle(now, request));
        let streaming = |content: &str, body: Body| {
            http::Response::builder()
                .header(http::header::CONTENT_TYPE, content)
                .body(body)
                .expect("the parts are valid")
        };
        match answer {
            Answer::Whole(response) => response.map(|bytes| Body::Whole(Some(bytes.into()))),
            Answer::Watch(watch) => {
                // The driver has one more time to wake at.
                self.wake(true);
                streaming("application/json", Body::Watch(self.clone(), watch))
            }
            Answer::Log(query) => streaming("text/plain", Body::Log((self.0.logs)(query))),
        }
    }

    fn wake(&self, driver: bool) {
        let mut waiting = self
            .0
            .waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let watches = std::mem::take(&mut waiting.watches);
        let driver = if driver { waiting.driver.take() } else { None };
        drop(waiting);
        watches.into_iter().chain(driver).for_each(Waker::wake);
    }
}

/// The body of an answer.
pub enum Body {
    /// All at once.
    Whole(Option<Bytes>),
    /// As things change.
    Watch(Shared, Box<Watch>),
    /// As a container writes.
    Log(LogStream),
}

impl std::fmt::Debug for Body {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Whole(_) => "Whole",
            Self::Watch(..) => "Watch",
            Self::Log(_) => "Log",
        })
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match self.get_mut() {
            Self::Whole(bytes) => {
                let bytes = bytes.take().filter(|bytes| !bytes.is_empty());
                Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes))))
            }
            Self::Log(stream) => stream
                .as_mut()
                .poll_next(context)
                .map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes)))),
            Self::Watch(shared, watch) => {
                // Registered first, so that no change falls between looking and waiting.
                let mut waiting = shared
                    .0
                    .waiting
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                // One that waits already need not wait twice.
                let own = context.waker();
                if !waiting.watches.iter().any(|waker| waker.will_wake(own)) {
                    waiting.watches.push(own.clone());
                }
                drop(waiting);
                let now = (shared.0.clock)();
                let next = shared.lock().follow(now, watch);
                match next {
                    Next::Lines(lines) => Poll::Ready(Some(Ok(Frame::data(lines.into())))),
                    Next::Quiet => Poll::Pending,
                    Next::Over => Poll::Ready(None),
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }
}

/// The service: collects the request's body, then answers at once.
#[derive(Clone, Debug)]
pub struct Service(Shared);

impl Shared {
    /// For `kube::Client::new`.
    pub fn service(&self) -> Service {
        Service(self.clone())
    }
}

impl<B> tower_service::Service<http::Request<B>> for Service
where
    B: http_body::Body + Send + Unpin + 'static,
    B::Data: Send,
    B::Error: std::error::Error + Send + Sync + 'static,
{
    type Response = http::Response<Body>;
    type Error = B::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let shared = self.0.clone();
        Box::pin(async move {
            let (parts, mut body) = request.into_parts();
            let mut bytes = Vec::new();
            while let Some(frame) = next_frame(&mut body).await {
                if let Ok(mut data) = frame?.into_data() {
                    while data.has_remaining() {
                        let chunk = data.chunk();
                        bytes.extend_from_slice(chunk);
                        let read = chunk.len();
                        data.advance(read);
                    }
                }
            }
            Ok(shared.handle(http::Request::from_parts(parts, bytes)))
        })
    }
}

async fn next_frame<B: http_body::Body + Unpin>(
    body: &mut B,
) -> Option<Result<Frame<B::Data>, B::Error>> {
    std::future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await
}
