//! Addresses of pods: one of the loopback block, or of the run's own network, for each. A name keeps its
//! address, so that host lists stay valid.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// Addresses that one run may use.
const BLOCK: u32 = 1024;
/// Half of the loopback block, away from the addresses that people use by hand.
const FIRST: u32 = u32::from_be_bytes([127, 128, 0, 0]);
const ISOLATED: u32 = u32::from_be_bytes([10, 88, 1, 0]);
const BLOCKS: u32 = (1 << 23) / BLOCK;

#[derive(Debug)]
pub(crate) struct Addresses {
    base: u32,
    given: BTreeMap<String, Ipv4Addr>,
}

impl Addresses {
    /// Concurrent runs have different seeds, and so different addresses.
    pub(crate) fn new(seed: u32) -> Self {
        Self {
            base: FIRST + (seed % BLOCKS) * BLOCK,
            given: BTreeMap::new(),
        }
    }

    /// Addresses of the run's own network, after those of the bridge.
    pub(crate) fn isolated() -> Self {
        Self {
            base: ISOLATED,
            given: BTreeMap::new(),
        }
    }

    /// The address of a name.
    pub(crate) fn of(&mut self, name: &str) -> Ipv4Addr {
        let next = u32::try_from(self.given.len()).unwrap_or(u32::MAX) + 1;
        let base = self.base;
        *self
            .given
            .entry(name.to_owned())
            .or_insert_with(|| Ipv4Addr::from_bits(base + next % BLOCK))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_its_address_and_shares_it_with_none() {
        let mut addresses = Addresses::new(7);
        let first = addresses.of("a");
        let second = addresses.of("b");
        assert_ne!(first, second);
        assert_eq!(addresses.of("a"), first);
        assert!(first.is_loopback() && second.is_loopback());
        assert_ne!(Addresses::new(8).of("a"), first);
    }
}
