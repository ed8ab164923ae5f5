//! Reaching a worker: connect, show who we are, hear its hello. Decides what is worth another try
//! before the deadline: a worker that is not there yet is, one that refuses us is not.

use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustls::Connection;
use thiserror::Error;

use crate::frame::Frame;
use crate::frame_stream::FrameStream;
use crate::identity::Client;
use crate::socket::StreamError;

/// A worker that answers does so far sooner; a packet that was lost is sent again by then.
const TRY_MAX: Duration = Duration::from_secs(4);
const PAUSE: Duration = Duration::from_millis(100);

/// Why a worker did not answer.
#[derive(Debug, Error)]
pub(crate) enum DialError {
    #[error(transparent)]
    Connect(std::io::Error),
    #[error(transparent)]
    Stream(#[from] StreamError),
    #[error("it answered with something else than a hello")]
    NoHello,
    #[error(transparent)]
    Setup(anyhow::Error),
}

impl DialError {
    /// Whether waiting can help.
    fn may_pass(&self) -> bool {
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

/// One try.
pub(crate) fn once(
    client: &Client,
    address: SocketAddr,
    until: Instant,
) -> Result<FrameStream, DialError> {
    let now = Instant::now();
    let until = until.min(now + TRY_MAX).max(now + Duration::from_millis(1));
    let socket = TcpStream::connect_timeout(&address, until.saturating_duration_since(now))
        .map_err(DialError::Connect)?;
    let tls = client.connection().map_err(DialError::Setup)?;
    let mut stream =
        FrameStream::new(socket, Connection::Client(tls)).map_err(DialError::Connect)?;
    stream.handshake(until)?;
    // In TLS 1.3 our certificate is judged after our handshake is done; the hello says how.
    match stream.receive(until)? {
        Frame::Hello(_) => Ok(stream),
        _ => Err(DialError::NoHello),
    }
}

/// Tries until the deadline.
pub(crate) fn patiently(
    client: &Client,
    address: SocketAddr,
    until: Instant,
) -> Result<FrameStream, DialError> {
    loop {
        match once(client, address, until) {
            Err(error) if error.may_pass() && Instant::now() + PAUSE < until => {
                std::thread::sleep(PAUSE);
            }
            result => return result,
        }
    }
}
