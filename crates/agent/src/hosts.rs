//! The list of workers, which the operator writes and the kubelet mounts. Decides which worker a name
//! means; the list is the only source, so that the name of a worker is never looked up in DNS. How
//! the list is spelled is `contract`'s business.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use contract::host_list::{self, ListEntry, ListedHost};
use contract::{env, files};
use thiserror::Error;

use crate::settings;

/// How often an incomplete list is read again.
const REREAD_INTERVAL: Duration = Duration::from_millis(50);

/// Where a worker is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Host {
    /// As the operator wrote it.
    pub(crate) name: String,
    /// `ADDRESS`, `ADDRESS:PORT` or `[ADDRESS]:PORT`; or [`host_list::ENDED_WORKER`].
    pub(crate) address: String,
}

/// Why a name has no address.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum HostsError {
    #[error("{name} is not among the {known} workers listed in {file}")]
    Unknown {
        name: String,
        known: usize,
        file: String,
    },
    /// Workers that share an address can be told apart by name only.
    #[error("{0} is the address of more than one worker; use their names")]
    Ambiguous(String),
    #[error("worker {0} has ended: its pod is over, and no other follows it")]
    Ended(String),
    #[error("the address of {name} in the hosts file is {address:?}, not an IP address")]
    NotAnAddress { name: String, address: String },
}

/// The workers of a list.
pub(crate) fn parse(text: &str) -> Vec<Host> {
    host_list::read(text).into_iter().map(Host::from).collect()
}

/// The list, and how long it will be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listing {
    /// The workers that are listed now.
    pub(crate) hosts: Vec<Host>,
    /// By the list itself, else by the pod's environment.
    pub(crate) workers: Option<usize>,
}

impl From<ListedHost> for Host {
    fn from(ListedHost { name, address }: ListedHost) -> Self {
        Self { name, address }
    }
}

impl Host {
    /// The socket address, with the default port where the line has none.
    pub(crate) fn socket_address(&self, default_port: u16) -> Result<SocketAddr, HostsError> {
        if self.has_ended() {
            return Err(HostsError::Ended(self.name.clone()));
        }
        let bare = self.address.trim_start_matches('[').trim_end_matches(']');
        if let Ok(ip) = bare.parse::<IpAddr>() {
            return Ok(SocketAddr::new(ip, default_port));
        }
        self.address.parse().map_err(|_| HostsError::NotAnAddress {
            name: self.name.clone(),
            address: self.address.clone(),
        })
    }

    /// The operator knows that there is no such worker any more.
    pub(crate) fn has_ended(&self) -> bool {
        self.address == host_list::ENDED_WORKER
    }

    /// The address without the port.
    pub(crate) fn ip(&self) -> Result<IpAddr, HostsError> {
        Ok(self.socket_address(0)?.ip())
    }

    /// The port that the line has, if any.
    pub(crate) fn port(&self) -> Option<u16> {
        let port = self.socket_address(0).ok()?.port();
        (port != 0).then_some(port)
    }

    /// The name up to its first dot.
    pub(crate) fn short_name(&self) -> &str {
        first_label(&self.name)
    }
}

/// Whether another worker of the list has the same address.
pub(crate) fn shares_address(list: &str, host: &Host) -> bool {
    let Ok(ip) = host.ip() else {
        return false;
    };
    let mut is_shared = false;
    host_list::visit(list, |entry| {
        is_shared |= has_ip(&entry, ip) && !entry.is_called(&host.name);
    });
    is_shared
}

fn has_ip(entry: &ListEntry<'_>, ip: IpAddr) -> bool {
    match entry {
        ListEntry::Packed { address, .. } => *address == ip,
        ListEntry::Line { .. } => Host::from(entry.spelled()).ip().is_ok_and(|own| own == ip),
    }
}

/// Whether this is an address of this pod: on a node's network, a worker's address may be. Loopback does
/// not count.
pub(crate) fn is_own(ip: IpAddr) -> bool {
    !ip.is_loopback() && UdpSocket::bind((ip, 0)).is_ok()
}

fn first_label(name: &str) -> &str {
    name.split('.').next().unwrap_or_default()
}

