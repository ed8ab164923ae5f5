//! What stdout can show: how wide and high it is, and whether it has other characters than ASCII. Prints nothing.

use std::io::IsTerminal as _;

/// As wide as a terminal that nobody made wider; for files and pipes.
const COLUMNS: usize = 80;

/// Columns and rows of the terminal; none if stdout is none.
pub(crate) fn size() -> Option<(usize, usize)> {
    let stdout = std::io::stdout();
    let size = rustix::termios::tcgetwinsize(&stdout).ok()?;
    let known = stdout.is_terminal() && size.ws_col > 0 && size.ws_row > 0;
    known.then(|| (size.ws_col.into(), size.ws_row.into()))
}

/// Columns to print in.
pub(crate) fn columns() -> usize {
    size().map_or(COLUMNS, |(columns, _)| columns)
}

/// The locale has no UTF-8, so that blocks and dots would be shown as something else.
pub(crate) fn is_ascii() -> bool {
    is_ascii_by(|name| std::env::var(name).ok())
}

fn is_ascii_by(variable: impl Fn(&str) -> Option<String>) -> bool {
    let names = ["LC_ALL", "LC_CTYPE", "LANG"];
    let mut set = names.into_iter().filter_map(variable);
    let locale = set.find(|value| !value.is_empty()).unwrap_or_default();
    let locale = locale.to_ascii_lowercase();
    !locale.contains("utf-8") && !locale.contains("utf8")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_variable_that_is_set_decides() {
        let locale = |all: &'static str, lang: &'static str| {
            is_ascii_by(move |name| match name {
                "LC_ALL" => Some(all.to_owned()),
                "LANG" => Some(lang.to_owned()),
                _ => None,
            })
        };
        assert!(!locale("", "de_DE.UTF-8"));
        assert!(!locale("C.utf8", "C"));
        assert!(locale("C", "de_DE.UTF-8"));
        assert!(locale("", ""));
    }
}
