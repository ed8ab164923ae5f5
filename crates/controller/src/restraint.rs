//! How often a job is written, at most. An operator whose view is old undoes what another one does, and that
//! one does it again: nothing is wrong with either, and both would go on as fast as the API server answers,
//! until the view is new. A job on its way through its life never gets here.

use std::time::Duration;

use tokio::time::Instant;

/// Rounds of writes in a row: a job that is started, edited a few times, suspended and resumed in one minute
/// has fewer.
const ROUNDS_MAX: u32 = 40;
/// After that, one round in this time.
const EACH: Duration = Duration::from_secs(1);

/// The rounds of writes of one job that are not long past.
#[derive(Debug, Default)]
pub(crate) struct Restraint {
    rounds: u32,
    /// Until when the first of them counts.
    until: Option<Instant>,
}

impl Restraint {
    /// Something was written.
    pub(crate) fn wrote(&mut self) {
        let now = Instant::now();
        self.forget(now);
        self.rounds = (self.rounds + 1).min(ROUNDS_MAX);
        self.until.get_or_insert(now + EACH);
    }

    /// How long the job must be left alone.
    pub(crate) fn wait(&mut self) -> Option<Duration> {
        let now = Instant::now();
        self.forget(now);
        let until = self.until.filter(|_| self.rounds >= ROUNDS_MAX)?;
        Some(until.saturating_duration_since(now))
    }

    fn forget(&mut self, now: Instant) {
        while let Some(until) = self.until.filter(|until| *until <= now) {
            self.rounds = self.rounds.saturating_sub(1);
            self.until = (self.rounds > 0).then(|| until + EACH);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_writes_without_end_writes_once_a_second() {
        let (mut restraint, start) = (Restraint::default(), Instant::now());
        for _ in 0..ROUNDS_MAX {
            assert_eq!(restraint.wait(), None);
            restraint.wrote();
        }
        for round in 1..10 {
            let wait = restraint.wait().expect("it wrote too often");
            tokio::time::advance(wait).await;
            assert_eq!(restraint.wait(), None);
            restraint.wrote();
            assert_eq!(start.elapsed(), EACH * round);
        }
        tokio::time::advance(EACH * ROUNDS_MAX).await;
        for _ in 0..ROUNDS_MAX {
            assert_eq!(restraint.wait(), None);
            restraint.wrote();
        }
        assert!(restraint.wait().is_some());
    }
}
