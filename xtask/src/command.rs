//! Running other programs. Decides what an error says when one fails: the command line as it could
//! be typed again, and what the program wrote to stderr. Must not know what any program is for.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, bail};

use crate::root;

/// Cargo in the root of the repository, as a shell would start it. What it says of this package to
/// this program is left out: build scripts that look at it would run anew, and all that needs them.
pub(crate) fn cargo(subcommand: &str) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(root());
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    command.arg(subcommand);
    command
}

/// A program that cargo has built beside this one.
pub(crate) fn built(name: &str) -> Result<PathBuf> {
    let own = std::env::current_exe().context("cannot find out where this program is")?;
    Ok(own.with_file_name(name))
}

/// Runs a program that shares our terminal; anything but exit code 0 is an error.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| cannot_start(command))?;
    if !status.success() {
        bail!("`{}` failed: {status}", shown(command));
    }
    Ok(())
}

/// Runs a program without a terminal and returns its stdout, trimmed; what it wrote to stderr is
/// part of the error when it fails.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let Output {
        status,
        stdout,
        stderr,
    } = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| cannot_start(command))?;
    if !status.success() {
        let stderr = String::from_utf8_lossy(&stderr);
        bail!("`{}` failed: {status}: {}", shown(command), stderr.trim());
    }
    let stdout = String::from_utf8(stdout)
        .with_context(|| format!("`{}` did not print UTF-8", shown(command)))?;
    Ok(stdout.trim().to_owned())
}

/// Whether a program could be started and ended with exit code 0; its output goes nowhere.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

fn cannot_start(command: &Command) -> String {
    let program = command.get_program().to_string_lossy();
    format!("cannot start `{program}`: is it installed and in PATH?")
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_the_command_line_and_repeats_stderr() {
        let error = output(Command::new("sh").args(["-c", "echo broken >&2; exit 3"])).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("sh -c") && text.contains("broken"), "{text}");
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = run(&mut Command::new("no-such-program-here")).unwrap_err();
        assert!(
            error.to_string().contains("no-such-program-here"),
            "{error}"
        );
    }
}
