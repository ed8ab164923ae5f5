//! The list of workers that the operator writes into an annotation and the agent reads from a file.
//! Decides its spelling, and nothing of what the list is for.
//!
//! The first line is [`WORKERS_LINE`] and the number of workers. A short list then has a line
//! `NAME ADDRESS[:PORT]` for each worker. A long one would not fit into an annotation: it has one line
//! `@ PREFIX DATA` for all workers, whose names are the prefix and their indices. The data is base64 of
//! one record for each worker, of what differs from the worker before:
//!
//! - a byte: how many leading bytes the address shares (bits 0 to 3), whether the address is IPv6
//!   (bit 4), whether a port follows (bit 5), whether a gap follows (bit 6);
//! - the gap: how many indices were left out, seven bits to a byte, the lowest first;
//! - the rest of the address;
//! - the port, two bytes, the higher first; 0 for none. Without one it is the port before and one
//!   more, or none if there was none.

mod base64;

use std::net::IpAddr;

/// How the first line of the list begins; the number of workers follows.
pub const WORKERS_LINE: &str = "# workers ";
/// Instead of the address of a worker: its pod is over, and no other follows. It always has a line of
/// its own.
pub const ENDED_WORKER: &str = "ended";
/// How a line of many workers begins.
const PACKED_LINE: &str = "@ ";
/// A list of lines is no longer than this: about 2000 workers.
const LINES_BYTES_MAX: usize = 64 * 1024;

const SHARED: u8 = 0x0f;
const IS_IPV6: u8 = 0x10;
const HAS_PORT: u8 = 0x20;
const HAS_GAP: u8 = 0x40;

/// A worker, as the operator knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedWorker<'a> {
    /// Which one.
    pub index: u32,
    /// Where it is.
    pub address: &'a str,
    /// The port of its agent, where it is not the usual one.
    pub port: Option<u16>,
}

/// A worker, as the agent finds it in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedHost {
    /// Name of its pod.
    pub name: String,
    /// `ADDRESS`, `ADDRESS:PORT` or `[ADDRESS]:PORT`.
    pub address: String,
}

/// The list of these workers, in the order of their indices, of a job that has so many. Their names are
/// the prefix and their indices.
pub fn write(workers: u32, prefix: &str, listed: &[ListedWorker<'_>]) -> String {
    let first = format!("{WORKERS_LINE}{workers}\n");
    let line = |worker: &ListedWorker<'_>| {
        let address = spelled(worker.address, worker.port);
        format!("{prefix}{} {address}\n", worker.index)
    };
    let mut lines = first.clone();
    for worker in listed {
        lines.push_str(&line(worker));
        if lines.len() > LINES_BYTES_MAX {
            break;
        }
    }
    if lines.len() <= LINES_BYTES_MAX {
        return lines;
    }
    let mut packed = Packer::default();
    let mut others = String::new();
    for worker in listed {
        match worker.address.parse() {
            Ok(address) => packed.push(worker.index, address, worker.port),
            // It has ended. No kubelet reports such an address; the agent says what is wrong with it.
            Err(_) => others.push_str(&line(worker)),
        }
    }
    let data = base64::encode(&packed.bytes);
    format!("{first}{PACKED_LINE}{prefix} {data}\n{others}")
}

/// The longest that a list of so many workers can be, whatever their addresses are.
pub fn bytes_max(workers: u32, prefix: &str) -> usize {
    const RECORD_BYTES_MAX: usize = 1 + 16;
    const INDEX_BYTES_MAX: usize = "-4294967295".len();
    const ADDRESS_BYTES_MAX: usize =
        " [ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255]:65535\n".len();
    const OTHERS: usize = 64;
    let line = prefix.len() + INDEX_BYTES_MAX + ADDRESS_BYTES_MAX;
    let lines = (OTHERS + workers as usize * line).min(LINES_BYTES_MAX);
    let data = workers as usize * RECORD_BYTES_MAX;
    lines.max(data.div_ceil(3) * 4 + prefix.len() + OTHERS)
}

/// The workers of a list. Skips what it cannot read, since a list may be incomplete while it is being
/// written.
pub fn read(text: &str) -> Vec<ListedHost> {
    let mut hosts = Vec::new();
    visit(text, |entry| hosts.push(entry.spelled()));
    hosts
}

/// Shows the workers of a list one by one, without spelling them out: every process that looks for one of
/// ten thousand workers would otherwise write down all of them.
pub fn visit(text: &str, mut visit: impl FnMut(ListEntry<'_>)) {
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split_whitespace();
        let (Some(first), Some(second)) = (words.next(), words.next()) else {
            continue;
        };
        match words.next() {
            Some(data) if first == PACKED_LINE.trim_end() => {
                unpack(second, &base64::decode(data), &mut visit);
            }
            _ => visit(ListEntry::Line {
                name: first,
                address: second,
            }),
        }
    }
}

/// A worker, as it stands in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListEntry<'a> {
    /// In a line of its own.
    Line {
        /// Name of its pod.
        name: &'a str,
        /// See [`ListedHost::address`].
        address: &'a str,
    },
    /// In one line with others.
    Packed {
        /// What the names of all begin with.
        prefix: &'a str,
        /// What its own name ends with.
        index: u32,
        /// Where it is.
        address: IpAddr,
        /// The port of its agent; 0 for the usual one.
        port: u16,
    },
}

