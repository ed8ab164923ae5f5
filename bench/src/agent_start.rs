//! `agent-start`: Open MPI's `mpirun -np H hostname` from start to exit, over the agent and over
//! OpenSSH with its default settings, in turns on the same hosts. Decides what is run and when a run
//! counts: it exited with 0 and every host said its name.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::bed::{Bed, Servers};
use crate::interruption::Interruption;
use crate::{programs, results};

const HOSTS: [usize; 3] = [1, 8, 32];
const RATIO_MAX_AT_MOST_HOSTS: f64 = 0.4;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Runs of each way at each number of hosts; at least 7
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u16).range(7..))]
    runs: u16,
}

/// A way to start daemons on other hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Agent,
    Ssh,
}

const WAYS: [Way; 2] = [Way::Agent, Way::Ssh];

/// Milliseconds of all runs of one way: from start to exit, and of processors on all hosts.
#[derive(Default)]
struct Samples {
    wall: Vec<f64>,
    processor: Vec<f64>,
}

impl Samples {
    fn wall(&self) -> f64 {
        results::median(&self.wall)
    }

    fn processor(&self) -> f64 {
        results::median(&self.processor)
    }

    fn to_json(&self) -> Value {
        json!({
            "medianMs": self.wall(), "processorMedianMs": self.processor(),
            "ms": self.wall, "processorMs": self.processor,
        })
    }
}

/// To a tenth of a millisecond.
fn milliseconds(seconds: f64) -> f64 {
    (seconds * 1e4).round() / 10.0
}

/// Prints, keeps and judges the numbers.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    ensure!(
        rustix::process::geteuid().is_root(),
        "network namespaces and sshd need root"
    );
    programs::need(&[
        ("mpirun.openmpi", "openmpi-bin"),
        ("/usr/sbin/sshd", "openssh-server"),
        ("ssh", "openssh-client"),
        ("ip", "iproute2"),
        ("nsenter", "util-linux"),
    ])?;
    let interruption = Interruption::watch()?;
    let agent = programs::agent()?;
    // Before our own load is part of it.
    let machine = results::machine();
    let most = HOSTS.into_iter().max().unwrap_or_default();
    let bed = Bed::make(&agent, most, &SERVERS, &interruption)?;
    let mut rows = Vec::new();
    println!("milliseconds, medians of {}", arguments.runs);
    println!("hosts     agent       ssh  ratio  processors: agent      ssh  ratio");
    for count in HOSTS {
        let [agent, ssh] = measure(&bed, count, arguments.runs)?;
        let ratio = agent.wall() / ssh.wall();
        let processor_ratio = agent.processor() / ssh.processor();
        println!(
            "{count:5} {:9.1} {:9.1} {ratio:6.2} {:11.1} {:9.1} {processor_ratio:6.2}",
            agent.wall(),
            ssh.wall(),
            agent.processor(),
            ssh.processor(),
        );
        rows.push(json!({
            "hosts": count, "ratio": ratio, "processorRatio": processor_ratio,
            "agent": agent.to_json(), "ssh": ssh.to_json(),
        }));
    }
    keep(&rows, arguments.runs, &machine)?;
    let last = rows.last().and_then(|row| row["ratio"].as_f64());
    let last = last.context("nothing was measured")?;
    ensure!(
        last <= RATIO_MAX_AT_MOST_HOSTS,
        "the ratio is {last:.2}; at most {RATIO_MAX_AT_MOST_HOSTS} is wanted"
    );
    Ok(())
}

/// Both ways in turns, after one run of each that does not count.
fn measure(bed: &Bed<'_>, count: usize, runs: u16) -> Result<[Samples; 2]> {
    bed.write_lists(count)?;
    let mut samples = [Samples::default(), Samples::default()];
    for run in 0..=runs {
        for (way, samples) in WAYS.into_iter().zip(&mut samples) {
            let before = bed.wait_until_idle()?;
            let took = launch(bed, way, count)?;
            let used = bed.used()? - before;
            if run > 0 {
                samples.wall.push(milliseconds(took.as_secs_f64()));
                samples.processor.push(milliseconds(used));
            }
        }
    }
    Ok(samples)
}

fn launch(bed: &Bed<'_>, way: Way, count: usize) -> Result<Duration> {
    let mut command = bed.on_launcher();
    if way == Way::Agent {
        command
            .arg(bed.path("bin/muster-agent"))
            .args(["exec", "--"]);
    }
    command.args(["mpirun.openmpi", "-np", &count.to_string(), "hostname"]);
    let (took, (code, said)) = bed.finish(command)?;
    let names = (1..=count).filter(|host| {
        let name = format!("host{host}");
        said.lines().any(|line| line == name)
    });
    let named = names.count();
    ensure!(
        code == Some(0) && named == count,
        "mpirun over {way:?} exited with {code:?} and {named} of {count} hosts: {said}"
    );
    Ok(took)
}

const SERVERS: Servers = Servers {
    launcher: LAUNCHER,
    worker: WORKER,
    answer: &["agent", "ssh"],
};

/// Root's keys in a home of its own, for ssh to find where it always looks.
const LAUNCHER: &str = "\
mount -t tmpfs own /tmp
mount -t tmpfs -o mode=700 own ~
cp -r $scratch/ssh ~/.ssh
exec sleep infinity";

/// Debian's own settings for sshd, but for the host's key; and the agent.
const WORKER: &str = "\
mount -t tmpfs own /tmp
mount -t tmpfs -o mode=700 own ~
cp -r $scratch/ssh ~/.ssh
/usr/sbin/sshd -D -h $scratch/host_key &
MUSTER_TLS_DIR=$scratch/worker-$(hostname) exec $scratch/bin/muster-agent serve";

fn keep(rows: &[Value], runs: u16, machine: &Value) -> Result<()> {
    let result = json!({
        "date": results::today(), "machine": machine, "runs": runs,
        "command": "mpirun.openmpi -np HOSTS hostname", "rows": rows,
    });
    results::write("agent-start", &result)?;
    let number = |value: &Value| value.as_f64().unwrap_or_default();
    let cells = rows.iter().map(|row| {
        let [agent, ssh] = ["agent", "ssh"].map(|way| number(&row[way]["medianMs"]));
        let [ratio, processor] = ["ratio", "processorRatio"].map(|name| number(&row[name]));
        format!("{agent:.0} / {ssh:.0} = {ratio:.2} ({processor:.2}) | ")
    });
    let cells: String = cells.collect();
    results::add_row("agent-start", &results::row(machine, cells.trim_end()))
}
