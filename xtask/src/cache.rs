//! Artefacts that are slow to make and the same every time: kept under one directory, each named by
//! the hash of everything that decides its content. Decides when an artefact is complete (renamed
//! into place) and that two processes never make the same one at once. Must not know what the
//! artefacts are.

use std::env;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

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
    Ok(finished)
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
    fn sha256_of_nothing_is_the_well_known_value() {
        let digest = sha256(io::empty()).expect("an empty reader cannot fail");
        assert!(digest.starts_with("e3b0c44298fc1c14"), "{digest}");
    }
}
