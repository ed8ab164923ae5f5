//! As much of HTTP/1.1 as one request needs: quoting, and reading one answer. Decides how much of an
//! answer is read; must not know what was asked.

use std::io;
use std::time::Instant;

use thiserror::Error;

use super::link::Link;
use crate::frame_stream::StreamError;

/// No answer of an API server to one of our requests is longer.
const HEAD_BYTES_MAX: usize = 64 * 1024;
const BODY_BYTES_MAX: usize = 4 << 20;

/// Why there was no answer, or not the one that was asked for.
#[derive(Debug, Error)]
pub(super) enum Refusal {
    #[error("the API server answered {code}: {message}")]
    Answered { code: u16, message: String },
    #[error("the API server cannot be reached: {0}")]
    Unreachable(io::Error),
    #[error("the API server: {0}")]
    Stream(#[from] StreamError),
    #[error(transparent)]
    Other(anyhow::Error),
}

impl Refusal {
    /// Whether waiting can help. Only where nothing was started for certain: a command whose request
    /// went out may run, and must not run twice.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Self::Answered {
                code: 429 | 503, ..
            }
            | Self::Unreachable(_) => true,
            Self::Answered { code: 500, message } => message.contains("error dialing backend"),
            Self::Answered { .. } | Self::Stream(_) | Self::Other(_) => false,
        }
    }
}

/// One answer.
#[derive(Debug)]
pub(super) struct Response {
    pub(super) code: u16,
    headers: Vec<(String, String)>,
    /// What the headers announced; empty where the connection goes on as something else.
    pub(super) body: Vec<u8>,
    /// What came after it.
    pub(super) rest: Vec<u8>,
}

impl Response {
    /// A header by its name in small letters.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let (_, value) = headers.find(|(key, _)| key == name)?;
        Some(value)
    }
}

/// Reads one answer.
pub(super) fn response(link: &mut Link, until: Instant) -> Result<Response, Refusal> {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(end) = find(&bytes, b"\r\n\r\n") {
            break end;
        }
        if bytes.len() > HEAD_BYTES_MAX {
            let said = "its answer has no end to its headers";
            return Err(Refusal::Other(anyhow::Error::msg(said)));
        }
        link.receive(&mut bytes, until)?;
    };
    let mut rest = bytes.split_off(head + 4);
    let (code, headers) = parsed(&bytes[..head])
        .ok_or_else(|| Refusal::Other(anyhow::Error::msg("its answer is no HTTP")))?;
    let mut response = Response {
        code,
        headers,
        body: Vec::new(),
        rest: Vec::new(),
    };
    if code != 101 {
        let length = response.header("content-length");
        let length = length.and_then(|length| length.parse::<usize>().ok());
        let length = length.unwrap_or(BODY_BYTES_MAX).min(BODY_BYTES_MAX);
        while rest.len() < length {
            // Without a length, the end of the connection is the end of the body.
            if link.receive(&mut rest, until).is_err() {
                break;
            }
        }
        response.body = rest.drain(..length.min(rest.len())).collect();
    }
    response.rest = rest;
    Ok(response)
}

fn parsed(head: &[u8]) -> Option<(u16, Vec<(String, String)>)> {
    let head = String::from_utf8_lossy(head);
    let mut lines = head.split("\r\n");
    let code = lines.next()?.strip_prefix("HTTP/1.")?.split(' ').nth(1)?;
    let header = |line: &str| {
        let (name, value) = line.split_once(':')?;
        Some((name.trim().to_ascii_lowercase(), value.trim().to_owned()))
    };
    Some((code.parse().ok()?, lines.filter_map(header).collect()))
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    let mut windows = bytes.windows(wanted.len());
    windows.position(|window| window == wanted)
}

/// For a query.
pub(super) fn quoted(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                text.push(char::from(*byte));
            }
            byte => text += &format!("%{byte:02X}"),
        }
    }
    text
}

/// In the usual alphabet, with padding.
pub(super) fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let [a, b, c] = [0, 1, 2].map(|at| u32::from(group.get(at).copied().unwrap_or(0)));
        let bits = (a << 16) | (b << 8) | c;
        for at in 0..4 {
            if at <= group.len() {
                let index = (bits >> (18 - 6 * at)) & 63;
                text.push(char::from(LETTERS[index as usize]));
            } else {
                text.push('=');
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_quoted_can_stand_in_a_query() {
        assert_eq!(quoted(b"a b&c=d/\xc3\xa9\n"), "a%20b%26c%3Dd%2F%C3%A9%0A");
    }

    #[test]
    fn base64_is_as_everybody_has_it() {
        for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v")] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
        assert_eq!(base64(&[0xff; 4]), "/////w==");
    }

    #[test]
    fn a_head_is_read_whatever_the_spelling_of_its_names() {
        let (code, headers) =
            parsed(b"HTTP/1.1 101 Switching Protocols\r\nUPGRADE: websocket\r\nx:y").expect("HTTP");
        assert_eq!(code, 101);
        assert_eq!(headers[0], ("upgrade".to_owned(), "websocket".to_owned()));
        assert_eq!(parsed(b"SSH-2.0-OpenSSH"), None);
    }
}
