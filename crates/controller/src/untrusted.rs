//! What reads the answers of API servers, for the fuzz targets (`fuzz/`). Decides nothing: lists and watches
//! are taken apart as `list_watch` does it, but from bytes that are there already.

use std::io;

use futures::FutureExt as _;
use futures::StreamExt as _;
use futures::io::{BufReader, Cursor};
use planner::Kind;

use crate::encoding::{Encoded, Encoding, WatchEvent};
use crate::wire;

/// What was read of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// Of a watch, what happened to it; of a list, nothing.
    pub event: String,
    /// Its `resourceVersion`.
    pub version: Option<String>,
    /// Everything that is kept of it; or why it cannot be read.
    pub kept: Result<String, String>,
    /// How much memory that takes.
    pub kept_bytes: usize,
}

/// The events of a watch, whose bytes come in pieces of this size. Ends with the first error.
pub fn watch(
    kind: &Kind,
    is_protobuf: bool,
    body: Vec<u8>,
    piece: usize,
) -> Vec<Result<Received, String>> {
    let encoding = encoding(is_protobuf);
    let body = BufReader::with_capacity(piece.max(1), Cursor::new(body));
    let frames = encoding.frames(body).collect::<Vec<_>>().now_or_never();
    let frames = frames.expect("all bytes are there").into_iter();
    let event = |frame: io::Result<Vec<u8>>| {
        let frame = frame.map_err(|error| error.to_string())?;
        let WatchEvent {
            kind: event,
            object,
        } = encoding.event(&frame).map_err(|error| error.to_string())?;
        Ok(received(kind, event, object))
    };
    frames.map(event).collect()
}

/// The objects of one page of a list, and the version and the token of the list.
pub fn list(
    kind: &Kind,
    is_protobuf: bool,
    body: &[u8],
) -> Result<(Vec<Received>, String), String> {
    let list = encoding(is_protobuf)
        .list(body)
        .map_err(|error| error.to_string())?;
    let metadata = format!(
        "{} {:?}",
        list.metadata.resource_version, list.metadata.token
    );
    let items = list.items.into_iter();
    let items = items.map(|item| received(kind, String::new(), item));
    Ok((items.collect(), metadata))
}

/// What an API server says that refuses: its code and its words.
pub fn refusal(is_protobuf: bool, body: &[u8]) -> (u16, String) {
    let status = encoding(is_protobuf).refusal(body);
    (status.code, status.message)
}

fn encoding(is_protobuf: bool) -> Encoding {
    match is_protobuf {
        true => Encoding::Protobuf,
        false => Encoding::Json,
    }
}

fn received(kind: &Kind, event: String, object: Encoded<'_>) -> Received {
    let read = wire::read(kind, object);
    Received {
        event,
        version: object.version(),
        kept_bytes: read.as_ref().map_or(0, |reading| reading.child.bytes()),
        kept: match read {
            Ok(reading) => Ok(format!("{:?}", reading.child)),
            Err(error) => Err(error.to_string()),
        },
    }
}
