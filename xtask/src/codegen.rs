//! Writes the generated files of deploy/: the CRD of each dialect and the one-file install. Decides
//! which files there are and whether they are up to date; what is in them lives below.

mod install;
mod mpijob_rules;
mod mpijobs;
mod pod_template;
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
    let crd = mpijobs::crd()?;
    let bytes = crd.to_string().len();
    if bytes > APPLIED_BYTES_MAX {
        bail!(
            "the CRD {} is {bytes} bytes of JSON; plain `kubectl apply` stores at most {APPLIED_BYTES_MAX}",
            mpijobs::NAME
        );
    }
    let crd = format!(
        "# Written by `cargo xtask codegen`; do not edit.\n{}",
        yaml::written(&crd)
    );
    println!(
        "{}: {bytes} bytes of JSON, at most {APPLIED_BYTES_MAX} can be applied",
        mpijobs::NAME
    );

    for (path, text) in [
        (deploy.join(mpijobs::FILE), crd.clone()),
        (deploy.join(install::FILE), install::text(&deploy, &crd)?),
    ] {
        settle(&path, &text, args.check, &mut stale)?;
    }
    if !stale.is_empty() {
        bail!(
            "out of date: {}; run `cargo xtask codegen` and commit the result",
            stale.join(", ")
        );
    }
    Ok(())
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
