//! What the API server itself refuses, by the shipped CRD alone: each fixture of a bad job names in
//! its first line what the refusal must say.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use e2e::figures::say;
use e2e::ground::Ground;
use e2e::operator::repository;

use super::stage::ground;

fn fixtures(kind: &str) -> Result<Vec<PathBuf>> {
    let folder = repository()
        .join("e2e/fixtures/kubeflow_v2beta1")
        .join(kind);
    let entries = fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))?;
    let mut files = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>>>()?;
    files.retain(|file| {
        file.extension()
            .is_some_and(|extension| extension == "yaml")
    });
    files.sort();
    ensure!(!files.is_empty(), "{} is empty", folder.display());
    Ok(files)
}

/// Asks the API server whether it would take the file; the refusal if not.
fn refusal(ground: &Ground, file: &PathBuf) -> Result<Option<String>> {
    let text = fs::read_to_string(file)?;
    let args = [
        "create",
        "--dry-run=server",
        "-n",
        &ground.namespace,
        "-f",
        "-",
    ];
    // Validation of kubectl's own would hide what the API server says.
    let args = [&args[..], &["--validate=false"]].concat();
    Ok(ground
        .cluster
        .kubectl_with(&args, &text)
        .err()
        .map(|error| format!("{error:#}")))
}

#[test]
fn bad_jobs_are_refused_by_the_name_of_their_fault() -> Result<()> {
    let ground = ground("admission")?;
    let files = fixtures("refused")?;
    let faults = std::sync::Mutex::new(Vec::new());
    ground.at_once(&files, |file| {
        let text = fs::read_to_string(file)?;
        let first = text.lines().next().unwrap_or_default();
        let Some(wanted) = first.strip_prefix("# names: ") else {
            bail!("{} does not begin with `# names: `", file.display());
        };
        let fault = match refusal(&ground, file)? {
            None => Some("is accepted".to_owned()),
            Some(said) if said.contains(wanted.trim()) => None,
            Some(said) => Some(format!("is refused without `{wanted}`: {said}")),
        };
        let mut faults = faults.lock().expect("nobody panics with this lock held");
        faults.extend(fault.map(|fault| format!("{} {fault}", file.display())));
        Ok(())
    })?;
    let faults = faults
        .into_inner()
        .expect("nobody panics with this lock held");
    ensure!(faults.is_empty(), "{}", faults.join("\n"));
    say(&format!(
        "{} bad jobs refused, each by the name of its fault",
        files.len()
    ));
    Ok(())
}

#[test]
fn good_jobs_are_accepted() -> Result<()> {
    let ground = ground("admission")?;
    let files = fixtures("accepted")?;
    ground.at_once(&files, |file| match refusal(&ground, file)? {
        None => Ok(()),
        Some(said) => bail!("{} is refused: {said}", file.display()),
    })?;
    say(&format!("{} good jobs accepted", files.len()));
    Ok(())
}
