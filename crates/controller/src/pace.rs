//! When the status of a job is written: a second after something changed that people look at, and yet
//! few times in all (docs/decisions/0043-status-within-a-second.md). Knows how urgent a change is, not
//! what changed.

use std::time::Duration;

use dialects::Urgency;
use tokio::time::Instant;

/// How late a status may be, as long as the job has not used up its prompt writes.
const PROMPT: Duration = Duration::from_secs(1);
/// Prompt writes of mere progress. The start of a job needs two: its pods run, its pods are ready.
const PROMPT_PROGRESS_MAX: u32 = 2;
/// Prompt writes when trouble begins or ends, which happens in no plain job.
const PROMPT_TROUBLE_MAX: u32 = 8;
/// Prompt writes are available again when none was needed for this long.
const FRESH: Duration = Duration::from_secs(60);
/// Other progress is written when no pod has changed for this long, and so is an edit that changed
/// nothing else…
const QUIET: Duration = Duration::from_secs(5);
/// …or, while pods keep changing, when the last write is this old…
const DISTANCE_FIRST: Duration = Duration::from_secs(30);
/// …and from then on this old.
const DISTANCE: Duration = Duration::from_secs(60);

/// The writes of one job's status that were not urgent.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// Since when the stored status is behind, how much that matters, and of which generation.
    behind: Option<Behind>,
    /// The last write of progress or trouble.
    written_at: Option<Instant>,
    /// Writes of progress and of trouble, of those that count together.
    progress: u32,
    trouble: u32,
}

#[derive(Clone, Copy, Debug)]
struct Behind {
    since: Instant,
    urgency: Urgency,
    generation: Option<i64>,
}

impl Pace {
    /// How long the write has to wait, of a status that is this urgent and of this generation, where a
    /// pod changed last at `changed_at`.
    pub(crate) fn wait(
        &mut self,
        urgency: Urgency,
        generation: Option<i64>,
        changed_at: Option<Instant>,
    ) -> Duration {
        let now = Instant::now();
        if matches!(urgency, Urgency::Unchanged | Urgency::Now) {
            self.behind = None;
            return Duration::ZERO;
        }
        let same = |behind: &Behind| match behind.urgency {
            Urgency::Edit => urgency == Urgency::Edit && behind.generation == generation,
            _ => true,
        };
        let since = self.behind.filter(same).map_or(now, |behind| behind.since);
        self.behind = Some(Behind {
            since,
            urgency,
            generation,
        });
        let due = match urgency {
            Urgency::Edit => since + QUIET,
            _ if self.is_prompt(urgency, now) => since + PROMPT,
            _ => self.due_late(since, changed_at),
        };
        due.saturating_duration_since(now)
    }

    /// The status was written, with a change that was this urgent.
    pub(crate) fn written(&mut self, urgency: Urgency) {
        let now = Instant::now();
        self.behind = None;
        let count = match urgency {
            Urgency::Progress => &mut self.progress,
            Urgency::Trouble => &mut self.trouble,
            Urgency::Unchanged | Urgency::Edit | Urgency::Now => return,
        };
        *count = count.saturating_add(1);
        if self.is_fresh(now) {
            self.progress = (urgency == Urgency::Progress).into();
            self.trouble = (urgency == Urgency::Trouble).into();
        }
        self.written_at = Some(now);
    }

    fn is_prompt(&self, urgency: Urgency, now: Instant) -> bool {
        self.is_fresh(now)
            || match urgency {
                Urgency::Trouble => self.trouble < PROMPT_TROUBLE_MAX,
                _ => self.progress < PROMPT_PROGRESS_MAX,
            }
    }

    fn is_fresh(&self, now: Instant) -> bool {
        self.written_at
            .is_none_or(|at| now.duration_since(at) >= FRESH)
    }

