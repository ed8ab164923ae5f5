//! What must hold of people's files.

use cli::untrusted::{Place, Read, documents, text};

/// A text is no YAML, with a sentence and a place inside it; or its documents survive being written, and every
/// node is found at a place inside the text.
pub fn check(bytes: &[u8]) {
    let Ok(file) = std::str::from_utf8(bytes) else {
        return;
    };
    let read = match documents(file) {
        Ok(read) => read,
        Err((message, place)) => {
            assert!(!message.is_empty());
            place
                .into_iter()
                .for_each(|place| assert_inside(file, place));
            return;
        }
    };
    for Read { value, places, .. } in &read {
        for (pointer, key, value) in places {
            for place in [key, value].into_iter().flatten() {
                assert_inside(file, *place);
            }
            assert!(key.is_some(), "{pointer} has no place");
        }
        let written = text(value);
        let again = documents(&written);
        let again = again.unwrap_or_else(|error| panic!("{error:?} in what we wrote: {written:?}"));
        // An empty document is left out.
        let values: Vec<_> = again.iter().map(|document| &document.value).collect();
        assert_eq!(values, [value], "written as {written:?}");
        assert!(again.iter().all(|document| document.repeated.is_empty()));
    }
}

/// Lines and columns count from 1; the end of a text counts as a place.
fn assert_inside(file: &str, (line, column): Place) {
    let lines = file.split('\n').count();
    assert!(line >= 1 && line <= lines + 1, "line {line} of {lines}");
    let longest = file.split('\n').map(|line| line.chars().count()).max();
    assert!(
        column >= 1 && column <= longest.unwrap_or(0) + 2,
        "column {column}"
    );
}
