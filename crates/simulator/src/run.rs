//! One run: a storm, then calm, then rest. Decides how long each lasts; one run has one thread.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use tokio::task::AbortHandle;

use crate::aftermath::Aftermath;
use crate::clock;
use crate::fault::Fault;
use crate::replica;
use crate::schedule::Schedule;
use crate::world::{Command, State, World};

/// The storm goes on for so long after the user's last action.
const STORM_MS: u64 = 60_000;
/// Nothing happens any more if no operator wrote for so long.
const REST_MS: u64 = 600_000;
/// An operator whose clock was ahead looks again when it believes that the time has come.
const REST_AFTER_WRONG_CLOCKS_MS: u64 = 1_300_000;
/// An operator that still writes after so much calm never stops.
const CALM_MAX_MS: u64 = 7_200_000;

/// What came of a schedule.
#[derive(Clone, Debug)]
pub struct Run {
    /// The first law that was broken, and how.
    pub violation: Option<String>,
    /// Equal for equal runs.
    pub hash: u64,
    /// How it ended.
    pub ending: Aftermath,
    /// Faults that struck.
    pub struck: Vec<Fault>,
    /// Writes of each replica during the storm.
    pub writes: Vec<u32>,
    /// What happened, if it was kept.
    pub trace: String,
}

/// Runs a schedule, and its undisturbed twin where both must end alike; and where the job is not over at the
/// end, the job as it is then, from the beginning.
pub fn weather(schedule: &Schedule, keep_trace: bool) -> Run {
    let mut run = run(schedule, keep_trace);
    if run.violation.is_none()
        && !schedule.faults.is_empty()
        && schedule.has_twin()
        && let Err(how) = ends_like(&run, &schedule.undisturbed())
    {
        run.violation = Some(format!("I20 transparency: {how}"));
    }
    if run.violation.is_none()
        && run.ending.is_open()
        && let Some(fresh) = schedule.without_history()
        && let Err(how) = ends_like(&run, &fresh)
    {
        run.violation = Some(format!("I21 history: {how}"));
    }
    run
}

/// Nearly all twins end alike whatever the seed, so one run is enough for many seeds. Only if a run ends
/// otherwise, its own twin tells whether that was to be expected.
fn ends_like(run: &Run, twin: &Schedule) -> Result<(), String> {
    static KNOWN: Mutex<BTreeMap<String, Aftermath>> = Mutex::new(BTreeMap::new());
    let usual = twin.usual();
    let name = format!("{usual:?}");
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let ending = known().get(&name).cloned();
    let ending = ending.unwrap_or_else(|| {
        let ending = self::run(&usual, false).ending;
        known().insert(name, ending.clone());
        ending
    });
    if run.ending == ending {
        return Ok(());
    }
    let twin = self::run(twin, false);
    match twin.ending == run.ending {
        true => Ok(()),
        false => Err(format!("{:?} instead of {:?}", run.ending.0, twin.ending.0)),
    }
}

/// Runs a schedule.
pub fn run(schedule: &Schedule, keep_trace: bool) -> Run {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime of one thread needs nothing");
    runtime.block_on(simulate(schedule, keep_trace))
}

async fn simulate(schedule: &Schedule, keep_trace: bool) -> Run {
    clock::begin();
    let world = World::new(schedule, keep_trace);
    let mut processes = BTreeMap::new();
    let last_action = schedule.script.last().map_or(0, |(at, _)| *at);
    let calm_at = last_action + STORM_MS;
    let wrong_clocks = schedule.faults.iter().any(|fault| fault.kind.is_of_clock());
    let rest_ms = match wrong_clocks {
        true => REST_AFTER_WRONG_CLOCKS_MS,
        false => REST_MS,
    };
    loop {
        let acted = world.lock().step();
        obey(&world, &mut processes);
        if is_over(&mut world.lock(), calm_at, rest_ms) {
            break;
        }
        match acted {
            // What was answered is taken in before the next thing happens.
            true => tokio::task::yield_now().await,
            false => world.wait().await,
        }
    }
    processes
        .into_values()
        .for_each(|process: AbortHandle| process.abort());
    let mut state = world.lock();
    let trace = std::mem::replace(&mut state.trace, crate::trace::Trace::new(false));
    Run {
        violation: state.violation.take(),
        hash: trace.hash(),
        ending: Aftermath::of(&state.cluster),
        struck: std::mem::take(&mut state.struck),
        writes: state.writes().to_vec(),
        trace: trace.into_lines(),
    }
}

/// Calms the weather down when it is time, and judges the end.
fn is_over(state: &mut State, calm_at: u64, rest_ms: u64) -> bool {
    let now = clock::millis();
    if !state.calm && now >= calm_at && state.script_over() {
        state.calm_down();
    }
    if state.calm && now > calm_at.max(state.written_at) + rest_ms {
        state.at_rest();
        return true;
    }
    if state.calm && now > calm_at + CALM_MAX_MS {
        state.break_law("I19 stillness", "an operator writes without end");
    }
    state.violation.is_some()
}

fn obey(world: &World, processes: &mut BTreeMap<usize, AbortHandle>) {
    let commands = std::mem::take(&mut world.lock().commands);
    for command in commands {
        match command {
            Command::Kill(replica) => {
                if let Some(process) = processes.remove(&replica) {
                    process.abort();
                }
            }
            Command::Start(replica, process) => {
                let machine = world.lock().machines[replica].clone();
                let started = replica::start(world, &machine, replica, process);
                processes.insert(replica, started);
            }
        }
    }
}
