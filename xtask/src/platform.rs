//! The processors that programs are shipped for. Decides what is needed to build for one that is not this machine's,
//! and installs it.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;

use crate::{command, packages, root};

/// A processor, under Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Platform {
    /// x86-64
    Amd64,
    /// 64-bit ARM
    Arm64,
}

impl Platform {
    /// This machine's.
    pub(crate) fn here() -> Result<Self> {
        let all = Self::value_variants().iter().copied();
        let here = std::env::consts::ARCH;
        let mut named = all.filter(|platform| platform.processor() == here);
        let known = named.next();
        known.with_context(|| format!("muster is not shipped for {here}"))
    }

    /// What Kubernetes and registries call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// What Linux calls it.
    fn processor(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64",
            Self::Arm64 => "aarch64",
        }
    }

    /// What Rust calls it.
    pub(crate) fn target(self) -> String {
        format!("{}-unknown-linux-gnu", self.processor())
    }

    /// Installs what another machine's programs are built and run with.
    pub(crate) fn prepare(self) -> Result<()> {
        if self == Self::here()? {
            return Ok(());
        }
        let (debian, processor) = (self.name(), self.processor().replace('_', "-"));
        packages::ensure(&[
            &format!("gcc-{processor}-linux-gnu"),
            &format!("libc6-dev-{debian}-cross"),
            "qemu-user",
        ])?;
        let mut rustup = Command::new("rustup");
        rustup.current_dir(root());
        let installed = command::output(rustup.args(["target", "list", "--installed"]))
            .context("cannot ask rustup for what it can build")?;
        if !installed.lines().any(|line| line == self.target()) {
            let mut rustup = Command::new("rustup");
            rustup.current_dir(root());
            command::run(rustup.args(["target", "add", &self.target()]))?;
        }
        Ok(())
    }

    /// What tells cargo and C libraries how to build for it here.
    pub(crate) fn build_environment(self) -> Result<Vec<(String, String)>> {
        if self == Self::here()? {
            return Ok(Vec::new());
        }
        let compiler = format!("{}-linux-gnu-gcc", self.processor());
        let target = self.target().replace('-', "_");
        let linker = format!("CARGO_TARGET_{}_LINKER", target.to_uppercase());
        Ok(vec![
            (linker, compiler.clone()),
            (format!("CC_{target}"), compiler),
        ])
    }

    /// Starts a program of this platform, in an emulator where this machine is another one.
    pub(crate) fn command(self, program: &std::path::Path) -> Result<Command> {
        if self == Self::here()? {
            return Ok(Command::new(program));
        }
        let mut command = Command::new(format!("qemu-{}", self.processor()));
        command.arg(program);
        Ok(command)
    }

    /// Fails unless a program of this platform starts and says this version.
    pub(crate) fn assert_runs(self, program: &std::path::Path, version: &str) -> Result<()> {
        let said = command::output(self.command(program)?.arg("--version"))?;
        let name = program.display();
        ensure!(said.contains(version), "{name} --version says `{said}`");
        Ok(())
    }
}
