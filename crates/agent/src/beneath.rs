//! Files below one directory, and nowhere else. The worker's program writes into the directory at the
//! same time, and a link that it plants must not lead the sidecar, which may be root, to other files.
//! So the kernel resolves every path, from the open directory and no further. Knows nothing of S3.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::fs::{
    CWD, Dir, FileType, Mode, OFlags, ResolveFlags, fstat, mkdirat, openat2, renameat,
};
use rustix::io::Errno;

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);
/// Links are followed while they stay below the directory.
const BELOW: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS);
const FOLDER_MODE: u32 = 0o777;
const FILE_MODE: u32 = 0o666;

/// An open directory.
pub(crate) struct Beneath {
    directory: OwnedFd,
    path: PathBuf,
}

impl Beneath {
    /// Opens a directory, if it is there.
    pub(crate) fn open(path: &Path) -> Result<Option<Self>> {
        match open_named(path, DIRECTORY) {
            Ok(directory) => Ok(Some(Self {
                directory,
                path: path.to_owned(),
            })),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(error) => Err(error).with_context(|| refused(path)),
        }
    }

    /// Opens a directory, and makes it if it is not there.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let base = working_directory()?;
        match below_working_directory(path)? {
            Some(inside) => base.make_folders(&inside)?,
            None => std::fs::create_dir_all(path)
                .with_context(|| format!("cannot make {}", path.display()))?,
        }
        let opened = Self::open(path)?;
        opened.with_context(|| format!("{} is not a directory", path.display()))
    }

    /// Makes all directories of a path.
    fn make_folders(&self, folder: &Path) -> Result<()> {
        let mut below = PathBuf::new();
        for part in folder.components() {
            let parent = self.open_at(&below, DIRECTORY)?;
            below.push(part);
            match mkdirat(parent, part.as_os_str(), Mode::from(FOLDER_MODE)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => {
                    let path = self.path.join(&below);
                    return Err(error).with_context(|| format!("cannot make {}", path.display()));
                }
            }
        }
        Ok(())
    }

    /// Writes a file under another name, and gives it its own when it is complete, so that nobody reads
    /// half of it.
    pub(crate) fn write(
        &self,
        name: &str,
        content: impl FnOnce(&mut File) -> Result<u64>,
    ) -> Result<u64> {
        let path = Path::new(name);
        let folder = path.parent().unwrap_or(Path::new(""));
        let name = path.file_name().context("it has no name")?;
        self.make_folders(folder)?;
        let folder = self.open_at(folder, DIRECTORY)?;
        let mut draft = name.to_owned();
        draft.push(".part");
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
        // A link of the draft's name is somebody else's.
        let file = openat2(
            &folder,
            &draft,
            flags | OFlags::NOFOLLOW,
            Mode::from(FILE_MODE),
            BELOW,
        );
        let file = file.with_context(|| refused(&self.path.join(path)))?;
        let bytes = content(&mut File::from(file))?;
        renameat(&folder, &draft, &folder, name)
            .with_context(|| format!("cannot make {}", self.path.join(path).display()))?;
        Ok(bytes)
    }

    /// Opens a file to read it. A file that is no longer a plain one is refused: to open a pipe could
    /// take forever.
    pub(crate) fn read(&self, name: &str) -> Result<File> {
        let file = self.open_at(Path::new(name), OFlags::RDONLY | OFlags::NONBLOCK)?;
        if kind(&file)? != FileType::RegularFile {
            bail!("{} is not a file", self.path.join(name).display());
        }
        Ok(File::from(file))
    }

    /// Names of all files, in order. Enters each directory once, and leaves out directories of the name
    /// `except`, and links that lead out of the directory or to nothing.
    pub(crate) fn files(&self, except: &str) -> Result<Vec<String>> {
        let (mut files, mut seen) = (Vec::new(), BTreeSet::new());
        self.collect("", except, &mut files, &mut seen)?;
        Ok(files)
    }

    fn collect(
        &self,
        prefix: &str,
        except: &str,
        files: &mut Vec<String>,
        seen: &mut BTreeSet<(u64, u64)>,
    ) -> Result<()> {
        let shown = || self.path.join(prefix);
        let directory = self.open_at(Path::new(prefix), DIRECTORY)?;
        let about = fstat(&directory)?;
        if !seen.insert((about.st_dev, about.st_ino)) {
            return Ok(());
        }
        let mut names = Vec::new();
        for entry in Dir::new(directory)? {
            let entry = entry.with_context(|| format!("cannot read {}", shown().display()))?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes()).to_owned();
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        names.sort();
        for name in names {
            let Some(text) = name.to_str() else {
                bail!(
                    "the name of {} is not UTF-8, so no object can have it",
                    shown().join(&name).display()
                );
            };
            let below = format!("{prefix}{text}");
            let flags = OFlags::PATH | OFlags::CLOEXEC;
            let Ok(entry) = self.open_at(Path::new(&below), flags) else {
                eprintln!(
                    "muster-agent: {} is a link out of the directory or to nothing, and is left out",
                    shown().join(text).display()
                );
                continue;
            };
            match kind(&entry)? {
                FileType::Directory if text != except => {
                    self.collect(&format!("{below}/"), except, files, seen)?;
                }
                FileType::RegularFile => files.push(below),
                _ => {}
            }
        }
        Ok(())
    }

    fn open_at(&self, path: &Path, flags: OFlags) -> Result<OwnedFd> {
        let below = match path.as_os_str().is_empty() {
            true => Path::new("."),
            false => path,
        };
        let flags = flags | OFlags::CLOEXEC;
        let opened = openat2(&self.directory, below, flags, Mode::empty(), BELOW);
        opened.with_context(|| refused(&self.path.join(path)))
    }
}

