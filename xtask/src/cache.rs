//! Artefacts that are slow to make and the same every time: kept under one directory, each named by
//! the hash of everything that decides its content. Decides when an artefact is complete (renamed
//! into place), that two processes never make the same one at once, and when an older one goes. Must
//! not know what the artefacts are.

use std::env;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

use crate::root;

/// How many artefacts of one name are kept, the last used first: those of this state of the repository
/// and of the one before, which may be another branch's.
const KEPT: usize = 2;
/// Longer than any run of the tests, which may have been given the path of an older one.
const IN_USE: Duration = Duration::from_secs(2 * 3600);

/// Where artefacts live: `MUSTER_CACHE`, else `~/.cache/muster`.
pub(crate) fn dir() -> Result<PathBuf> {
    let dir = match env::var_os("MUSTER_CACHE") {
        Some(dir) => PathBuf::from(dir),
        None => env::home_dir()
            .context("no home directory: set MUSTER_CACHE to a directory for cached artefacts")?
            .join(".cache/muster"),
    };
    fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    // Absolute, because the paths travel into configuration files of other programs.
    std::path::absolute(&dir).with_context(|| format!("cannot resolve {}", dir.display()))
}

/// The directory of the artefact that `inputs` decide. Unless it is there already, `build` fills a
/// fresh directory, which appears under its final name only when `build` has succeeded.
pub(crate) fn keyed<I: AsRef<[u8]>>(
    name: &str,
    inputs: &[I],
    build: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    let root = dir()?;
    let finished = root.join(format!("{name}-{}", key(inputs)));
    if finished.exists() {
        // Its age is that of its last use; if that cannot be noted, it is only removed earlier.
        let _ = File::open(&finished).and_then(|entry| entry.set_modified(SystemTime::now()));
        return Ok(finished);
    }
    let _lock = lock(&finished.with_extension("lock"))?;
    if finished.exists() {
        return Ok(finished); // another process made it while this one waited for the lock
    }
    // Whatever an interrupted build left here is worth nothing: its maker no longer has the lock.
    let building = finished.with_extension("building");
    if building.exists() {
        fs::remove_dir_all(&building)
            .with_context(|| format!("cannot remove {}", building.display()))?;
    }
    fs::create_dir(&building).with_context(|| format!("cannot make {}", building.display()))?;
    build(&building).with_context(|| format!("cannot make the cached artefact `{name}`"))?;
    fs::rename(&building, &finished)
        .with_context(|| format!("cannot rename to {}", finished.display()))?;
    prune(&root, name)?;
    Ok(finished)
}

/// Removes older artefacts of the same name, and what interrupted builds of it left.
fn prune(root: &Path, name: &str) -> Result<()> {
    let unreadable = || format!("cannot read {}", root.display());
    let mut finished = Vec::new();
    for entry in fs::read_dir(root).with_context(unreadable)? {
        let entry = entry.with_context(unreadable)?;
        let file = entry.file_name().to_string_lossy().into_owned();
        let (stem, end) = file.split_once('.').unwrap_or((&file, ""));
        let key = stem
            .strip_prefix(name)
            .and_then(|key| key.strip_prefix('-'));
        let is_key = |key: &str| key.len() == 16 && key.bytes().all(|b| b.is_ascii_hexdigit());
        match end {
            _ if !key.is_some_and(is_key) => {}
            "" => finished.push((entry.metadata()?.modified()?, entry.path())),
            "building" => {
                let lock = File::create(entry.path().with_extension("lock"))?;
                if lock.try_lock().is_ok() {
                    remove(&entry.path())?;
                }
            }
            _ => {}
        }
    }
    finished.sort();
    finished.reverse();
    for (used, path) in finished.into_iter().skip(KEPT) {
        if used.elapsed().is_ok_and(|age| age > IN_USE) {
            remove(&path)?;
        }
    }
    Ok(())
}

/// With its lock.
fn remove(entry: &Path) -> Result<()> {
    let lock = entry.with_extension("lock");
    fs::remove_dir_all(entry)
        .and_then(|()| match lock.exists() {
            true => fs::remove_file(&lock),
            false => Ok(()),
        })
        .with_context(|| format!("cannot remove {}", entry.display()))
}

pub(crate) fn files_below(directory: &Path) -> Result<Vec<PathBuf>> {
    let unreadable = || format!("cannot read {}", directory.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).with_context(unreadable)? {
        let path = entry.with_context(unreadable)?.path();
        if path.is_dir() {
            files.extend(files_below(&path)?);
        } else {
            files.push(path);
        }
    }
    Ok(files)
}

/// Names and contents of files, as inputs of an artefact.
pub(crate) fn contents(mut files: Vec<PathBuf>) -> Result<Vec<Vec<u8>>> {
    files.sort();
    let mut inputs = Vec::new();
    for path in files {
        let content = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let name = path.strip_prefix(root()).unwrap_or(&path);
        inputs.extend([name.to_string_lossy().into_owned().into_bytes(), content]);
    }
    Ok(inputs)
}

/// Holds an exclusive lock on the file until the returned handle is dropped, or the process ends.
pub(crate) fn lock(path: &Path) -> Result<File> {
    let file = File::create(path).with_context(|| format!("cannot make {}", path.display()))?;
    file.lock()
        .with_context(|| format!("cannot lock {}", path.display()))?;
    Ok(file)
}

/// The SHA-256 of everything the reader gives, in hexadecimal.
pub(crate) fn sha256(mut reader: impl Read) -> io::Result<String> {
    let mut hasher = Sha256::new();
    io::copy(&mut reader, &mut hasher)?;
    Ok(format!("{:x}", hasher.finalize()))
}

/// Lengths are hashed too, so that no two lists of inputs run together into the same bytes.
fn key<I: AsRef<[u8]>>(inputs: &[I]) -> String {
    let mut hasher = Sha256::new();
    for input in inputs {
        hasher.update((input.as_ref().len() as u64).to_le_bytes());
        hasher.update(input);
    }
    format!("{:x}", hasher.finalize())[..16].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_tells_where_one_input_ends_and_the_next_begins() {
        assert_ne!(key(&["ab", "c"]), key(&["a", "bc"]));
        assert_eq!(key(&["ab", "c"]), key(&["ab", "c"]));
    }

    #[test]
    fn of_one_name_the_two_last_used_are_kept_and_no_half_built_one() -> Result<()> {
        let root = env::temp_dir().join(format!("muster-cache-{}", std::process::id()));
        let now = SystemTime::now();
        for (entry, hours) in [
            ("kube-0000000000000001", 30),
            ("kube-0000000000000002", 50),
            ("kube-0000000000000003", 40),
            ("kube-0000000000000004.building", 0),
            ("kube-extra-0000000000000005", 60),
        ] {
            fs::create_dir_all(root.join(entry))?;
            File::open(root.join(entry))?.set_modified(now - Duration::from_secs(hours * 3600))?;
        }
        prune(&root, "kube")?;
        let mut left = fs::read_dir(&root)?
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect::<Result<Vec<_>>>()?;
        left.sort();
        fs::remove_dir_all(&root)?;
        let expected = [
            "kube-0000000000000001",
            "kube-0000000000000003",
            "kube-extra-0000000000000005",
        ];
        assert_eq!(left, expected);
        Ok(())
    }

    #[test]
    fn sha256_of_nothing_is_the_well_known_value() {
        let digest = sha256(io::empty()).expect("an empty reader cannot fail");
        assert!(digest.starts_with("e3b0c44298fc1c14"), "{digest}");
    }
}
