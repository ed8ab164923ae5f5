//! Programs of others that the tests drive as their users do: Flyte's backend plugin, flytekit, and
//! Kubeflow's training SDK, each built or installed once for each pinned version. Decides where they
//! are and what decides their content; must not know what is tested with them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::{cache, command};

/// Tests find each client by a variable of the environment.
pub(crate) fn environment() -> Result<Vec<(&'static str, PathBuf)>> {
    Ok(vec![
        ("MUSTER_E2E_FLYTE", flyte()?),
        ("MUSTER_E2E_FLYTEKIT", python("flyte")?),
        ("MUSTER_E2E_SDK", python("sdk")?),
    ])
}

/// The program of `e2e/flyte`. Its first build takes minutes, since it compiles what Flyte depends on.
fn flyte() -> Result<PathBuf> {
    let module = e2e().join("flyte");
    let flags = ["-mod=readonly", "-trimpath", "-buildvcs=false"];
    let go = command::output(Command::new("go").arg("version"))
        .context("Go 1.26 or newer builds Flyte's plugin")?;
    let mut inputs = vec![go.into_bytes(), flags.join(" ").into_bytes()];
    for file in ["go.mod", "go.sum", "main.go", "execution.go"] {
        inputs.push(read(&module.join(file))?);
    }
    let directory = cache::keyed("flyte", &inputs, |out| {
        eprintln!("building Flyte's MPI plugin from source (the first time takes minutes)");
        command::run(
            Command::new("go")
                .current_dir(&module)
                .env("CGO_ENABLED", "0")
                .arg("build")
                // One compiler at a time: some of these packages take a gigabyte each.
                .args(["-p", "1"])
                .args(flags)
                .arg("-o")
                .arg(out.join("flyte"))
                .arg("."),
        )
    })?;
    Ok(directory.join("flyte"))
}

/// A Python that has what `e2e/<client>/requirements.txt` says and nothing else.
fn python(client: &str) -> Result<PathBuf> {
    let requirements = e2e().join(client).join("requirements.txt");
    let version = command::output(Command::new("python3").arg("--version"))
        .context("Python 3.10 to 3.12 runs flytekit and the training SDK")?;
    let inputs = [version.into_bytes(), read(&requirements)?];
    let directory = cache::keyed(&format!("python-{client}"), &inputs, |out| {
        eprintln!("installing what {} asks for", requirements.display());
        command::output(Command::new("python3").args(["-m", "venv"]).arg(out))
            .context("is python3-venv installed?")?;
        // Found by its own path, so the environment may move to its final name afterwards.
        command::output(
            Command::new(out.join("bin/python"))
                .args(["-m", "pip", "install", "--quiet", "--requirement"])
                .arg(&requirements),
        )?;
        Ok(())
    })?;
    Ok(directory.join("bin/python"))
}

fn e2e() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = xtask.parent();
    root.expect("xtask lies in the root of the repository")
        .join("e2e")
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}
