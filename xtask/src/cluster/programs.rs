//! The Kubernetes programs, built from source. Decides how they are compiled and when again; which
//! versions they have is pinned in `e2e/cluster/go.mod` and `go.sum`, and nowhere else.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::{cache, command};

/// The built program of `e2e/cluster/<name>`: `kube`, `coredns` or `pause`. The first build of `kube`
/// takes minutes, since it compiles all of Kubernetes.
pub(crate) fn built(name: &str) -> Result<PathBuf> {
    let module = module_dir();
    let version = kubernetes_version(&module)?;
    let flags = [
        "-mod=readonly",
        "-trimpath",
        "-buildvcs=false",
        "-ldflags",
        &ldflags(&version)?,
    ]
    .map(str::to_owned);
    let go = command::output(Command::new("go").arg("version"))
        .context("Go 1.26 or newer builds the Kubernetes programs")?;
    let mut inputs = vec![go.into_bytes(), flags.join(" ").into_bytes()];
    inputs.extend(sources(&module, name)?);
    let dir = cache::keyed(name, &inputs, |out| {
        eprintln!("building {name} from source (the first build of kube takes minutes)");
        command::run(
            Command::new("go")
                .current_dir(&module)
                .env("CGO_ENABLED", "0")
                .arg("build")
                .args(&flags)
                .arg("-o")
                .arg(out.join(name))
                .arg(format!("./{name}")),
        )
    })?;
    Ok(dir.join(name))
}

fn module_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../e2e/cluster")
}

/// The module's pins and the program's own files; `go.sum` stands for everything else.
fn sources(module: &Path, name: &str) -> Result<Vec<Vec<u8>>> {
    let mut paths = vec![module.join("go.mod"), module.join("go.sum")];
    let dir = module.join(name);
    let entries = fs::read_dir(&dir).with_context(|| format!("cannot list {}", dir.display()))?;
    for entry in entries {
        paths.push(entry?.path());
    }
    paths.sort();
    paths
        .iter()
        .map(|path| fs::read(path).with_context(|| format!("cannot read {}", path.display())))
        .collect()
}

fn kubernetes_version(module: &Path) -> Result<String> {
    let text = fs::read_to_string(module.join("go.mod"))?;
    let version = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("k8s.io/kubernetes "));
    version
        .map(str::to_owned)
        .context("e2e/cluster/go.mod does not require k8s.io/kubernetes")
}

/// Kubernetes reads its own version from variables that only its release scripts set; a server that
/// does not know its version refuses some of what clients ask.
fn ldflags(version: &str) -> Result<String> {
    let mut parts = version.trim_start_matches('v').split('.');
    let (major, minor) = parts
        .next()
        .zip(parts.next())
        .context("a version without a minor part")?;
    let mut flags = "-s -w".to_owned();
    for package in [
        "k8s.io/component-base/version",
        "k8s.io/client-go/pkg/version",
    ] {
        for (variable, value) in [
            ("gitVersion", version),
            ("gitMajor", major),
            ("gitMinor", minor),
            ("gitCommit", "test"),
            ("gitTreeState", "clean"),
            ("buildDate", "1970-01-01T00:00:00Z"),
        ] {
            flags.push_str(&format!(" -X {package}.{variable}={value}"));
        }
    }
    Ok(flags)
}
