//! `compare`: muster beside Kubeflow's operator and beside the floor, on a real API server with a kubelet
//! that is the same for all. Decides what is measured how often and in which order, so that a machine
//! that becomes slower hurts all sides alike. Must not know how anything is measured, nor who is better.
//!
//! Whoever interrupts this needs no help from it: the kernel ends the operator with this program, and
//! `cargo xtask bench` ends the cluster.

mod crowd;
mod floor;
mod ledger;
mod life;
mod loss;
mod operators;
mod restart;
mod rig;
mod sightings;
mod standing;
mod takeover;

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::{page, results};
use crowd::Crowd;
use floor::Template;
use operators::Side;
use rig::Rig;
use standing::Foreign;

/// Memory is what counts beside others, and it is there at once.
const BESIDE_OTHERS: Duration = Duration::from_secs(10);
/// Pins the other operator.
const PEER_MODULE: &str = include_str!("../../e2e/peer/go.mod");

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// All sizes, five blocks: hours instead of minutes
    #[arg(long)]
    full: bool,
    /// Measure only what these need: `--only B6 --only B17`
    #[arg(long)]
    only: Vec<String>,
}

/// One kind of measurement. Each has a file of results of its own, so that what takes hours can be measured
/// part by part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Experiment {
    Life,
    Burst,
    Crowd,
    Standing,
    Restart,
    Loss,
    Takeover,
}

impl Experiment {
    /// Whose file of results this is, below `results/`.
    pub(crate) fn file(self, extent: &str) -> String {
        let name = match self {
            Self::Life => "life",
            Self::Burst => "burst",
            Self::Crowd => "crowd",
            Self::Standing => "standing",
            Self::Restart => "restart",
            Self::Loss => "loss",
            Self::Takeover => "takeover",
        };
        format!("comparison-{extent}-{name}")
    }
}

/// The metrics that come from each.
pub(crate) const METRICS: [(Experiment, &[&str]); 7] = [
    (
        Experiment::Life,
        &["B1", "B3", "B5", "B6", "B7", "B8", "B10", "B21"],
    ),
    (Experiment::Burst, &["B9"]),
    (Experiment::Crowd, &["B11"]),
    (Experiment::Standing, &["B13", "B14", "B17"]),
    (Experiment::Restart, &["B14", "B16"]),
    (Experiment::Loss, &["B24"]),
    (Experiment::Takeover, &["takeover"]),
];

/// How much is measured.
struct Extent {
    name: &'static str,
    blocks: usize,
    /// Workers of a job.
    sizes: &'static [usize],
    /// The same, of jobs that lose one.
    losing: &'static [usize],
    burst: Crowd,
    crowd: Crowd,
    restart: Crowd,
    foreign: Foreign,
    stand: Duration,
    /// Of everything but lives; without any, each side has one sample.
    other_blocks: usize,
}

const QUICK: Extent = Extent {
    name: "quick",
    blocks: 2,
    sizes: &[2, 64],
    losing: &[2, 64],
    burst: Crowd {
        jobs: 30,
        workers: 2,
        to_the_end: false,
    },
    crowd: Crowd {
        jobs: 20,
        workers: 10,
        to_the_end: true,
    },
    restart: Crowd {
        jobs: 30,
        workers: 4,
        to_the_end: false,
    },
    foreign: Foreign {
        pods: 1000,
        maps: 200,
    },
    stand: Duration::from_secs(60),
    other_blocks: 0,
};

const FULL: Extent = Extent {
    name: "full",
    blocks: 5,
    sizes: &[1, 2, 8, 64, 256, 1000],
    losing: &[2, 64, 1000],
    burst: Crowd {
        jobs: 100,
        workers: 2,
        to_the_end: false,
    },
    crowd: Crowd {
        jobs: 100,
        workers: 20,
        to_the_end: true,
    },
    restart: Crowd {
        jobs: 1000,
        workers: 10,
        to_the_end: false,
    },
    foreign: Foreign {
        pods: 5000,
        maps: 1000,
    },
    stand: Duration::from_secs(300),
    other_blocks: 3,
};

