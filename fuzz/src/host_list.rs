//! What must hold of the list of workers: what the operator writes, the agent reads back, and no text stops
//! the agent.

use std::net::{Ipv4Addr, Ipv6Addr};

use contract::host_list::{self, ListedHost, ListedWorker};

/// Bytes of one worker in the input.
const RECORD_BYTES: usize = 20;
/// A list with so long a prefix is packed, however few workers it has.
const LONG_PREFIX: usize = 70_000;

/// Read as a text, and as the workers of a job.
pub fn check(bytes: &[u8]) {
    let Some((mode, rest)) = bytes.split_first() else {
        return;
    };
    match mode & 1 {
        0 => check_text(&String::from_utf8_lossy(rest)),
        _ => check_workers(rest, mode & 2 != 0),
    }
}

/// Any text is a list; each host is found by its own name only, and its words hold together.
fn check_text(text: &str) {
    let hosts = host_list::read(text);
    let mut index = 0;
    host_list::visit(text, |entry| {
        let host = &hosts[index];
        assert_eq!(&entry.spelled(), host);
        assert!(entry.is_called(&host.name), "{host:?} has another name");
        assert!(!entry.is_called(&format!("{}0", host.name)));
        index += 1;
    });
    assert_eq!(index, hosts.len());
    host_list::read_workers(text);
}

/// Workers in the order of their indices, as the operator lists them.
fn check_workers(bytes: &[u8], is_long: bool) {
    let prefix = "w-".repeat(if is_long { LONG_PREFIX / 2 } else { 1 });
    let mut next = 0_u32;
    let workers: Vec<(u32, String, Option<u16>)> = bytes
        .chunks_exact(RECORD_BYTES)
        .filter_map(|record| {
            let index = next.checked_add(u32::from(record[0]).pow(u32::from(record[1]) % 4))?;
            next = index.checked_add(1)?;
            let address: [u8; 16] = record[4..].try_into().ok()?;
            let address = match record[1] >> 6 {
                0 => Ipv4Addr::from([record[4], record[5], record[6], record[7]]).to_string(),
                1 => Ipv6Addr::from(address).to_string(),
                2 => format!("10.0.0.{}", record[4]),
                _ => host_list::ENDED_WORKER.to_owned(),
            };
            let port = u16::from_be_bytes([record[2], record[3]]);
            Some((index, address, Some(port).filter(|port| *port != 0)))
        })
        .collect();
    let listed: Vec<_> = workers
        .iter()
        .map(|(index, address, port)| ListedWorker {
            index: *index,
            address,
            port: *port,
        })
        .collect();
    let count = u32::try_from(workers.len()).expect("an input is short");
    let text = host_list::write(count, &prefix, &listed);
    assert_eq!(host_list::read_workers(&text), Some(workers.len()));
    let mut read = host_list::read(&text);
    let mut wanted: Vec<ListedHost> = workers
        .iter()
        .map(|(index, address, port)| ListedHost {
            name: format!("{prefix}{index}"),
            address: spelled(address, *port),
        })
        .collect();
    // Those that have ended come last in a packed list.
    read.sort_by(|a, b| a.name.cmp(&b.name));
    wanted.sort_by(|a, b| a.name.cmp(&b.name));
    assert_eq!(read, wanted);
}

fn spelled(address: &str, port: Option<u16>) -> String {
    match port {
        None => address.to_owned(),
        Some(port) if address.contains(':') => format!("[{address}]:{port}"),
        Some(port) => format!("{address}:{port}"),
    }
}
