//! The root directory of a container: everything of this machine (or of another tree) bind-mounted at
//! its place, and the pod's volumes, also where this machine has no such directory. All mounts are in
//! a private mount namespace. Nothing is written to this machine's directories, and the kernel removes
//! the mounts with the last process.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use rustix::fs::{StatVfsMountFlags, statvfs};
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_bind_recursive,
    mount_change, mount_remount, unmount,
};

use super::protocol::{ContainerSpec, Mount};

/// Our own directory in the new root.
const OWN_DIRECTORY: &str = ".muster";
/// A path with more symbolic links than this is a loop.
const LINKS_MAX: u32 = 40;

/// Builds the root directory and enters it.
pub(super) fn enter(spec: &ContainerSpec) -> Result<()> {
    let root = &spec.scratch;
    mount_change(
        "/",
        MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
    )
    .context("cannot make the mounts of this container private")?;
    let mut rootfs = Rootfs::build(root, spec.root.as_deref().unwrap_or(Path::new("/")))?;
    for mount in &spec.mounts {
        rootfs
            .add(mount)
            .with_context(|| format!("cannot mount {}", mount.target.display()))?;
    }
    rustix::system::sethostname(spec.hostname.as_bytes()).context("cannot set the host name")?;
    pivot(root).context("cannot enter the container's root directory")
}

/// Checks that the mounts which every container needs are allowed here.
pub(super) fn probe() -> Result<()> {
    mount_change(
        "/",
        MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
    )?;
    // Every machine has this directory, and the namespace is private.
    tmpfs(Path::new("/tmp"), 0o755)?;
    fs::create_dir("/tmp/proc")?;
    proc(Path::new("/tmp/proc"))?;
    rustix::system::sethostname(b"probe")?;
    Ok(())
}

struct Rootfs {
    root: PathBuf,
    /// Devices of the file systems that we mounted ourselves: only there may we make directories.
    own: BTreeSet<u64>,
    shadowed: u32,
}

impl Rootfs {
    fn build(root: &Path, base: &Path) -> Result<Self> {
        tmpfs(root, 0o755).context("cannot mount a root directory")?;
        let mut rootfs = Self {
            root: root.to_owned(),
            own: BTreeSet::from([fs::metadata(root)?.dev()]),
            shadowed: 0,
        };
        fs::create_dir(root.join(OWN_DIRECTORY))?;
        for entry in fs::read_dir(base)? {
            let name = entry?.file_name();
            if name != "proc" && name != "dev" && name != OWN_DIRECTORY {
                mirror(&base.join(&name), &root.join(&name))?;
            }
        }
        for (name, host) in [("dev", "/dev"), ("sys", "/sys")] {
            if !root.join(name).exists() {
                mirror(Path::new(host), &root.join(name))?;
            }
        }
        fs::create_dir_all(root.join("proc"))?;
        proc(&root.join("proc")).context("cannot mount /proc")?;
        rootfs.mount_shared_memory();
        Ok(rootfs)
    }

    /// Shared memory of its own, so that segments of a killed program end with its container.
    fn mount_shared_memory(&mut self) {
        let path = self.root.join("dev/shm");
        if path.is_dir() && tmpfs(&path, 0o1777).is_err() {
            // The container shares the memory segments of this machine.
        }
    }

    fn add(&mut self, mount: &Mount) -> Result<()> {
        let is_dir = fs::metadata(&mount.source)
            .with_context(|| format!("{} is not there", mount.source.display()))?
            .is_dir();
        let target = self.create_target(&mount.target, is_dir)?;
        mount_bind_recursive(&mount.source, &target)?;
        if mount.read_only {
            make_read_only(&target)?;
        }
        Ok(())
    }

