//! A control group with a limit of memory, as a container has: whoever needs more is killed. Decides
//! where such a group is on this machine, with version 1 and 2; must not know who is in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::wait_for;

const ROOT: &str = "/sys/fs/cgroup";
/// The kernel lets go of a killed process some time after the kill.
const EMPTY_WITHIN: Duration = Duration::from_secs(10);

/// A group. It is removed when it is dropped, if nobody is in it any more.
#[derive(Debug)]
pub struct MemoryGroup {
    path: PathBuf,
    /// What may be used, in bytes.
    pub limit: u64,
}

impl MemoryGroup {
    /// Makes a group that may use so many bytes. Only root can.
    pub fn new(limit: u64) -> Result<Self> {
        static COUNT: AtomicUsize = AtomicUsize::new(1);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("muster-e2e-{}-{count}", std::process::id());
        let unified = Path::new(ROOT).join("cgroup.controllers").exists();
        let (path, file) = if unified {
            let control = Path::new(ROOT).join("cgroup.subtree_control");
            fs::write(&control, "+memory")
                .with_context(|| format!("cannot write {}", control.display()))?;
            (Path::new(ROOT).join(name), "memory.max")
        } else {
            (
                Path::new(ROOT).join("memory").join(name),
                "memory.limit_in_bytes",
            )
        };
        let cannot = || format!("cannot make the control group {}", path.display());
        fs::create_dir(&path).with_context(cannot)?;
        fs::write(path.join(file), limit.to_string()).with_context(cannot)?;
        Ok(Self { path, limit })
    }

    /// The file that a process joins the group by writing its number to.
    pub fn procs(&self) -> PathBuf {
        self.path.join("cgroup.procs")
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        let removed = wait_for("the group to be empty", EMPTY_WITHIN, || {
            fs::remove_dir(&self.path)?;
            Ok(Some(()))
        });
        if let Err(error) = removed {
            eprintln!("cannot remove {}: {error:#}", self.path.display());
        }
    }
}
