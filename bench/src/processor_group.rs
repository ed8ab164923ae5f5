//! One control group for everything that is measured. Decides how processors are shared: evenly
//! among all processes of a measurement, whatever sessions they open (sshd opens many, which Linux
//! would prefer), and apart from all else on the machine. Also knows what they used. Must not know
//! what runs.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// A group in one hierarchy, and where this process was before.
struct Membership {
    own: PathBuf,
    before: PathBuf,
}

/// Joined by this process, so by all that it starts from then on; left and removed when dropped.
pub(crate) struct ProcessorGroup {
    memberships: Vec<Membership>,
    usage: PathBuf,
}

const MOUNT: &str = "/sys/fs/cgroup";

impl ProcessorGroup {
    pub(crate) fn join(name: &str) -> Result<Self> {
        let current = fs::read_to_string("/proc/self/cgroup")?;
        let place = |hierarchy: &str| {
            let line = current.lines().find_map(|line| {
                let (_, rest) = line.split_once(':')?;
                let (controllers, path) = rest.split_once(':')?;
                (controllers == hierarchy).then_some(path)
            });
            line.map(|path| path.trim_start_matches('/').to_owned())
        };
        // Older systems have a hierarchy per controller.
        let old = Path::new(MOUNT).join("cpuacct").exists();
        let hierarchies: &[&str] = if old { &["cpu", "cpuacct"] } else { &[""] };
        let mut group = Self {
            memberships: Vec::new(),
            usage: PathBuf::new(),
        };
        for hierarchy in hierarchies {
            let root = Path::new(MOUNT).join(hierarchy);
            let before = root.join(place(hierarchy).context("this process is in no group")?);
            let own = root.join(name);
            let cannot = || format!("cannot make the control group {}", own.display());
            fs::create_dir(&own).with_context(cannot)?;
            group.usage = own.join(if old { "cpuacct.usage" } else { "cpu.stat" });
            group.memberships.push(Membership {
                own: own.clone(),
                before,
            });
            fs::write(own.join("cgroup.procs"), "0").with_context(cannot)?;
        }
        Ok(group)
    }

    /// Seconds of all processors, since the group was made.
    pub(crate) fn used(&self) -> Result<f64> {
        let text = fs::read_to_string(&self.usage)?;
        let used = match text.strip_prefix("usage_usec ") {
            Some(rest) => {
                let line = rest.lines().next().unwrap_or_default();
                line.parse::<f64>().map(|micros| micros / 1e6)
            }
            None => text.trim().parse::<f64>().map(|nanos| nanos / 1e9),
        };
        used.with_context(|| format!("{} is not understood", self.usage.display()))
    }
}

impl Drop for ProcessorGroup {
    fn drop(&mut self) {
        for membership in &self.memberships {
            // A group that is not empty cannot be removed; then it is not ours alone.
            let _ = fs::write(membership.before.join("cgroup.procs"), "0");
            let _ = fs::remove_dir(&membership.own);
        }
    }
}
