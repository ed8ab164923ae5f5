//! What a run of the tests leaves behind must be nothing. Decides what counts as left: files in the
//! directory for temporary files, mounts and processes. Must not know what the tests do.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

/// Set for all programs of a run, to the run's own directory.
const MARK: &str = "TMPDIR";
/// What the name of a run's directory begins with.
const PREFIX: &str = "muster-run-";
/// What a test program started to clean up after itself may still be about it.
const LIMIT: Duration = Duration::from_secs(10);

/// A directory for all temporary files of a run. Goes with this value, whatever is in it.
pub(super) struct Sandbox {
    directory: TempDir,
    /// What was beside it when the run began.
    before: BTreeSet<PathBuf>,
}

impl Sandbox {
    pub(super) fn new() -> Result<Self> {
        let before = ours_in(&std::env::temp_dir());
        let directory = tempfile::Builder::new().prefix(PREFIX).tempdir();
        let directory = directory.context("cannot make a directory for temporary files")?;
        // Some tests run as another user; as in any such directory, nobody removes another's files.
        fs::set_permissions(&directory, Permissions::from_mode(0o1777))?;
        Ok(Self { directory, before })
    }

    pub(super) fn apply(&self, command: &mut Command) {
        command.env(MARK, self.directory.path());
    }

    /// Fails if anything is left, and removes it.
    pub(super) fn close(self) -> Result<()> {
        let started = Instant::now();
        let mut left = self.left();
        while !left.is_empty() && started.elapsed() < LIMIT {
            thread::sleep(Duration::from_millis(100));
            left = self.left();
        }
        if !left.is_empty() {
            bail!("the tests left something behind:\n{}", left.join("\n"));
        }
        Ok(())
    }

    fn left(&self) -> Vec<String> {
        let own = self.directory.path();
        let inside = fs::read_dir(own).into_iter().flatten();
        let inside = inside.filter_map(|entry| Some(entry.ok()?.path()));
        let place = own.parent().unwrap_or(Path::new("/"));
        let beside = ours_in(place)
            .into_iter()
            .filter(|path| !self.before.contains(path) && !names_a_process(path));
        let files = inside.chain(beside);
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let below = format!("{}/", own.display());
        let mounts = mounts.lines().filter(|line| line.contains(&below));
        files
            .map(|path| format!("file {}", path.display()))
            .chain(mounts.map(|line| format!("mount {line}")))
            .chain(self.processes())
            .collect()
    }

    /// Those that were started with our mark, or run a program that lies in our directory.
    fn processes(&self) -> Vec<String> {
        let mark = format!("{MARK}={}", self.directory.path().display());
        let entries = fs::read_dir("/proc").into_iter().flatten();
        let found = entries.filter_map(|entry| {
            let process = entry.ok()?.path();
            let environment = fs::read(process.join("environ")).unwrap_or_default();
            let marked = environment
                .split(|byte| *byte == 0)
                .any(|variable| variable.starts_with(mark.as_bytes()));
            let program = fs::read_link(process.join("exe")).unwrap_or_default();
            let is_ours = marked || program.starts_with(self.directory.path());
            let words = fs::read_to_string(process.join("cmdline")).unwrap_or_default();
            is_ours.then(|| {
                format!(
                    "process {}: {}",
                    process.display(),
                    words.replace('\0', " ")
                )
            })
        });
        found.collect()
    }
}

/// Entries that programs and tests of this repository would make.
fn ours_in(directory: &Path) -> BTreeSet<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let is_ours = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let by_tests = name.starts_with("muster") || name.starts_with("minicluster");
        by_tests && !name.starts_with(PREFIX)
    };
    paths.filter(is_ours).collect()
}

/// Whether a process that runs has its number in the file's name: then it is in use by somebody
/// else's run. Small numbers are those of processes in containers.
fn names_a_process(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut numbers = name.split('-').filter_map(|part| part.parse::<u32>().ok());
    numbers.any(|pid| pid > 1000 && Path::new(&format!("/proc/{pid}")).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_processes_that_are_left_are_told_and_removed() {
        let sandbox = Sandbox::new().expect("the temporary directory is writable");
        assert_eq!(sandbox.left(), [""; 0]);
        let directory = sandbox.directory.path().to_owned();
        fs::write(directory.join("forgotten"), "").expect("the directory was just made");
        let mut command = Command::new("tail");
        sandbox.apply(command.args(["-f", "/dev/null"]));
        let mut child = command.spawn().expect("tail is there");
        // The kernel shows a new program's environment a moment after it has begun.
        let started = Instant::now();
        while sandbox.processes().is_empty() && started.elapsed() < LIMIT {
            thread::yield_now();
        }
        let left = sandbox.left().join("\n");
        child.kill().and_then(|()| child.wait()).expect("it runs");
        assert!(left.contains("/forgotten"), "{left}");
        assert!(
            left.contains(&format!("/proc/{}: tail", child.id())),
            "{left}"
        );
        drop(sandbox);
        assert!(!directory.exists());
    }
}
