//! What is measured, as it ships. Decides how each program is built; must not know what for.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// Its own profile, static.
pub(crate) fn agent() -> Result<PathBuf> {
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let mut cargo = cargo("agent", "agent");
    cargo
        .args(["--target", &target])
        .env("RUSTFLAGS", "-C target-feature=+crt-static");
    built(&mut cargo, "muster-agent")
}

/// The person's tool.
pub(crate) fn muster() -> Result<PathBuf> {
    built(&mut cargo("cli", "release"), "muster")
}

fn cargo(package: &str, profile: &str) -> Command {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let mut command = Command::new(cargo);
    // What it says of this package to this program would have build scripts run anew.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    command.args(["build", "--package", package, "--profile", profile]);
    command
}

fn built(cargo: &mut Command, program: &str) -> Result<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .context("bench lies in the root of the repository")?;
    let output = cargo
        .args(["--quiet", "--message-format", "json"])
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()?;
    ensure!(output.status.success(), "{program} cannot be built");
    let messages = String::from_utf8_lossy(&output.stdout).into_owned();
    let built = messages.lines().find_map(|line| {
        let message: Value = serde_json::from_str(line).ok()?;
        let path = PathBuf::from(message["executable"].as_str()?);
        path.ends_with(program).then_some(path)
    });
    built.with_context(|| format!("cargo did not say where {program} is"))
}

/// Ends with advice where a program is missing.
pub(crate) fn need(programs: &[(&str, &str)]) -> Result<()> {
    for (program, package) in programs {
        let found = Command::new("sh")
            .args(["-c", "command -v \"$0\"", program])
            .stdout(Stdio::null())
            .status()?;
        ensure!(
            found.success(),
            "{program} is missing: apt-get install {package}"
        );
    }
    Ok(())
}
