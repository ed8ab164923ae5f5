//! Entering new namespaces: the calls that stage one and the processes of the network share. Decides
//! which capabilities a user other than root keeps.

use std::io;

use rustix::process::{Gid, Uid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, UnshareFlags, configure_capability_in_ambient_set,
    set_capabilities,
};

/// Maps the user and group to themselves in the new user namespace.
pub(super) fn map_ourselves(user: Uid, group: Gid) -> io::Result<()> {
    std::fs::write("/proc/self/setgroups", "deny")?;
    let same = |id: u32| format!("{id} {id} 1");
    std::fs::write("/proc/self/uid_map", same(user.as_raw()))?;
    std::fs::write("/proc/self/gid_map", same(group.as_raw()))
}

#[expect(
    deprecated,
    reason = "its successor is unsafe because of flags that are not used here: none of these \
              touches file descriptors or memory"
)]
pub(super) fn enter_new(kinds: UnshareFlags) -> io::Result<()> {
    Ok(rustix::thread::unshare(kinds)?)
}

/// A user that is not root loses its capabilities when it executes stage two, unless they are
/// ambient. Stage two drops them again before the program runs.
pub(super) fn keep_capabilities() -> io::Result<()> {
    let needed = [
        CapabilitySet::SYS_ADMIN,
        CapabilitySet::SYS_CHROOT,
        CapabilitySet::DAC_OVERRIDE,
        CapabilitySet::NET_ADMIN,
    ];
    let all = needed
        .iter()
        .fold(CapabilitySet::empty(), |sum, one| sum | *one);
    let sets = CapabilitySets {
        effective: all,
        permitted: all,
        inheritable: all,
    };
    set_capabilities(None, sets)?;
    for capability in needed {
        configure_capability_in_ambient_set(capability, true)?;
    }
    Ok(())
}
