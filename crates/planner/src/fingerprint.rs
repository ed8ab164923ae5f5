//! What tells one text from another without keeping either. Decides how texts are compared that may
//! be large; whose they are is not known here.
//!
//! It guards against drift, not against malice: whoever can write the text can write it as they like.

use std::hash::{DefaultHasher, Hasher as _};

/// Of a text, or of a set of named texts. Only comparable within one process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fingerprint(u64);

impl Fingerprint {
    /// Of a text. An absent text is an empty one.
    pub fn of(text: &str) -> Self {
        if text.is_empty() {
            return Self::default();
        }
        let mut hasher = DefaultHasher::new();
        hasher.write(text.as_bytes());
        Self(hasher.finish())
    }

    /// With one more named text, in any order.
    #[must_use]
    pub fn with(self, name: &str, text: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        hasher.write_usize(name.len());
        hasher.write(name.as_bytes());
        hasher.write(text.as_bytes());
        Self(self.0.wrapping_add(hasher.finish()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_told_apart_and_their_order_does_not_matter() {
        assert_ne!(Fingerprint::of("a"), Fingerprint::of("b"));
        assert_eq!(Fingerprint::of(""), Fingerprint::default());
        let none = Fingerprint::default();
        let both = none.with("a", "1").with("b", "2");
        assert_eq!(both, none.with("b", "2").with("a", "1"));
        assert_ne!(both, none.with("a", "2").with("b", "1"));
        assert_ne!(none.with("ab", "c"), none.with("a", "bc"));
        assert_ne!(none.with("a", ""), none);
    }
}
