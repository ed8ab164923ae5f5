//! One HTTP/1.1 request over one connection. Decides how a body is framed, how long an answer is waited
//! for, and that a short body is an error; must not know what is asked for.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use httparse::{InvalidChunkSize, Status};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use rustls_pki_types::ServerName;

use crate::socket::{Socket, StreamError};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A server that is silent for so long is lost.
const SILENCE_MAX: Duration = Duration::from_secs(60);
const HEAD_BYTES_MAX: usize = 64 * 1024;
const HEADERS_MAX: usize = 100;
/// What is encoded in a part of a path or a query: everything but RFC 3986's unreserved characters.
pub(crate) const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Where requests go.
#[derive(Clone)]
pub(crate) struct Server {
    /// A name or an address, without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// None without TLS.
    pub(crate) tls: Option<Arc<ClientConfig>>,
}

/// What is asked.
pub(crate) struct Request<'a> {
    pub(crate) method: &'a str,
    /// Path and query, encoded.
    pub(crate) target: &'a str,
    /// With `host`.
    pub(crate) headers: &'a [(&'static str, String)],
}

/// TLS 1.3 with a server that one of these authorities vouches for.
pub(crate) fn tls_config(authorities: RootCertStore) -> Result<ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    Ok(ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(authorities)
        .with_no_client_auth())
}

impl Server {
    /// `host` or `host:port`, as the `Host` header names the server.
    pub(crate) fn authority(&self) -> String {
        let host = match self.host.contains(':') {
            true => format!("[{}]", self.host),
            false => self.host.clone(),
        };
        let default_port = if self.tls.is_some() { 443 } else { 80 };
        match self.port == default_port {
            true => host,
            false => format!("{host}:{}", self.port),
        }
    }

    /// Connects to the first address that accepts, and verifies the server's certificate. After the
    /// deadline, everything that is done with the connection fails.
    pub(crate) fn connect(&self, until: Option<Instant>) -> io::Result<Connection> {
        let mut failure = io::Error::new(io::ErrorKind::NotConnected, "the name has no address");
        for address in (self.host.as_str(), self.port).to_socket_addrs()? {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let left = left.map_or(CONNECT_TIMEOUT, |left| {
                left.clamp(Duration::from_millis(1), CONNECT_TIMEOUT)
            });
            match TcpStream::connect_timeout(&address, left) {
                Ok(tcp) => return self.secure(tcp, until),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    fn secure(&self, tcp: TcpStream, until: Option<Instant>) -> io::Result<Connection> {
        let tls = match &self.tls {
            Some(config) => {
                let name = ServerName::try_from(self.host.clone());
                let name = name.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error));
                let tls = ClientConnection::new(config.clone(), name?);
                Some(tls.map_err(io::Error::other)?.into())
            }
            None => None,
        };
        let mut connection = Connection {
            socket: Socket::new(tcp, tls)?,
            until,
        };
        let until = connection.deadline();
        connection.socket.handshake(until).map_err(io_error)?;
        Ok(connection)
    }
}

/// A connection that waits.
pub(crate) struct Connection {
    socket: Socket,
    until: Option<Instant>,
}

impl Connection {
    /// Sends a request with so many bytes of a body, and reads the beginning of the answer.
    pub(crate) fn ask(
        mut self,
        request: &Request<'_>,
        body: &mut dyn Read,
        length: u64,
    ) -> Result<Answer> {
        let mut head = format!("{} {} HTTP/1.1\r\n", request.method, request.target);
        for (name, value) in request.headers {
            head += &format!("{name}: {value}\r\n");
        }
        if length > 0 || request.method != "GET" {
            head += &format!("content-length: {length}\r\n");
        }
        if !request
            .headers
            .iter()
            .any(|(name, _)| *name == "Connection")
        {
            head += "Connection: close\r\n";
        }
        head += "user-agent: muster-agent\r\n\r\n";
        self.write_all(head.as_bytes())?;
        let sent = io::copy(&mut body.take(length), &mut self);
        // A server that refuses may do so before it has read everything; its answer says why.
        let answer = Answer::read(self, request.method);
        match (sent, answer) {
            (Ok(sent), answer) => {
                ensure!(sent == length, "the file became shorter while it was sent");
                answer
            }
            (Err(_), Ok(answer)) if answer.status >= 300 => Ok(answer),
            (Err(error), _) => Err(error.into()),
        }
    }

