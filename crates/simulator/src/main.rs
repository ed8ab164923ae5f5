//! The command of the simulator; `cargo xtask weather` calls it. Decides what is printed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use clap::{Parser, Subcommand};
use simulator::fault::{Fault, FaultKind};
use simulator::schedule::Schedule;
use simulator::shrink::shrink;
use simulator::{LAWS, Run, exhaustive, script, weather};

/// Nearly all that the simulator does is to make and drop small values.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Runs the operator through bad weather.
#[derive(Parser)]
#[command(name = "cargo xtask weather")]
struct Args {
    #[command(subcommand)]
    command: Command,
    /// Threads; one for each processor if it is not given
    #[arg(long, global = true)]
    threads: Option<usize>,
}

#[derive(Subcommand)]
enum Command {
    /// Run the schedules of many seeds
    Run {
        /// How many
        #[arg(long, default_value_t = 1000)]
        schedules: u64,
        /// The first seed
        #[arg(long, default_value_t = 0)]
        from: u64,
        /// Stop after so many failures
        #[arg(long, default_value_t = 1)]
        failures: usize,
    },
    /// Run the schedules of many seeds twice, and compare what happened
    Twice {
        /// How many
        #[arg(long, default_value_t = 1000)]
        schedules: u64,
        /// The first seed
        #[arg(long, default_value_t = 0)]
        from: u64,
    },
    /// Try every fault of the operator and its connection at every write of scenarios
    Exhaustive {
        /// Files, as in tests/scenarios
        #[arg(required = true)]
        scenarios: Vec<PathBuf>,
        /// Two faults at a time, of F1 to F6
        #[arg(long)]
        pairs: bool,
        /// So many operators that lead at once, whatever the scenario says
        #[arg(long)]
        operators: Option<usize>,
    },
    /// Run scenarios as they are
    Scenarios {
        /// Files, as in tests/scenarios
        #[arg(required = true)]
        scenarios: Vec<PathBuf>,
    },
    /// Show what happens with one seed, or in a scenario
    Explain {
        /// The seed
        #[arg(default_value_t = 0)]
        seed: u64,
        /// A file as in tests/scenarios, instead of a seed
        #[arg(long)]
        scenario: Option<PathBuf>,
        /// Only these faults, as REPLICA:WRITE:FAULT, separated by commas; empty for none
        #[arg(long)]
        faults: Option<String>,
        /// Only these actions of the user, by their index
        #[arg(long)]
        actions: Option<String>,
    },
    /// List the laws
    Laws,
}

