//! Which workers made the start of a job slow. A worker is late if from its creation until it was Ready it took
//! at least half as long again as the median worker, and at least [`NOTABLE_SECS`] longer. What made it late is
//! the phase in which it lost most time to the median.

use contract::milestone::{LATE_WORKERS_MAX, StartPhase};
use jiff::Timestamp;

use super::Evidence;
use crate::history::LateWorker;
use crate::observed::Pod;
use crate::plan::situation::Situation;
use crate::text::{printable, truncated};

/// Times of pods have whole seconds, and a worker that is later by less explains no slow start.
const NOTABLE_SECS: u32 = 5;
/// Longest name that Kubernetes gives to a node.
const NODE_BYTES_MAX: usize = 253;

/// The late workers, the latest first; none where too little is known to compare them.
pub(super) fn of(situation: &Situation<'_>, evidence: &Evidence<'_>) -> Option<Vec<LateWorker>> {
    let placed = &evidence.placed;
    if placed.len() < 2 || situation.wanted < 2 {
        return None;
    }
    let ended = situation.outcome.as_ref().map(|outcome| outcome.at);
    let until = ended.unwrap_or(evidence.now).min(evidence.now);
    let spent: Vec<[u32; 4]> = placed.iter().map(|pod| seconds(pod, until)).collect();
    let total = |spent: &[u32; 4]| {
        spent
            .iter()
            .fold(0_u32, |sum, part| sum.saturating_add(*part))
    };
    let median_total = median(spent.iter().map(total));
    let notable = NOTABLE_SECS.max(median_total / 2);
    let mut late: Vec<usize> = (0..placed.len())
        .filter(|index| total(&spent[*index]) - total(&spent[*index]).min(median_total) >= notable)
        .collect();
    late.sort_by_key(|index| {
        (
            std::cmp::Reverse(total(&spent[*index])),
            placed[*index].replica_index,
        )
    });
    late.truncate(LATE_WORKERS_MAX);
    if late.is_empty() {
        return Some(Vec::new());
    }
    let phases = StartPhase::ALL;
    let medians = phases.map(|phase| median(spent.iter().map(|spent| spent[phase as usize])));
    let late = late.into_iter().map(|index| {
        let spent = &spent[index];
        let lost = |phase: &StartPhase| {
            let index = *phase as usize;
            spent[index].saturating_sub(medians[index])
        };
        let mut worst = phases[0];
        for phase in phases {
            if lost(&phase) > lost(&worst) {
                worst = phase;
            }
        }
        let pod = placed[index];
        LateWorker {
            worker: pod.name.clone(),
            node: truncated(&printable(&pod.node), NODE_BYTES_MAX),
            phase: worst,
            seconds: spent[worst as usize],
        }
    });
    Some(late.collect())
}

/// Seconds in each phase. The status of a pod that has ended does not tell when it was Ready.
fn seconds(pod: &Pod, until: Timestamp) -> [u32; 4] {
    let until = match (pod.phase.is_over(), pod.start.begun_at, pod.finished_at) {
        (true, Some(at), _) | (true, None, Some(at)) => at.min(until),
        _ => until,
    };
    pod.start.seconds(pod.created_at, until)
}

/// The lower one, so that of two workers the faster is the measure.
fn median(values: impl Iterator<Item = u32>) -> u32 {
    let mut values: Vec<u32> = values.collect();
    let middle = values.len().saturating_sub(1) / 2;
    *values.select_nth_unstable(middle).1
}
