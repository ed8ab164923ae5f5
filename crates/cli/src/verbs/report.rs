//! `muster report JOB`: what happened to it, as one file or as data. Decides the name of the file, and that
//! nobody reads half of one.

use std::fs::File;
use std::io::Write as _;
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

/// Writes the page, or the data if the name ends in `.json`.
fn write(path: &Path, report: &Report) -> Result<()> {
    let text = match path
        .extension()
        .is_some_and(|extension| extension == "json")
    {
        true => format!("{:#}\n", serde_json::to_value(report)?),
        false => page::file(report),
    };
    replace(path, &text).with_context(|| format!("cannot write {}", path.display()))
}

/// Whoever opens the file meanwhile sees the one before. A device, a pipe or a link stays what it is, and gets
/// the text.
fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    if std::fs::symlink_metadata(path).is_ok_and(|there| !there.is_file()) {
        return std::fs::write(path, text);
    }
    let directory = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    let draft = directory.join(format!(".muster-report-{}", std::process::id()));
    // Nobody else's file or link of that name is written to, or removed.
    let mut file = File::create_new(&draft)?;
    let written = file.write_all(text.as_bytes());
    let written = written.and_then(|()| std::fs::rename(&draft, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&draft);
    }
    written
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{FileTypeExt as _, symlink};
    use std::process::Command;

    use super::*;

    #[test]
    fn a_pipe_and_a_link_stay_what_they_are_and_a_draft_is_nobody_elses() {
        let directory =
            std::env::temp_dir().join(format!("muster-report-test-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let at = |name: &str| directory.join(name);

        let made = Command::new("mkfifo").arg(at("pipe")).status().unwrap();
        assert!(made.success(), "mkfifo failed");
        let pipe = at("pipe");
        let reader = std::thread::spawn(move || std::fs::read_to_string(pipe).unwrap());
        replace(&at("pipe"), "one").unwrap();
        let kind = std::fs::symlink_metadata(at("pipe")).unwrap().file_type();
        assert!(kind.is_fifo(), "the pipe is now {kind:?}");
        assert_eq!(reader.join().unwrap(), "one");

        std::fs::write(at("old"), "old").unwrap();
        symlink("old", at("link")).unwrap();
        replace(&at("link"), "two").unwrap();
        assert!(at("link").is_symlink());
        assert_eq!(std::fs::read_to_string(at("old")).unwrap(), "two");

        let draft = at(&format!(".muster-report-{}", std::process::id()));
        symlink("old", &draft).unwrap();
        let refused = replace(&at("new"), "three").unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::AlreadyExists);
        assert!(draft.is_symlink());
        std::fs::remove_file(&draft).unwrap();
        replace(&at("new"), "three").unwrap();
        assert_eq!(std::fs::read_to_string(at("new")).unwrap(), "three");
        assert_eq!(std::fs::read_to_string(at("old")).unwrap(), "two");
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
