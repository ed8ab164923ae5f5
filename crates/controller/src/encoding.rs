//! The forms in which the API server sends objects: JSON, and protobuf for its own kinds. Decides which one
//! is asked for, and how lists, events and refusals are taken apart in each. Knows no kind of object.

use std::io;

use futures::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _};
use futures::stream::{self, BoxStream, StreamExt as _};
use http::HeaderValue;
use http::header::{CONTENT_TYPE, HeaderMap};
use kube::core::Status;
use serde::Deserialize;
use serde_json::Error;
use serde_json::value::RawValue;

use crate::protobuf::{self, Field, FieldKind, field};

/// No event has more bytes: the store of a cluster takes no object of a tenth of that.
const FRAME_BYTES_MAX: u32 = 32 << 20;

/// `metav1.Status`.
const STATUS: &[Field] = &[
    field(3, "message", FieldKind::Text),
    field(4, "reason", FieldKind::Text),
    field(6, "code", FieldKind::Number),
];
/// `metav1.ListMeta`.
const LIST_METADATA: &[Field] = &[
    field(2, "resourceVersion", FieldKind::Text),
    field(3, "continue", FieldKind::Text),
];
/// Any object, of which only the version matters.
const VERSIONED: &[Field] = &[field(1, "metadata", FieldKind::Message(VERSION))];
const VERSION: &[Field] = &[field(6, "resourceVersion", FieldKind::Text)];

/// How objects are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Json,
    Protobuf,
}

/// One object, as it was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Encoded<'a> {
    Json(&'a str),
    Protobuf(&'a [u8]),
}

/// One page of a list.
pub(crate) struct List<'a> {
    pub(crate) metadata: ListMetadata,
    pub(crate) items: Vec<Encoded<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ListMetadata {
    pub(crate) resource_version: String,
    #[serde(rename = "continue")]
    pub(crate) token: Option<String>,
}

/// One event of a watch.
pub(crate) struct WatchEvent<'a> {
    pub(crate) kind: String,
    pub(crate) object: Encoded<'a>,
}

impl Encoding {
    /// What to accept, of a list. Not every API server sends protobuf.
    pub(crate) fn accept(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Json => "application/json",
            Self::Protobuf => "application/vnd.kubernetes.protobuf, application/json",
        })
    }

    /// What to accept, of a watch.
    pub(crate) fn accept_watch(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Json => "application/json",
            Self::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch, application/json",
        })
    }

    /// Of an answer.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let kind = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
        match kind.is_some_and(|kind| kind.starts_with(b"application/vnd.kubernetes.protobuf")) {
            true => Self::Protobuf,
            false => Self::Json,
        }
    }

    /// Takes a list apart.
    pub(crate) fn list(self, bytes: &[u8]) -> Result<List<'_>, Error> {
        match self {
            Self::Json => {
                #[derive(Deserialize)]
                struct Page<'a> {
                    metadata: ListMetadata,
                    #[serde(borrow)]
                    items: Option<Vec<&'a RawValue>>,
                }
                let Page { metadata, items } = serde_json::from_slice(bytes)?;
                let items = items.unwrap_or_default().into_iter();
                let items = items.map(|item| Encoded::Json(item.get())).collect();
                Ok(List { metadata, items })
            }
            Self::Protobuf => {
                let list = protobuf::object(bytes)?;
                let metadata = protobuf::read(LIST_METADATA, protobuf::single(list, 1)?)?;
                let items = protobuf::repeated(list, 2)?.into_iter();
                let items = items.map(Encoded::Protobuf).collect();
                Ok(List { metadata, items })
            }
        }
    }

    /// Cuts a watch into events.
    pub(crate) fn frames(
        self,
        body: impl AsyncBufRead + Unpin + Send + 'static,
    ) -> BoxStream<'static, io::Result<Vec<u8>>> {
        let next = move |mut body| async move {
            let frame = match self {
                Self::Json => line(&mut body).await?,
                Self::Protobuf => frame(&mut body).await?,
            };
            Ok(frame.map(|frame| (frame, body)))
        };
        stream::try_unfold(body, next).boxed()
    }

    /// Takes an event apart.
    pub(crate) fn event(self, frame: &[u8]) -> Result<WatchEvent<'_>, Error> {
        match self {
            Self::Json => {
                #[derive(Deserialize)]
                struct Line<'a> {
                    #[serde(rename = "type")]
                    kind: String,
                    #[serde(borrow)]
                    object: &'a RawValue,
                }
                let Line { kind, object } = serde_json::from_slice(frame)?;
                let object = Encoded::Json(object.get());
                Ok(WatchEvent { kind, object })
            }
            Self::Protobuf => {
                let kind = String::from_utf8_lossy(protobuf::single(frame, 1)?).into_owned();
                let raw = protobuf::single(protobuf::single(frame, 2)?, 1)?;
                let object = Encoded::Protobuf(protobuf::object(raw)?);
                Ok(WatchEvent { kind, object })
            }
        }
    }

    /// What the API server answered instead; a default if it is none of its answers.
    pub(crate) fn refusal(self, bytes: &[u8]) -> Status {
        let object = match self {
            Self::Json => std::str::from_utf8(bytes).ok().map(Encoded::Json),
            Self::Protobuf => protobuf::object(bytes).ok().map(Encoded::Protobuf),
        };
        object.map_or_else(Status::default, Encoded::status)
    }
}

impl Encoded<'_> {
    /// Read as a refusal.
    pub(crate) fn status(self) -> Status {
        let status = match self {
            Self::Json(text) => serde_json::from_str(text),
            Self::Protobuf(bytes) => protobuf::read(STATUS, bytes),
        };
        status.unwrap_or_default()
    }

    /// `metadata.resourceVersion`, if there is one.
    pub(crate) fn version(self) -> Option<String> {
        #[derive(Deserialize)]
        struct Versioned {
            metadata: ListMetadata,
        }
        let read: Result<Versioned, Error> = match self {
            Self::Json(text) => serde_json::from_str(text),
            Self::Protobuf(bytes) => protobuf::read(VERSIONED, bytes),
        };
        let version = read.ok()?.metadata.resource_version;
        Some(version).filter(|version| !version.is_empty())
    }
}

async fn line(body: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let length = body.read_until(b'\n', &mut line).await?;
    Ok((length > 0).then_some(line))
}

/// Its length, and then itself. A watch that ends in the middle of one has ended.
async fn frame(body: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0; 4];
    match body.read_exact(&mut length).await {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    let length = u32::from_be_bytes(length);
    if length > FRAME_BYTES_MAX {
        let error = format!("an event of {length} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, error));
    }
    let mut frame = Vec::new();
    body.take(length.into()).read_to_end(&mut frame).await?;
    let is_whole = frame.len() == usize::try_from(length).unwrap_or(usize::MAX);
    Ok(is_whole.then_some(frame))
}

#[cfg(test)]
pub(crate) mod tests;
