//! Sentences within bounds. Decides where a text is cut, and which characters of other people's texts
//! reach a status.

use std::borrow::Cow;

/// At most `max` bytes, with dots where the rest was.
pub fn truncated(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    let end = (0..=max.saturating_sub(3)).rev();
    let end = end.into_iter().find(|at| text.is_char_boundary(*at));
    format!("{}...", &text[..end.unwrap_or_default()])
}

/// The text without characters that a terminal obeys instead of showing. Containers and registries write
/// parts of our messages, and administrators read them in a terminal. Line ends and tabs stay.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let shown = |char: char| if is_obeyed(char) { '\u{fffd}' } else { char };
    Cow::Owned(text.chars().map(shown).collect())
}

/// A terminal obeys the character instead of showing it: a control character, or one that changes the
/// order in which others are shown.
pub fn is_obeyed(char: char) -> bool {
    let is_direction =
        matches!(char, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    is_direction || (char.is_control() && !matches!(char, '\n' | '\t'))
}
