//! `local-program`: how long a real program takes under `muster run` and under mpirun alone. Decides what
//! is simulated and when a run counts: it exited with 0 and LAMMPS said how long its loop took.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::local_rig::{self, LocalRig};
use crate::{programs, results};

const RATIO_MAX: f64 = 1.25;
const WORKERS: usize = 2;
const RANKS: [usize; 2] = [2, 4];

/// A Lennard-Jones liquid: 32 000 atoms, which on one core take some seconds.
const INPUT: &str = "\
units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 20 0 20 0 20
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 3.0 87287
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
fix 1 all nve
thermo 100
run 300
";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Runs of each command; at least 5
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u16).range(5..))]
    runs: u16,
}

/// Prints, keeps and judges the numbers.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    programs::need(&[("mpirun", "openmpi-bin"), ("lmp", "lammps")])?;
    let rig = LocalRig::new()?;
    // Before our own load is part of it.
    let machine = results::machine();
    let mut rows = Vec::new();
    for ranks in RANKS {
        rows.push(Row::measure(&rig, ranks, arguments.runs)?);
    }
    for row in &rows {
        println!("{}", row.sentence());
    }
    let ranks: Vec<Value> = rows.iter().map(Row::json).collect();
    let result = json!({
        "date": results::today(), "machine": machine, "runs": arguments.runs, "ranks": ranks,
    });
    results::write("local-program", &result)?;
    let cells: String = rows.iter().map(Row::cell).collect();
    results::add_row("local-program", &results::row(&machine, &cells))?;
    let wanted: Vec<_> = rows
        .iter()
        .map(|row| ("times mpirun alone", row.ratio(), RATIO_MAX))
        .collect();
    results::judge(&wanted)
}

/// One number of ranks.
struct Row {
    ranks: usize,
    muster: Vec<f64>,
    mpirun: Vec<f64>,
}

impl Row {
    /// Both commands, in turns.
    fn measure(rig: &LocalRig, ranks: usize, runs: u16) -> Result<Self> {
        let input = rig.file("melt.in", INPUT)?;
        let input = input.to_str().context("the directory has a plain name")?;
        let words = format!("[mpirun, -np, '{ranks}', lmp, -log, none, -in, {input:?}]");
        let job = rig.job("melt.yaml", WORKERS, ranks / WORKERS, &words, "")?;
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        // The first of each warms the file cache and does not count.
        for run in 0..=runs {
            let mut muster = rig.command();
            let mut mpirun = local_rig::mpirun(ranks);
            mpirun.args(["lmp", "-log", "none", "-in", input]);
            let both = [
                rig.timed(muster.args(["-q", "run"]).arg(&job))?,
                rig.timed(&mut mpirun)?,
            ];
            for (_, said) in &both {
                let on_all = format!(" on {ranks} procs ");
                let line = said.lines().find(|line| line.starts_with("Loop time of "));
                let line = line.with_context(|| format!("the simulation did not end: {said}"))?;
                ensure!(line.contains(&on_all), "not on {ranks} ranks: {line}");
            }
            if run > 0 {
                ours.push(both[0].0);
                theirs.push(both[1].0);
            }
        }
        Ok(Self {
            ranks,
            muster: ours,
            mpirun: theirs,
        })
    }

    fn ratio(&self) -> f64 {
        results::median(&self.muster) / results::median(&self.mpirun)
    }

    fn cell(&self) -> String {
        let (muster, mpirun) = (results::median(&self.muster), results::median(&self.mpirun));
        format!("{muster:.0} / {mpirun:.0} = {:.2} | ", self.ratio())
    }

    fn sentence(&self) -> String {
        let (ranks, cell) = (self.ranks, self.cell());
        format!(
            "{ranks} ranks: muster run / mpirun, ms: {}",
            cell.trim_end_matches(" | ")
        )
    }

    fn json(&self) -> Value {
        json!({
            "ranks": self.ranks, "musterRunMs": self.muster, "mpirunMs": self.mpirun,
            "ratio": (self.ratio() * 100.0).round() / 100.0,
        })
    }
}
