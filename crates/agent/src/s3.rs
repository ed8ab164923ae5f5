//! Copies trees of files from and to an S3 store, by the addresses that people write. Decides what is
//! copied where and what is retried; how a request is made is below. Must not know jobs.

mod address;
mod client;
mod sign;
pub(crate) mod xml;

use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Component, Path};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use address::Address;
use client::{Client, S3Error};

use crate::beneath::{self, Beneath};

/// How often a request is made that fails for a reason that may pass.
const TRIES: u32 = 5;
const FIRST_WAIT: Duration = Duration::from_secs(1);

/// Whether to stop; called between files.
pub(crate) type ShouldStop<'a> = &'a dyn Fn() -> bool;

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

/// Fails if the text is not an address.
pub(crate) fn check(address: &str) -> Result<()> {
    Address::of(address).map(drop)
}

/// An S3 store, and the credentials for it.
pub(crate) struct Store {
    client: Client,
}

impl Store {
    /// As AWS's usual variables describe it.
    pub(crate) fn of_environment() -> Result<Self> {
        let client = Client::of_environment()?;
        Ok(Self { client })
    }

    /// Makes a file below the directory from every object below the address.
    pub(crate) fn download(&self, from: &str, to: &Path, stop: ShouldStop<'_>) -> Result<Tally> {
        let from = Address::of(from)?;
        let directory = Beneath::create(to)?;
        let prefix = from.prefix();
        let mut tally = Tally::default();
        let mut token = None;
        loop {
            let page = retry(|| self.client.list(&from.bucket, &prefix, token.as_deref()))?;
            for key in page.keys {
                ensure!(!stop(), "it is no longer wanted");
                let name = key.strip_prefix(&prefix).unwrap_or(&key);
                if name.is_empty() || name.ends_with('/') {
                    continue; // consoles make objects of this kind to show folders
                }
                check_name(name)?;
                tally.bytes += retry(|| self.fetch(&from.bucket, &key, &directory, name))?;
                tally.files += 1;
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

    fn fetch(&self, bucket: &str, key: &str, to: &Beneath, name: &str) -> Result<u64> {
        to.write(name, |file| {
            let bytes = self.client.get(bucket, key, file);
            bytes.with_context(|| format!("object {key}"))
        })
    }

    /// Makes an object below the address from every file of the directory, or from the one file.
    /// Leaves out directories of the name `except`.
    pub(crate) fn upload(
        &self,
        from: &Path,
        to: &str,
        except: &str,
        stop: ShouldStop<'_>,
    ) -> Result<Tally> {
        let to = Address::of(to)?;
        let prefix = to.prefix();
        let mut tally = Tally::default();
        let mut send = |name: &str, open: &dyn Fn() -> Result<File>| -> Result<()> {
            ensure!(!stop(), "this pod was told to end");
            let key = format!("{prefix}{name}");
            let bytes = retry(|| self.client.put(&to.bucket, &key, &open()?));
            tally.bytes += bytes.with_context(|| format!("file {name}"))?;
            tally.files += 1;
            Ok(())
        };
        match Beneath::open(from)? {
            Some(directory) => {
                for name in directory.files(except)? {
                    send(&name, &|| directory.read(&name))?;
                }
            }
            None => {
                let name = from.file_name().and_then(|name| name.to_str());
                let name = name.context("its name is not UTF-8")?;
                send(name, &|| beneath::open_file(from))?;
            }
        }
        Ok(tally)
    }
}

/// Whatever somebody called an object, the file that it becomes is below the directory.
fn check_name(name: &str) -> Result<()> {
    let plain = |part: Component<'_>| matches!(part, Component::Normal(_));
    if !Path::new(name).components().all(plain) || name.contains('\0') {
        bail!("the object {name:?} would become a file outside of its directory");
    }
    Ok(())
}

/// Retries what may pass, after waits that grow.
fn retry<T>(request: impl Fn() -> Result<T>) -> Result<T> {
    let mut wait = FIRST_WAIT;
    for _ in 1..TRIES {
        match request() {
            Err(error) if is_retryable(&error) => {
                eprintln!("muster-agent: {error:#}; retrying in {} s", wait.as_secs());
                std::thread::sleep(wait);
                wait *= 2;
            }
            result => return result,
        }
    }
    request()
}

/// Connections break and servers are busy; a wrong key or a full disk stays as it is.
fn is_retryable(error: &anyhow::Error) -> bool {
    use io::ErrorKind as Kind;
    if let Some(error) = error.downcast_ref::<S3Error>() {
        return error.is_retryable();
    }
    let lasting = [
        Kind::InvalidData, // a certificate that is not trusted
        Kind::StorageFull,
        Kind::PermissionDenied,
        Kind::NotFound,
        Kind::InvalidInput,
    ];
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|error| !lasting.contains(&error.kind()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_object_becomes_a_file_elsewhere() {
        assert!(check_name("a/b").is_ok());
        for name in ["../a", "a/../../b", "/etc/passwd", "./a/..", "a\0b"] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn a_full_disk_is_not_tried_again() {
        let error = |kind: io::ErrorKind| anyhow::Error::from(io::Error::from(kind));
        assert!(is_retryable(&error(io::ErrorKind::ConnectionReset)));
        assert!(!is_retryable(&error(io::ErrorKind::StorageFull)));
    }
}
