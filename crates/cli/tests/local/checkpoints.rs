//! LAMMPS, as `examples/local/melt.yaml` has it: its processes are killed at random moments, and the result is
//! the one of a run that nobody disturbed, to the last digit. `MUSTER_KILLS=10 MUSTER_RUNS=10` kills more often
//! and repeats all of it, which takes longer than `make test` has time for.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::world::{World, until};

/// How often, in `make test`.
const KILLS: u32 = 3;
const RUNS: u32 = 1;
const RANKS: usize = 2;
/// The last step of the example.
const STEPS: u32 = 400;
/// So many steps take longer, on any machine, than the time that a kill may come later, and than this test may
/// be kept from looking when twenty other programs want the processors.
const LAST_STEPS: u32 = 200;
/// Processes are killed up to so much later than the step that was drawn, also while a checkpoint is written.
const LATER_MAX_MS: u32 = 50;

fn number_of(variable: &str, default: u32) -> u32 {
    std::env::var(variable).map_or(default, |text| {
        let number = text.parse();
        number.unwrap_or_else(|_| panic!("{variable}={text} is no number"))
    })
}

/// At random, from 0 to one less than this.
fn below(end: u32) -> u32 {
    getrandom::u32().unwrap() % end
}

/// The example, with a directory for its checkpoints that is this test's.
fn example(world: &World, restarts: u32) -> (String, PathBuf) {
    let work = world.directory.join("work");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/local/melt.yaml");
    let text = fs::read_to_string(file).unwrap();
    let directory = "/var/tmp/muster-melt";
    assert_eq!(text.matches(directory).count(), 2, "launcher and workers");
    assert!(text.contains("restarts: 10\n"));
    let text = text
        .replace(directory, work.to_str().unwrap())
        .replace("restarts: 10\n", &format!("restarts: {restarts}\n"));
    (world.file("melt.yaml", &text), work)
}

/// `muster run`, whose output is read while it runs.
struct Run {
    child: Child,
    /// The largest step that it has printed.
    step: Arc<Mutex<u32>>,
    readers: [JoinHandle<String>; 2],
}

impl Run {
    fn start(world: &World, file: &str) -> Self {
        let mut command = world.muster(&["run", file]);
        let mut child = command.stdin(Stdio::null()).spawn().unwrap();
        let step = Arc::new(Mutex::new(0));
        let (stdout, mut stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let reached = step.clone();
        let stdout = std::thread::spawn(move || {
            let mut all = String::new();
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if let Some(step) = thermo_step(&line) {
                    let mut reached = reached.lock().unwrap();
                    *reached = step.max(*reached);
                }
                all += &line;
                all.push('\n');
            }
            all
        });
        let stderr = std::thread::spawn(move || {
            let mut all = String::new();
            stderr.read_to_string(&mut all).unwrap();
            all
        });
        Self {
            child,
            step,
            readers: [stdout, stderr],
        }
    }

    fn step(&self) -> u32 {
        *self.step.lock().unwrap()
    }

    fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// What it printed, when it has ended well.
    fn succeeded(mut self) -> String {
        until("the job ends", || self.has_ended());
        let status = self.child.wait().unwrap();
        let said = self.said();
        assert!(status.success(), "{said}");
        said
    }

    /// What it printed, after it has ended.
    fn said(self) -> String {
        let said = self.readers.into_iter().map(|one| one.join().unwrap());
        said.collect()
    }
}

/// The step of a line such as `     120    1.6429563   -4.7445687            0   -2.2807503    5.8895721 `.
fn thermo_step(line: &str) -> Option<u32> {
    let mut columns = line.split_whitespace();
    let step = columns.next()?.parse().ok()?;
    let others: Vec<&str> = columns.collect();
    let are_numbers = others.iter().all(|column| column.parse::<f64>().is_ok());
    (others.len() == 5 && are_numbers).then_some(step)
}

/// The processes of LAMMPS that run for an attempt of this world's job.
fn ranks(world: &World, attempt: u32) -> Vec<Pid> {
    let attempt = format!("MUSTER_ATTEMPT={attempt}");
    let is_rank = |pid: &Pid| {
        let file = |name: &str| {
            let path = format!("/proc/{}/{name}", pid.as_raw_nonzero());
            fs::read(path).unwrap_or_default()
        };
        let mut variables = file("environ");
        variables.push(0);
        let variables = String::from_utf8_lossy(&variables).into_owned();
        file("comm") == b"lmp\n" && variables.split('\0').any(|one| one == attempt)
    };
    world.running().into_iter().filter(is_rank).collect()
}

/// Everything that the run leaves behind: positions and velocities of all atoms.
fn result(work: &Path) -> String {
    let result = fs::read_to_string(work.join("result.txt")).unwrap();
    assert!(result.lines().count() > 4000, "of 4000 atoms: {result}");
    fs::remove_dir_all(work).unwrap();
    result
}

/// The line of the last step: temperature, energies, pressure.
fn last_step(said: &str) -> &str {
    let of_last = |line: &&str| thermo_step(line) == Some(STEPS);
    said.lines().rfind(of_last).expect("the last step")
}

/// Kills one rank at each of so many random moments. Returns what was printed.
fn disturbed(world: &World, file: &str, kills: u32) -> String {
    let steps = (0..kills).map(|_| below(STEPS - LAST_STEPS));
    let mut steps: Vec<u32> = steps.collect();
    steps.sort_unstable();
    println!("killed after these steps: {steps:?}");
    let mut run = Run::start(world, file);
    for (attempt, step) in (1..).zip(steps) {
        let mut found = Vec::new();
        until("all ranks of the next attempt run", || {
            found = ranks(world, attempt);
            run.has_ended() || (found.len() == RANKS && run.step() >= step)
        });
        if run.has_ended() {
            panic!(
                "it ended before attempt {attempt} lost a rank: {}",
                run.said()
            );
        }
        let later = Duration::from_millis(below(LATER_MAX_MS).into());
        std::thread::sleep(later);
        let victim = found[below(2) as usize];
        kill_process(victim, Signal::KILL).expect("it runs still");
    }
    run.succeeded()
}

#[test]
fn a_simulation_whose_processes_are_killed_has_the_same_result() {
    let lammps = Command::new("lmp").arg("-help").output();
    lammps.expect("lmp must be installed: apt install lammps");
    let (kills, runs) = (
        number_of("MUSTER_KILLS", KILLS),
        number_of("MUSTER_RUNS", RUNS),
    );
    let world = World::new("checkpoints");
    let (file, work) = example(&world, kills);
    let undisturbed = Run::start(&world, &file).succeeded();
    let right = result(&work);
    for _ in 0..runs {
        let said = disturbed(&world, &file, kills);
        let verdict = format!("attempt {} succeeded", kills + 1);
        assert!(said.contains(&verdict), "{said}");
        assert_eq!(last_step(&said), last_step(&undisturbed));
        assert!(result(&work) == right, "atoms are elsewhere: {said}");
        assert!(world.processes().is_empty(), "{:?}", world.processes());
        println!("{}", said.lines().last().unwrap_or_default());
    }
}
