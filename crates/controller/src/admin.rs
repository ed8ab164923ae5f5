//! Health and metrics over HTTP. Decides what is healthy: a standby always is, a leader is while
//! it renews its lease. Knows nothing of jobs.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout};

use crate::cache::Cache;
use crate::metrics::{self, Metrics};

/// A leader that has not renewed for this long is stuck.
const RENEWAL_MAX: Duration = Duration::from_secs(35);
/// A connection without a request is closed after this long.
const HEADER_TIMEOUT: Duration = Duration::from_secs(2);
/// A connection is closed after this long, whatever it does: somebody who reads one byte a minute must
/// not keep it.
const CONNECTION_MAX: Duration = Duration::from_secs(60);
/// Connections to one port at once: the kubelet and a few scrapers need no more, and each costs memory
/// and a file descriptor.
const CONNECTIONS_MAX: usize = 32;

/// What the probes report.
#[derive(Debug, Default)]
pub(crate) struct Health {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// While leading: when the lease was last renewed.
    renewed_at: Option<Instant>,
    /// While leading: the cache, which must be filled before jobs are reconciled.
    cache: Option<Arc<Cache>>,
}

impl Health {
    /// The lease is ours, as of now.
    pub(crate) fn renewed(&self) {
        self.with(|state| state.renewed_at = Some(Instant::now()));
    }

    /// The lease is no longer ours.
    pub(crate) fn resigned(&self) {
        self.with(|state| *state = State::default());
    }

    /// Jobs are reconciled once this cache is filled.
    pub(crate) fn leads_with(&self, cache: Arc<Cache>) {
        self.with(|state| state.cache = Some(cache));
    }

    fn with<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn healthy(&self) -> bool {
        self.with(|state| {
            state
                .renewed_at
                .is_none_or(|at| at.elapsed() <= RENEWAL_MAX)
        })
    }

    fn ready(&self) -> bool {
        self.with(|state| match (&state.renewed_at, &state.cache) {
            (None, _) => true,
            (Some(_), cache) => cache.as_ref().is_some_and(|cache| cache.is_listed()),
        })
    }
}

/// Serves health on one port and metrics on another; 0 is off. Both ports listen when this returns,
/// and are served in the background.
pub(crate) async fn serve(
    health_port: u16,
    monitoring_port: u16,
    health: Arc<Health>,
    metrics: Arc<Metrics>,
) -> anyhow::Result<()> {
    if health_port != 0 {
        let listener = listen(health_port).await?;
        tokio::spawn(accept(listener, move |request| {
            health_answer(&health, request)
        }));
    }
    if monitoring_port != 0 {
        let listener = listen(monitoring_port).await?;
        tokio::spawn(accept(listener, move |request| {
            metrics_answer(&metrics, request)
        }));
    }
    Ok(())
}

async fn listen(port: u16) -> anyhow::Result<TcpListener> {
    // All interfaces, IPv6 and IPv4; on hosts without IPv6, IPv4 alone.
    let both = SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
    let listener = match TcpListener::bind(both).await {
        Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
            TcpListener::bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))).await
        }
        bound => bound,
    };
    listener.with_context(|| {
        format!("cannot listen on port {port}; is another operator running on this host?")
    })
}

type Answer = Response<Full<Bytes>>;

/// After a failed accept (no file descriptors, or a connection that ended at once): a loop without a
/// pause would use a whole core.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

async fn accept<F>(listener: TcpListener, answer: F)
where
    F: Fn(&Request<Incoming>) -> Answer + Clone + Send + 'static,
{
    let mut connections = Connections::default();
    loop {
        let Ok((stream, client)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let answer = answer.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            let answer = answer(&request);
            async move { Ok::<_, Infallible>(answer) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_TIMEOUT)
            .serve_connection(TokioIo::new(stream), service);
        let connection = tokio::spawn(async move {
            match timeout(CONNECTION_MAX, connection).await {
                Ok(Ok(())) | Err(_) => {}
                Ok(Err(error)) => tracing::debug!(%error, "a probe's connection ended early"),
            }
        });
        connections.add(client.ip(), connection.abort_handle());
    }
}

/// The connections to one port, oldest first. A new one is never refused and never waits, because it may
/// be the kubelet's, which restarts an operator that does not answer: one of the address that has most is
/// closed instead.
#[derive(Default)]
struct Connections(Vec<(IpAddr, AbortHandle)>);

impl Connections {
    fn add(&mut self, client: IpAddr, connection: AbortHandle) {
        self.0.retain(|(_, connection)| !connection.is_finished());
        if self.0.len() >= CONNECTIONS_MAX {
            let (_, surplus) = self.0.remove(self.surplus());
            surplus.abort();
        }
        self.0.push((client, connection));
    }

    /// The oldest of the address that has most.
    fn surplus(&self) -> usize {
        let of = |client: &IpAddr| self.0.iter().filter(|(other, _)| other == client).count();
        let by_count = |(at, (client, _)): &(usize, &(IpAddr, AbortHandle))| {
            (of(client), std::cmp::Reverse(*at))
        };
        let most = self.0.iter().enumerate().max_by_key(by_count);
        most.map_or(0, |(at, _)| at)
    }
}

fn health_answer<B>(health: &Health, request: &Request<B>) -> Answer {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return text(
            StatusCode::METHOD_NOT_ALLOWED,
            "only GET is answered here\n",
        );
    }
    let query = request.uri().query().unwrap_or_default();
    let has = |wanted: &str| query.split('&').any(|pair| pair == wanted);
    match request.uri().path() {
        "/healthz" => {
            let excluded = has("exclude=leaderElection");
            match (excluded || health.healthy(), has("verbose")) {
                (true, false) => text(StatusCode::OK, "ok"),
                (true, true) if excluded => text(
                    StatusCode::OK,
                    "[+]leaderElection excluded: ok\nhealthz check passed\n",
                ),
                (true, true) => text(
                    StatusCode::OK,
                    "[+]leaderElection ok\nhealthz check passed\n",
                ),
                (false, _) => text(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "[-]leaderElection failed: reason withheld\nhealthz check failed\n",
                ),
            }
        }
        "/healthz/leaderElection" if health.healthy() => text(StatusCode::OK, "ok"),
        "/healthz/leaderElection" => text(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal server error: failed election to renew leadership on lease mpi-operator\n",
        ),
        "/readyz" if health.ready() => text(StatusCode::OK, "ok"),
        "/readyz" => text(
            StatusCode::SERVICE_UNAVAILABLE,
            "still listing the cluster\n",
        ),
        _ => text(StatusCode::NOT_FOUND, "404 page not found\n"),
    }
}

