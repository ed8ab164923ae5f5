//! What a real API server (1.37.1) sent of the same pod in both forms. `samples` has its answers to a list, a
//! watch from the pod's creation to its deletion, and a request for a pod that is not there.

use futures::FutureExt as _;
use futures::io::Cursor;
use planner::Kind;

use super::*;
use crate::wire;

const LIST_JSON: &[u8] = include_bytes!("samples/list.json");
const LIST: &[u8] = include_bytes!("samples/list.protobuf");
const WATCH_JSON: &[u8] = include_bytes!("samples/watch.json");
const WATCH: &[u8] = include_bytes!("samples/watch.protobuf");
const REFUSAL: &[u8] = include_bytes!("samples/refusal.protobuf");

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

#[test]
fn a_list_says_the_same_in_both_forms() {
    let json = Encoding::Json
        .list(LIST_JSON)
        .expect("the sample is a list");
    let other = Encoding::Protobuf.list(LIST).expect("the sample is a list");
    assert_eq!(json.metadata.resource_version, "281");
    assert_eq!(
        json.metadata.resource_version,
        other.metadata.resource_version
    );
    assert_eq!(json.metadata.token, other.metadata.token);
    assert_eq!((json.items.len(), other.items.len()), (1, 1));
    let pod = child(other.items[0]);
    assert_eq!(child(json.items[0]), pod);

    let facts = pod.facts.pod().expect("it is a pod").pod(&pod, false);
    assert!(facts.deleting && facts.ready && facts.labelled);
    assert_eq!(
        (facts.node.as_str(), facts.address.as_str()),
        ("node-1", "10.1.2.3")
    );
    assert_eq!((facts.restarts, facts.replica_index), (3, Some(7)));
    let exit = facts.exit.expect("a container failed");
    assert_eq!((exit.container.as_str(), exit.code), ("main", -1));
    assert_eq!(facts.waiting.expect("one waits").reason, "ImagePullBackOff");
}

#[test]
fn a_watch_says_the_same_in_both_forms() {
    let events = events(Encoding::Protobuf, WATCH);
    assert_eq!(self::events(Encoding::Json, WATCH_JSON), events);
    let kinds: Vec<&str> = events.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(kinds.first(), Some(&"ADDED"));
    assert_eq!(kinds.last(), Some(&"DELETED"));
    assert!(events[0].1 != events[1].1);
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
    for end in 0..LIST.len() {
        read(&LIST[..end]);
    }
    let mut changed = LIST.to_vec();
    for index in 0..LIST.len() {
        for byte in [0, 0x7f, 0x80, 0xff] {
            changed[index] = byte;
            read(&changed);
        }
        changed[index] = LIST[index];
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
