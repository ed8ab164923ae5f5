//! Programs of others that the tests drive as their users do: Flyte's backend plugin, flytekit,
//! Kubeflow's training SDK, Grafana's types, Helm, and axe, each built or installed once for each pinned version. Decides where they
//! are and what decides their content; must not know what is tested with them.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::go::Module;
use crate::{cache, command, packages, root};

/// Tests find each client by a variable of the environment.
pub(crate) fn environment() -> Result<Vec<(&'static str, PathBuf)>> {
    let mut clients = vec![("MUSTER_E2E_FLYTE", flyte()?)];
    clients.extend(pythons()?);
    Ok(clients)
}

/// The program of `e2e/flyte`. Its first build takes minutes, since it compiles what Flyte depends on.
pub(crate) fn flyte() -> Result<PathBuf> {
    let module = Module {
        name: "flyte",
        programs: &["."],
        ldflags: String::new(),
        // Some of these packages take a gigabyte each to compile.
        at_once: Some("1"),
    };
    Ok(module.built()?.join("flyte"))
}

/// Helm, for administrators.
pub(crate) fn helm() -> Result<PathBuf> {
    let module = Module {
        name: "helm",
        programs: &["helm.sh/helm/v4/cmd/helm"],
        ldflags: String::new(),
        at_once: None,
    };
    Ok(module.built()?.join("helm"))
}

/// The program that finds faults of pages for people who do not see or do not point, for a browser to run.
pub(crate) fn axe() -> Result<(&'static str, PathBuf)> {
    if !command::succeeds(Command::new("npm").arg("--version")) {
        packages::ensure(&["npm"])?;
    }
    let lists = ["package.json", "package-lock.json"].map(|name| root().join("e2e/axe").join(name));
    let inputs = cache::contents(lists.to_vec())?;
    let directory = cache::keyed("axe", &inputs, |out| {
        for list in &lists {
            let name = list.file_name().context("a list has a name")?;
            std::fs::copy(list, out.join(name))?;
        }
        let mut install = Command::new("npm");
        install.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]);
        command::output(install.current_dir(out))?;
        Ok(())
    })?;
    Ok((
        "MUSTER_AXE",
        directory.join("node_modules/axe-core/axe.min.js"),
    ))
}

/// The clients that are written in Python.
pub(crate) fn pythons() -> Result<[(&'static str, PathBuf); 3]> {
    Ok([
        ("MUSTER_E2E_GRAFANA", python("grafana")?),
        ("MUSTER_E2E_FLYTEKIT", python("flyte")?),
        ("MUSTER_E2E_SDK", python("sdk")?),
    ])
}

/// A directory with the wheel of mpi4py that the page about recipes installs, for the Python of this machine.
pub(crate) fn mpi4py() -> Result<PathBuf> {
    const REQUIREMENT: &str = "mpi4py==4.1.2";
    let version = command::output(Command::new("python3").arg("--version"))?;
    let inputs = [REQUIREMENT, &version];
    cache::keyed("wheel-mpi4py", &inputs, |out| {
        eprintln!("fetching {REQUIREMENT}");
        let environment = out.join("pip");
        command::output(
            Command::new("python3")
                .args(["-m", "venv"])
                .arg(&environment),
        )
        .context("is python3-venv installed?")?;
        command::output(
            Command::new(environment.join("bin/python"))
                .args(["-m", "pip", "download", "--quiet", "--no-deps"])
                .args(["--only-binary", ":all:", "--dest"])
                .args([out.as_os_str(), REQUIREMENT.as_ref()])
                .env("TMPDIR", out),
        )?;
        std::fs::remove_dir_all(&environment)
            .with_context(|| format!("cannot remove {}", environment.display()))
    })
}

/// A Python that has what `e2e/<client>/requirements.txt` says and nothing else.
fn python(client: &str) -> Result<PathBuf> {
    let requirements = root().join("e2e").join(client).join("requirements.txt");
    let version = command::output(Command::new("python3").arg("--version"))
        .context("Python 3.10 to 3.12 runs flytekit and the training SDK")?;
    let mut inputs = vec![version.into_bytes()];
    inputs.extend(cache::contents(vec![requirements.clone()])?);
    let directory = cache::keyed(&format!("python-{client}"), &inputs, |out| {
        eprintln!("installing what {} asks for", requirements.display());
        command::output(Command::new("python3").args(["-m", "venv"]).arg(out))
            .context("is python3-venv installed?")?;
        // Found by its own path, so the environment may move to its final name afterwards.
        command::output(
            Command::new(out.join("bin/python"))
                .args(["-m", "pip", "install", "--quiet", "--requirement"])
                .arg(&requirements)
                .env("TMPDIR", out),
        )?;
        Ok(())
    })?;
    Ok(directory.join("bin/python"))
}
