//! Where output goes: data to stdout, everything else to stderr. Decides colour, what a terminal may
//! be sent, and that a closed pipe ends the process quietly. Must not know any command.

use std::borrow::Cow;
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use planner::text::is_obeyed;

use crate::exit;

static COLOUR: AtomicBool = AtomicBool::new(false);

/// When to use colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Colour {
    /// On a terminal that has not asked for none.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Decides once whether stderr is coloured.
pub(crate) fn choose_colour(choice: Colour) {
    let said = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    let on = match choice {
        Colour::Always => true,
        Colour::Never => false,
        Colour::Auto if said("NO_COLOR") => false,
        Colour::Auto if said("CLICOLOR_FORCE") => true,
        Colour::Auto => std::io::stderr().is_terminal() && !dumb,
    };
    COLOUR.store(on, Ordering::Relaxed);
}

/// Stderr takes colour.
pub(crate) fn coloured() -> bool {
    COLOUR.load(Ordering::Relaxed)
}

/// Progress may be redrawn in place: somebody looks at a terminal that can.
pub(crate) fn is_live() -> bool {
    let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    std::io::stderr().is_terminal() && !dumb
}

/// Text in a colour, if there is any.
pub(crate) fn painted(text: &str, sgr: &str) -> String {
    if coloured() {
        format!("\u{1b}[{sgr}m{text}\u{1b}[0m")
    } else {
        text.to_owned()
    }
}

/// Red and bold: errors.
pub(crate) const RED: &str = "1;31";
/// Yellow and bold: warnings.
pub(crate) const YELLOW: &str = "1;33";
/// Green and bold: what went well.
pub(crate) const GREEN: &str = "1;32";
/// Bold: what to look at.
pub(crate) const BOLD: &str = "1";

/// An error's text with `error:` before it, unless it begins with `error[…]`.
pub(crate) fn headed(text: &str) -> String {
    match text.strip_prefix("error") {
        Some(rest) if rest.starts_with(['[', ':']) => {
            let (head, tail) = text.split_once(':').unwrap_or((text, ""));
            format!("{}:{tail}", painted(head, RED))
        }
        _ => format!("{}: {text}", painted("error", RED)),
    }
}

/// Writes data. The process ends when the reader has gone.
pub(crate) fn data(text: &str) {
    if let Err(error) = write(std::io::stdout().lock(), text) {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            std::process::exit(exit::PIPE_CLOSED.into());
        }
        note(&format!("error: cannot write to stdout: {error}\n"));
        std::process::exit(exit::FAILED.into());
    }
}

/// Writes what is not data. A closed stderr is not a reason to stop.
pub(crate) fn note(text: &str) {
    let _ = write(std::io::stderr().lock(), text);
}

fn write(mut to: impl Write + IsTerminal, text: &str) -> std::io::Result<()> {
    let text = match to.is_terminal() {
        true => printable(text),
        false => Cow::Borrowed(text),
    };
    to.write_all(text.as_bytes())?;
    to.flush()
}

/// Text as a terminal may be sent it. Messages and logs come from other people's programs, and
/// control characters in them could rewrite the screen, the title or the clipboard. Only line ends,
/// tabs and colours stay.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(char) = rest.chars().next() {
        let colour = colour_bytes(rest);
        let (kept, taken) = match char {
            _ if colour > 0 => (&rest[..colour], colour),
            '\n' | '\t' => (&rest[..1], 1),
            '\r' if rest.starts_with("\r\n") => ("", 1),
            // A line that is redrawn becomes one line for each time.
            '\r' => ("\n", 1),
            char if is_obeyed(char) => ("\u{fffd}", char.len_utf8()),
            char => (&rest[..char.len_utf8()], char.len_utf8()),
        };
        safe.push_str(kept);
        rest = &rest[taken..];
    }
    Cow::Owned(safe)
}

/// Length of the sequence at the start of a text that sets a colour; 0 if there is none.
fn colour_bytes(text: &str) -> usize {
    let Some(numbers) = text.strip_prefix("\u{1b}[") else {
        return 0;
    };
    let end = numbers.find(|char: char| !char.is_ascii_digit() && char != ';');
    match end {
        Some(end) if numbers[end..].starts_with('m') => "\u{1b}[".len() + end + 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s07_control_characters_do_not_reach_a_terminal() {
        for (text, safe) in [
            ("plain\tas ever\n", "plain\tas ever\n"),
            ("\u{1b}[1;31mred\u{1b}[0m", "\u{1b}[1;31mred\u{1b}[0m"),
            (
                "\u{1b}]52;c;ZXZpbA==\u{7}",
                "\u{fffd}]52;c;ZXZpbA==\u{fffd}",
            ),
            ("\u{1b}[2J\u{1b}[H", "\u{fffd}[2J\u{fffd}[H"),
            ("\u{9b}2J \u{8}x\u{7f}", "\u{fffd}2J \u{fffd}x\u{fffd}"),
            ("dos\r\n10%\r20%\n", "dos\n10%\n20%\n"),
            ("\u{202e}drawkcab", "\u{fffd}drawkcab"),
            ("\u{1b}[", "\u{fffd}["),
            ("\u{1b}[1", "\u{fffd}[1"),
        ] {
            assert_eq!(printable(text), safe, "{text:?}");
        }
    }
}
