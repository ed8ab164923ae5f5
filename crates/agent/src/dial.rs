//! Connects to a worker: TCP, TLS, then the worker's hello. Decides what is retried before the deadline:
//! a worker that does not listen yet, but not one that refuses us.

use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustls::Connection;
use thiserror::Error;

use crate::frame::Frame;
use crate::frame_stream::FrameStream;
use crate::identity::Client;
use crate::socket::StreamError;

/// A worker that runs answers far sooner; TCP has sent a lost packet again by then.
const TRY_MAX: Duration = Duration::from_secs(4);
const PAUSE: Duration = Duration::from_millis(100);

/// Why a worker did not answer.
#[derive(Debug, Error)]
pub(crate) enum DialError {
    #[error(transparent)]
    Connect(std::io::Error),
    #[error(transparent)]
    Stream(#[from] StreamError),
    #[error("it sent something else than a hello")]
    NoHello,
    #[error(transparent)]
    Setup(anyhow::Error),
}

impl DialError {
    fn is_retryable(&self) -> bool {
        match self {
            Self::Connect(_) => true,
            Self::Stream(error) => {
                matches!(
                    error,
                    StreamError::Closed | StreamError::Deadline | StreamError::Io(_)
                )
            }
            Self::NoHello | Self::Setup(_) => false,
        }
    }
}

/// Tries once. The worker must be the one of this name, whatever its address is.
pub(crate) fn once(
    client: &Client,
    worker: &str,
    address: SocketAddr,
    until: Instant,
) -> Result<FrameStream, DialError> {
    let now = Instant::now();
    let until = until.min(now + TRY_MAX).max(now + Duration::from_millis(1));
    let socket = TcpStream::connect_timeout(&address, until.saturating_duration_since(now))
        .map_err(DialError::Connect)?;
    let tls = client.connection(worker).map_err(DialError::Setup)?;
    let mut stream =
        FrameStream::new(socket, Connection::Client(tls)).map_err(DialError::Connect)?;
    stream.handshake(until)?;
    // In TLS 1.3 the worker verifies our key after our side of the handshake is done; its
    // hello shows that it did.
    match stream.receive(until)? {
        Frame::Hello(_) => Ok(stream),
        _ => Err(DialError::NoHello),
    }
}

/// Tries until the deadline.
pub(crate) fn patiently(
    client: &Client,
    worker: &str,
    address: SocketAddr,
    until: Instant,
) -> Result<FrameStream, DialError> {
    loop {
        match once(client, worker, address, until) {
            Err(error) if error.is_retryable() && Instant::now() + PAUSE < until => {
                std::thread::sleep(PAUSE);
            }
            result => return result,
        }
    }
}
