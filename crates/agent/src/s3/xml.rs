//! The answers of a store: texts of elements by name. Not a parser of XML; the few elements that we read
//! hold text alone.

use percent_encoding::percent_decode_str;

/// The longest that we decode is `&#x10FFFF;`; some write zeros before the digits.
const ENTITY_BYTES_MAX: usize = 16;

/// Texts of all elements of this name, with their entities.
pub(crate) fn all<'x>(xml: &'x str, name: &str) -> impl Iterator<Item = &'x str> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    let mut rest = xml;
    std::iter::from_fn(move || {
        let (_, after) = rest.split_once(&open)?;
        let (text, after) = after.split_once(&close)?;
        rest = after;
        Some(text)
    })
}

/// Text of the first element of this name.
pub(crate) fn first(xml: &str, name: &str) -> Option<String> {
    all(xml, name).next().map(unescaped)
}

/// Replaces entities. What is not an entity stays as it is.
fn unescaped(text: &str) -> String {
    let mut parts = text.split('&');
    let mut unescaped = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part
            .bytes()
            .take(ENTITY_BYTES_MAX)
            .position(|byte| byte == b';');
        let entity = end.and_then(|end| Some((entity(&part[..end])?, &part[end + 1..])));
        let (letter, rest) = entity.unwrap_or(('&', part));
        unescaped.push(letter);
        unescaped += rest;
    }
    unescaped
}

fn entity(name: &str) -> Option<char> {
    Some(match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        _ => {
            let digits = name.strip_prefix('#')?;
            let number = match digits.strip_prefix('x') {
                Some(digits) => u32::from_str_radix(digits, 16),
                None => digits.parse(),
            };
            char::from_u32(number.ok()?).unwrap_or(char::REPLACEMENT_CHARACTER)
        }
    })
}

/// Decodes a key of a list that was asked for in URL encoding.
pub(crate) fn decoded(key: &str) -> Option<String> {
    let is_encoded = |after: &str| {
        let digits = after.as_bytes().get(..2);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    if !key.split('%').skip(1).all(is_encoded) {
        return None;
    }
    let key = key.replace('+', " ");
    let decoded = percent_decode_str(&key).decode_utf8().ok()?;
    Some(decoded.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_found_and_unescaped() {
        let xml = "<R><Key>a&amp;b</Key><Size>1</Size><Key>c</Key><Key>cut";
        assert_eq!(all(xml, "Key").collect::<Vec<_>>(), ["a&amp;b", "c"]);
        assert_eq!(first(xml, "Key").as_deref(), Some("a&b"));
        assert_eq!(first(xml, "Code"), None);
        assert_eq!(
            unescaped("&lt;&#65;&#x42;&quot;&apos;&gt; & &x; &&amp;"),
            "<AB\"'> & &x; &&"
        );
    }

    /// Looking for the end of each entity in all of the rest would take half an hour.
    #[test]
    fn s17_millions_of_ampersands_are_read_in_one_pass() {
        let text = "&".repeat(8 << 20);
        assert_eq!(unescaped(&text).len(), text.len());
    }

    #[test]
    fn keys_are_decoded() {
        assert_eq!(decoded("a%2Bb+c%C3%BC").as_deref(), Some("a+b cü"));
        for wrong in ["%", "%2", "%zz", "%ff"] {
            assert_eq!(decoded(wrong), None, "{wrong}");
        }
    }
}
