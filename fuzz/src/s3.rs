//! What must hold of the answers of a store.

use agent::untrusted::{element, elements, key};

const NAMES: [&str; 3] = ["Key", "Code", "NextContinuationToken"];

/// Any answer is read; texts and keys come back as they were before they were written.
pub fn check(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for name in NAMES {
        let found = elements(&text, name);
        let close = format!("</{name}>");
        let mut rest = &*text;
        for part in &found {
            assert!(!part.contains(&close));
            let at = rest.find(&format!("<{name}>{part}{close}"));
            let at = at.expect("it is in the answer, in this order");
            rest = &rest[at + name.len() + 2 + part.len()..];
        }
        assert_eq!(element(&text, name).is_some(), !found.is_empty());
    }
    let escaped = escaped(&text);
    let answer = format!("<R><Key>{escaped}</Key><Key>b</Key></R>");
    assert_eq!(element(&answer, "Key").as_deref(), Some(&*text));
    assert_eq!(elements(&answer, "Key"), [&*escaped, "b"]);
    assert_eq!(key(&percent_encoded(&text)).as_deref(), Some(&*text));
    if let Some(decoded) = key(&text) {
        assert_eq!(key(&percent_encoded(&decoded)), Some(decoded));
    }
}

/// As a store writes a text.
fn escaped(text: &str) -> String {
    let letter = |letter: char| match letter {
        '&' => "&amp;".to_owned(),
        '<' => "&lt;".to_owned(),
        '>' => "&gt;".to_owned(),
        '"' => "&#34;".to_owned(),
        '\r' => "&#xD;".to_owned(),
        letter => letter.to_string(),
    };
    text.chars().map(letter).collect()
}

fn percent_encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b' ' => "+".to_owned(),
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' => char::from(byte).to_string(),
        byte => format!("%{byte:02x}"),
    };
    text.bytes().map(byte).collect()
}
