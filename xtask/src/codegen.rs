//! Writes the generated files of deploy/: the CRD of each dialect and the one-file install. Decides
//! which files there are and whether they are up to date; what is in them lives below.

mod bdap;
mod install;
mod mpijob_rules;
mod mpijobs;
mod openmpi;
mod pod_template;
mod t9k;
mod yaml;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// `kubectl apply` without `--server-side` keeps the whole object, as JSON, in an annotation, and
/// all annotations together may not be larger than this.
const APPLIED_BYTES_MAX: usize = 262_144;

/// Arguments of this chore.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Write nothing; fail if a file differs from what would be written
    #[arg(long)]
    pub(crate) check: bool,
}

pub(crate) fn run(args: Args) -> Result<()> {
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy");
    let mut stale = Vec::new();
    let mut installed = Vec::new();
    // Another's `mpijobs` are for those who have such jobs: installed, they would take the short name
    // `mpijob` away from Kubeflow's, since kubectl goes by the alphabet.
    let all = [
        (mpijobs::FILE, mpijobs::crd()?, true),
        (t9k::FILE, t9k::crd()?, false),
        (bdap::FILE, bdap::crd()?, false),
        (openmpi::FILE, openmpi::crd(), true),
    ];
    for (file, crd, is_installed) in all {
        let crd = written(&crd)?;
        settle(&deploy.join(file), &crd, args.check, &mut stale)?;
        if is_installed {
            installed.push(crd);
        }
    }
    let install = install::text(&deploy, &installed)?;
    settle(
        &deploy.join(install::FILE),
        &install,
        args.check,
        &mut stale,
    )?;
    if !stale.is_empty() {
        bail!(
            "out of date: {}; run `cargo xtask codegen` and commit the result",
            stale.join(", ")
        );
    }
    Ok(())
}

/// A CRD as text, unless it is too large to be applied.
fn written(crd: &serde_json::Value) -> Result<String> {
    let name = crd["metadata"]["name"].as_str().unwrap_or_default();
    let bytes = crd.to_string().len();
    if bytes > APPLIED_BYTES_MAX {
        bail!(
            "the CRD {name} is {bytes} bytes of JSON; plain `kubectl apply` stores at most {APPLIED_BYTES_MAX}"
        );
    }
    println!("{name}: {bytes} bytes of JSON, at most {APPLIED_BYTES_MAX} can be applied");
    let text = yaml::written(crd);
    Ok(format!(
        "# Written by `cargo xtask codegen`; do not edit.\n{text}"
    ))
}

/// Writes a file, or with `check` notes that it differs.
fn settle(path: &PathBuf, text: &str, check: bool, stale: &mut Vec<String>) -> Result<()> {
    let current = fs::read_to_string(path).unwrap_or_default();
    let name = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    if current == text {
        println!("{name}: up to date");
    } else if check {
        stale.push(name);
    } else {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)
                .with_context(|| format!("cannot make {}", folder.display()))?;
        }
        fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
        println!("{name}: written");
    }
    Ok(())
}
