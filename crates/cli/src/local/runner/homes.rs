//! Home directories of pods whose script copies keys into them. Local mode runs in the user's own home
//! directory, whose keys the script would overwrite, so such a pod gets directories of its own.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use super::environment;
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
            "its script copies keys into the home directory, and without namespaces that is yours; \
             run it on a cluster, or on a machine that allows namespaces"
        );
    }
    let user = program
        .user
        .unwrap_or_else(|| rustix::process::geteuid().as_raw());
    let home = environment::account(user).map_or_else(|| "/root".to_owned(), |(_, home)| home);
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
