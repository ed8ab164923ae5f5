//! Programs that carry the list of the crates that they were built from, for scanners that find nothing but the
//! program. Decides which tool puts it there, and installs that. What the list says is the tool's.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::{cache, command};

const TOOL: &str = "cargo-auditable";
const VERSION: &str = "0.7.7";
/// The section of a program that has the list.
const SECTION: &str = ".dep-v0";

/// `cargo build`, whose programs carry the list.
pub(super) fn cargo_build() -> Result<Command> {
    let tool = cache::keyed(TOOL, &[VERSION], |directory| {
        eprintln!("building {TOOL} {VERSION}: a minute or two, once");
        let scratch = directory.join("scratch");
        command::run(
            command::cargo("install")
                .args(["--quiet", "--locked", "--no-track"])
                .args(["--version", VERSION, "--root"])
                .arg(directory)
                .arg("--target-dir")
                .arg(&scratch)
                .arg(TOOL),
        )?;
        Ok(std::fs::remove_dir_all(scratch)?)
    })?;
    let inherited = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::split_paths(&inherited).chain([tool.join("bin")]);
    let path = std::env::join_paths(path).context("cannot add to PATH")?;
    let mut cargo = command::cargo("auditable");
    cargo.arg("build").env("PATH", path);
    Ok(cargo)
}

/// Fails unless the program carries a list.
pub(super) fn assert_has_list(program: &Path) -> Result<()> {
    let mut readelf = Command::new("readelf");
    let sections = command::output(readelf.args(["--wide", "--sections"]).arg(program))?;
    let has_list = sections.split_whitespace().any(|word| word == SECTION);
    let name = program.display();
    ensure!(has_list, "{name} has no list of its crates");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_without_the_list_is_found() -> Result<()> {
        let error = assert_has_list(&std::env::current_exe()?).unwrap_err();
        assert!(error.to_string().contains("no list"), "{error:#}");
        Ok(())
    }
}
