//! How long each part of a job's life took, told from the times that its pods carry, so that an operator that was
//! restarted meanwhile tells the same. For monitoring: no decision depends on it.

use jiff::{SignedDuration, Timestamp};

use crate::observed::{Observed, Pod};

/// A part of a job's life. Each begins where the one before it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LifePart {
    /// Until its first pod is made: in a queue, or suspended.
    Queue,
    /// Until the last worker has a node.
    Schedule,
    /// Until the containers of the last worker run: images, volumes, init containers.
    Start,
    /// Until the launcher's own container runs: it waits for all workers to answer.
    Gate,
    /// Until the job ends.
    Run,
}

impl LifePart {
    /// All of them, in their order.
    pub const ALL: [Self; 5] = [
        Self::Queue,
        Self::Schedule,
        Self::Start,
        Self::Gate,
        Self::Run,
    ];

    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Schedule => "schedule",
            Self::Start => "start",
            Self::Gate => "gate",
            Self::Run => "run",
        }
    }
}

/// The parts of the life of a job that was made and ended at these times, as far as it got. Of a job that was
/// suspended, only its last run counts; all before it is the queue.
pub fn parts_of_life(
    observed: &Observed,
    created_at: Timestamp,
    ended_at: Timestamp,
) -> Vec<(LifePart, SignedDuration)> {
    let launchers = &observed.launcher_pods;
    let launched = launchers.iter().filter_map(|pod| pod.start.begun_at).min();
    // A worker that was replaced while the program ran has delayed no start.
    let at_launch = |pod: &&Pod| launched.is_none_or(|launched| pod.created_at <= launched);
    let mut placed: Vec<&Pod> = observed.workers.iter().filter(at_launch).collect();
    if placed.is_empty() {
        placed = launchers.iter().collect();
    }
    // A container that was started again has its last start.
    let before_launch = |at: Timestamp| launched.map_or(at, |launched| at.min(launched));
    let made = observed.workers.iter().chain(launchers);
    let ends = [
        made.map(|pod| pod.created_at).min(),
        last(&placed, |pod| pod.start.scheduled_at.or(pod.start.begun_at)).map(before_launch),
        last(&placed, |pod| pod.start.begun_at).map(before_launch),
        launched,
        Some(ended_at),
    ];
    let mut begin = created_at;
    let known = LifePart::ALL.into_iter().zip(ends);
    let known = known.map_while(|(part, end)| {
        // Clocks of nodes differ.
        let end = end?.max(begin);
        let length = end.duration_since(begin);
        begin = end;
        Some((part, length))
    });
    known.collect()
}

/// When it was true of the last pod; nothing if there is one of which it is not.
fn last(pods: &[&Pod], at: impl Fn(&Pod) -> Option<Timestamp>) -> Option<Timestamp> {
    let times: Option<Vec<Timestamp>> = pods.iter().map(|pod| at(pod)).collect();
    times?.into_iter().max()
}
