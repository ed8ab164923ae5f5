//! Messages that no API server would send, and the few rules in which protobuf and JSON differ.

use std::collections::BTreeMap;

use super::*;

#[derive(Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
struct Thing {
    name: Option<String>,
    count: Option<i64>,
    ready: Option<bool>,
    at: Option<String>,
    labels: BTreeMap<String, String>,
    parts: Vec<Thing>,
}

static THING: [Field; 6] = [
    field(1, "name", FieldKind::Text),
    field(2, "count", FieldKind::Number),
    field(3, "ready", FieldKind::Flag),
    field(4, "at", FieldKind::Time),
    field(5, "labels", FieldKind::Map),
    field(6, "parts", FieldKind::Messages(&THING)),
];

fn thing(bytes: &[u8]) -> Result<Thing, Error> {
    read(&THING, bytes)
}

#[test]
fn every_kind_of_field_is_read() {
    let bytes = [
        &b"\x0a\x01a"[..],
        b"\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        b"\x18\x01",
        b"\x22\x02\x08\x3c",
        b"\x2a\x06\x0a\x01k\x12\x01v",
        b"\x2a\x03\x0a\x01e",
        b"\x32\x03\x0a\x01b",
        b"\x32\x00",
    ]
    .concat();
    let read = thing(&bytes).expect("it is well formed");
    let labels = [("e", ""), ("k", "v")].map(|(key, value)| (key.to_owned(), value.to_owned()));
    let expected = Thing {
        name: Some("a".to_owned()),
        count: Some(-1),
        ready: Some(true),
        at: Some("1970-01-01T00:01:00Z".to_owned()),
        labels: labels.into(),
        parts: vec![
            Thing {
                name: Some("b".to_owned()),
                ..Thing::default()
            },
            Thing::default(),
        ],
    };
    assert_eq!(read, expected);
}

#[test]
fn what_json_would_leave_out_is_left_out() {
    let read = thing(b"\x0a\x00\x22\x00\x10\x00").expect("it is well formed");
    let expected = Thing {
        count: Some(0),
        ..Thing::default()
    };
    assert_eq!(read, expected);
}

#[test]
fn unknown_fields_of_every_kind_are_skipped() {
    let bytes =
        b"\x78\x05\x7a\x01x\x79\x01\x02\x03\x04\x05\x06\x07\x08\x7d\x01\x02\x03\x04\x0a\x01a";
    assert_eq!(
        thing(bytes).expect("it is well formed").name.as_deref(),
        Some("a")
    );
}

#[test]
fn what_a_tenant_can_store_is_no_error() {
    let read = thing(b"\x0a\x02a\xff").expect("a text that is not UTF-8");
    assert_eq!(read.name.as_deref(), Some("a\u{fffd}"));
    let read = thing(b"\x2a\x06\x0a\x01\xff\x12\x01\xfe").expect("a label that is not UTF-8");
    assert_eq!(read.labels["\u{fffd}"], "\u{fffd}");
    let late = b"\x22\x09\x08\xff\xff\xff\xff\xff\xff\xff\x7f";
    assert_eq!(thing(late).expect("a time after all times").at, None);
}

#[test]
fn malformed_messages_are_errors() {
    for (bytes, why) in [
        (&b"\x0a\x05ab"[..], "the message is cut short"),
        (b"\x0a", "the message is cut short"),
        (b"\x0b", "a field of the unknown kind 3"),
        (b"\x08\x01", "a number in place of bytes"),
        (b"\x12\x00", "bytes in place of a number"),
        (
            b"\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
            "a number that is too long",
        ),
    ] {
        let error = thing(bytes).expect_err("it is malformed").to_string();
        assert!(error.contains(why), "{error}");
    }
    assert!(object(b"k8z\0").is_err());
}
