//! `recovery`: one rank of a program on many hosts is killed, and the launcher's agent starts the program again on the
//! same hosts. Decides what is run and between which moments time is taken: every process says by an
//! empty file that it was there, and the file system keeps the time.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::bed::{Bed, Servers};
use crate::interruption::Interruption;
use crate::{programs, results};

const HOSTS: [usize; 4] = [1, 8, 32, 64];
/// From the death of a rank until all ranks run again, as far as that is not mpirun's start.
const OWN_MS_MAX: f64 = 500.0;
/// The second start of mpirun, beside its first.
const STARTS_RATIO_MAX: f64 = 1.5;
const START_MAX: Duration = Duration::from_secs(60);
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Runs at each number of hosts; at least 5
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u16).range(5..))]
    runs: u16,
}

/// Both with temporary files of their own, so that they cannot share Open MPI's.
const SERVERS: Servers = Servers {
    launcher: "mount -t tmpfs own /tmp\nexec sleep infinity",
    worker: "mount -t tmpfs own /tmp\n\
             MUSTER_TLS_DIR=$scratch/worker-$(hostname) exec $scratch/bin/muster-agent serve",
    answer: &["agent"],
};

/// The launcher's command: the program, and when it began and ended.
const COMMAND: &str = "\
: > $SEEN/began-$MUSTER_ATTEMPT
mpirun.openmpi -np $COUNT -x SEEN -x COUNT sh $SEEN/../rank.sh
code=$?
: > $SEEN/ended-$MUSTER_ATTEMPT
exit $code";

/// In the first attempt, the last rank dies when it is told to, and the others would wait.
const RANK: &str = "\
rank=$OMPI_COMM_WORLD_RANK
: > $SEEN/up-$MUSTER_ATTEMPT-$rank
[ $MUSTER_ATTEMPT = 2 ] && exit
[ $rank = $((COUNT - 1)) ] || exec sleep 1000
while [ ! -e $SEEN/die ]; do sleep 0.01; done
: > $SEEN/died
kill -9 $$
";

/// Prints, keeps and judges the numbers.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    ensure!(
        rustix::process::geteuid().is_root(),
        "network namespaces need root"
    );
    programs::need(&[
        ("mpirun.openmpi", "openmpi-bin"),
        ("ip", "iproute2"),
        ("nsenter", "util-linux"),
    ])?;
    let interruption = Interruption::watch()?;
    let agent = programs::agent()?;
    // Before our own load is part of it.
    let machine = results::machine();
    let most = HOSTS.into_iter().max().unwrap_or_default();
    let bed = Bed::make(&agent, most, &SERVERS, &interruption)?;
    fs::write(bed.path("rank.sh"), RANK)?;
    let mut rows = Vec::new();
    println!("milliseconds, medians of {}", arguments.runs);
    println!("hosts  first start  death to end  end to next  next start  restart");
    for hosts in HOSTS {
        let row = Row::measure(&bed, hosts, arguments.runs)?;
        let [first, end, between, again] = row.medians();
        let restart = row.restart();
        println!("{hosts:5} {first:12.0} {end:13.0} {between:12.0} {again:11.0} {restart:8.0}");
        rows.push(row);
    }
    keep(&rows, arguments.runs, &machine)?;
    let last = rows.last().context("nothing was measured")?;
    let [first, end, between, again] = last.medians();
    results::judge(&[
        ("ms besides mpirun's start", end + between, OWN_MS_MAX),
        ("times the first start", again / first, STARTS_RATIO_MAX),
    ])
}

/// How long the parts of one run took, in milliseconds.
#[derive(Clone, Copy)]
struct Parts {
    /// mpirun's first start, until all ranks run.
    first: f64,
    /// From the death of a rank until its mpirun has ended.
    end: f64,
    /// From then until the next begins: all workers have confirmed that nothing is left.
    between: f64,
    /// mpirun's second start, until all ranks run.
    again: f64,
}

/// One number of hosts.
struct Row {
    hosts: usize,
    runs: Vec<Parts>,
}

impl Row {
    /// After one run that does not count.
    fn measure(bed: &Bed<'_>, hosts: usize, runs: u16) -> Result<Self> {
        bed.write_lists(hosts)?;
        let mut row = Self {
            hosts,
            runs: Vec::new(),
        };
        for run in 0..=runs {
            bed.wait_until_idle()?;
            let parts = one_run(bed, hosts).with_context(|| format!("{hosts} hosts"))?;
            if run > 0 {
                row.runs.push(parts);
            }
        }
        Ok(row)
    }

