//! Scenarios as text, each with the transcript of what happened (`MUSTER_UPDATE_GOLDEN=1` writes those).
//! Must not know what is expected. `cargo xtask weather exhaustive` tries every fault at every write of each,
//! with a simulator that is optimised; the test here, the worst faults at every write of one job.

use std::path::PathBuf;

use simulator::fault::FaultKind;
use simulator::schedule::Schedule;
use simulator::script::parse;
use simulator::{exhaustive, run, weather};

fn scripts() -> Vec<(PathBuf, Schedule)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let entries = std::fs::read_dir(folder).expect("there are scenarios");
    let paths = entries.map(|entry| entry.expect("the folder can be read").path());
    let mut paths: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|end| end == "txt"))
        .collect();
    paths.sort();
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).expect("the scenario can be read");
        let schedule = parse(&text).unwrap_or_else(|error| panic!("{}: {error:#}", path.display()));
        (path, schedule)
    };
    paths.into_iter().map(read).collect()
}

/// Who did what, without times: those change with every change of the simulator.
fn transcript(trace: &str, ending: &str) -> String {
    let told = trace.lines().filter(|line| !line.contains("  pass over "));
    let told = told.map(|line| line.get(11..).unwrap_or(line).trim_end());
    let mut text: Vec<&str> = told.collect();
    let ending = format!("ended: {ending}\n");
    text.push(&ending);
    text.join("\n")
}

#[test]
fn every_scenario_has_its_transcript() {
    let update = std::env::var("MUSTER_UPDATE_GOLDEN").is_ok();
    for (path, schedule) in scripts() {
        let run = weather(&schedule, true);
        assert_eq!(run.violation, None, "{}\n{}", path.display(), run.trace);
        let (golden, transcript) = (
            path.with_extension("out"),
            transcript(&run.trace, &run.ending.0),
        );
        if update {
            std::fs::write(&golden, &transcript).expect("the transcript can be written");
        }
        let expected = std::fs::read_to_string(&golden).unwrap_or_default();
        assert_eq!(transcript, expected, "{}", path.display());
    }
}

/// It dies before or after the write, or hears nothing of it.
const WORST: [FaultKind; 4] = [
    FaultKind::CrashBefore,
    FaultKind::CrashAfter,
    FaultKind::AnswerLost,
    FaultKind::Unanswered,
];

#[test]
fn no_crash_and_no_lost_answer_at_any_write_of_a_job_breaks_a_law() {
    let schedule = parse("job v2beta1-agent\nworkers 1\n").expect("it is a scenario");
    let all = exhaustive::singles(&schedule, &WORST);
    assert!(all.len() > 40, "a job has more than ten writes");
    let undisturbed = run(&schedule, false).ending;
    let (first, second) = all.split_at(all.len() / 2);
    let check = |schedules: &[Schedule]| {
        for schedule in schedules {
            let run = run(schedule, true);
            let faults = &schedule.faults;
            assert_eq!(run.violation, None, "{faults:?}\n{}", run.trace);
            assert_eq!(run.ending, undisturbed, "{faults:?}\n{}", run.trace);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| check(first));
        scope.spawn(|| check(second));
    });
}