    fn deadline(&self) -> Instant {
        self.until.unwrap_or_else(|| Instant::now() + SILENCE_MAX)
    }

    /// Waits until something more was received. Fails at the end of the connection.
    fn receive(&mut self) -> io::Result<()> {
        let before = self.socket.inbox.len();
        while self.socket.inbox.len() == before {
            if self.socket.ended {
                return Err(cut_short());
            }
            self.socket.wait(self.deadline()).map_err(io_error)?;
        }
        Ok(())
    }

    /// Status and headers.
    fn head(&mut self) -> Result<(u16, Vec<(String, String)>)> {
        loop {
            let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
            let mut head = httparse::Response::new(&mut headers);
            let parsed = head.parse(&self.socket.inbox);
            if let Status::Complete(length) =
                parsed.context("the server does not speak HTTP/1.1")?
            {
                let status = head.code.unwrap_or_default();
                let headers = head.headers.iter().map(|header| {
                    let value = String::from_utf8_lossy(header.value);
                    (header.name.to_ascii_lowercase(), value.trim().to_owned())
                });
                let headers = headers.collect();
                self.socket.inbox.drain(..length);
                return Ok((status, headers));
            }
            self.receive_line()?;
        }
    }

    /// The length of the next chunk of a body.
    fn chunk(&mut self) -> io::Result<u64> {
        loop {
            match httparse::parse_chunk_size(&self.socket.inbox) {
                Ok(Status::Complete((start, length))) => {
                    self.socket.inbox.drain(..start);
                    return Ok(length);
                }
                Ok(Status::Partial) => self.receive_line()?,
                Err(InvalidChunkSize) => return Err(cut_short()),
            }
        }
    }

    /// Waits for more of something that must be complete before it can be read.
    fn receive_line(&mut self) -> io::Result<()> {
        if self.socket.inbox.len() > HEAD_BYTES_MAX {
            return Err(io::Error::other("the answer has no end to its headers"));
        }
        self.receive()
    }
}

impl Write for Connection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.send(bytes).map_err(io_error)?;
        while self.socket.has_backlog() {
            self.socket.wait(self.deadline()).map_err(io_error)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The beginning of an answer; its body is read from it.
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    body: Body,
    connection: Connection,
}

/// What is left to read.
#[derive(Clone, Copy)]
enum Body {
    Length(u64),
    /// So many bytes of this chunk.
    Chunk(u64),
    UntilClosed,
}

impl Answer {
    fn read(mut connection: Connection, method: &str) -> Result<Self> {
        let (status, headers) = loop {
            let (status, headers) = connection.head()?;
            if !(100..200).contains(&status) || status == 101 {
                break (status, headers);
            }
        };
        let mut answer = Self {
            status,
            headers,
            body: Body::Length(0),
            connection,
        };
        let chunked = answer
            .header("transfer-encoding")
            .is_some_and(|value| value.contains("chunked"));
        let length = answer.header("content-length").map(str::parse).transpose();
        answer.body = match length.context("the length of the answer is not a number")? {
            _ if method == "HEAD" || [101, 204, 304].contains(&status) => Body::Length(0),
            _ if chunked => Body::Chunk(0),
            Some(length) => Body::Length(length),
            None => Body::UntilClosed,
        };
        Ok(answer)
    }

    /// A header by its name in small letters.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let (_, value) = headers.find(|(given, _)| given == name)?;
        Some(value)
    }

