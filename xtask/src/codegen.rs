//! Writes the generated files: the CRD of each resource, the one-file install, the admission policies, the dashboard,
//! the tables of docs/dialects.md, and lists of docs/reference. Decides which files there are and whether they are up to date. The lists of fields
//! that they are made from are in `crates/dialects`.

mod admission;
mod install;
mod monitoring;
mod page;
mod pod_template;
mod reference;
mod rights;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use dialects::RESOURCES;
use dialects::definition::definition;

/// `kubectl apply` without `--server-side` keeps the whole object, as JSON, in an annotation, and
/// all annotations together may not be larger than this.
const APPLIED_BYTES_MAX: usize = 262_144;

/// The beginning of the file that lists all CRDs.
const KUSTOMIZATION: &str =
    "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n";

/// Arguments of this chore.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Write nothing; fail if a file differs from what would be written
    #[arg(long)]
    pub(crate) check: bool,
}

pub(crate) fn run(args: Args) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let deploy = root.join("deploy");
    let template = pod_template::schema()?;
    let (mut files, mut installed) = (Vec::new(), Vec::new());
    let mut kustomization = KUSTOMIZATION.to_owned();
    for resource in RESOURCES {
        let file = format!("{}_{}.yaml", resource.group, resource.plural);
        kustomization += &format!("  - {file}\n");
        let crd = written(&definition(resource, &template))?;
        // Another platform's `mpijobs` are for those who have such jobs: installed, they would take the
        // short name `mpijob` away from Kubeflow's, since kubectl goes by the alphabet.
        if resource.definition.is_installed {
            installed.push(crd.clone());
        }
        files.push((deploy.join("crds").join(file), crd));
    }
    files.push((deploy.join("crds/kustomization.yaml"), kustomization));
    files.push((
        deploy.join(install::FILE),
        install::text(&deploy, &installed)?,
    ));
    files.push((deploy.join(admission::FILE), admission::text()?));
    files.push((deploy.join(monitoring::RULES), monitoring::rules(&deploy)?));
    files.push((deploy.join(monitoring::DASHBOARD), monitoring::dashboard()?));
    let page = root.join(page::FILE);
    let prose = fs::read_to_string(&page).with_context(|| format!("cannot read {}", page::FILE))?;
    files.push((page, page::text(&prose)));
    files.push((root.join(reference::REASONS), reference::reasons()));
    files.push((root.join(reference::EXIT_CODES), reference::exit_codes()?));
    files.push((root.join(rights::FILE), rights::page()?));

    let mut stale = Vec::new();
    for (path, text) in &files {
        update(path, text, args.check, &mut stale)?;
    }
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
    let text = serde_saphyr::to_string(crd).with_context(|| format!("cannot write {name}"))?;
    Ok(format!(
        "# Written by `cargo xtask codegen`; do not edit.\n{text}"
    ))
}

/// Writes a file, or with `check` notes that it differs.
fn update(path: &Path, text: &str, check: bool, stale: &mut Vec<String>) -> Result<()> {
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