/// Measures, keeps the numbers and writes the page.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let wanted = wanted(&arguments.only)?;
    let extent = if arguments.full { FULL } else { QUICK };
    let rig = Rig::new()?;
    for experiment in wanted {
        let mut run = Run {
            rig: &rig,
            extent: &extent,
            begun: Instant::now(),
            result: json!({
                "date": results::today(),
                "machine": results::machine(),
                "extent": extent.name,
                "versions": versions(&rig)?,
            }),
        };
        run.experiment(experiment)?;
        let mut result = run.result;
        result["loadAtTheEnd"] = results::machine()["load"].take();
        result["secs"] = run.begun.elapsed().as_secs().into();
        println!("{}", page::summary(&result));
        // Whoever has no time for the next keeps this one.
        results::write(&experiment.file(extent.name), &result)?;
        page::write()?;
    }
    Ok(())
}

/// The experiments that these metrics come from; all without any.
fn wanted(metrics: &[String]) -> Result<Vec<Experiment>> {
    let known = |metric: &String| {
        METRICS
            .iter()
            .any(|(_, ids)| ids.contains(&metric.as_str()))
    };
    if let Some(unknown) = metrics.iter().find(|metric| !known(metric)) {
        let all: Vec<&str> = METRICS
            .iter()
            .flat_map(|(_, ids)| ids.iter().copied())
            .collect();
        anyhow::bail!("{unknown} is not measured; there are {}", all.join(", "));
    }
    let is_wanted = |ids: &[&str]| {
        metrics.is_empty() || metrics.iter().any(|metric| ids.contains(&metric.as_str()))
    };
    let experiments = METRICS.iter().filter(|(_, ids)| is_wanted(ids));
    Ok(experiments.map(|(experiment, _)| *experiment).collect())
}

/// What was compared.
fn versions(rig: &Rig) -> Result<Value> {
    let commit = Command::new("git")
        .args(["describe", "--always", "--dirty"])
        .current_dir(e2e::operator::repository())
        .output()?;
    let bytes = |side: Side| anyhow::Ok(side.program(rig).metadata()?.len());
    Ok(json!({
        "muster": String::from_utf8_lossy(&commit.stdout).trim(),
        "musterBytes": bytes(Side::Muster)?,
        "peer": peer_version()?,
        "peerBytes": bytes(Side::P1)?,
        "kubernetes": rig.kubernetes_version()?,
    }))
}

fn peer_version() -> Result<&'static str> {
    let mut lines = PEER_MODULE.lines();
    let version = lines.find_map(|line| {
        let line = line.trim().trim_start_matches("require ");
        line.strip_prefix("github.com/kubeflow/mpi-operator ")
    });
    let version = version.context("e2e/peer does not pin the operator")?;
    Ok(version.split(' ').next().unwrap_or(version))
}

/// A run, and what it found so far.
struct Run<'a> {
    rig: &'a Rig,
    extent: &'a Extent,
    begun: Instant,
    result: Value,
}