    /// The body as text, of at most this length.
    pub(crate) fn text(&mut self, bytes_max: u64) -> Result<String> {
        let mut text = Vec::new();
        self.by_ref().take(bytes_max + 1).read_to_end(&mut text)?;
        ensure!(
            text.len() as u64 <= bytes_max,
            "the answer is longer than {bytes_max} bytes"
        );
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// The connection, on which both sides agreed to speak another protocol.
    pub(crate) fn upgraded(self) -> Socket {
        self.connection.socket
    }
}

impl Read for Answer {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = match self.body {
            Body::UntilClosed => u64::MAX,
            Body::Chunk(0) => self.connection.chunk()?,
            Body::Chunk(left) | Body::Length(left) => left,
        };
        if left == 0 {
            self.body = Body::Length(0);
            return Ok(0);
        }
        if self.connection.socket.inbox.is_empty() {
            let until_closed = matches!(self.body, Body::UntilClosed);
            let received = self.connection.receive();
            let Socket {
                ended, truncated, ..
            } = self.connection.socket;
            if received.is_err() && until_closed && ended && !truncated {
                return Ok(0);
            }
            received?;
        }
        let inbox = &mut self.connection.socket.inbox;
        let part = usize::try_from(left).unwrap_or(usize::MAX);
        let read = part.min(inbox.len()).min(buffer.len());
        buffer[..read].copy_from_slice(&inbox[..read]);
        inbox.drain(..read);
        let left = left - read as u64;
        match &mut self.body {
            Body::UntilClosed => {}
            Body::Length(length) => *length = left,
            Body::Chunk(length) => {
                *length = left;
                if left == 0 {
                    // An empty line ends a chunk.
                    while self.connection.socket.inbox.len() < 2 {
                        self.connection.receive()?;
                    }
                    self.connection.socket.inbox.drain(..2);
                }
            }
        }
        Ok(read)
    }
}

fn cut_short() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the answer was cut short")
}

/// An error that callers can tell from others by its kind.
fn io_error(error: StreamError) -> io::Error {
    match error {
        StreamError::Io(error) => error,
        // Names the server's certificate, which is not a worker's.
        StreamError::Tls(error) => io::Error::new(io::ErrorKind::InvalidData, error),
        StreamError::Deadline => io::Error::new(io::ErrorKind::TimedOut, error),
        StreamError::Closed => io::Error::new(io::ErrorKind::UnexpectedEof, error),
        error => io::Error::other(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answer of a server that writes this and closes.
    fn answer(text: &str) -> Result<Answer> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        let server = Server {
            host: "127.0.0.1".to_owned(),
            port: listener.local_addr()?.port(),
            tls: None,
        };
        let connection = server.connect(None)?;
        listener.accept()?.0.write_all(text.as_bytes())?;
        Answer::read(connection, "GET")
    }

    #[test]
    fn bodies_of_every_framing_are_read_whole() -> Result<()> {
        for text in [
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\n\r\nhello",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
        ] {
            assert_eq!(answer(text)?.text(100)?, "hello", "{text}");
        }
        Ok(())
    }

    #[test]
    fn a_body_that_is_cut_short_is_an_error() {
        let head = "HTTP/1.1 200 OK\r\n";
        let endless = format!("{head}x: {}", "y".repeat(2 * HEAD_BYTES_MAX));
        let many = format!("{head}{}\r\n", "x: y\r\n".repeat(HEADERS_MAX + 1));
        for text in [
            "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nhello",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5",
            "SSH-2.0-OpenSSH\r\n\r\n",
            "",
            &endless,
            &many,
        ] {
            let body = answer(text).and_then(|mut answer| answer.text(100));
            assert!(body.is_err(), "{text}");
        }
    }

    #[test]
    fn what_follows_an_upgrade_is_left_to_the_other_protocol() -> Result<()> {
        let head = "HTTP/1.1 101 Switching Protocols\r\nUPGRADE: websocket\r\nx:y\r\n\r\n";
        let mut answer = answer(&format!("{head}\u{2}ab"))?;
        assert_eq!(answer.status, 101);
        assert_eq!(answer.header("upgrade"), Some("websocket"));
        assert_eq!(answer.text(100)?, "");
        assert!(b"\x02ab".starts_with(&answer.upgraded().inbox));
        Ok(())
    }
}
