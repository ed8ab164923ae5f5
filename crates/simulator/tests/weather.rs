//! A bounded run of the simulator, and that it is deterministic.

use simulator::schedule::{Fate, Schedule, UserAction};
use simulator::{run, weather};

/// A job that nobody disturbs.
fn undisturbed(job: &'static str) -> Schedule {
    Schedule {
        seed: 1,
        job,
        beside: None,
        workers: 2,
        replicas: 1,
        fate: Fate::Succeeds,
        script: vec![(0, UserAction::Submit)],
        faults: Vec::new(),
    }
}

#[test]
fn a_job_of_each_dialect_goes_from_submission_to_its_end() {
    for job in [
        "v2beta1-ssh",
        "v2beta1-agent",
        "v2beta1-waits",
        "v2beta1-deadline",
        "v2beta1-recovers",
        "v1",
        "t9k",
        "openmpi",
        "bdap",
    ] {
        let run = weather(&undisturbed(job), true);
        assert_eq!(run.violation, None, "{job}\n{}", run.trace);
        let outlives = job == "bdap";
        assert!(
            outlives || run.ending.0.contains("succeeded"),
            "{job}: {}\n{}",
            run.ending.0,
            run.trace
        );
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 0..5 {
        let schedule = Schedule::of_seed(seed);
        let (one, two) = (run(&schedule, false), run(&schedule, false));
        assert_eq!(one.hash, two.hash, "seed {seed}");
    }
}

#[test]
fn other_seeds_give_other_runs() {
    let hash = |seed| run(&Schedule::of_seed(seed), false).hash;
    assert_ne!(hash(1), hash(2));
}

/// How many seeds; `cargo xtask weather` runs as many as one likes.
const SEEDS: u64 = 100;

#[test]
fn no_seed_breaks_a_law() {
    let half = |first: u64| {
        for seed in (first..SEEDS).step_by(2) {
            let run = weather(&Schedule::of_seed(seed), false);
            assert_eq!(run.violation, None, "cargo xtask weather explain {seed}");
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| half(0));
        scope.spawn(|| half(1));
    });
}
