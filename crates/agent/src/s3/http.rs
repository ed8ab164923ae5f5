//! One HTTP/1.1 request over one connection, with or without TLS. Decides how a body is framed and that a
//! short one is an error; must not know what is asked for.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A server that is silent for so long is lost.
const SILENCE_MAX: Duration = Duration::from_secs(60);
const LINE_BYTES_MAX: u64 = 16 * 1024;
const HEADERS_MAX: usize = 100;
/// Where distributions, and our image, keep the authorities that they trust.
const AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Where requests go.
#[derive(Clone)]
pub(super) struct Server {
    pub(super) host: String,
    pub(super) port: u16,
    /// None without TLS.
    pub(super) tls: Option<Arc<ClientConfig>>,
}

/// What is asked.
pub(super) struct Request<'a> {
    pub(super) method: &'a str,
    /// Path and query, encoded.
    pub(super) target: &'a str,
    pub(super) headers: &'a [(&'static str, String)],
}

/// The beginning of an answer; its body is read from it.
pub(super) struct Answer {
    pub(super) status: u16,
    headers: Vec<(String, String)>,
    body: Body,
}

enum Body {
    /// So many bytes are left.
    Length(BufReader<Box<dyn Read>>, u64),
    /// So many bytes of a chunk are left; none after the last one.
    Chunks(BufReader<Box<dyn Read>>, Option<u64>),
    UntilClosed(BufReader<Box<dyn Read>>),
    Nothing,
}

/// Trusts those in the file, or those that everybody trusts.
pub(super) fn tls(file: Option<&str>) -> Result<Arc<ClientConfig>> {
    let file = file.unwrap_or(AUTHORITIES);
    let mut roots = RootCertStore::empty();
    let advice = "put the store's authority into a file and name it in AWS_CA_BUNDLE";
    let certificates = CertificateDer::pem_file_iter(file).with_context(|| {
        format!("cannot read certificates of authorities from {file}; {advice}")
    })?;
    roots.add_parsable_certificates(certificates.filter_map(Result::ok));
    ensure!(
        !roots.is_empty(),
        "{file} holds no certificate of an authority; {advice}"
    );
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

impl Server {
    /// Sends a request with so many bytes of a body, and reads the beginning of the answer.
    pub(super) fn ask(
        &self,
        request: &Request<'_>,
        body: &mut dyn Read,
        length: u64,
    ) -> Result<Answer> {
        let mut stream = self.connect()?;
        let mut head = format!("{} {} HTTP/1.1\r\n", request.method, request.target);
        for (name, value) in request.headers {
            head += &format!("{name}: {value}\r\n");
        }
        if length > 0 || request.method != "GET" {
            head += &format!("content-length: {length}\r\n");
        }
        head += "connection: close\r\nuser-agent: muster-agent\r\n\r\n";
        stream.write_all(head.as_bytes())?;
        let sent = io::copy(&mut body.take(length), &mut stream);
        // A server that refuses may do so before it has read everything; its answer says why.
        let sent = sent.and_then(|sent| stream.flush().map(|()| sent));
        let answer = Answer::read(stream, request.method);
        match (sent, answer) {
            (Ok(sent), answer) => {
                ensure!(sent == length, "the file became shorter while it was sent");
                answer
            }
            (Err(_), Ok(answer)) if answer.status >= 300 => Ok(answer),
            (Err(error), _) => Err(error.into()),
        }
    }

    fn connect(&self) -> Result<Box<dyn Stream>> {
        let (host, port) = (self.host.as_str(), self.port);
        let named = || format!("cannot reach {host}:{port}");
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let addresses = (bare, port).to_socket_addrs().with_context(named)?;
        let mut failure = io::Error::new(io::ErrorKind::NotConnected, "the name has no address");
        for address in addresses {
            match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
                Ok(socket) => return self.secured(socket, bare).with_context(named),
                Err(error) => failure = error,
            }
        }
        Err(failure).with_context(named)
    }

    fn secured(&self, socket: TcpStream, host: &str) -> Result<Box<dyn Stream>> {
        socket.set_read_timeout(Some(SILENCE_MAX))?;
        socket.set_write_timeout(Some(SILENCE_MAX))?;
        socket.set_nodelay(true)?;
        let Some(config) = &self.tls else {
            return Ok(Box::new(socket));
        };
        let name = ServerName::try_from(host.to_owned())?;
        let connection = ClientConnection::new(config.clone(), name)?;
        Ok(Box::new(StreamOwned::new(connection, socket)))
    }
}

/// A connection, with or without TLS.
trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

