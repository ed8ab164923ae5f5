//! When the last host that took part in an attempt first had a rank, as the launcher's pod heard of it. Must not
//! know files or processes.

use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::session_record::SessionRecord;

/// Hosts that were seen with ranks.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    hosts: BTreeSet<String>,
    last_ms: Option<u64>,
    /// The same, once every host that has a session has had a rank.
    whole_ms: Option<u64>,
}

impl Arrivals {
    /// These sessions are known now.
    pub(super) fn look(&mut self, records: &[SessionRecord], now_ms: Option<u64>) {
        for record in records.iter().filter(|record| !record.ranks.is_empty()) {
            if !self.hosts.contains(&record.host) {
                self.hosts.insert(record.host.clone());
                self.last_ms = now_ms;
            }
        }
        let is_whole = |record: &SessionRecord| self.hosts.contains(&record.host);
        if !records.is_empty() && records.iter().all(is_whole) {
            self.whole_ms = self.last_ms;
        }
    }

    /// When the last of them was new, in milliseconds since 1970. A program that has failed may never have started on some
    /// hosts; one that has succeeded needed no rank there.
    pub(super) fn last_ms(&self, has_succeeded: bool) -> Option<u64> {
        match has_succeeded {
            true => self.last_ms,
            false => self.whole_ms,
        }
    }
}

/// Milliseconds since 1970; none before.
pub(super) fn now_ms() -> Option<u64> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(since.as_millis()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::RankState;
    use crate::session_record::State;

    fn session(host: &str, ranks: &[u32]) -> SessionRecord {
        SessionRecord {
            host: host.to_owned(),
            shim: 1,
            caller: None,
            caller_seen: 0,
            daemon: None,
            state: State::Started,
            is_leaving: false,
            rank_count: None,
            ranks: ranks
                .iter()
                .map(|rank| (*rank, RankState::Running))
                .collect(),
            failed: Vec::new(),
            reports: 0,
            news_bytes: 0,
        }
    }

    #[test]
    fn the_host_that_came_last_decides() {
        let mut arrivals = Arrivals::default();
        arrivals.look(&[session("w0", &[]), session("w1", &[])], Some(1));
        assert_eq!(arrivals.last_ms(true), None, "no rank has started");
        arrivals.look(&[session("w0", &[0]), session("w1", &[])], Some(2));
        assert_eq!(arrivals.last_ms(false), None, "one host has no rank");
        assert_eq!(arrivals.last_ms(true), Some(2), "it needed none");
        arrivals.look(&[session("w0", &[0, 1]), session("w1", &[2])], Some(3));
        assert_eq!(arrivals.last_ms(false), Some(3));
        // Its ranks end, and others of its ranks are heard of later.
        arrivals.look(&[session("w0", &[0, 1, 4])], Some(9));
        assert_eq!(arrivals.last_ms(false), Some(3));
    }
}
