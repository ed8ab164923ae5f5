//! How a pod started: when it got how far, and how long it spent in each phase. Only from times that the pod's
//! own status carries, which have whole seconds and come from clocks that differ.

use contract::milestone::StartPhase;
use jiff::{SignedDuration, Timestamp};

/// When a pod got how far; none where it has not, or where its status does not tell any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PodStart {
    /// It got its node.
    pub scheduled_at: Option<Timestamp>,
    /// Its volumes and its network were there.
    pub sandbox_at: Option<Timestamp>,
    /// Its first container began, which may be an init container.
    pub first_begun_at: Option<Timestamp>,
    /// Its init containers were done.
    pub initialized_at: Option<Timestamp>,
    /// The last of its containers began, init containers aside.
    pub begun_at: Option<Timestamp>,
    /// It became Ready, and still is.
    pub ready_at: Option<Timestamp>,
}

/// A stretch of a pod's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartSpan {
    /// What the pod did.
    pub phase: StartPhase,
    /// From when.
    pub from: Timestamp,
    /// Until when.
    pub to: Timestamp,
}

impl PodStart {
    /// What the pod that was created at this time did until it was Ready, at the latest until `until`. Spans of
    /// no length are left out. Where the time of a step is unknown and that of a later one is known, the step
    /// ended with the later one.
    pub fn spans(&self, created_at: Timestamp, until: Timestamp) -> Vec<StartSpan> {
        let steps = [
            (StartPhase::Scheduling, self.scheduled_at),
            (StartPhase::Starting, self.sandbox_at),
            (StartPhase::Pulling, self.first_begun_at),
            (StartPhase::Starting, self.initialized_at),
            (StartPhase::Pulling, self.begun_at),
            (StartPhase::Waiting, self.ready_at),
        ];
        let mut spans: Vec<StartSpan> = Vec::with_capacity(steps.len());
        let mut from = created_at;
        for (index, (phase, at)) in steps.iter().enumerate() {
            let later = || steps[index..].iter().filter_map(|(_, at)| *at).min();
            let end = at.or_else(later);
            // Clocks differ: no step ends before it began.
            let to = end.unwrap_or(until).min(until).max(from);
            let (phase, is_last) = (*phase, end.is_none());
            match spans.last_mut() {
                Some(last) if last.phase == phase => last.to = to,
                _ if to > from => spans.push(StartSpan { phase, from, to }),
                _ => {}
            }
            from = to;
            if is_last {
                break;
            }
        }
        spans
    }

    /// Seconds in each phase, in the order of [`StartPhase::ALL`].
    pub fn seconds(&self, created_at: Timestamp, until: Timestamp) -> [u32; 4] {
        let mut lengths = [SignedDuration::ZERO; 4];
        for span in self.spans(created_at, until) {
            let length = span.to.duration_since(span.from);
            let sum = &mut lengths[span.phase as usize];
            *sum = sum.saturating_add(length);
        }
        lengths.map(|length| u32::try_from(length.as_secs()).unwrap_or(u32::MAX))
    }
}