impl Answer {
    fn read(stream: Box<dyn Stream>, method: &str) -> Result<Self> {
        let mut stream = BufReader::new(Box::new(stream) as Box<dyn Read>);
        let (status, headers) = loop {
            let (status, headers) = head(&mut stream)?;
            if !(100..200).contains(&status) {
                break (status, headers);
            }
        };
        let mut answer = Self {
            status,
            headers,
            body: Body::Nothing,
        };
        let chunked = answer
            .header("transfer-encoding")
            .is_some_and(|value| value.contains("chunked"));
        let length = answer.header("content-length").map(str::parse).transpose();
        answer.body = match length.context("the length of the answer is no number")? {
            _ if method == "HEAD" || status == 204 || status == 304 => Body::Nothing,
            _ if chunked => Body::Chunks(stream, Some(0)),
            Some(length) => Body::Length(stream, length),
            None => Body::UntilClosed(stream),
        };
        Ok(answer)
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers
            .find(|(given, _)| given == name)
            .map(|(_, value)| value.as_str())
    }

    /// The body as text, of at most this length.
    pub(super) fn text(&mut self, bytes_max: u64) -> Result<String> {
        let mut text = Vec::new();
        self.by_ref().take(bytes_max + 1).read_to_end(&mut text)?;
        ensure!(
            text.len() as u64 <= bytes_max,
            "the answer is longer than {bytes_max} bytes"
        );
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

type Head = (u16, Vec<(String, String)>);

fn head(stream: &mut impl BufRead) -> Result<Head> {
    let first = line(stream)?;
    let mut words = first.split_whitespace();
    let protocol = words.next().unwrap_or_default();
    let status = words.next().and_then(|word| word.parse().ok());
    let status = status.filter(|_| protocol.starts_with("HTTP/1."));
    let status = status.context("what answered does not speak HTTP/1.1")?;
    let mut headers = Vec::new();
    loop {
        let line = line(stream)?;
        if line.is_empty() {
            return Ok((status, headers));
        }
        ensure!(
            headers.len() < HEADERS_MAX,
            "the answer has too many headers"
        );
        let (name, value) = line
            .split_once(':')
            .context("the answer has a header without a colon")?;
        headers.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
    }
}

fn line(stream: &mut impl BufRead) -> Result<String> {
    let mut line = Vec::new();
    stream.take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
    if line.pop() != Some(b'\n') {
        return Err(cut_short().into());
    }
    Ok(String::from_utf8_lossy(&line)
        .trim_end_matches('\r')
        .to_owned())
}

fn cut_short() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the answer was cut short")
}

impl Read for Answer {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.body {
            Body::Nothing => Ok(0),
            Body::UntilClosed(stream) => stream.read(buffer),
            Body::Length(stream, left) => read_of(stream, left, buffer),
            Body::Chunks(_, None) => Ok(0),
            Body::Chunks(stream, chunk) => {
                let mut left = chunk.unwrap_or_default();
                if left == 0 {
                    left = chunk_length(stream)?;
                    if left == 0 {
                        *chunk = None;
                        return Ok(0);
                    }
                }
                let read = read_of(stream, &mut left, buffer)?;
                if left == 0 {
                    line(stream).map_err(io::Error::other)?;
                }
                *chunk = Some(left);
                Ok(read)
            }
        }
    }
}

/// A chunk begins with its length, in hexadecimal.
fn chunk_length(stream: &mut impl BufRead) -> io::Result<u64> {
    let line = line(stream).map_err(io::Error::other)?;
    let digits = line.split(';').next().unwrap_or_default().trim();
    u64::from_str_radix(digits, 16).map_err(|_| cut_short())
}

fn read_of(stream: &mut impl Read, left: &mut u64, buffer: &mut [u8]) -> io::Result<usize> {
    if *left == 0 || buffer.is_empty() {
        return Ok(0);
    }
    let room = usize::try_from(*left)
        .unwrap_or(usize::MAX)
        .min(buffer.len());
    let read = stream.read(&mut buffer[..room])?;
    if read == 0 {
        return Err(cut_short());
    }
    *left -= read as u64;
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(text: &'static str) -> Result<String> {
        let stream = io::Cursor::new(text.as_bytes().to_vec());
        Answer::read(Box::new(stream), "GET")?.text(100)
    }

    #[test]
    fn bodies_of_every_framing_are_read_whole() -> Result<()> {
        for text in [
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\n\r\nhello",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
        ] {
            assert_eq!(body(text)?, "hello", "{text}");
        }
        Ok(())
    }

    #[test]
    fn a_body_that_is_cut_short_is_an_error() {
        for text in [
            "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nhello",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5",
            "SSH-2.0-OpenSSH\r\n\r\n",
            "",
        ] {
            assert!(body(text).is_err(), "{text}");
        }
    }
}