/// Finds a worker by its name, a longer name whose first label it is, or its address. Spells out no other
/// worker: at the start of a job, as many processes as it has workers do this at once.
pub(crate) fn find(list: &str, wanted: &str) -> Result<Option<Host>, HostsError> {
    let host = |entry: ListEntry<'_>| Host::from(entry.spelled());
    if let Ok(ip) = wanted.parse::<IpAddr>() {
        let (mut first, mut count) = (None, 0);
        host_list::visit(list, |entry| {
            if has_ip(&entry, ip) {
                count += 1;
                first.get_or_insert_with(|| host(entry));
            }
        });
        return match count {
            0 | 1 => Ok(first),
            _ => Err(HostsError::Ambiguous(wanted.to_owned())),
        };
    }
    let label = first_label(wanted);
    let (mut exact, mut by_label) = (None, None);
    host_list::visit(list, |entry| {
        if exact.is_none() && entry.is_called(wanted) {
            exact = Some(host(entry));
        } else if by_label.is_none() && has_short_name(&entry, label) {
            by_label = Some(host(entry));
        }
    });
    Ok(exact.or(by_label))
}

fn has_short_name(entry: &ListEntry<'_>, label: &str) -> bool {
    match entry {
        ListEntry::Line { name, .. } => first_label(name) == label,
        ListEntry::Packed { prefix, .. } if prefix.contains('.') => first_label(prefix) == label,
        ListEntry::Packed { .. } => entry.is_called(label),
    }
}

/// The list on disk.
pub(crate) struct HostsFile {
    path: PathBuf,
}

impl HostsFile {
    /// The one that the environment names.
    pub(crate) fn of_environment() -> Self {
        let path = settings::path(env::HOSTS_FILE, files::HOSTS_PATH);
        Self { path }
    }

    /// The list as it is now, to search in; empty as long as the file does not exist.
    pub(crate) fn read(&self) -> String {
        std::fs::read_to_string(&self.path).unwrap_or_default()
    }

    /// The same, spelled out.
    pub(crate) fn listing(&self) -> Listing {
        let text = self.read();
        Listing {
            hosts: parse(&text),
            workers: workers(&text),
        }
    }

    /// Finds a worker. Waits for its line as long as the list is not complete.
    pub(crate) fn wait_for(&self, wanted: &str, until: Instant) -> Result<Host, HostsError> {
        loop {
            let list = self.read();
            if let Some(host) = find(&list, wanted)? {
                return Ok(host);
            }
            let mut known = 0;
            host_list::visit(&list, |_| known += 1);
            let complete = workers(&list).is_some_and(|workers| known >= workers);
            if complete || Instant::now() >= until {
                return Err(HostsError::Unknown {
                    name: wanted.to_owned(),
                    known,
                    file: self.path.display().to_string(),
                });
            }
            std::thread::sleep(REREAD_INTERVAL);
        }
    }
}

/// How many workers there will be.
fn workers(list: &str) -> Option<usize> {
    host_list::read_workers(list).or_else(settings::workers)
}

#[cfg(test)]
mod tests {
    use contract::host_list::ListedWorker;

    use super::*;

    const LIST: &str = "\
# two on one node
pi-worker-0 10.1.0.5
pi-worker-1 10.1.0.6:7078

pi-worker-2 10.1.0.6:7079
pi-worker-3 fd00::3
pi-worker-4 [fd00::4]:80
half-written";

    fn address(wanted: &str) -> Option<String> {
        let host = find(LIST, wanted).unwrap()?;
        Some(host.socket_address(7077).unwrap().to_string())
    }

    #[test]
    fn a_worker_is_found_by_name_longer_name_and_address() {
        for wanted in ["pi-worker-0", "pi-worker-0.pi.ns.svc", "10.1.0.5"] {
            assert_eq!(address(wanted).unwrap(), "10.1.0.5:7077", "{wanted}");
        }
        assert_eq!(address("pi-worker-1").unwrap(), "10.1.0.6:7078");
        assert_eq!(address("pi-worker-3").unwrap(), "[fd00::3]:7077");
        assert_eq!(address("fd00::4").unwrap(), "[fd00::4]:80");
        assert_eq!(address("pi-worker-00"), None);
        assert_eq!(address("half-written"), None);
        assert_eq!(address("10.1.0.50"), None);
    }

    #[test]
    fn v02_a_worker_that_ended_has_no_address() {
        let list = "w0 10.0.0.1\nw1 ended\nw2 ended\n";
        let hosts = parse(list);
        let ended: Vec<_> = hosts.iter().map(Host::has_ended).collect();
        assert_eq!(ended, [false, true, true]);
        let error = hosts[1].socket_address(22).unwrap_err();
        assert_eq!(error, HostsError::Ended("w1".into()));
        assert!(!shares_address(list, &hosts[1]));
    }

