//! Connections whose client is not authenticated yet. Decides how many there may be, and which one is
//! closed when there are too many: the oldest of the address that has most, so that a flood from one
//! address closes its own connections and not the launcher's. Must not know TLS.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

const HALF_OPEN_MAX: usize = 64;

#[derive(Default)]
struct Waiting {
    next: u64,
    /// Oldest first.
    sockets: Vec<(u64, IpAddr, TcpStream)>,
}

/// All half-open connections.
#[derive(Clone, Default)]
pub(crate) struct Handshakes {
    waiting: Arc<Mutex<Waiting>>,
}

/// Held while a connection is half open.
pub(crate) struct HandshakeSlot {
    handshakes: Handshakes,
    number: u64,
}

impl Drop for HandshakeSlot {
    fn drop(&mut self) {
        let mut waiting = self.handshakes.lock();
        waiting
            .sockets
            .retain(|(number, ..)| *number != self.number);
    }
}

impl Handshakes {
    pub(crate) fn enter(&self, socket: &TcpStream, source: IpAddr) -> io::Result<HandshakeSlot> {
        let copy = socket.try_clone()?;
        let mut waiting = self.lock();
        let number = waiting.next;
        waiting.next += 1;
        waiting.sockets.push((number, source, copy));
        if waiting.sockets.len() > HALF_OPEN_MAX {
            let sources = waiting.sockets.iter().map(|(_, source, _)| *source);
            let at = oldest_of_the_largest(sources);
            let (_, _, socket) = waiting.sockets.remove(at);
            // Its thread sees the end of the connection, and ends.
            let _ = socket.shutdown(Shutdown::Both);
        }
        Ok(HandshakeSlot {
            handshakes: self.clone(),
            number,
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
    use super::*;

    #[test]
    fn a_flood_closes_its_own_connections() {
        let ip = |last| IpAddr::from([10, 0, 0, last]);
        let sources = [ip(1), ip(9), ip(9), ip(2), ip(9)];
        assert_eq!(oldest_of_the_largest(sources.into_iter()), 1);
    }
}
