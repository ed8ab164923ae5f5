//! Where words go: data to stdout, everything else to stderr. Decides colour, and that a reader
//! who has gone ends the process quietly. Knows no verb.

use std::io::{IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::exit;

static COLOUR: AtomicBool = AtomicBool::new(false);

/// When to colour.
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

/// An error's text with `error:` before it, unless it says `error[…]` itself.
pub(crate) fn headed(text: &str) -> String {
    match text.strip_prefix("error") {
        Some(rest) if rest.starts_with(['[', ':']) => {
            let (head, tail) = text.split_once(':').unwrap_or((text, ""));
            format!("{}:{tail}", painted(head, RED))
        }
        _ => format!("{}: {text}", painted("error", RED)),
    }
}

/// Writes data. When nobody reads it any more, there is nothing left to do.
pub(crate) fn data(text: &str) {
    let mut stdout = std::io::stdout().lock();
    let written = stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush());
    if let Err(error) = written {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            std::process::exit(exit::PIPE_CLOSED.into());
        }
        note(&format!("error: cannot write to stdout: {error}\n"));
        std::process::exit(exit::FAILED.into());
    }
}

/// Writes what is not data. That nobody hears it is no reason to stop.
pub(crate) fn note(text: &str) {
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}
