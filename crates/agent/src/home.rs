//! `HOME` for users without a passwd entry, in images that do not set it.

use rustix::fs::{Access, access};

/// A directory that can be written to, if there is one; Open MPI crashes without `HOME`.
pub(crate) fn fallback() -> &'static str {
    let writable = |path: &&str| access(*path, Access::WRITE_OK).is_ok();
    ["/tmp", "/var/tmp", "/dev/shm"]
        .iter()
        .find(|path| writable(path))
        .copied()
        .unwrap_or("/")
}
