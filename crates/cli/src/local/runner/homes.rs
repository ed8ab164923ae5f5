//! Home directories of pods whose script puts keys into them. On this machine there is no image, so the
//! script would write over the keys of whoever runs it: such a pod gets directories of its own there.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use super::pod::Container;
use crate::local::stages::protocol::{Isolation, Mount, Program};

/// Where such pods find the keys of their user.
const KEYS: &str = "/kubeflow/openmpi/secrets";
/// What their script writes into, below the home directory.
const WRITTEN: [&str; 3] = [".ssh", ".sshd", ".openmpi"];

/// The container runs such a script.
pub(super) fn is_wanted(container: Container<'_>) -> bool {
    let mut mounts = container.list("volumeMounts");
    mounts.any(|mount| mount["mountPath"] == KEYS)
}

/// Directories of the pod's own in place of those of this machine.
pub(super) fn own(
    container: Container<'_>,
    program: &mut Program,
    pod: &Path,
    isolation: Isolation,
) -> Result<Vec<Mount>> {
    if !is_wanted(container) {
        return Ok(Vec::new());
    }
    if isolation == Isolation::Bare {
        bail!(
            "its script writes keys into the home directory, and without namespaces that is yours; \
             run it on a cluster, or on a machine that allows namespaces"
        );
    }
    let user = program
        .user
        .unwrap_or_else(|| rustix::process::geteuid().as_raw());
    let home = home_of(user);
    // ssh goes by the account, whatever the variable says.
    program.variables.retain(|(name, _)| name != "HOME");
    program.variables.push(("HOME".to_owned(), home.clone()));
    let home = PathBuf::from(home);
    let mount = |name: &str| {
        let source = pod.join("home").join(name);
        fs::create_dir_all(&source)?;
        fs::set_permissions(&source, fs::Permissions::from_mode(0o700))?;
        if program.user.is_some() {
            chown(&source, program.user, program.group)?;
        }
        Ok(Mount {
            source,
            target: home.join(name),
            read_only: false,
        })
    };
    WRITTEN.into_iter().map(mount).collect()
}

fn home_of(user: u32) -> String {
    let accounts = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let home = accounts.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let own = fields.get(2).and_then(|id| id.parse().ok()) == Some(user);
        fields.get(5).filter(|_| own).map(ToString::to_string)
    });
    home.unwrap_or_else(|| "/root".to_owned())
}
