//! What a real API server (1.37.1) sent of the same two pods in both forms. `samples` has its answers to a list
//! of two pages, to a watch from the pods' creation to a deletion, to a watch that begins with what is there,
//! and to a request for a pod that is not there.

use futures::FutureExt as _;
use futures::io::Cursor;
use planner::Kind;

use super::*;
use crate::wire;

const PAGES_JSON: [&[u8]; 2] = [
    include_bytes!("samples/list1.json"),
    include_bytes!("samples/list2.json"),
];
pub(crate) const PAGES: [&[u8]; 2] = [
    include_bytes!("samples/list1.protobuf"),
    include_bytes!("samples/list2.protobuf"),
];
const WATCH_JSON: &[u8] = include_bytes!("samples/watch.json");
pub(crate) const WATCH: &[u8] = include_bytes!("samples/watch.protobuf");
const BOOKMARK: &[u8] = include_bytes!("samples/bookmark.protobuf");
pub(crate) const REFUSAL: &[u8] = include_bytes!("samples/refusal.protobuf");

fn child(object: Encoded<'_>) -> wire::Child {
    let reading = wire::read(&Kind::Pod, object).expect("a pod can be read");
    assert!(!reading.unreadable);
    reading.child
}

fn frames(encoding: Encoding, bytes: &'static [u8]) -> Vec<io::Result<Vec<u8>>> {
    let frames = encoding.frames(Cursor::new(bytes)).collect::<Vec<_>>();
    frames.now_or_never().expect("all is there")
}

fn events(encoding: Encoding, bytes: &'static [u8]) -> Vec<(String, wire::Child)> {
    let frames = frames(encoding, bytes).into_iter();
    let event = |frame: io::Result<Vec<u8>>| {
        let frame = frame.expect("the sample is whole");
        let event = encoding.event(&frame).expect("the sample has events");
        assert_eq!(
            event.object.version(),
            Some(child(event.object).version.to_string())
        );
        (event.kind, child(event.object))
    };
    frames.map(event).collect()
}

fn pod(child: &wire::Child) -> planner::observed::Pod {
    child.facts.pod().expect("it is a pod").pod(child, false)
}

#[test]
fn a_list_says_the_same_in_both_forms() {
    let read = |encoding: Encoding, pages: [&'static [u8]; 2]| {
        pages.map(|page| {
            let List { metadata, items } = encoding.list(page).expect("the sample is a list");
            assert_eq!(items.len(), 1);
            (metadata.resource_version, metadata.token, child(items[0]))
        })
    };
    let pages = read(Encoding::Protobuf, PAGES);
    assert_eq!(read(Encoding::Json, PAGES_JSON), pages);
    let [(version, token, ended), (_, end, waiting)] = pages;
    assert!(!version.is_empty() && token.is_some_and(|token| !token.is_empty()));
    assert_eq!(end.unwrap_or_default(), "");

    let ended = pod(&ended);
    assert!(ended.deleting && ended.ready && ended.labelled && !ended.told_end);
    assert_eq!(
        (ended.node.as_str(), ended.address.as_str()),
        ("node-1", "10.1.2.3")
    );
    assert_eq!((ended.restarts, ended.replica_index), (3, Some(7)));
    let exit = ended.exit.expect("a container failed");
    assert_eq!((exit.container.as_str(), exit.code), ("main", -1));
    assert_eq!(ended.waiting.expect("one waits").reason, "ImagePullBackOff");

    let waiting = pod(&waiting);
    assert!(waiting.begun && waiting.told_end && !waiting.deleting);
    let why = waiting.waiting.expect("it has no node");
    assert_eq!(
        (why.reason.as_str(), why.message.as_str()),
        ("Unschedulable", "0/3 nodes are available")
    );
}

#[test]
fn a_watch_says_the_same_in_both_forms() {
    let events = events(Encoding::Protobuf, WATCH);
    assert_eq!(self::events(Encoding::Json, WATCH_JSON), events);
    let kinds: Vec<&str> = events.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(kinds.first(), Some(&"ADDED"));
    assert_eq!(kinds.last(), Some(&"DELETED"));
    assert!(!events[0].1.same_except_version(&events[1].1));
}

#[test]
fn a_bookmark_has_a_version_and_an_error_a_status() {
    let frames = frames(Encoding::Protobuf, BOOKMARK);
    let frame = frames.last().expect("it has events").as_ref();
    let event = Encoding::Protobuf.event(frame.expect("the sample is whole"));
    let WatchEvent { kind, object } = event.expect("it is an event");
    assert_eq!(kind, "BOOKMARK");
    let version = object.version().expect("a bookmark is nothing else");
    assert!(version.parse::<u64>().is_ok(), "{version}");

    let frame = error_frame();
    let WatchEvent { kind, object } = Encoding::Protobuf.event(&frame).expect("it is an event");
    assert_eq!((kind.as_str(), object.status().code), ("ERROR", 404));
}

/// The event with which an API server ends a watch.
pub(crate) fn error_frame() -> Vec<u8> {
    let length = u8::try_from(REFUSAL.len()).expect("the sample is short");
    let head = [b"\x0a\x05ERROR\x12", &[length + 2, 0x0a, length][..]].concat();
    [&head, REFUSAL].concat()
}

#[test]
fn a_refusal_is_read_in_both_forms() {
    let status = Encoding::Protobuf.refusal(REFUSAL);
    assert_eq!((status.code, status.reason.as_str()), (404, "NotFound"));
    assert_eq!(status.message, "pods \"none\" not found");
    let json = br#"{"kind": "Status", "message": "m", "reason": "NotFound", "code": 404}"#;
    assert_eq!(Encoding::Json.refusal(json).code, 404);
    for encoding in [Encoding::Json, Encoding::Protobuf] {
        assert_eq!(encoding.refusal(b"404 page not found\n"), Status::default());
    }
}

#[test]
fn what_is_cut_or_changed_is_an_error_at_worst() {
    let read = |bytes: &[u8]| {
        let Ok(list) = Encoding::Protobuf.list(bytes) else {
            return;
        };
        for item in list.items {
            let _ = wire::read(&Kind::Pod, item);
        }
    };
    let list = PAGES[0];
    for end in 0..list.len() {
        read(&list[..end]);
    }
    let mut changed = list.to_vec();
    for index in 0..list.len() {
        for byte in [0, 0x7f, 0x80, 0xff] {
            changed[index] = byte;
            read(&changed);
        }
        changed[index] = list[index];
    }
}

#[test]
fn a_watch_ends_where_it_is_cut_and_believes_no_length() {
    let cut = frames(Encoding::Protobuf, &WATCH[..WATCH.len() - 1]);
    assert_eq!(cut.len() + 1, frames(Encoding::Protobuf, WATCH).len());
    assert!(cut.iter().all(Result::is_ok));

    let endless = frames(Encoding::Protobuf, b"\xff\xff\xff\xffx");
    assert_eq!(endless.len(), 1);
    let error = endless[0].as_ref().expect_err("it is too long");
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
}

#[test]
fn the_answer_says_its_form() {
    let of = |kind: &'static str| {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        Encoding::of(&headers)
    };
    assert_eq!(of("application/json"), Encoding::Json);
    assert_eq!(
        of("application/vnd.kubernetes.protobuf;stream=watch"),
        Encoding::Protobuf
    );
    assert_eq!(Encoding::of(&HeaderMap::new()), Encoding::Json);
}
