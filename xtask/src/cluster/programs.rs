//! The Kubernetes programs. Decides what a build of them must know of their version.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::go::Module;

/// The built program: `kube`, `coredns` or `pause`. The first build takes minutes, since it compiles
/// all of Kubernetes.
pub(crate) fn built(name: &str) -> Result<PathBuf> {
    let module = Module {
        name: "cluster",
        programs: &["./kube", "./coredns", "./pause"],
        ldflags: versions()?,
        at_once: None,
    };
    Ok(module.built()?.join(name))
}

/// Kubernetes reads its own version from variables that only its release scripts set; a server that
/// does not know its version refuses some of what clients ask.
fn versions() -> Result<String> {
    let text = fs::read_to_string(Module::directory("cluster").join("go.mod"))?;
    let version = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("k8s.io/kubernetes "))
        .context("e2e/cluster/go.mod does not require k8s.io/kubernetes")?;
    let mut parts = version.trim_start_matches('v').split('.');
    let (major, minor) = parts
        .next()
        .zip(parts.next())
        .context("a version without a minor part")?;
    let mut flags = Vec::new();
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
            flags.push(format!("-X {package}.{variable}={value}"));
        }
    }
    Ok(flags.join(" "))
}