fn metrics_answer<B>(metrics: &Metrics, request: &Request<B>) -> Answer {
    match (request.method(), request.uri().path()) {
        (&Method::GET, "/metrics") => {
            let mut answer = Response::new(Full::from(metrics.text()));
            let content_type = http::HeaderValue::from_static(metrics::CONTENT_TYPE);
            answer
                .headers_mut()
                .insert(http::header::CONTENT_TYPE, content_type);
            answer
        }
        _ => text(StatusCode::NOT_FOUND, "404 page not found\n"),
    }
}

fn text(status: StatusCode, body: &'static str) -> Answer {
    let mut answer = Response::new(Full::from(body));
    *answer.status_mut() = status;
    let content_type = http::HeaderValue::from_static("text/plain; charset=utf-8");
    answer
        .headers_mut()
        .insert(http::header::CONTENT_TYPE, content_type);
    answer
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;

    use super::*;

    async fn first_line(stream: &mut TcpStream) -> String {
        let request = b"GET /healthz HTTP/1.1\r\nHost: it\r\nConnection: close\r\n\r\n";
        stream.write_all(request).await.expect("the port listens");
        let mut answer = String::new();
        let read = stream.read_to_string(&mut answer).await;
        read.expect("the answer is text");
        answer.lines().next().unwrap_or_default().to_owned()
    }

    /// A port that answers probes.
    async fn port() -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        let listener = listener.expect("loopback has a free port");
        let address = listener.local_addr().expect("it is bound");
        let health = Arc::new(Health::default());
        tokio::spawn(accept(listener, move |request| {
            health_answer(&health, request)
        }));
        address
    }

    /// The kubelet waits for a second, and restarts the operator after three failures.
    #[tokio::test]
    async fn s09_silent_connections_are_few_and_keep_no_probe_out() {
        let address = port().await;
        let mut silent = Vec::new();
        for _ in 0..100 {
            silent.push(TcpStream::connect(address).await.expect("it listens"));
        }
        for _ in 0..3 {
            let mut probe = TcpStream::connect(address).await.expect("it listens");
            let answer = timeout(Duration::from_secs(1), first_line(&mut probe)).await;
            assert_eq!(answer.as_deref(), Ok("HTTP/1.1 200 OK"));
        }
        let mut closed = 0;
        for stream in &mut silent {
            let read = timeout(Duration::from_millis(10), stream.read(&mut [0])).await;
            closed += usize::from(read.is_ok());
        }
        assert!(closed >= 100 - CONNECTIONS_MAX, "{closed} were closed");
    }

    #[tokio::test]
    async fn s09_a_flood_from_one_address_closes_its_own_connections() {
        let ip = |last: u8| IpAddr::from([10, 0, 0, last]);
        let mut connections = Connections::default();
        let mut add = |client: IpAddr| {
            let task = tokio::spawn(std::future::pending::<()>());
            connections.add(client, task.abort_handle());
        };
        add(ip(1));
        (0..CONNECTIONS_MAX * 3).for_each(|_| add(ip(9)));
        add(ip(2));
        let of = |client| {
            connections
                .0
                .iter()
                .filter(|(other, _)| *other == client)
                .count()
        };
        assert_eq!(
            [of(ip(1)), of(ip(2)), of(ip(9))],
            [1, 1, CONNECTIONS_MAX - 2]
        );
    }

    async fn ask(health: &Health, path: &str) -> (u16, String) {
        let request = Request::builder().uri(path).body(()).unwrap();
        let answer = health_answer(health, &request);
        let code = answer.status().as_u16();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (code, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn a_standby_is_healthy_and_a_leader_while_it_renews() {
        let health = Health::default();
        assert_eq!(ask(&health, "/healthz").await, (200, "ok".to_owned()));
        assert_eq!(ask(&health, "/readyz").await.0, 200);

        health.renewed();
        assert_eq!(ask(&health, "/readyz").await.0, 503);
        let verbose = "[+]leaderElection ok\nhealthz check passed\n";
        assert_eq!(
            ask(&health, "/healthz?verbose").await,
            (200, verbose.to_owned())
        );

        tokio::time::advance(RENEWAL_MAX + Duration::from_secs(1)).await;
        let failed = "[-]leaderElection failed: reason withheld\nhealthz check failed\n";
        assert_eq!(ask(&health, "/healthz").await, (500, failed.to_owned()));
        assert_eq!(ask(&health, "/healthz/leaderElection").await.0, 500);
        assert_eq!(ask(&health, "/healthz?exclude=leaderElection").await.0, 200);

        health.resigned();
        assert_eq!(ask(&health, "/healthz").await.0, 200);
        assert_eq!(ask(&health, "/nowhere").await.0, 404);
    }
}
