//! Data in and out of an S3 store: whole trees of files, by the addresses that people write. Decides what
//! is copied where and what is tried again; how a request is made is below. Must not know jobs.

mod address;
mod calendar;
mod client;
mod http;
mod sign;
mod xml;

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, File};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use address::Address;
use client::{Client, Refusal};

/// How often a request is made that fails for a reason that may pass.
const TRIES: u32 = 5;
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// Signals between the sidecar and its worker are nobody's data.
const NOT_DATA: &str = ".openmpi-controller";

/// The copying is no longer wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stop;

/// Asked between files.
pub(crate) type Wanted<'a> = &'a dyn Fn() -> Option<Stop>;

/// What was copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    files: u64,
    bytes: u64,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let files = if self.files == 1 { "file" } else { "files" };
        write!(f, "{} {files} of {} bytes", self.files, self.bytes)
    }
}

/// Whether something can be an address.
pub(crate) fn check(address: &str) -> Result<()> {
    Address::of(address).map(drop)
}

/// An S3 store, and the right to use it.
pub(crate) struct Store {
    client: Client,
}

impl Store {
    /// As the usual variables have it.
    pub(crate) fn of_environment() -> Result<Self> {
        let client = Client::of_environment()?;
        Ok(Self { client })
    }

    /// Every object below the address becomes a file below the directory.
    pub(crate) fn download(&self, from: &str, to: &Path, wanted: Wanted<'_>) -> Result<Tally> {
        let from = Address::of(from)?;
        fs::create_dir_all(to).with_context(|| format!("cannot make {}", to.display()))?;
        let prefix = from.prefix();
        let mut tally = Tally::default();
        let mut token = None;
        loop {
            let page = again(|| self.client.list(&from.bucket, &prefix, token.as_deref()))?;
            for object in page.objects {
                ensure!(wanted().is_none(), "it is no longer wanted");
                let name = object.key.strip_prefix(&prefix).unwrap_or(&object.key);
                if name.is_empty() || name.ends_with('/') {
                    continue; // consoles make such objects, to show folders
                }
                let file = inside(to, name)?;
                let bytes = again(|| self.fetch(&from.bucket, &object.key, &file))?;
                tally.files += 1;
                tally.bytes += bytes;
            }
            token = page.next;
            if token.is_none() {
                break;
            }
        }
        if tally.files == 0 {
            eprintln!("muster-agent: there is nothing below {from}");
        }
        Ok(tally)
    }

    /// Under another name until it is whole, so that nobody reads half a file.
    fn fetch(&self, bucket: &str, key: &str, file: &Path) -> Result<u64> {
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder)
                .with_context(|| format!("cannot make {}", folder.display()))?;
        }
        let mut draft = file.as_os_str().to_owned();
        draft.push(".part");
        let draft = PathBuf::from(draft);
        let mut part =
            File::create(&draft).with_context(|| format!("cannot make {}", draft.display()))?;
        let bytes = self.client.get(bucket, key, &mut part);
        let bytes = bytes.with_context(|| format!("object {key}"))?;
        fs::rename(&draft, file).with_context(|| format!("cannot make {}", file.display()))?;
        Ok(bytes)
    }

    /// Every file of the directory, or the file, becomes an object below the address.
    pub(crate) fn upload(&self, from: &Path, to: &str, wanted: Wanted<'_>) -> Result<Tally> {
        let to = Address::of(to)?;
        let prefix = to.prefix();
        let mut files = Vec::new();
        if from.is_dir() {
            collect(from, "", &mut files, &mut BTreeSet::new())?;
        } else {
            let name = from.file_name().and_then(|name| name.to_str());
            files.push((
                name.context("its name is no text")?.to_owned(),
                from.to_owned(),
            ));
        }
        let mut tally = Tally::default();
        for (name, file) in files {
            ensure!(wanted().is_none(), "this pod is told to end");
            let key = format!("{prefix}{name}");
            let bytes = again(|| self.client.put(&to.bucket, &key, &file));
            tally.bytes += bytes.with_context(|| format!("file {}", file.display()))?;
            tally.files += 1;
        }
        Ok(tally)
    }
}

/// A file below the directory, whatever somebody called an object.
fn inside(directory: &Path, name: &str) -> Result<PathBuf> {
    let plain = |part: Component<'_>| matches!(part, Component::Normal(_));
    if !Path::new(name).components().all(plain) || name.contains('\0') {
        bail!(
            "the object {name:?} would become a file outside of {}",
            directory.display()
        );
    }
    Ok(directory.join(name))
}

/// Files by their names below the directory, in order. Links are followed, each directory once.
fn collect(
    directory: &Path,
    prefix: &str,
    files: &mut Vec<(String, PathBuf)>,
    seen: &mut BTreeSet<PathBuf>,
) -> Result<()> {
    let unreadable = || format!("cannot read {}", directory.display());
    let real = fs::canonicalize(directory).with_context(unreadable)?;
    if !seen.insert(real) {
        return Ok(());
    }
    let entries = fs::read_dir(directory).with_context(unreadable)?;
    let mut entries = entries
        .collect::<Result<Vec<_>, _>>()
        .with_context(unreadable)?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let (path, name) = (entry.path(), entry.file_name());
        let Some(name) = name.to_str() else {
            bail!(
                "the name of {} is no text, so no object can have it",
                path.display()
            );
        };
        let Ok(about) = fs::metadata(&path) else {
            eprintln!(
                "muster-agent: {} leads nowhere and is left out",
                path.display()
            );
            continue;
        };
        if about.is_dir() && name != NOT_DATA {
            collect(&path, &format!("{prefix}{name}/"), files, seen)?;
        } else if about.is_file() {
            files.push((format!("{prefix}{name}"), path));
        }
    }
    Ok(())
}

/// What may pass is tried again, after waits that grow.
fn again<T>(request: impl Fn() -> Result<T>) -> Result<T> {
    let mut wait = FIRST_WAIT;
    for attempt in 1..=TRIES {
        match request() {
            Err(error) if attempt < TRIES && may_pass(&error) => {
                eprintln!("muster-agent: {error:#}; again in {} s", wait.as_secs());
                std::thread::sleep(wait);
                wait *= 2;
            }
            result => return result,
        }
    }
    unreachable!("the last try returns")
}

/// Connections break and servers are busy; a wrong key or a full disk stays as it is.
fn may_pass(error: &anyhow::Error) -> bool {
    if let Some(refusal) = error.downcast_ref::<Refusal>() {
        return refusal.may_pass();
    }
    let io = error.downcast_ref::<std::io::Error>();
    io.is_some_and(|error| {
        use std::io::ErrorKind as Kind;
        let lasting = [
            Kind::InvalidData, // a certificate that is not trusted
            Kind::StorageFull,
            Kind::PermissionDenied,
            Kind::NotFound,
            Kind::InvalidInput,
        ];
        !lasting.contains(&error.kind())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_object_becomes_a_file_elsewhere() {
        let directory = Path::new("/data/in");
        assert_eq!(
            inside(directory, "a/b").ok(),
            Some(PathBuf::from("/data/in/a/b"))
        );
        for name in ["../a", "a/../../b", "/etc/passwd", "./a/..", "a\0b"] {
            assert!(inside(directory, name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn a_full_disk_is_not_tried_again() {
        let error = |kind: std::io::ErrorKind| anyhow::Error::from(std::io::Error::from(kind));
        assert!(may_pass(&error(std::io::ErrorKind::ConnectionReset)));
        assert!(!may_pass(&error(std::io::ErrorKind::StorageFull)));
    }
}