impl ListEntry<'_> {
    /// As text.
    pub fn spelled(&self) -> ListedHost {
        match *self {
            Self::Line { name, address } => ListedHost {
                name: name.to_owned(),
                address: address.to_owned(),
            },
            Self::Packed {
                prefix,
                index,
                address,
                port,
            } => ListedHost {
                name: format!("{prefix}{index}"),
                address: spelled(&address.to_string(), (port != 0).then_some(port)),
            },
        }
    }

    /// This is the name of its pod.
    pub fn is_called(&self, name: &str) -> bool {
        match *self {
            Self::Line { name: own, .. } => own == name,
            Self::Packed { prefix, index, .. } => {
                let digits = name.strip_prefix(prefix).unwrap_or_default();
                let is_ours =
                    digits == "0" || digits.starts_with(|first| matches!(first, '1'..='9'));
                is_ours && digits.parse() == Ok(index)
            }
        }
    }
}

/// How many workers there will be, by the first line.
pub fn read_workers(text: &str) -> Option<usize> {
    let first = text.lines().next()?;
    let number = first.strip_prefix(WORKERS_LINE)?;
    number.trim().parse().ok()
}

fn spelled(address: &str, port: Option<u16>) -> String {
    match port {
        None => address.to_owned(),
        Some(port) if address.contains(':') => format!("[{address}]:{port}"),
        Some(port) => format!("{address}:{port}"),
    }
}

/// The worker before, from which the next one differs.
#[derive(Default)]
struct Before {
    next_index: u32,
    ipv4: [u8; 4],
    ipv6: [u8; 16],
    next_port: u16,
}

impl Before {
    fn address(&mut self, is_ipv6: bool) -> &mut [u8] {
        match is_ipv6 {
            true => &mut self.ipv6,
            false => &mut self.ipv4,
        }
    }

    /// None is followed by none.
    fn ported(&mut self, port: u16) {
        self.next_port = if port == 0 { 0 } else { port.wrapping_add(1) };
    }
}

#[derive(Default)]
struct Packer {
    before: Before,
    bytes: Vec<u8>,
}

impl Packer {
    fn push(&mut self, index: u32, address: IpAddr, port: Option<u16>) {
        let is_ipv6 = address.is_ipv6();
        let address = match address {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        };
        let before = self.before.address(is_ipv6);
        let same = before.iter().zip(&address).take_while(|(a, b)| a == b);
        let shared = same.count().min(SHARED.into());
        before.copy_from_slice(&address);
        let mut gap = index.wrapping_sub(self.before.next_index);
        let port = port.unwrap_or_default();
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        self.bytes.push(
            u8::try_from(shared).unwrap_or(SHARED)
                | flag(is_ipv6, IS_IPV6)
                | flag(port != self.before.next_port, HAS_PORT)
                | flag(gap != 0, HAS_GAP),
        );
        while gap != 0 {
            let low = u8::try_from(gap & 0x7f).unwrap_or_default();
            gap >>= 7;
            self.bytes.push(low | flag(gap != 0, 0x80));
        }
        self.bytes.extend(&address[shared..]);
        if port != self.before.next_port {
            self.bytes.extend(port.to_be_bytes());
        }
        self.before.next_index = index.wrapping_add(1);
        self.before.ported(port);
    }
}

fn unpack(prefix: &str, bytes: &[u8], visit: &mut impl FnMut(ListEntry<'_>)) {
    let mut bytes = bytes.iter().copied();
    let mut before = Before::default();
    // What is cut off, or was never written by us, ends the list.
    while let Some(entry) = unpack_one(prefix, &mut bytes, &mut before) {
        visit(entry);
    }
}

fn unpack_one<'a>(
    prefix: &'a str,
    bytes: &mut impl Iterator<Item = u8>,
    before: &mut Before,
) -> Option<ListEntry<'a>> {
    let flags = bytes.next()?;
    if flags & HAS_GAP != 0 {
        let mut shift = 0;
        loop {
            let byte = bytes.next()?;
            let part = u32::from(byte & 0x7f).checked_shl(shift)?;
            before.next_index = before.next_index.checked_add(part)?;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
        }
    }
    let is_ipv6 = flags & IS_IPV6 != 0;
    for byte in before
        .address(is_ipv6)
        .get_mut(usize::from(flags & SHARED)..)?
    {
        *byte = bytes.next()?;
    }
    let mut port = before.next_port;
    if flags & HAS_PORT != 0 {
        port = u16::from_be_bytes([bytes.next()?, bytes.next()?]);
    }
    let address = match is_ipv6 {
        true => IpAddr::from(before.ipv6),
        false => IpAddr::from(before.ipv4),
    };
    let index = before.next_index;
    before.next_index = index.checked_add(1)?;
    before.ported(port);
    Some(ListEntry::Packed {
        prefix,
        index,
        address,
        port,
    })
}

#[cfg(test)]
mod tests;