    /// The path in the new root, created if it does not exist.
    fn create_target(&mut self, path: &Path, is_dir: bool) -> Result<PathBuf> {
        let mut todo: Vec<PathBuf> = steps(path);
        let (mut here, mut links) = (self.root.clone(), 0);
        while let Some(step) = todo.pop() {
            if step.as_os_str() == ".." {
                if here != self.root {
                    here.pop();
                }
                continue;
            }
            let next = here.join(&step);
            match fs::symlink_metadata(&next) {
                Ok(meta) if meta.is_symlink() => {
                    links += 1;
                    if links > LINKS_MAX {
                        bail!("{} is a loop of symbolic links", path.display());
                    }
                    let link = fs::read_link(&next)?;
                    if link.is_absolute() {
                        here = self.root.clone();
                    }
                    todo.extend(steps(&link));
                }
                Ok(_) => here = next,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    self.make(&here, &step, !todo.is_empty() || is_dir)?;
                    here = next;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(here)
    }

    fn make(&mut self, parent: &Path, name: &Path, is_dir: bool) -> Result<()> {
        if !self.own.contains(&fs::metadata(parent)?.dev()) {
            self.shadow(parent)
                .with_context(|| format!("cannot add to {}", parent.display()))?;
        }
        let path = parent.join(name);
        if is_dir {
            fs::create_dir(path)?;
        } else {
            fs::File::create(path)?;
        }
        Ok(())
    }

    /// Mounts a tmpfs over a directory and mirrors every entry of the directory in it, so that entries
    /// can be added.
    fn shadow(&mut self, directory: &Path) -> Result<()> {
        let mode = fs::metadata(directory)?.permissions().mode() & 0o7777;
        let aside = self
            .root
            .join(OWN_DIRECTORY)
            .join(format!("aside-{}", self.shadowed));
        self.shadowed += 1;
        fs::create_dir(&aside)?;
        mount_bind_recursive(directory, &aside)?;
        tmpfs(directory, mode)?;
        self.own.insert(fs::metadata(directory)?.dev());
        for entry in fs::read_dir(&aside)? {
            let name = entry?.file_name();
            mirror(&aside.join(&name), &directory.join(&name))?;
        }
        unmount(&aside, UnmountFlags::DETACH)?;
        fs::remove_dir(&aside)?;
        Ok(())
    }
}

/// Steps of a path, last one first.
fn steps(path: &Path) -> Vec<PathBuf> {
    let named = path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(PathBuf::from(name)),
        Component::ParentDir => Some(PathBuf::from("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    let mut steps: Vec<PathBuf> = named.collect();
    steps.reverse();
    steps
}

/// Mirrors an entry by a bind mount or a symbolic link. An entry that has vanished, or that cannot be
/// mounted, is left out: the program could not use it either.
fn mirror(from: &Path, to: &Path) -> Result<()> {
    let Ok(meta) = fs::symlink_metadata(from) else {
        return Ok(());
    };
    if meta.is_symlink() {
        symlink(fs::read_link(from)?, to)?;
    } else if meta.is_dir() {
        fs::create_dir(to)?;
        let _ = mount_bind_recursive(from, to);
    } else {
        fs::File::create(to)?;
        let _ = mount_bind(from, to);
    }
    Ok(())
}

fn tmpfs(at: &Path, mode: u32) -> Result<()> {
    let options = std::ffi::CString::new(format!("mode={mode:o}"))
        .expect("a number in octal holds no zero byte");
    mount(
        "tmpfs",
        at,
        "tmpfs",
        MountFlags::NOSUID | MountFlags::NODEV,
        options.as_c_str(),
    )?;
    Ok(())
}

fn proc(at: &Path) -> Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("proc", at, "proc", flags, None)?;
    Ok(())
}

/// In a user namespace the flags of the original mount are locked, so the remount must repeat them.
fn make_read_only(target: &Path) -> Result<()> {
    let locked = statvfs(target)?.f_flag;
    let mut flags = MountFlags::BIND | MountFlags::RDONLY;
    for (set, flag) in [
        (StatVfsMountFlags::NOSUID, MountFlags::NOSUID),
        (StatVfsMountFlags::NODEV, MountFlags::NODEV),
        (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
        (StatVfsMountFlags::NOATIME, MountFlags::NOATIME),
        (StatVfsMountFlags::NODIRATIME, MountFlags::NODIRATIME),
        (StatVfsMountFlags::RELATIME, MountFlags::RELATIME),
    ] {
        if locked.contains(set) {
            flags |= flag;
        }
    }
    mount_remount(target, flags, OsStr::new(""))?;
    Ok(())
}

/// Makes the new root `/` and detaches the old one.
fn pivot(root: &Path) -> Result<()> {
    std::env::set_current_dir(root)?;
    rustix::process::pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    std::env::set_current_dir("/")?;
    Ok(())
}
