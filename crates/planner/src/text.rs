//! Sentences within bounds. Decides where a text is cut; its content is its author's business.

/// At most `max` bytes, with dots where the rest was.
pub fn truncated(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    let end = (0..=max.saturating_sub(3)).rev();
    let end = end.into_iter().find(|at| text.is_char_boundary(*at));
    format!("{}...", &text[..end.unwrap_or_default()])
}
