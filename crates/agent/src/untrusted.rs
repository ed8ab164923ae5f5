//! What reads the bytes of API servers and stores, for the fuzz targets (`fuzz/`). Decides nothing: each
//! function is the one that the agent itself calls.

use crate::kubexec::{status, web_socket};
use crate::s3::xml;

/// The frames of a WebSocket that come in pieces of so many bytes, as opcodes and payloads; and whether all
/// of them were sound.
pub fn web_socket_frames(bytes: &[u8], piece: usize) -> (Vec<(u8, Vec<u8>)>, bool) {
    let (mut inbox, mut frames) = (Vec::new(), Vec::new());
    for piece in bytes.chunks(piece.max(1)) {
        inbox.extend(piece);
        loop {
            match web_socket::decoded(&mut inbox) {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(_) => return (frames, false),
            }
        }
    }
    (frames, true)
}

/// A frame as the agent sends it.
pub fn web_socket_frame(opcode: u8, payload: &[u8], mask: [u8; 4]) -> Vec<u8> {
    web_socket::encoded(opcode, payload, mask)
}

/// The exit code in the report of a kubelet; or the sentence for people, if there is none.
pub fn exit_code(report: &[u8]) -> Result<u8, String> {
    status::exit_code(report).map_err(|error| format!("{error:#}"))
}

/// Texts of all elements of this name in the answer of a store, as they are written.
pub fn elements<'x>(xml: &'x str, name: &str) -> Vec<&'x str> {
    xml::all(xml, name).collect()
}

/// Text of the first element of this name, with its entities replaced.
pub fn element(xml: &str, name: &str) -> Option<String> {
    xml::first(xml, name)
}

/// A key of a list that was asked for in URL encoding.
pub fn key(encoded: &str) -> Option<String> {
    xml::decoded(encoded)
}