impl Run<'_> {
    fn experiment(&mut self, experiment: Experiment) -> Result<()> {
        match experiment {
            Experiment::Life => self.lives(),
            Experiment::Burst => {
                let (burst, pods) = (self.extent.burst, self.extent.burst.pods());
                self.sides("bursts", true, |rig, side| crowd::sample(rig, side, burst))?;
                let template = Template::take(self.rig)?;
                for block in 0..self.extent.other_blocks.max(1) {
                    self.keep("floors", block, |rig| floor::sample(rig, &template, pods))?;
                }
                Ok(())
            }
            Experiment::Crowd => {
                let crowd = self.extent.crowd;
                // At the flags of its manifest, one sample takes minutes.
                let with_p0 = self.extent.other_blocks > 0;
                self.sides("crowds", with_p0, |rig, side| {
                    crowd::sample(rig, side, crowd)
                })
            }
            Experiment::Standing => self.standing(),
            Experiment::Restart => {
                let crowd = self.extent.restart;
                self.sides("restarts", true, |rig, side| {
                    restart::sample(rig, side, crowd)
                })
            }
            Experiment::Loss => self.losses(),
            Experiment::Takeover => self.keep("takeovers", 0, takeover::sample),
        }
    }

    /// Size by size; each block has all sides, so that they meet the same machine.
    fn lives(&mut self) -> Result<()> {
        let template = Template::take(self.rig)?;
        for workers in self.extent.sizes {
            for block in 0..self.extent.blocks {
                // The launcher's pod is one more.
                self.keep("floors", block, |rig| {
                    floor::sample(rig, &template, workers + 1)
                })?;
                for side in order(block) {
                    self.keep("lives", block, |rig| life::sample(rig, side, *workers))?;
                }
            }
        }
        for workers in self.extent.sizes {
            self.keep("lives", 0, |rig| life::sample(rig, Side::P0, *workers))?;
        }
        Ok(())
    }

    /// Of small and of large jobs, for each way to lose a worker. P0 is left out: nobody waits for its limits
    /// where only a few requests are sent.
    fn losses(&mut self) -> Result<()> {
        let template = Template::take(self.rig)?;
        for workers in self.extent.losing {
            for kind in loss::Kind::ALL {
                for block in 0..self.extent.other_blocks.max(1) {
                    self.keep("losses", block, |rig| {
                        loss::recreate(rig, &template, *workers, kind)
                    })?;
                    for side in [Side::P1, Side::Muster] {
                        self.keep("losses", block, |rig| {
                            loss::sample(rig, side, *workers, kind)
                        })?;
                    }
                }
            }
        }
        Ok(())
    }

    /// The same for both sides in turn, and once for the flags of the manifest.
    fn sides(
        &mut self,
        name: &str,
        with_p0: bool,
        sample: impl Fn(&Rig, Side) -> Result<Value>,
    ) -> Result<()> {
        if self.extent.other_blocks == 0 {
            for side in [Side::P1, Side::Muster] {
                self.keep(name, 0, |rig| sample(rig, side))?;
            }
        }
        for block in 0..self.extent.other_blocks {
            for side in order(block) {
                self.keep(name, block, |rig| sample(rig, side))?;
            }
        }
        match with_p0 {
            true => self.keep(name, 0, |rig| sample(rig, Side::P0)),
            false => Ok(()),
        }
    }

    /// Alone first, then beside what others have. P0 is left out: its flags limit work, and there is none.
    fn standing(&mut self) -> Result<()> {
        let stand = self.extent.stand;
        self.sides("standing", false, |rig, side| {
            standing::sample(rig, side, 0, stand)
        })?;
        let foreign = self.extent.foreign;
        let tenant = foreign.make(self.rig)?;
        self.sides("standing", false, |rig, side| {
            standing::sample(rig, side, foreign.objects(), BESIDE_OTHERS)
        })?;
        tenant.close()
    }

    /// Takes a sample, says it and adds it to a list of the result.
    fn keep(
        &mut self,
        list: &str,
        block: usize,
        sample: impl FnOnce(&Rig) -> Result<Value>,
    ) -> Result<()> {
        let begun = Instant::now();
        let mut taken = sample(self.rig).with_context(|| format!("{list}, block {block}"))?;
        let (elapsed, took) = (self.begun.elapsed().as_secs(), begun.elapsed());
        println!(
            "{elapsed:>5} s  {list} (took {:.0} s) {taken}",
            took.as_secs_f64()
        );
        taken["block"] = block.into();
        let samples = &mut self.result[list];
        if samples.is_null() {
            *samples = json!([]);
        }
        let samples = samples.as_array_mut();
        samples.expect("it was just made").push(taken);
        Ok(())
    }
}

/// Of four samples the two sides have two each, with the same middle: what changes steadily cancels out.
fn order(block: usize) -> [Side; 4] {
    let (a, b) = match block % 2 {
        0 => (Side::P1, Side::Muster),
        _ => (Side::Muster, Side::P1),
    };
    [a, b, b, a]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_names_its_experiment_and_an_unknown_one_is_refused() {
        let of = |ids: &[&str]| wanted(&ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>());
        assert_eq!(of(&["B17"]).unwrap(), [Experiment::Standing]);
        assert_eq!(of(&["B6", "B7"]).unwrap(), [Experiment::Life]);
        assert_eq!(of(&[]).unwrap().len(), METRICS.len());
        assert!(of(&["B99"]).unwrap_err().to_string().contains("B6"));
    }

    #[test]
    fn both_sides_are_in_the_middle_and_at_the_ends() {
        for block in 0..2 {
            let order = order(block);
            assert_eq!((order[0], order[1]), (order[3], order[2]));
            assert_ne!(order[0], order[1]);
        }
        assert_ne!(order(0), order(1));
    }

    #[test]
    fn the_other_operator_has_a_version() {
        assert!(peer_version().unwrap().starts_with('v'));
    }
}
