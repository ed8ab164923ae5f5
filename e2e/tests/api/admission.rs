//! What the API server itself refuses, by the shipped CRDs alone. Each folder of `e2e/fixtures` is a
//! dialect; each fixture of a bad job names in its first line what the refusal must say.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::{Context, Result, bail, ensure};
use e2e::api_fixture::ApiFixture;
use e2e::figures::say;
use e2e::operator::repository;

use super::fixture::new_fixture;

/// Fewer bad jobs than this do not try a dialect.
const BAD_JOBS_MIN: usize = 10;

fn dialects() -> Result<Vec<PathBuf>> {
    entries(&repository().join("e2e/fixtures"))
}

fn fixtures(dialect: &Path, kind: &str) -> Result<Vec<PathBuf>> {
    let mut files = entries(&dialect.join(kind))?;
    let is_yaml = |file: &PathBuf| file.extension().is_some_and(|end| end == "yaml");
    files.retain(is_yaml);
    Ok(files)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    let paths = entries.map(|entry| Ok(entry?.path()));
    let mut paths = paths.collect::<Result<Vec<_>>>()?;
    paths.sort();
    ensure!(!paths.is_empty(), "{} is empty", folder.display());
    Ok(paths)
}

/// Asks the API server whether it would take the file; the refusal if not.
fn refusal(fixture: &ApiFixture, file: &Path) -> Result<Option<String>> {
    let text = fs::read_to_string(file)?;
    // Validation of kubectl's own would hide what the API server says.
    let args = ["create", "--dry-run=server", "--validate=false", "-n"];
    let args = [&args[..], &[&fixture.namespace, "-f", "-"]].concat();
    let answer = fixture.cluster.kubectl_with(&args, &text);
    Ok(answer.err().map(|error| format!("{error:#}")))
}

/// What is wrong with the refusal of a file, if anything is.
fn fault(fixture: &ApiFixture, file: &Path) -> Result<Option<String>> {
    let text = fs::read_to_string(file)?;
    let first = text.lines().next().unwrap_or_default();
    let Some(wanted) = first.strip_prefix("# names: ") else {
        bail!("{} does not begin with `# names: `", file.display());
    };
    Ok(match refusal(fixture, file)? {
        None => Some("is accepted".to_owned()),
        Some(said) if said.contains(wanted.trim()) => None,
        Some(said) => Some(format!("is refused without `{wanted}`: {said}")),
    })
}

#[test]
fn bad_jobs_of_every_dialect_are_refused_by_the_name_of_their_fault() -> Result<()> {
    let fixture = new_fixture("admission")?;
    for dialect in dialects()? {
        let files = fixtures(&dialect, "refused")?;
        let dialect = dialect.display();
        ensure!(
            files.len() >= BAD_JOBS_MIN,
            "{dialect}: {} bad jobs",
            files.len()
        );
        let faults = Mutex::new(Vec::new());
        fixture.at_once(&files, |file| {
            let fault = fault(&fixture, file)?;
            let mut faults = faults.lock().expect("nobody panics with this lock held");
            faults.extend(fault.map(|fault| format!("{} {fault}", file.display())));
            Ok(())
        })?;
        let faults = faults.into_inner();
        let faults = faults.expect("nobody panics with this lock held");
        ensure!(faults.is_empty(), "{}", faults.join("\n"));
        let count = files.len();
        say(&format!(
            "{dialect}: {count} bad jobs refused, each by the name of its fault"
        ));
    }
    Ok(())
}

#[test]
fn good_jobs_of_every_dialect_are_accepted() -> Result<()> {
    let fixture = new_fixture("admission")?;
    for dialect in dialects()? {
        let files = fixtures(&dialect, "accepted")?;
        fixture.at_once(&files, |file| match refusal(&fixture, file)? {
            None => Ok(()),
            Some(said) => bail!("{} is refused: {said}", file.display()),
        })?;
        say(&format!(
            "{}: {} good jobs accepted",
            dialect.display(),
            files.len()
        ));
    }
    Ok(())
}
