//! The host lists that launchers read, written once all workers are there. Decides names,
//! syntax and whether a host is written as its address or its name; must not know launchers beyond
//! the two syntaxes that they understand.

use std::collections::HashSet;
use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result};
use contract::mpi::HostListSyntax;
use contract::{env, files};

use crate::hosts::{Host, is_own};
use crate::settings;

/// One host, in both ways of writing it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    name: String,
    ip: IpAddr,
}

/// Writes the lists if the operator asked for them.
pub(crate) fn write_as_asked(workers: &[Host]) -> Result<()> {
    let Some(directory) = settings::variable(env::LISTS_DIR) else {
        return Ok(());
    };
    let syntax = syntax_of(settings::variable(env::LISTS_SYNTAX).as_deref())?;
    let launcher = launcher()?;
    let workers = workers.iter().map(|worker| {
        Ok(Entry {
            name: worker.name.clone(),
            ip: worker.ip()?,
        })
    });
    let workers = workers.collect::<Result<Vec<_>>>()?;
    // A worker on the launcher's own address would be taken for the launcher.
    let by_name = share_an_address(&workers) || workers.iter().any(|worker| is_own(worker.ip));
    let lists = Lists {
        launcher,
        workers,
        by_name,
        slots: settings::slots(),
    };
    let directory = Path::new(&directory);
    for (file, text, mode) in lists.files(syntax) {
        write_whole(&directory.join(file), &text, mode)?;
    }
    Ok(())
}

/// The syntax that the operator asked for.
fn syntax_of(name: Option<&str>) -> Result<HostListSyntax> {
    let Some(name) = name else {
        return Ok(HostListSyntax::Slots);
    };
    HostListSyntax::from_text(name).with_context(|| {
        let known = HostListSyntax::ALL
            .map(HostListSyntax::as_str)
            .join(" and ");
        format!("{} is {name:?}; {known} are known", env::LISTS_SYNTAX)
    })
}

/// The launcher itself, when it takes ranks too.
fn launcher() -> Result<Option<Entry>> {
    let Some(address) = settings::variable(env::LAUNCHER_ADDRESS) else {
        return Ok(None);
    };
    let ip = address.parse().with_context(|| {
        let name = env::LAUNCHER_ADDRESS;
        format!("{name} is {address:?}, not an IP address")
    })?;
    let name = settings::variable(env::LAUNCHER_NAME).unwrap_or(address);
    Ok(Some(Entry { name, ip }))
}

fn share_an_address(entries: &[Entry]) -> bool {
    let mut seen = HashSet::new();
    !entries.iter().all(|entry| seen.insert(entry.ip))
}

struct Lists {
    /// By its address even among names: only so every launcher knows itself.
    launcher: Option<Entry>,
    workers: Vec<Entry>,
    by_name: bool,
    slots: usize,
}

impl Lists {
    /// An address with colons cannot stand before `:N`.
    fn hosts(&self, syntax: Option<HostListSyntax>) -> impl Iterator<Item = String> {
        let word = move |entry: &Entry, by_name: bool| {
            if by_name || (syntax == Some(HostListSyntax::Colon) && entry.ip.is_ipv6()) {
                entry.name.clone()
            } else {
                entry.ip.to_string()
            }
        };
        let launcher = self.launcher.iter().map(move |entry| word(entry, false));
        let workers = self.workers.iter();
        launcher.chain(workers.map(move |entry| word(entry, self.by_name)))
    }

    fn list(&self, syntax: HostListSyntax) -> String {
        let hosts = self.hosts(Some(syntax));
        hosts.map(|host| syntax.line(&host, self.slots)).collect()
    }

    /// Names, contents and modes.
    fn files(&self, syntax: HostListSyntax) -> Vec<(&'static str, String, u32)> {
        let hosts = self.hosts(None);
        let echoes: String = hosts.map(|host| format!("echo {host}\n")).collect();
        let of_all = HostListSyntax::ALL.map(|syntax| (syntax.file(), self.list(syntax), 0o444));
        let mut files = vec![(files::HOSTFILE, self.list(syntax), 0o444)];
        files.extend(of_all);
        files.push((files::DISCOVER_HOSTS, format!("#!/bin/sh\n{echoes}"), 0o555));
        files
    }
}

/// Readers see the old file or the new one, with the mode it will have. The old one, and what an
/// earlier writer left half-written, may belong to another user: both give way, neither is opened.
pub(crate) fn write_whole(path: &Path, text: &str, mode: u32) -> Result<()> {
    let cannot = || format!("cannot write {}", path.display());
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    let mut draft = path.as_os_str().to_owned();
    draft.push(format!(".{}", std::process::id()));
    // Most often there is none.
    let _ = fs::remove_file(&draft);
    fs::write(&draft, text).with_context(cannot)?;
    fs::set_permissions(&draft, fs::Permissions::from_mode(mode)).with_context(cannot)?;
    fs::rename(&draft, path).with_context(cannot)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lists(hosts: &[(&str, &str)], by_name: bool) -> Lists {
        let entry = |(name, ip): &(&str, &str)| Entry {
            name: (*name).to_owned(),
            ip: ip.parse().unwrap(),
        };
        Lists {
            launcher: None,
            workers: hosts.iter().map(entry).collect(),
            by_name,
            slots: 2,
        }
    }

    const TWO: [(&str, &str); 2] = [("w0", "10.0.0.1"), ("w1", "10.0.0.2")];

    #[test]
    fn both_syntaxes_are_there_and_one_is_the_jobs() {
        let texts = |syntax| {
            let files = lists(&TWO, false).files(syntax).into_iter();
            files.map(|(_, text, _)| text).collect::<Vec<_>>()
        };
        let slots = "10.0.0.1 slots=2\n10.0.0.2 slots=2\n";
        let colon = "10.0.0.1:2\n10.0.0.2:2\n";
        let script = "#!/bin/sh\necho 10.0.0.1\necho 10.0.0.2\n";
        assert_eq!(texts(HostListSyntax::Slots), [slots, slots, colon, script]);
        assert_eq!(texts(HostListSyntax::Colon), [colon, slots, colon, script]);
        assert!(syntax_of(Some("lines")).is_err());
    }

    #[test]
    fn names_stand_where_addresses_would_mislead() {
        assert_eq!(
            lists(&TWO, true).list(HostListSyntax::Slots),
            "w0 slots=2\nw1 slots=2\n"
        );
        let with_launcher = Lists {
            launcher: lists(&[("launcher", "10.0.0.2")], false).workers.pop(),
            ..lists(&TWO, true)
        };
        assert_eq!(
            with_launcher.list(HostListSyntax::Colon),
            "10.0.0.2:2\nw0:2\nw1:2\n"
        );
        let six = lists(&[("w0", "fd00::1")], false);
        assert_eq!(six.list(HostListSyntax::Slots), "fd00::1 slots=2\n");
        assert_eq!(six.list(HostListSyntax::Colon), "w0:2\n");
        let shared = lists(&[("w0", "10.0.0.1"), ("w1", "10.0.0.1")], false);
        assert!(share_an_address(&shared.workers));
        assert!(!share_an_address(&lists(&TWO, false).workers));
    }
}
