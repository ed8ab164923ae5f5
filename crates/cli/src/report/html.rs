//! Writes HTML. Decides how text becomes safe: everything that is not a constant of this program is escaped,
//! and characters that change how others are shown are replaced, so no name, message or log line can become
//! markup. Must not know what is written.

use std::fmt::Write as _;

use planner::text::printable;

/// HTML so far. Tags and attributes are constants; there is no way to add other people's text unescaped.
#[derive(Debug, Default)]
pub(crate) struct Html {
    markup: String,
}

/// An attribute and its value.
pub(crate) type Attribute<'a> = (&'static str, &'a str);

impl Html {
    /// A constant of this program, as it stands.
    pub(crate) fn constant(&mut self, markup: &'static str) -> &mut Self {
        self.markup.push_str(markup);
        self
    }

    /// Any text.
    pub(crate) fn text(&mut self, text: &str) -> &mut Self {
        self.escaped(&printable(text));
        self
    }

    /// An element without attributes that holds only text.
    pub(crate) fn leaf(&mut self, tag: &'static str, text: &str) -> &mut Self {
        self.element(tag, &[], |inside| {
            inside.text(text);
        })
    }

    /// An element and what is inside.
    pub(crate) fn element(
        &mut self,
        tag: &'static str,
        attributes: &[Attribute<'_>],
        inside: impl FnOnce(&mut Self),
    ) -> &mut Self {
        self.void(tag, attributes);
        inside(self);
        let _ = write!(self.markup, "</{tag}>");
        self
    }

    /// An element that has no end.
    pub(crate) fn void(&mut self, tag: &'static str, attributes: &[Attribute<'_>]) -> &mut Self {
        let _ = write!(self.markup, "<{tag}");
        for (name, value) in attributes {
            let _ = write!(self.markup, " {name}=\"");
            self.escaped(&printable(value));
            self.markup.push('"');
        }
        self.markup.push('>');
        self
    }

    /// What another writer wrote.
    pub(crate) fn add(&mut self, other: &Self) -> &mut Self {
        self.markup.push_str(&other.markup);
        self
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.markup
    }

    fn escaped(&mut self, text: &str) {
        for char in text.chars() {
            match char {
                '&' => self.markup.push_str("&amp;"),
                '<' => self.markup.push_str("&lt;"),
                '>' => self.markup.push_str("&gt;"),
                '"' => self.markup.push_str("&quot;"),
                '\'' => self.markup.push_str("&#39;"),
                char => self.markup.push(char),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_others_cannot_become_markup() {
        for (text, safe) in [
            ("a < b & c", "a &lt; b &amp; c"),
            (
                "</td><script>alert(1)</script>",
                "&lt;/td&gt;&lt;script&gt;alert(1)&lt;/script&gt;",
            ),
            ("\u{202e}txt.exe", "\u{fffd}txt.exe"),
            ("\u{1b}[2J\u{0}", "\u{fffd}[2J\u{fffd}"),
        ] {
            let mut html = Html::default();
            html.text(text);
            assert_eq!(html.as_str(), safe);
        }
    }

    #[test]
    fn a_value_cannot_leave_its_attribute() {
        let mut html = Html::default();
        html.element("p", &[("title", "\" onclick='x' \"")], |inside| {
            inside.leaf("b", "x");
        });
        assert_eq!(
            html.as_str(),
            "<p title=\"&quot; onclick=&#39;x&#39; &quot;\"><b>x</b></p>"
        );
    }
}
