//! A port that answers HTTP, in the clear or over TLS. Decides how many connections there may be at once, and for
//! how long. Knows nothing of what is asked.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use anyhow::Context as _;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

/// A connection without a request, or without a handshake, is closed after this long.
const HEADER_TIMEOUT: Duration = Duration::from_secs(2);
/// A connection is closed after this long, whatever it does: somebody who reads one byte a minute must
/// not keep it.
const CONNECTION_MAX: Duration = Duration::from_secs(60);
/// Connections to one port at once: the kubelet and a few scrapers need no more, and each costs memory
/// and a file descriptor.
const CONNECTIONS_MAX: usize = 32;
/// A request's head. Tokens of accounts have two kilobytes at most.
const HEAD_BYTES_MAX: usize = 32 << 10;
/// After a failed accept (no file descriptors, or a connection that ended at once): a loop without a
/// pause would use a whole core.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What a request is answered.
pub(crate) type Answer = Response<Full<Bytes>>;

/// Listens on all interfaces, IPv6 and IPv4; on hosts without IPv6, on IPv4 alone.
pub(crate) async fn listen(port: u16) -> anyhow::Result<TcpListener> {
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

/// Answers whoever connects. Never returns.
pub(crate) async fn accept<F, A>(listener: TcpListener, tls: Option<TlsAcceptor>, answer: F)
where
    F: Fn(Request<Incoming>) -> A + Clone + Send + 'static,
    A: Future<Output = Answer> + Send + 'static,
{
    let mut connections = Connections::default();
    loop {
        let Ok((stream, client)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let (tls, answer) = (tls.clone(), answer.clone());
        let connection = tokio::spawn(async move {
            match timeout(CONNECTION_MAX, converse(stream, tls, answer)).await {
                Ok(Ok(())) | Err(_) => {}
                Ok(Err(error)) => tracing::debug!(%error, "a connection ended early"),
            }
        });
        connections.add(client.ip(), connection.abort_handle());
    }
}

async fn converse<F, A>(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    answer: F,
) -> anyhow::Result<()>
where
    F: Fn(Request<Incoming>) -> A,
    A: Future<Output = Answer>,
{
    let Some(tls) = tls else {
        return Ok(answer_all(stream, answer).await?);
    };
    let handshake = timeout(HEADER_TIMEOUT, tls.accept(stream)).await;
    let stream = handshake.context("no handshake in time")??;
    Ok(answer_all(stream, answer).await?)
}

async fn answer_all<S, F, A>(stream: S, answer: F) -> hyper::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
    F: Fn(Request<Incoming>) -> A,
    A: Future<Output = Answer>,
{
    let service = service_fn(move |request| {
        let answer = answer(request);
        async move { Ok::<_, Infallible>(answer.await) }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .await
}

/// An answer of one sentence.
pub(crate) fn text(status: StatusCode, body: &'static str) -> Answer {
    let mut answer = Response::new(Full::from(body));
    *answer.status_mut() = status;
    let content_type = http::HeaderValue::from_static("text/plain; charset=utf-8");
    answer
        .headers_mut()
        .insert(http::header::CONTENT_TYPE, content_type);
    answer
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

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    async fn first_line(stream: &mut TcpStream) -> String {
        let request = b"GET /healthz HTTP/1.1\r\nHost: it\r\nConnection: close\r\n\r\n";
        stream.write_all(request).await.expect("the port listens");
        let mut answer = String::new();
        let read = stream.read_to_string(&mut answer).await;
        read.expect("the answer is text");
        answer.lines().next().unwrap_or_default().to_owned()
    }

    /// A port that answers at once.
    async fn port() -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        let listener = listener.expect("loopback has a free port");
        let address = listener.local_addr().expect("it is bound");
        let answer = |_| std::future::ready(text(StatusCode::OK, "ok"));
        tokio::spawn(accept(listener, None, answer));
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
}
