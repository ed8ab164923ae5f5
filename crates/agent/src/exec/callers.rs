//! The launchers that a command ran, by the life of each: a script may try again, fall back on
//! another, or run two at once. Decides whose sessions can speak for the run; must not know what
//! they say, nor look at processes itself.

use std::collections::BTreeMap;

use crate::caller::Caller;
use crate::session_record::SessionRecord;

/// Of a script that tries for days, so many tries are remembered.
const REMEMBERED_MAX: usize = 16;

/// All callers of daemons' sessions.
#[derive(Clone, Debug, Default)]
pub(super) struct Callers(BTreeMap<Caller, Life>);

#[derive(Clone, Debug)]
struct Life {
    lives: bool,
    /// In clock ticks since boot: last seen then.
    until: u64,
}

impl Callers {
    /// Takes note of who is new and who still lives; whether that has changed.
    pub(super) fn look(
        &mut self,
        records: &[SessionRecord],
        now: u64,
        lives: impl Fn(Caller) -> bool,
    ) -> bool {
        let mut changed = false;
        for record in records.iter().filter(|record| record.daemon.is_some()) {
            let Some(caller) = record.caller else {
                continue;
            };
            let life = self.0.entry(caller).or_insert_with(|| {
                changed = true;
                Life {
                    lives: true,
                    until: caller.started,
                }
            });
            life.until = life.until.max(record.caller_seen);
        }
        for (caller, life) in self.0.iter_mut().filter(|(_, life)| life.lives) {
            life.lives = lives(*caller);
            if life.lives {
                life.until = now;
            } else {
                changed = true;
            }
        }
        changed
    }

    /// Whether its sessions can be in trouble. Of an unknown caller we think that it lives.
    pub(super) fn lives(&self, caller: Option<Caller>) -> bool {
        let life = caller.and_then(|caller| self.0.get(&caller));
        life.is_none_or(|life| life.lives)
    }

    /// Whether it is the newest, or had not ended when that one began.
    pub(super) fn is_last(&self, caller: Option<Caller>) -> bool {
        let newest = self.0.last_key_value().map(|(newest, _)| newest.started);
        let life = caller.and_then(|caller| Some((caller, self.0.get(&caller)?)));
        match (life, newest) {
            (Some((caller, life)), Some(newest)) => caller.started == newest || life.until > newest,
            _ => true,
        }
    }

    /// Whether it ended so many tries ago that nobody will ask.
    pub(super) fn is_forgotten(&self, caller: Option<Caller>) -> bool {
        let oldest = self.0.keys().rev().nth(REMEMBERED_MAX - 1);
        caller.is_some_and(|caller| {
            oldest.is_some_and(|oldest| caller < *oldest) && !self.is_last(Some(caller))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session_record::State;

    fn caller(started: u64) -> Caller {
        Caller {
            started,
            number: 100,
        }
    }

    fn record(started: u64, seen: u64) -> SessionRecord {
        SessionRecord {
            host: "w0".into(),
            shim: 1,
            caller: Some(caller(started)),
            caller_seen: seen,
            daemon: Some("prted".into()),
            state: State::Started,
            is_leaving: false,
            rank_count: None,
            ranks: [].into(),
            failed: Vec::new(),
            reports: 0,
            news_bytes: 0,
        }
    }

    #[test]
    fn one_that_ended_before_the_next_began_is_not_among_the_last() {
        let mut callers = Callers::default();
        assert!(callers.look(&[record(10, 12)], 15, |_| true));
        assert!(!callers.look(&[record(10, 12)], 20, |_| true));
        let both = [record(10, 12), record(30, 31)];
        assert!(callers.look(&both, 35, |one| one.started == 30));
        assert!(!callers.lives(Some(caller(10))) && callers.lives(Some(caller(30))));
        assert!(!callers.is_last(Some(caller(10))) && callers.is_last(Some(caller(30))));
        assert!(callers.look(&both, 40, |_| false));
        assert!(!callers.is_last(Some(caller(10))) && callers.is_last(Some(caller(30))));
        assert!(callers.lives(None) && callers.is_last(None));
    }

    #[test]
    fn two_at_once_are_both_the_last() {
        let mut callers = Callers::default();
        let both = [record(10, 12), record(30, 31)];
        callers.look(&both, 35, |_| true);
        callers.look(&both, 40, |_| false);
        assert!(callers.is_last(Some(caller(10))) && callers.is_last(Some(caller(30))));
        // So fast that only their shims saw them.
        let mut fast = Callers::default();
        fast.look(&[record(10, 14), record(12, 13)], 30, |_| false);
        assert!(fast.is_last(Some(caller(10))) && fast.is_last(Some(caller(12))));
    }

    #[test]
    fn only_so_many_tries_are_remembered() {
        let mut callers = Callers::default();
        let tries: Vec<_> = (1..=20).map(|n| record(n * 10, n * 10 + 1)).collect();
        callers.look(&tries, 300, |_| false);
        let forgotten = |n: u64| callers.is_forgotten(Some(caller(n * 10)));
        assert!(forgotten(1) && forgotten(4));
        assert!(!forgotten(5) && !forgotten(20));
        assert!(!callers.is_forgotten(None));
    }
}