/// Opens what a job names. Below the working directory, which the worker's program shares, links must
/// stay there; elsewhere there must be none.
fn open_named(path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let relative = below_working_directory(path).ok().flatten();
    match relative {
        Some(relative) => {
            let base = openat2(CWD, ".", DIRECTORY, Mode::empty(), ResolveFlags::empty())?;
            let relative = match relative.as_os_str().is_empty() {
                true => Path::new("."),
                false => &relative,
            };
            openat2(base, relative, flags, Mode::empty(), BELOW)
        }
        None => openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS),
    }
}

/// Opens the one file that a job names.
pub(crate) fn open_file(path: &Path) -> Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = open_named(path, flags).with_context(|| refused(path))?;
    if kind(&file)? != FileType::RegularFile {
        bail!("{} is neither a file nor a directory", path.display());
    }
    Ok(File::from(file))
}

fn working_directory() -> Result<Beneath> {
    let directory = openat2(CWD, ".", DIRECTORY, Mode::empty(), ResolveFlags::empty());
    Ok(Beneath {
        directory: directory.context("cannot open the working directory")?,
        path: PathBuf::new(),
    })
}

/// The path from the working directory, if it leads below it.
fn below_working_directory(path: &Path) -> Result<Option<PathBuf>> {
    let path = match path.is_absolute() {
        false => path,
        true => match path.strip_prefix(std::env::current_dir()?) {
            Ok(path) => path,
            Err(_) => return Ok(None),
        },
    };
    let plain = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    let is_below = path.components().all(plain);
    let parts = path.components().filter(|part| *part != Component::CurDir);
    Ok(is_below.then(|| parts.collect()))
}

fn kind(file: &OwnedFd) -> Result<FileType> {
    Ok(FileType::from_raw_mode(fstat(file)?.st_mode))
}

fn refused(path: &Path) -> String {
    format!(
        "cannot open {} without leaving its directory",
        path.display()
    )
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{Read as _, Write as _};
    use std::os::unix::fs::symlink;

    use super::*;

    fn open(path: &Path) -> Beneath {
        let opened = Beneath::open(path).expect("it can be opened");
        opened.expect("it is a directory")
    }

    #[test]
    fn s12_what_is_written_stays_below_the_directory() {
        let home = tempfile::tempdir().expect("there is room");
        let (data, outside) = (home.path().join("data"), home.path().join("outside"));
        fs::create_dir_all(&data).expect("there is room");
        fs::create_dir_all(&outside).expect("there is room");
        fs::write(outside.join("file"), "untouched").expect("there is room");
        symlink(&outside, data.join("way")).expect("links can be made");
        symlink(outside.join("file"), data.join("link.part")).expect("links can be made");
        symlink(outside.join("file"), data.join("result")).expect("links can be made");
        let root = open(&data);
        let evil = |file: &mut File| {
            file.write_all(b"evil")?;
            Ok(4)
        };
        assert!(root.write("way/file", evil).is_err());
        assert!(root.write("way/deep/er", evil).is_err());
        assert!(root.write("link", evil).is_err());
        // A link in the place of the file is replaced, not followed.
        assert_eq!(root.write("result", evil).expect("it is replaced"), 4);
        let kept = fs::read_to_string(outside.join("file")).expect("it is still there");
        assert_eq!(kept, "untouched");
        assert_eq!(fs::read_dir(&outside).expect("it is there").count(), 1);
        assert_eq!(root.write("a/b/c", evil).expect("it is below"), 4);
        assert_eq!(fs::read(data.join("a/b/c")).expect("it was made"), b"evil");
    }

    #[test]
    fn s12_what_is_read_lies_below_the_directory() {
        let home = tempfile::tempdir().expect("there is room");
        let data = home.path().join("data");
        fs::create_dir_all(data.join("sub/.signals")).expect("there is room");
        fs::write(home.path().join("secret"), "secret").expect("there is room");
        fs::write(data.join("sub/a"), "a").expect("there is room");
        fs::write(data.join("sub/.signals/x"), "x").expect("there is room");
        symlink("sub", data.join("again")).expect("links can be made");
        symlink("sub/a", data.join("inside")).expect("links can be made");
        symlink("../secret", data.join("up")).expect("links can be made");
        symlink("/proc/self/environ", data.join("keys")).expect("links can be made");
        symlink(home.path(), data.join("home")).expect("links can be made");
        symlink("nothing", data.join("broken")).expect("links can be made");
        let root = open(&data);
        let files = root.files(".signals").expect("it can be read");
        assert_eq!(files, ["again/a", "inside"]);
        let mut text = String::new();
        let mut file = root.read("inside").expect("it is below");
        file.read_to_string(&mut text).expect("it is text");
        assert_eq!(text, "a");
        for outside in ["up", "keys", "home/secret", "../secret", "/etc/passwd"] {
            assert!(root.read(outside).is_err(), "{outside}");
        }
    }

    #[test]
    fn s12_a_directory_that_became_a_link_is_refused() {
        let home = tempfile::tempdir().expect("there is room");
        symlink("/etc", home.path().join("out")).expect("links can be made");
        assert!(Beneath::open(&home.path().join("out")).is_err());
        assert!(open_file(&home.path().join("out/passwd")).is_err());
        let nothing = Beneath::open(&home.path().join("nothing"));
        assert!(nothing.expect("that is no error").is_none());
    }
}