fn main() -> ExitCode {
    let Args { command, threads } = Args::parse();
    let processors = || std::thread::available_parallelism().map_or(1, usize::from);
    let threads = threads.unwrap_or_else(processors);
    let held = match command {
        Command::Run {
            schedules,
            from,
            failures,
        } => Ok(run(from, schedules, threads, failures)),
        Command::Twice { schedules, from } => Ok(twice(from, schedules, threads)),
        Command::Exhaustive {
            scenarios,
            pairs,
            operators,
        } => exhaustive(&scenarios, pairs, operators, threads),
        Command::Scenarios { scenarios } => self::scenarios(&scenarios),
        Command::Explain {
            seed,
            scenario,
            faults,
            actions,
        } => explain(
            seed,
            scenario.as_deref(),
            faults.as_deref(),
            actions.as_deref(),
        ),
        Command::Laws => {
            for (name, sentence) in LAWS {
                println!("{name:<26}{sentence}");
            }
            Ok(true)
        }
    };
    match held {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Calls `each` with every number below `count` until it returns false. Returns how many were done.
fn in_threads(count: usize, threads: usize, each: impl Fn(usize) -> bool + Sync) -> usize {
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= count || !each(index) {
                        return;
                    }
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    done.into_inner()
}

fn run(from: u64, schedules: u64, threads: usize, failures: usize) -> bool {
    let start = Instant::now();
    let broken: Mutex<Vec<u64>> = Mutex::default();
    let struck: Mutex<BTreeMap<FaultKind, u64>> = Mutex::default();
    let count = usize::try_from(schedules).unwrap_or(usize::MAX);
    let ran = in_threads(count, threads, |index| {
        if locked(&broken).len() >= failures {
            return false;
        }
        let seed = from + index as u64;
        let Run {
            violation,
            struck: of_run,
            ..
        } = weather(&Schedule::of_seed(seed), false);
        let mut counts = locked(&struck);
        for fault in of_run {
            *counts.entry(fault.kind).or_default() += 1;
        }
        drop(counts);
        if let Some(violation) = violation {
            println!("broken {violation} (seed {seed})");
            locked(&broken).push(seed);
        }
        true
    });
    let secs = start.elapsed().as_secs_f64();
    let struck = locked(&struck);
    for kind in FaultKind::ALL {
        let count = struck.get(kind).copied().unwrap_or_default();
        println!("{:<18}{count:>10}", kind.as_str());
    }
    let broken = locked(&broken);
    for seed in broken.iter() {
        let small = shrink(&Schedule::of_seed(*seed));
        println!("cargo xtask weather explain {seed} {}", overrides(&small));
    }
    let (faults, rate) = (struck.values().sum::<u64>(), ran as f64 / secs);
    println!(
        "{ran} schedules from seed {from}, {faults} faults, {secs:.1} s, {rate:.0} per second, {} broke a law",
        broken.len()
    );
    broken.is_empty()
}

fn twice(from: u64, schedules: u64, threads: usize) -> bool {
    let differ: Mutex<Vec<u64>> = Mutex::default();
    let count = usize::try_from(schedules).unwrap_or(usize::MAX);
    let ran = in_threads(count, threads, |index| {
        let seed = from + index as u64;
        let schedule = Schedule::of_seed(seed);
        let hash = || simulator::run(&schedule, false).hash;
        if hash() != hash() {
            println!("seed {seed} has two traces");
            locked(&differ).push(seed);
        }
        true
    });
    let differ = locked(&differ).len();
    println!("{ran} schedules from seed {from} ran twice, {differ} of them differently");
    differ == 0
}

/// The options that turn the schedule of a seed into a smaller one.
fn overrides(small: &Schedule) -> String {
    let faults: Vec<String> = small.faults.iter().map(Fault::to_string).collect();
    let whole = Schedule::of_seed(small.seed).script;
    let kept = whole
        .iter()
        .enumerate()
        .filter(|(_, action)| small.script.contains(action));
    let kept: Vec<String> = kept.map(|(index, _)| index.to_string()).collect();
    format!(
        "--faults '{}' --actions '{}'",
        faults.join(","),
        kept.join(",")
    )
}

fn exhaustive(
    scenarios: &[PathBuf],
    pairs: bool,
    operators: Option<usize>,
    threads: usize,
) -> anyhow::Result<bool> {
    let start = Instant::now();
    let kinds = match pairs {
        true => FaultKind::paired(),
        false => FaultKind::exhaustive(),
    };
    let mut all = Vec::new();
    for path in scenarios {
        let mut schedule = script::parse(&std::fs::read_to_string(path)?)?;
        schedule.replicas = operators.unwrap_or(schedule.replicas);
        let singles = exhaustive::singles(&schedule, &kinds).into_iter();
        all.extend(singles.map(|single| (path.display(), single)));
    }
    let (ran, broken) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let try_one = |path: &std::path::Display<'_>, schedule: &Schedule| {
        ran.fetch_add(1, Ordering::Relaxed);
        if let Some(violation) = weather(schedule, false).violation {
            broken.fetch_add(1, Ordering::Relaxed);
            let faults: Vec<String> = schedule.faults.iter().map(Fault::to_string).collect();
            println!("broken {violation} ({path} with {})", faults.join(","));
        }
    };
    in_threads(all.len(), threads, |index| {
        let (path, single) = &all[index];
        match pairs {
            false => try_one(path, single),
            true => {
                let seconds = exhaustive::seconds(single, &kinds);
                seconds.iter().for_each(|pair| try_one(path, pair));
            }
        }
        true
    });
    let (secs, ran, broken) = (
        start.elapsed().as_secs_f64(),
        ran.into_inner(),
        broken.into_inner(),
    );
    let what = if pairs { "pairs of faults" } else { "faults" };
    let (count, rate) = (scenarios.len(), ran as f64 / secs);
    println!(
        "{ran} {what} in {count} scenarios, {secs:.1} s, {rate:.0} per second, {broken} broke a law"
    );
    Ok(broken == 0)
}

fn scenarios(scenarios: &[PathBuf]) -> anyhow::Result<bool> {
    let mut held = true;
    for path in scenarios {
        let schedule = script::parse(&std::fs::read_to_string(path)?)?;
        if let Some(violation) = weather(&schedule, false).violation {
            let name = path.file_stem().unwrap_or_default().display();
            println!("broken {violation} (scenario {name})");
            held = false;
        }
    }
    Ok(held)
}

fn explain(
    seed: u64,
    scenario: Option<&Path>,
    faults: Option<&str>,
    actions: Option<&str>,
) -> anyhow::Result<bool> {
    let mut schedule = match scenario {
        Some(path) => script::parse(&std::fs::read_to_string(path)?)?,
        None => Schedule::of_seed(seed),
    };
    if let Some(faults) = faults {
        let faults = faults.split(',').filter(|fault| !fault.is_empty());
        schedule.faults = faults.map(str::parse).collect::<anyhow::Result<_>>()?;
    }
    if let Some(actions) = actions {
        let kept: Vec<&str> = actions.split(',').collect();
        let mut index = 0;
        schedule.script.retain(|_| {
            index += 1;
            kept.contains(&(index - 1).to_string().as_str())
        });
    }
    println!("{schedule:#?}");
    let run = weather(&schedule, true);
    print!("{}", run.trace);
    println!("ended: {}", run.ending.0);
    println!("hash {:016x}", run.hash);
    if let Some(violation) = &run.violation {
        println!("broke {violation}");
    }
    Ok(run.violation.is_none())
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