    fn median(&self, part: impl Fn(&Parts) -> f64) -> f64 {
        results::median(&self.runs.iter().map(part).collect::<Vec<_>>())
    }

    fn medians(&self) -> [f64; 4] {
        [
            self.median(|parts| parts.first),
            self.median(|parts| parts.end),
            self.median(|parts| parts.between),
            self.median(|parts| parts.again),
        ]
    }

    fn restart(&self) -> f64 {
        self.median(|parts| parts.end + parts.between + parts.again)
    }

    fn json(&self) -> Value {
        let parts = |part: fn(&Parts) -> f64| -> Vec<f64> {
            let runs = self.runs.iter().map(part);
            runs.map(results::rounded).collect()
        };
        json!({
            "hosts": self.hosts,
            "firstStartMs": parts(|parts| parts.first),
            "deathToEndMs": parts(|parts| parts.end),
            "endToNextMs": parts(|parts| parts.between),
            "nextStartMs": parts(|parts| parts.again),
            "restartMedianMs": results::rounded(self.restart()),
        })
    }
}

/// One program that is started, loses a rank, and is started again.
fn one_run(bed: &Bed<'_>, hosts: usize) -> Result<Parts> {
    let seen = Seen {
        directory: bed.path("seen"),
        hosts,
    };
    if seen.directory.exists() {
        fs::remove_dir_all(&seen.directory)?;
    }
    fs::create_dir(&seen.directory)?;
    let mut command = bed.on_launcher();
    command
        .arg(bed.path("bin/muster-agent"))
        .args(["exec", "--", "sh", "-c", COMMAND])
        .env("MUSTER_RESTARTS", "1")
        .env("SEEN", &seen.directory)
        .env("COUNT", hosts.to_string());
    let (_, (code, said)) = std::thread::scope(|scope| {
        // Its answer is part of the files: without it, the program does not end.
        let killer = scope.spawn(|| seen.kill_when_all_run());
        let finished = bed.finish(command);
        killer.join().expect("it does not panic")?;
        finished
    })?;
    ensure!(
        code == Some(0),
        "the program did not succeed in the end, but exited with {code:?}: {said}"
    );
    seen.parts()
}

/// The files by which processes say that they were there.
struct Seen {
    directory: PathBuf,
    hosts: usize,
}

impl Seen {
    fn at(&self, name: &str) -> Result<SystemTime> {
        let time = fs::metadata(self.directory.join(name)).and_then(|data| data.modified());
        time.with_context(|| format!("nobody has written {name}"))
    }

    fn all_up(&self, attempt: u32) -> Result<SystemTime> {
        let ranks = (0..self.hosts).map(|rank| self.at(&format!("up-{attempt}-{rank}")));
        let times = ranks.collect::<Result<Vec<_>>>()?;
        times.into_iter().max().context("there is no rank")
    }

    fn kill_when_all_run(&self) -> Result<()> {
        let until = Instant::now() + START_MAX;
        while let Err(error) = self.all_up(1) {
            ensure!(Instant::now() < until, "not all ranks run: {error}");
            std::thread::sleep(LOOK_INTERVAL);
        }
        fs::write(self.directory.join("die"), "")?;
        Ok(())
    }

    fn parts(&self) -> Result<Parts> {
        let between = |from: SystemTime, to: SystemTime| -> Result<f64> {
            Ok(to.duration_since(from)?.as_secs_f64() * 1e3)
        };
        let (died, ended, next) = (self.at("died")?, self.at("ended-1")?, self.at("began-2")?);
        Ok(Parts {
            first: between(self.at("began-1")?, self.all_up(1)?)?,
            end: between(died, ended)?,
            between: between(ended, next)?,
            again: between(next, self.all_up(2)?)?,
        })
    }
}

fn keep(rows: &[Row], runs: u16, machine: &Value) -> Result<()> {
    let json: Vec<Value> = rows.iter().map(Row::json).collect();
    let result = json!({
        "date": results::today(), "machine": machine, "runs": runs, "rows": json,
    });
    results::write("recovery", &result)?;
    let cells = rows.iter().map(|row| {
        let [first, end, between, again] = row.medians();
        let restart = row.restart();
        format!("{end:.0} + {between:.0} + {again:.0} = {restart:.0} ({first:.0}) | ")
    });
    let cells: String = cells.collect();
    results::add_row("recovery", &results::row(machine, cells.trim_end()))
}
