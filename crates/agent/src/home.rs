//! A home for those who have none: users without a passwd entry, in images that set nothing.

use rustix::fs::{Access, access};

/// Somewhere to write if there is such a place; Open MPI crashes without HOME.
pub(crate) fn fallback() -> &'static str {
    let writable = |path: &&str| access(*path, Access::WRITE_OK).is_ok();
    ["/tmp", "/var/tmp", "/dev/shm"]
        .iter()
        .find(|path| writable(path))
        .copied()
        .unwrap_or("/")
}
