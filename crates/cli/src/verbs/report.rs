//! `muster report JOB`: what happened to it, as one file or as data. Decides the name of the file, and that
//! nobody reads half of one.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use jiff::Timestamp;

use crate::args::Global;
use crate::args::report::ReportArgs;
use crate::backend::Backend;
use crate::out;
use crate::report::data::Report;
use crate::report::{Facts, page};

pub(crate) async fn run(global: &Global, args: &ReportArgs) -> Result<u8> {
    let backend = Backend::connect(global, Some(&args.job.name)).await?;
    let facts = Facts::gather(&backend, &args.job.name).await?;
    let report = facts.report(Timestamp::now());
    match args.output.as_deref().and_then(Path::to_str) {
        Some("json") => out::data(&format!("{:#}\n", serde_json::to_value(&report)?)),
        Some("html") => out::data(&page::file(&report)),
        _ => {
            let default = || PathBuf::from(format!("{}.html", report.job.name));
            let path = args.output.clone().unwrap_or_else(default);
            write(&path, &report)?;
            if !global.quiet {
                out::note(&format!("wrote {}\n", path.display()));
            }
        }
    }
    Ok(0)
}

/// The report of a run that is over. Its exit code says how it ended, so a file that cannot be written does not
/// change that.
pub(crate) async fn of_run(backend: &Backend, name: &str, path: &Path) {
    let made = async {
        let facts = Facts::gather(backend, name).await?;
        write(path, &facts.report(Timestamp::now()))
    };
    if let Err(error) = made.await {
        out::note(&format!("{}\n", out::headed(&format!("{error:#}"))));
    }
}

/// Writes the page, or the data if the name ends in `.json`. Whoever opens the file meanwhile sees the one
/// before.
fn write(path: &Path, report: &Report) -> Result<()> {
    let text = match path
        .extension()
        .is_some_and(|extension| extension == "json")
    {
        true => format!("{:#}\n", serde_json::to_value(report)?),
        false => page::file(report),
    };
    let directory = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    let draft = directory.join(format!(".muster-report-{}", std::process::id()));
    let written = std::fs::write(&draft, text).and_then(|()| std::fs::rename(&draft, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&draft);
    }
    written.with_context(|| format!("cannot write {}", path.display()))
}
