//! What must hold of what the operator reads from the API server.

use std::fmt::Write as _;

use controller::untrusted::{Received, list, refusal, watch};
use planner::Kind;

/// Kinds that are watched; the first is the only one that comes in protobuf.
static KINDS: [Kind; 10] = [
    Kind::Pod,
    Kind::Service,
    Kind::ConfigMap,
    Kind::Job,
    Kind::StatefulSet,
    Kind::NetworkPolicy,
    Kind::ServiceAccount,
    Kind::Role,
    Kind::RoleBinding,
    Kind::Pod,
];
/// What is kept of one object, besides its own bytes.
const KEPT_BYTES: usize = 4096;
/// A short field of an object becomes an entry of a map, which takes more room.
const KEPT_FACTOR: usize = 100;

/// The first line says the form (`json`, `protobuf`) and the number of the kind; the rest is what the API server
/// sent.
pub fn check(bytes: &[u8]) {
    let (head, body) = match bytes.iter().position(|byte| *byte == b'\n') {
        Some(end) => (&bytes[..end], &bytes[end + 1..]),
        None => (bytes, &[][..]),
    };
    let is_protobuf = head.starts_with(b"protobuf");
    let number = head.last().map_or(0, |byte| usize::from(byte % 10));
    let kind = if is_protobuf {
        &KINDS[0]
    } else {
        &KINDS[number]
    };
    let piece = head.len();
    let whole = watch(kind, is_protobuf, body.to_vec(), body.len());
    let pieces = watch(kind, is_protobuf, body.to_vec(), piece);
    assert_eq!(whole, pieces, "cuts change what is read");
    whole
        .iter()
        .flatten()
        .for_each(|seen| assert_bounded(seen, body.len()));
    let page = list(kind, is_protobuf, body);
    assert_eq!(page, list(kind, is_protobuf, body));
    if let Ok((seen, _)) = &page {
        seen.iter()
            .for_each(|seen| assert_bounded(seen, body.len()));
        let total: usize = seen.iter().map(|seen| seen.kept_bytes).sum();
        assert!(total <= seen.len() * KEPT_BYTES + KEPT_FACTOR * body.len());
    }
    if let (false, Ok((items, _))) = (is_protobuf, page) {
        agrees(kind, body, &items);
    }
    refusal(is_protobuf, body);
}

/// What an object costs us is bounded by what it cost the one who wrote it.
fn assert_bounded(seen: &Received, sent: usize) {
    let most = KEPT_BYTES + KEPT_FACTOR * sent;
    assert!(
        seen.kept_bytes <= most,
        "{} bytes of {sent}",
        seen.kept_bytes
    );
}

/// A list and a watch say the same of the same objects.
fn agrees(kind: &Kind, body: &[u8], items: &[Received]) {
    let page: serde_json::Value = match serde_json::from_slice(body) {
        Ok(page) => page,
        Err(_) => return,
    };
    let mut events = String::new();
    let objects = page["items"].as_array().into_iter().flatten();
    for object in objects {
        let _ = writeln!(events, r#"{{"type":"ADDED","object":{object}}}"#);
    }
    let seen = watch(kind, false, events.into_bytes(), 1024);
    assert_eq!(seen.len(), items.len());
    for (seen, item) in seen.iter().zip(items) {
        let seen = seen.as_ref().expect("an event that was written is read");
        // A tree keeps one of two equal keys; the text may be refused for having both.
        if item.kept.is_ok() {
            assert_eq!((&seen.kept, &seen.version), (&item.kept, &item.version));
        }
    }
}
