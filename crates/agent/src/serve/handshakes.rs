//! Connections whose client is not authenticated yet. Decides how many there may be, and which one is
//! closed when there are too many: the oldest of the address that has most, so that a flood from one
//! address closes its own connections and not the launcher's. An address that keeps failing may have fewer
//! at once, half as many after every few failures. A new connection is never the one that is closed, so
//! that a launcher gets through even from such an address. Must not know TLS.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Of all addresses together.
const HALF_OPEN_MAX: usize = 64;
/// Of one address that has not failed.
const PER_SOURCE_MAX: usize = 32;
/// Of one address, whatever it did.
const PER_SOURCE_MIN: usize = 2;
/// So many failures halve what an address may have.
const FAILURES_PER_HALVING: u32 = 8;
/// Half of the failures are forgotten after this long.
const FORGETTING: Duration = Duration::from_secs(10);
/// Addresses whose failures are remembered; whoever has more of them to call from is not slowed down.
const SOURCES_MAX: usize = 1024;

#[derive(Default)]
struct Waiting {
    next: u64,
    /// Oldest first.
    sockets: Vec<(u64, IpAddr, TcpStream)>,
    failures: HashMap<IpAddr, Failures>,
}

/// What is held against an address.
struct Failures {
    count: u32,
    since: Instant,
}

impl Failures {
    fn now(&self) -> u32 {
        let halvings = self.since.elapsed().as_secs() / FORGETTING.as_secs();
        self.count >> halvings.min(31)
    }
}

/// All half-open connections.
#[derive(Clone, Default)]
pub(crate) struct Handshakes {
    waiting: Arc<Mutex<Waiting>>,
}

/// Held while a connection is half open. If it ends otherwise than by [`HandshakeSlot::succeeded`], that
/// counts against its address.
pub(crate) struct HandshakeSlot {
    handshakes: Handshakes,
    source: IpAddr,
    number: u64,
    succeeded: bool,
}

impl HandshakeSlot {
    /// The client is the launcher.
    pub(crate) fn succeeded(mut self) {
        self.succeeded = true;
    }
}

impl Drop for HandshakeSlot {
    fn drop(&mut self) {
        let mut waiting = self.handshakes.lock();
        let (number, source) = (self.number, self.source);
        waiting.sockets.retain(|(other, ..)| *other != number);
        if self.succeeded {
            waiting.failures.remove(&source);
        } else {
            waiting.note_failure(source);
        }
    }
}

impl Waiting {
    fn note_failure(&mut self, source: IpAddr) {
        if self.failures.len() >= SOURCES_MAX {
            self.failures.retain(|_, failures| failures.now() > 0);
        }
        let known = self.failures.get(&source).map_or(0, Failures::now);
        if known > 0 || self.failures.len() < SOURCES_MAX {
            let count = known.saturating_add(1);
            let since = Instant::now();
            self.failures.insert(source, Failures { count, since });
        }
    }

    fn may_have(&self, source: IpAddr) -> usize {
        let failures = self.failures.get(&source).map_or(0, Failures::now);
        let halvings = (failures / FAILURES_PER_HALVING).min(31);
        (PER_SOURCE_MAX >> halvings).max(PER_SOURCE_MIN)
    }

    /// Which connection to close now that one more has come from this address.
    fn surplus(&self, source: IpAddr) -> Option<usize> {
        let sources = self.sockets.iter().map(|(_, source, _)| *source);
        let own = sources.clone().filter(|other| *other == source).count();
        if own > self.may_have(source) {
            return sources.into_iter().position(|other| other == source);
        }
        (self.sockets.len() > HALF_OPEN_MAX).then(|| oldest_of_the_largest(sources))
    }
}

impl Handshakes {
    pub(crate) fn enter(&self, socket: &TcpStream, source: IpAddr) -> io::Result<HandshakeSlot> {
        let copy = socket.try_clone()?;
        let mut waiting = self.lock();
        let number = waiting.next;
        waiting.next += 1;
        waiting.sockets.push((number, source, copy));
        if let Some(at) = waiting.surplus(source) {
            let (_, _, socket) = waiting.sockets.remove(at);
            // Its thread sees the end of the connection, and ends.
            let _ = socket.shutdown(Shutdown::Both);
        }
        Ok(HandshakeSlot {
            handshakes: self.clone(),
            source,
            number,
            succeeded: false,
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn oldest_of_the_largest(sources: impl Iterator<Item = IpAddr> + Clone) -> usize {
    let mut counts: HashMap<IpAddr, usize> = HashMap::new();
    for source in sources.clone() {
        *counts.entry(source).or_default() += 1;
    }
    let most = counts.values().max().copied().unwrap_or_default();
    sources
        .into_iter()
        .position(|source| counts[&source] == most)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn ip(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[test]
    fn a_flood_closes_its_own_connections() {
        let sources = [ip(1), ip(9), ip(9), ip(2), ip(9)];
        assert_eq!(oldest_of_the_largest(sources.into_iter()), 1);
    }

    /// So many connections of an address are open at once if it opens many.
    fn open_at_once(handshakes: &Handshakes, source: IpAddr) -> usize {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let enter = |_| handshakes.enter(&socket, source).unwrap();
        let mut slots: Vec<_> = (0..100).map(enter).collect();
        let waiting = handshakes.lock();
        let open = waiting.sockets.iter().filter(|(_, ip, _)| *ip == source);
        let (open, newest) = (open.count(), waiting.next - 1);
        let last = waiting.sockets.last().map(|(number, ..)| *number);
        assert_eq!(last, Some(newest), "the newest is never closed");
        drop(waiting);
        slots.drain(..).for_each(HandshakeSlot::succeeded);
        open
    }

    #[test]
    fn an_address_that_fails_may_have_fewer_at_once_until_it_succeeds() {
        let handshakes = Handshakes::default();
        assert_eq!(open_at_once(&handshakes, ip(1)), 32);
        for (failures, open) in [(8, 16), (16, 8), (1000, 2)] {
            for _ in 0..failures {
                handshakes.lock().note_failure(ip(1));
            }
            assert_eq!(open_at_once(&handshakes, ip(1)), open, "{failures}");
        }
        assert_eq!(open_at_once(&handshakes, ip(1)), 32, "it has succeeded");
        handshakes.lock().note_failure(ip(1));
        assert_eq!(open_at_once(&handshakes, ip(2)), 32, "others do not pay");
    }

    #[test]
    fn failures_of_many_addresses_take_little_memory() {
        let mut waiting = Waiting::default();
        for number in 0..100_000_u32 {
            waiting.note_failure(IpAddr::from(number.to_be_bytes()));
        }
        assert_eq!(waiting.failures.len(), SOURCES_MAX);
    }
}
