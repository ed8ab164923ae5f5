//! Ports for programs that a test starts. Decides which are free: none from the range in which the kernel finds ports for
//! connections, because a connection of another test could take it before the program listens.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

use anyhow::{Result, bail};

/// Below the kernel's range, which begins at 32768, and above the ports of well-known servers.
const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;
/// The next that this process looks at.
static NEXT: AtomicU16 = AtomicU16::new(0);

/// Ports that nobody listens on, and that no other call gets soon.
pub(crate) fn free<const N: usize>() -> Result<[u16; N]> {
    // Test programs that run at the same time begin at different places.
    let start = std::process::id() % u32::from(COUNT);
    let mut ports = [0; N];
    let mut found = 0;
    for _ in 0..COUNT {
        if found == N {
            return Ok(ports);
        }
        let offset = start + u32::from(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = FIRST + u16::try_from(offset % u32::from(COUNT))?;
        if TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok() {
            ports[found] = port;
            found += 1;
        }
    }
    bail!("no {N} free ports from {FIRST} on");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_differ_and_no_connection_gets_one() {
        let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap();
        let first: u16 = range.split_whitespace().next().unwrap().parse().unwrap();
        let [a, b] = free().unwrap();
        let [c] = free().unwrap();
        assert!(a != b && b != c && a != c, "{a} {b} {c}");
        assert!(
            first >= FIRST + COUNT,
            "connections get ports from {first} on"
        );
    }

    #[test]
    fn a_port_that_is_taken_is_passed_over() {
        let [a] = free().unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, a)).unwrap();
        // All others, until it would be this one's turn again.
        for _ in 0..COUNT {
            assert_ne!(free::<1>().unwrap(), [a]);
        }
        drop(listener);
    }
}
