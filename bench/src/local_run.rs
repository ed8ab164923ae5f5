//! `local-run`: what `muster run` costs on this machine beyond the mpirun that it runs, how long 64
//! workers take to start, and how large and how slow to say hello the program is. Decides what is
//! run and when a run counts: it exited with 0 and every rank said its host.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::local_rig::{self, LocalRig};
use crate::{programs, results};

const OVERHEAD_MS_MAX: f64 = 500.0;
const START_MS_MAX: f64 = 5000.0;
const HELP_MS_MAX: f64 = 20.0;
const MEGABYTES_MAX: f64 = 25.0;
const RANKS: usize = 4;
const WORKERS: usize = 64;
const STARTS: usize = 5;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Runs of each command; at least 7
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u16).range(7..))]
    runs: u16,
}

/// Prints, keeps and judges the numbers.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    programs::need(&[("mpirun", "openmpi-bin")])?;
    let bench = Bench {
        rig: LocalRig::new()?,
    };
    // Before our own load is part of it.
    let machine = results::machine();
    let (muster, mpirun) = bench.overhead(arguments.runs)?;
    let overhead = results::median(&muster) - results::median(&mpirun);
    let starts = bench.starts()?;
    let start = results::median(&starts);
    let helps = bench.helps(arguments.runs)?;
    let help = results::median(&helps);
    let bytes = fs::metadata(bench.rig.muster())?.len();
    let megabytes = results::rounded(bytes as f64 / 1e6);
    println!(
        "muster run {:.0} ms, mpirun {:.0} ms: {overhead:.0} ms more, medians of {}",
        results::median(&muster),
        results::median(&mpirun),
        arguments.runs
    );
    println!("{WORKERS} workers are ready after {start:.0} ms, median of {STARTS}");
    println!("muster --help {help:.1} ms, {megabytes} MB");
    let result = json!({
        "date": results::today(), "machine": machine, "runs": arguments.runs,
        "musterRunMs": muster, "mpirunMs": mpirun, "overheadMs": results::rounded(overhead),
        "workers": WORKERS, "workersReadyMs": starts, "helpMs": helps, "bytes": bytes,
    });
    results::write("local-run", &result)?;
    let cells = format!(
        "{:.0} − {:.0} = {overhead:.0} | {start:.0} | {help:.1} | {megabytes} |",
        results::median(&muster),
        results::median(&mpirun)
    );
    results::add_row("local-run", &results::row(&machine, &cells))?;
    let wanted = [
        ("ms more than mpirun", overhead, OVERHEAD_MS_MAX),
        ("ms for 64 workers", start, START_MS_MAX),
        ("ms for --help", help, HELP_MS_MAX),
        ("MB", megabytes, MEGABYTES_MAX),
    ];
    results::judge(&wanted)
}

struct Bench {
    rig: LocalRig,
}

impl Bench {
    /// Milliseconds of `muster run` and of the same mpirun alone, in turns.
    fn overhead(&self, runs: u16) -> Result<(Vec<f64>, Vec<f64>)> {
        let words = format!("[mpirun, -np, '{RANKS}', hostname]");
        let file = self.rig.job("hosts.yaml", RANKS / 2, 2, &words, "")?;
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        // The first of each warms the file cache and does not count.
        for run in 0..=runs {
            let mut muster = self.rig.command();
            let mut mpirun = local_rig::mpirun(RANKS);
            mpirun.arg("hostname");
            let both = [
                self.rig.timed(muster.args(["-q", "run"]).arg(&file))?,
                self.rig.timed(&mut mpirun)?,
            ];
            for (_, hosts) in &both {
                ensure!(
                    hosts.lines().count() == RANKS,
                    "not every rank ran: {hosts}"
                );
            }
            if run > 0 {
                ours.push(both[0].0);
                theirs.push(both[1].0);
            }
        }
        Ok((ours, theirs))
    }

    /// Milliseconds until all of many workers are ready.
    fn starts(&self) -> Result<Vec<f64>> {
        let file = self
            .rig
            .job("many.yaml", WORKERS, 1, "['true']", "census: \"Off\"")?;
        let mut starts = Vec::new();
        for _ in 0..STARTS {
            self.rig.check()?;
            let begun = Instant::now();
            let mut child = self
                .rig
                .command()
                .args(["--no-progress", "run"])
                .arg(&file)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()?;
            let stderr = child.stderr.take().context("stderr was asked for")?;
            let all = format!("ready={WORKERS}/{WORKERS}");
            let mut ready = None;
            let mut said = String::new();
            for line in BufReader::new(stderr).lines() {
                let line = line?;
                if line.contains(&all) && ready.is_none() {
                    ready = Some(begun.elapsed());
                }
                said += &line;
            }
            let status = child.wait()?;
            ensure!(status.success(), "{status}: {said}");
            let ready = ready.with_context(|| format!("not all were ready: {said}"))?;
            starts.push(results::rounded(ready.as_secs_f64() * 1e3));
        }
        Ok(starts)
    }

    fn helps(&self, runs: u16) -> Result<Vec<f64>> {
        let helps = (0..runs).map(|_| Ok(self.rig.timed(self.rig.command().arg("--help"))?.0));
        helps.collect()
    }
}
