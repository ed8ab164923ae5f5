//! Builds beside the stages that do not need them yet. Decides their order and that they yield to the
//! tests; must not know how anything is built, nor which stage needs what.
//!
//! Each runs as a program of its own, `cargo xtask build NAME`: it can be ended with all that it
//! started, and its output goes to a file until somebody must see it.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::artifacts::Artifact;
use crate::cache;
use crate::interrupts::Interrupts;

/// What compiles, in the order in which stages need it; beside it, what mostly downloads.
const LANES: [&[Artifact]; 2] = [
    &[
        Artifact::Kubernetes,
        Artifact::Operator,
        Artifact::Agent,
        Artifact::Helm,
        Artifact::Queues,
        Artifact::Gangs,
    ],
    &[
        Artifact::Python,
        Artifact::PodGroups,
        Artifact::Flyte,
        Artifact::Images,
    ],
];
/// Added to the niceness of the tests, which go first.
const NICENESS: &str = "10";

/// Builds that run, will run or have run.
pub(super) struct Builds {
    shared: Arc<Shared>,
    lanes: Vec<JoinHandle<()>>,
}

struct Shared {
    interrupts: Interrupts,
    /// This program; the name may stand for another one later.
    program: PathBuf,
    stopped: AtomicBool,
    built: Mutex<BTreeMap<Artifact, Build>>,
    /// Something has changed in `built`.
    changed: Condvar,
}

/// One build and how far it is.
#[derive(Clone, Debug)]
pub(super) enum Build {
    Queued,
    Running(Instant),
    Done { took: Duration, cached: bool },
    Failed { took: Duration, why: String },
}

impl fmt::Display for Build {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |took: &Duration| format!("{:>9.1}", took.as_secs_f64());
        match self {
            Self::Queued | Self::Running(_) => f.write_str("not built"),
            Self::Done { cached: true, .. } => f.write_str("  from the cache"),
            Self::Done { took, .. } => f.write_str(&seconds(took)),
            Self::Failed { took, .. } => write!(f, "{} FAILED", seconds(took)),
        }
    }
}

impl Builds {
    pub(super) fn start(interrupts: Interrupts, wanted: &[Artifact]) -> Result<Self> {
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        let queued = wanted.iter().map(|artifact| (*artifact, Build::Queued));
        let shared = Arc::new(Shared {
            interrupts,
            program,
            stopped: AtomicBool::new(false),
            built: Mutex::new(queued.collect()),
            changed: Condvar::new(),
        });
        let lane = |lane: &[Artifact]| {
            let mut artifacts = lane.to_vec();
            artifacts.retain(|artifact| wanted.contains(artifact));
            let shared = shared.clone();
            thread::spawn(move || artifacts.into_iter().for_each(|one| shared.build(one)))
        };
        let lanes = LANES.map(lane).into();
        Ok(Self { shared, lanes })
    }

    /// Waits until all of them are built, and says so if that takes a while.
    pub(super) fn wait_for(&self, artifacts: &[Artifact]) -> Result<()> {
        let started = Instant::now();
        for artifact in artifacts {
            self.shared.wait_for(*artifact)?;
        }
        if started.elapsed() > Duration::from_secs(1) {
            println!("waited {:.0} s for builds", started.elapsed().as_secs_f64());
        }
        Ok(())
    }

    /// Ends what still runs, and tells what became of each.
    pub(super) fn stop(self) -> BTreeMap<Artifact, Build> {
        self.shared.stopped.store(true, Ordering::SeqCst);
        if self.lanes.iter().any(|lane| !lane.is_finished()) {
            self.shared.interrupts.end_running();
        }
        for lane in self.lanes {
            lane.join().expect("a lane never panics");
        }
        self.shared.built().clone()
    }
}

impl Shared {
    fn build(&self, artifact: Artifact) {
        let may_start = || !self.stopped.load(Ordering::SeqCst);
        let started = Instant::now();
        self.set(artifact, Build::Running(started));
        let result = match may_start() && self.interrupts.exit_code().is_none() {
            true => self.run(artifact),
            false => Err(anyhow::anyhow!("not started: the tests ended before")),
        };
        let took = started.elapsed();
        let build = match result {
            Ok(cached) => Build::Done { took, cached },
            Err(error) => Build::Failed {
                took,
                why: format!("{error:#}"),
            },
        };
        if let Build::Done { cached: false, .. } = build {
            println!(
                "-- {} built in {:.0} s",
                artifact.name(),
                took.as_secs_f64()
            );
        }
        self.set(artifact, build);
    }

    /// Whether everything was in the cache already: then the program writes nothing.
    fn run(&self, artifact: Artifact) -> Result<bool> {
        let log = log(artifact)?;
        let out = File::create(&log).with_context(|| format!("cannot make {}", log.display()))?;
        let mut command = Command::new("nice");
        command.args(["-n", NICENESS]).arg(&self.program);
        command.args(["build", &artifact.name()]);
        command.stdout(out.try_clone()?).stderr(out);
        let status = self.interrupts.run_shown(&mut command)?;
        let text = fs::read_to_string(&log).unwrap_or_default();
        ensure!(
            status.success(),
            "`cargo xtask build {}` failed: {status}:\n{text}",
            artifact.name()
        );
        Ok(text.is_empty())
    }

    fn wait_for(&self, artifact: Artifact) -> Result<()> {
        let mut built = self.built();
        let mut told = false;
        loop {
            match built.get(&artifact) {
                Some(Build::Done { .. }) => return Ok(()),
                Some(Build::Failed { why, .. }) => bail!("{why}"),
                None => bail!("{} is needed, but nobody asked for it", artifact.name()),
                Some(Build::Running(since)) if !told => {
                    let seconds = since.elapsed().as_secs();
                    println!("-- waiting for {}, begun {seconds} s ago", artifact.name());
                    told = true;
                }
                Some(_) => {}
            }
            built = self
                .changed
                .wait(built)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn set(&self, artifact: Artifact, build: Build) {
        self.built().insert(artifact, build);
        self.changed.notify_all();
    }

    fn built(&self) -> MutexGuard<'_, BTreeMap<Artifact, Build>> {
        // Each entry is replaced in one step, so a panic elsewhere cannot have left one halfway.
        self.built.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the build said; kept, so that it can be looked at while the tests run.
fn log(artifact: Artifact) -> Result<PathBuf> {
    let directory = cache::dir()?.join("log");
    fs::create_dir_all(&directory)
        .with_context(|| format!("cannot make {}", directory.display()))?;
    Ok(directory.join(format!("build-{}.log", artifact.name())))
}
