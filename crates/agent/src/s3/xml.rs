//! The answers of a store, as far as they are read: texts of elements by name. Not a parser of XML; the
//! few elements that are asked for hold text alone.

/// Texts of all elements of this name, as written.
pub(super) fn all<'x>(xml: &'x str, name: &str) -> Vec<&'x str> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    let parts = xml.split(open.as_str()).skip(1);
    parts
        .filter_map(|part| part.split_once(close.as_str()))
        .map(|(text, _)| text)
        .collect()
}

/// Text of the first element of this name, read.
pub(super) fn first(xml: &str, name: &str) -> Option<String> {
    all(xml, name).first().map(|text| read(text))
}

/// Without entities.
pub(super) fn read(text: &str) -> String {
    let mut read = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        read += before;
        let (entity, tail) = after.split_once(';').unwrap_or((after, ""));
        let number = entity
            .strip_prefix('#')
            .map(|digits| match digits.strip_prefix('x') {
                Some(digits) => u32::from_str_radix(digits, 16),
                None => digits.parse(),
            });
        match (entity, number) {
            ("amp", _) => read.push('&'),
            ("lt", _) => read.push('<'),
            ("gt", _) => read.push('>'),
            ("quot", _) => read.push('"'),
            ("apos", _) => read.push('\''),
            (_, Some(Ok(number))) => read.push(char::from_u32(number).unwrap_or('\u{fffd}')),
            _ => {
                read.push('&');
                rest = after;
                continue;
            }
        }
        rest = tail;
    }
    read + rest
}

/// Without the encoding that names in a list have when it was asked for.
pub(super) fn decoded(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'%' => {
                let digits = text.get(at + 1..at + 3)?;
                decoded.push(u8::from_str_radix(digits, 16).ok()?);
                at += 2;
            }
            b'+' => decoded.push(b' '),
            byte => decoded.push(byte),
        }
        at += 1;
    }
    String::from_utf8(decoded).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_found_and_read() {
        let xml = "<R><Key>a&amp;b</Key><Size>1</Size><Key>c</Key><Key>cut";
        assert_eq!(all(xml, "Key"), ["a&amp;b", "c"]);
        assert_eq!(first(xml, "Key").as_deref(), Some("a&b"));
        assert_eq!(first(xml, "Code"), None);
        assert_eq!(
            read("&lt;&#65;&#x42;&quot;&apos;&gt; & &x;"),
            "<AB\"'> & &x;"
        );
    }

    #[test]
    fn names_are_decoded() {
        assert_eq!(decoded("a%2Bb+c%C3%BC").as_deref(), Some("a+b cü"));
        for wrong in ["%", "%2", "%zz", "%ff"] {
            assert_eq!(decoded(wrong), None, "{wrong}");
        }
    }
}