    fn due_late(&self, since: Instant, changed_at: Option<Instant>) -> Instant {
        let quiet_at = changed_at.map_or(since, |at| at.max(since)) + QUIET;
        let distance = match self.progress {
            0..=PROMPT_PROGRESS_MAX => DISTANCE_FIRST,
            _ => DISTANCE,
        };
        let far_at = self.written_at.map_or(since, |at| at + distance);
        quiet_at.min(far_at.max(since + PROMPT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The writes that changes cause, each as (when, how late for the oldest change, how urgent). Changes
    /// are given by the millisecond at which they happen.
    async fn writes(changes: &[(u64, Urgency)]) -> Vec<(Duration, Duration, Urgency)> {
        let (start, mut pace) = (Instant::now(), Pace::default());
        let (mut written, mut behind, mut changed_at) = (Vec::new(), None, None);
        let mut changes = changes.iter().peekable();
        while behind.is_some() || changes.peek().is_some() {
            let due = behind.map(|(_, urgency)| pace.wait(urgency, Some(1), changed_at));
            if due == Some(Duration::ZERO)
                && let Some((since, urgency)) = behind.take()
            {
                pace.written(urgency);
                written.push((start.elapsed(), Instant::now() - since, urgency));
                continue;
            }
            let next = changes.peek().map(|(at, _)| {
                let at = start + Duration::from_millis(*at);
                at.saturating_duration_since(Instant::now())
            });
            let step = due.into_iter().chain(next).min();
            tokio::time::advance(step.expect("something is to happen")).await;
            let passed = start.elapsed().as_millis();
            while let Some((_, urgency)) = changes.next_if(|(at, _)| u128::from(*at) <= passed) {
                let (since, known) = behind.unwrap_or((Instant::now(), *urgency));
                behind = Some((since, known.max(*urgency)));
                changed_at = Some(Instant::now());
            }
        }
        written
    }

    /// Pseudo-random numbers, the same in each run.
    fn numbers(seed: u64) -> impl Iterator<Item = u64> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        std::iter::repeat_with(move || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            state >> 33
        })
    }

    /// Changes after random pauses of less than `pause_max` milliseconds, for so many seconds.
    fn changes(seed: u64, pause_max: u64, secs: u64, urgency: Urgency) -> Vec<(u64, Urgency)> {
        let pauses = numbers(seed).map(|number| 1 + number % pause_max);
        let times = pauses.scan(0, |at, pause| {
            *at += pause;
            Some(*at)
        });
        let times = times.take_while(|at| *at < secs * 1000);
        times.map(|at| (at, urgency)).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn v03_a_start_of_half_a_minute_costs_two_writes_and_each_is_a_second_late() {
        for seed in 0..100 {
            for pause_max in [10, 1_000, 4_900] {
                let written = writes(&changes(seed, pause_max, 25, Urgency::Progress)).await;
                let (quick, rest) = written.split_at(written.len().min(2));
                let late = quick.iter().map(|(_, late, _)| *late).max();
                assert!(late <= Some(PROMPT), "{seed} {pause_max}: {written:?}");
                // What happened after the second write is written at rest.
                assert!(rest.len() <= 1, "{seed} {pause_max}: {written:?}");
                let last = written.last().expect("something changed");
                assert!(last.0 < Duration::from_secs(25) + QUIET, "{written:?}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn v03_trouble_is_never_more_than_a_second_late() {
        for seed in 0..100 {
            let mut all = changes(seed, 900, 40, Urgency::Progress);
            let trouble = changes(seed + 1_000, 11_000, 40, Urgency::Trouble);
            let trouble = &trouble[..trouble.len().min(8)];
            all.extend(trouble);
            all.sort();
            let written = writes(&all).await;
            for (at, _) in trouble {
                let at = Duration::from_millis(*at);
                let next = written.iter().find(|(when, ..)| *when >= at);
                let next = next.expect("it is written").0;
                assert!(next - at <= PROMPT, "{seed}: {at:?} in {written:?}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn v03_any_size_costs_the_same_number_of_writes() {
        let thousand: Vec<_> = (0..1_000).map(|n| (n * 100, Urgency::Progress)).collect();
        let written = writes(&thousand).await;
        assert!(written.len() <= 6, "{written:?}");
        let last = written.last().expect("something changed").0;
        assert!(last <= Duration::from_secs(100) + QUIET, "{written:?}");
        let flapping = changes(7, 1_500, 600, Urgency::Trouble);
        let written = writes(&flapping).await;
        assert!(written.len() <= 40, "{}: {written:?}", written.len());
    }

    #[tokio::test(start_paused = true)]
    async fn v03_after_a_minute_of_rest_a_change_is_prompt_again() {
        let changes = [0, 3, 6, 9, 100, 103].map(|second| (second * 1_000, Urgency::Progress));
        let written = writes(&changes).await;
        let late: Vec<_> = written.iter().map(|(_, late, _)| late.as_secs()).collect();
        assert_eq!(late, [1, 1, 8, 1, 1], "{written:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn v01_an_edit_is_written_when_the_client_has_stopped_editing() {
        let mut pace = Pace::default();
        let secs = Duration::from_secs;
        assert_eq!(pace.wait(Urgency::Edit, Some(2), None), secs(5));
        tokio::time::advance(secs(4)).await;
        assert_eq!(pace.wait(Urgency::Edit, Some(2), None), secs(1));
        assert_eq!(pace.wait(Urgency::Edit, Some(3), None), secs(5));
        assert_eq!(pace.wait(Urgency::Progress, Some(3), None), secs(1));
        tokio::time::advance(secs(1)).await;
        assert_eq!(pace.wait(Urgency::Progress, Some(3), None), Duration::ZERO);
        assert_eq!(pace.wait(Urgency::Now, Some(3), None), Duration::ZERO);
    }
}