    #[test]
    fn a_shared_address_is_no_name() {
        let hosts = parse(LIST);
        let error = find(LIST, "10.1.0.6").unwrap_err();
        assert_eq!(error, HostsError::Ambiguous("10.1.0.6".into()));
        let sharing: Vec<_> = hosts.iter().map(|h| shares_address(LIST, h)).collect();
        assert_eq!(sharing, [false, true, true, false, false]);
    }

    #[test]
    fn names_in_the_list_may_be_long_and_exact_wins() {
        let list = "w0.b 10.0.0.2\nw0.a 10.0.0.1\n";
        let found = |name| find(list, name).unwrap().unwrap().address;
        assert_eq!(found("w0.a"), "10.0.0.1");
        assert_eq!(found("w0"), "10.0.0.2");
    }

    /// A list that is packed; workers 3 and 4 share an address.
    fn packed(workers: u32) -> String {
        let address = |index: u32| IpAddr::from((0x0a00_0000 + index.max(4)).to_be_bytes());
        let addresses: Vec<_> = (0..workers)
            .map(|index| match index {
                3 => address(4),
                0..=2 => IpAddr::from([10, 9, 0, u8::try_from(index).unwrap()]),
                _ => address(index),
            })
            .map(|address| address.to_string())
            .collect();
        let listed = (0..).zip(&addresses).map(|(index, address)| ListedWorker {
            index,
            address,
            port: (index == 7).then_some(7078),
        });
        host_list::write(workers, "pi-worker-", &listed.collect::<Vec<_>>())
    }

    #[test]
    fn a_packed_list_is_searched_as_a_list_of_lines_is() {
        let list = packed(10_000);
        assert!(list.len() < 100_000, "it is packed");
        let hosts = parse(&list);
        for index in [0, 1, 5, 7, 9_999] {
            let (host, name) = (&hosts[index], format!("pi-worker-{index}"));
            let ip = host.ip().unwrap().to_string();
            for wanted in [name.clone(), format!("{name}.pi.ns.svc"), ip] {
                assert_eq!(find(&list, &wanted).unwrap().as_ref(), Some(host));
            }
            assert!(!shares_address(&list, host));
        }
        for wanted in ["pi-worker-10000", "pi-worker-07", "pi-worker-", "10.9.0.3"] {
            assert_eq!(find(&list, wanted).unwrap(), None, "{wanted}");
        }
        let shared = hosts[3].ip().unwrap().to_string();
        assert_eq!(
            find(&list, &shared).unwrap_err(),
            HostsError::Ambiguous(shared)
        );
        assert!(shares_address(&list, &hosts[3]) && shares_address(&list, &hosts[4]));
    }

    #[test]
    fn an_address_must_be_one() {
        let host = &parse("w0 w0.job.ns.svc:22")[0];
        let error = host.socket_address(1).unwrap_err().to_string();
        assert!(error.contains("not an IP address"), "{error}");
    }

    #[test]
    fn a_list_that_grows_is_read_again() {
        let directory = tempfile::tempdir().unwrap();
        let file = HostsFile {
            path: directory.path().join("hosts"),
        };
        let path = file.path.clone();
        let writer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(120));
            std::fs::write(path, "w0 10.0.0.1\n").unwrap();
        });
        let until = Instant::now() + Duration::from_secs(10);
        assert_eq!(file.wait_for("w0", until).unwrap().address, "10.0.0.1");
        writer.join().unwrap();
        let soon = Instant::now() + Duration::from_millis(60);
        let error = file.wait_for("w1", soon).unwrap_err().to_string();
        assert!(
            error.starts_with("w1 is not among the 1 workers listed in "),
            "{error}"
        );
    }
    #[test]
    fn the_first_line_says_how_many_there_are_to_be() {
        let workers = |text| host_list::read_workers(text);
        assert_eq!(workers("# workers 3\nw0 10.0.0.1\n"), Some(3));
        assert_eq!(workers("# workers 0"), Some(0));
        assert_eq!(workers("w0 10.0.0.1\n# workers 3\n"), None);
        assert_eq!(workers("# workers many\n"), None);
        assert_eq!(workers(""), None);
        assert_eq!(parse("# workers 3\nw0 10.0.0.1\n").len(), 1);
    }

    #[test]
    fn a_list_that_is_complete_by_its_own_word_is_not_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let file = HostsFile {
            path: directory.path().join("hosts"),
        };
        std::fs::write(&file.path, "# workers 1\nw0 10.0.0.1\n").unwrap();
        let begun = Instant::now();
        let until = begun + Duration::from_secs(60);
        assert!(file.wait_for("w1", until).is_err());
        assert!(begun.elapsed() < Duration::from_secs(30));
    }
}
