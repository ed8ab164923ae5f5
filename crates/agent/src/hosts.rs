//! The list of workers, which the operator writes and the kubelet mounts. Decides which worker a name
//! means; the list is the only source, so that the name of a worker is never looked up in DNS. How
//! the list is spelled is `contract`'s business.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use contract::host_list::{self, ListedHost};
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
    let host = |ListedHost { name, address }| Host { name, address };
    host_list::read(text).into_iter().map(host).collect()
}

/// The list, and how long it will be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listing {
    /// The workers that are listed now.
    pub(crate) hosts: Vec<Host>,
    /// By the list itself, else by the pod's environment.
    pub(crate) workers: Option<usize>,
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

    fn has_ip(&self, ip: IpAddr) -> bool {
        self.ip().is_ok_and(|own| own == ip)
    }

    /// The name up to its first dot.
    pub(crate) fn short_name(&self) -> &str {
        first_label(&self.name)
    }
}

/// Whether another worker of the list has the same address.
pub(crate) fn shares_address(hosts: &[Host], host: &Host) -> bool {
    let ip = host.ip().ok();
    ip.is_some_and(|ip| hosts.iter().any(|other| other != host && other.has_ip(ip)))
}

/// Whether this is an address of this pod: on a node's network, a worker's address may be. Loopback does
/// not count.
pub(crate) fn is_own(ip: IpAddr) -> bool {
    !ip.is_loopback() && UdpSocket::bind((ip, 0)).is_ok()
}

fn first_label(name: &str) -> &str {
    name.split('.').next().unwrap_or_default()
}

/// Finds a worker by its name, a longer name whose first label it is, or its address.
pub(crate) fn find<'h>(hosts: &'h [Host], wanted: &str) -> Result<Option<&'h Host>, HostsError> {
    if let Ok(ip) = wanted.parse::<IpAddr>() {
        let mut with_ip = hosts.iter().filter(|host| host.has_ip(ip));
        let first = with_ip.next();
        return match with_ip.next() {
            Some(_) => Err(HostsError::Ambiguous(wanted.to_owned())),
            None => Ok(first),
        };
    }
    let exact = hosts.iter().find(|host| host.name == wanted);
    let label = first_label(wanted);
    Ok(exact.or_else(|| hosts.iter().find(|host| host.short_name() == label)))
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

    /// The workers that are listed now; none as long as the file does not exist.
    pub(crate) fn read(&self) -> Vec<Host> {
        self.listing().hosts
    }

    /// The whole list as it is now.
    pub(crate) fn listing(&self) -> Listing {
        let text = std::fs::read_to_string(&self.path).unwrap_or_default();
        Listing {
            hosts: parse(&text),
            workers: host_list::read_workers(&text).or_else(settings::workers),
        }
    }

    /// Finds a worker. Waits for its line as long as the list is not complete.
    pub(crate) fn wait_for(&self, wanted: &str, until: Instant) -> Result<Host, HostsError> {
        loop {
            let Listing { hosts, workers } = self.listing();
            if let Some(host) = find(&hosts, wanted)? {
                return Ok(host.clone());
            }
            let complete = workers.is_some_and(|workers| hosts.len() >= workers);
            if complete || Instant::now() >= until {
                return Err(HostsError::Unknown {
                    name: wanted.to_owned(),
                    known: hosts.len(),
                    file: self.path.display().to_string(),
                });
            }
            std::thread::sleep(REREAD_INTERVAL);
        }
    }
}

#[cfg(test)]
mod tests {
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
        let hosts = parse(LIST);
        let host = find(&hosts, wanted).unwrap()?;
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
        let hosts = parse("w0 10.0.0.1\nw1 ended\nw2 ended\n");
        let ended: Vec<_> = hosts.iter().map(Host::has_ended).collect();
        assert_eq!(ended, [false, true, true]);
        let error = hosts[1].socket_address(22).unwrap_err();
        assert_eq!(error, HostsError::Ended("w1".into()));
        assert!(!shares_address(&hosts, &hosts[1]));
    }

    #[test]
    fn a_shared_address_is_no_name() {
        let hosts = parse(LIST);
        let error = find(&hosts, "10.1.0.6").unwrap_err();
        assert_eq!(error, HostsError::Ambiguous("10.1.0.6".into()));
        let sharing: Vec<_> = hosts.iter().map(|h| shares_address(&hosts, h)).collect();
        assert_eq!(sharing, [false, true, true, false, false]);
    }

    #[test]
    fn names_in_the_list_may_be_long_and_exact_wins() {
        let hosts = parse("w0.b 10.0.0.2\nw0.a 10.0.0.1\n");
        let found = |name| find(&hosts, name).unwrap().unwrap().address.clone();
        assert_eq!(found("w0.a"), "10.0.0.1");
        assert_eq!(found("w0"), "10.0.0.2");
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
