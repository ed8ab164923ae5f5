//! `agent-start`: Open MPI's `mpirun -np H hostname` from start to exit, over the agent and over
//! OpenSSH with its default settings, in turns on the same hosts. Decides what is run and when a run
//! counts: it exited with 0 and every host said its name.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::hosts::{self, Host, Network};
use crate::interruption::Interruption;
use crate::processor_group::ProcessorGroup;
use crate::{identities, programs, results};

const HOSTS: [usize; 3] = [1, 8, 32];
const RATIO_MAX_AT_MOST_HOSTS: f64 = 0.4;
const START_MAX: Duration = Duration::from_secs(60);
const RUN_MAX: Duration = Duration::from_secs(120);
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// Idle hosts still keep their own time and answer nobody.
const IDLE_SECONDS_MAX: f64 = 0.002;
const IDLE_WAIT_MAX: Duration = Duration::from_secs(5);

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
    let bed = Bed::make(&agent, &interruption)?;
    let mut rows = Vec::new();
    println!("milliseconds, medians of {}", arguments.runs);
    println!("hosts     agent       ssh  ratio  processors: agent      ssh  ratio");
    for count in HOSTS {
        let [agent, ssh] = bed.measure(count, arguments.runs)?;
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

/// All hosts, running both servers. Fields are dropped in this order: processes before networks and
/// groups before files.
struct Bed<'i> {
    running: Vec<Host>,
    network: Network,
    group: ProcessorGroup,
    scratch: TempDir,
    interruption: &'i Interruption,
}

impl<'i> Bed<'i> {
    fn make(agent: &Path, interruption: &'i Interruption) -> Result<Self> {
        let scratch = tempfile::Builder::new()
            .prefix("muster-bench")
            .tempdir_in("/var/tmp")?;
        let most = HOSTS.into_iter().max().unwrap_or_default();
        let addresses: Vec<_> = (1..=most)
            .map(|host| Network::address(host).to_string())
            .collect();
        identities::write_agent_keys(scratch.path(), most)?;
        identities::write_ssh_keys(scratch.path(), &addresses)?;
        let bin = scratch.path().join("bin");
        hosts::succeed(Command::new(agent).arg("install").arg(&bin))?;
        let group = format!("{}{}", hosts::PREFIX, std::process::id());
        let group = ProcessorGroup::join(&group)?;
        let network = Network::make(most + 1, scratch.path())?;
        let mut bed = Self {
            running: Vec::new(),
            network,
            group,
            scratch,
            interruption,
        };
        bed.running.push(bed.network.start(0, LAUNCHER)?);
        for host in 1..=most {
            interruption.check()?;
            bed.running.push(bed.network.start(host, WORKER)?);
        }
        bed.wait_until_all_answer(&addresses)?;
        Ok(bed)
    }

    /// The gate itself asks, in both transports.
    fn wait_until_all_answer(&mut self, addresses: &[String]) -> Result<()> {
        self.write_lists(addresses)?;
        let until = Instant::now() + START_MAX;
        while self.running.iter().any(|host| host.init().is_none()) {
            self.interruption.check()?;
            let ended = self.running.iter_mut().any(Host::has_ended);
            ensure!(!ended && Instant::now() < until, "a host does not start");
            std::thread::sleep(LOOK_INTERVAL);
        }
        for transport in ["agent", "ssh"] {
            let mut gate = self.on_launcher();
            gate.arg(self.path("bin/muster-agent"))
                .arg("gate")
                .env("MUSTER_GATE_TRANSPORT", transport)
                .env("MUSTER_GATE_TIMEOUT", START_MAX.as_secs().to_string());
            let (code, said) = self.finish(gate)?.1;
            ensure!(
                code == Some(0),
                "not all hosts answer ({transport}): {said}"
            );
        }
        Ok(())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    fn write_lists(&self, addresses: &[String]) -> Result<()> {
        let lines = |end: &str| -> String {
            let lines = addresses.iter().enumerate();
            let lines = lines.map(|(host, address)| match end {
                "" => format!("host{} {address}\n", host + 1),
                end => format!("{address} {end}\n"),
            });
            lines.collect()
        };
        std::fs::write(self.path("hosts"), lines(""))?;
        std::fs::write(self.path("hostfile"), lines("slots=1"))?;
        Ok(())
    }

    /// A command inside the launcher's host.
    fn on_launcher(&self) -> Command {
        let workers = std::fs::read_to_string(self.path("hosts")).unwrap_or_default();
        let init = self
            .running
            .first()
            .and_then(Host::init)
            .unwrap_or_default();
        let mut command = Command::new("nsenter");
        command
            .args(["--net", "--uts", "--ipc", "--mount", "--pid", "--target"])
            .arg(init.to_string())
            .env("MUSTER_TLS_DIR", self.path("launcher"))
            .env("MUSTER_HOSTS_FILE", self.path("hosts"))
            .env("MUSTER_WORKERS", workers.lines().count().to_string())
            .env("MUSTER_TERMINATION_LOG", self.path("verdict"))
            .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
            .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
            .env("OMPI_MCA_orte_default_hostfile", self.path("hostfile"));
        command
    }

    /// Both ways in turns, after one run of each that does not count.
    fn measure(&self, count: usize, runs: u16) -> Result<[Samples; 2]> {
        let addresses: Vec<_> = (1..=count)
            .map(|host| Network::address(host).to_string())
            .collect();
        self.write_lists(&addresses)?;
        let mut samples = [Samples::default(), Samples::default()];
        for run in 0..=runs {
            for (way, samples) in WAYS.into_iter().zip(&mut samples) {
                let before = self.wait_until_idle()?;
                let took = self.launch(way, count)?;
                let used = self.group.used()? - before;
                if run > 0 {
                    samples.wall.push(milliseconds(took.as_secs_f64()));
                    samples.processor.push(milliseconds(used));
                }
            }
        }
        Ok(samples)
    }

    /// What the last run left to be done is not the next one's. Returns what was used so far.
    fn wait_until_idle(&self) -> Result<f64> {
        let until = Instant::now() + IDLE_WAIT_MAX;
        let mut before = self.group.used()?;
        loop {
            std::thread::sleep(LOOK_INTERVAL);
            let used = self.group.used()?;
            if used - before < IDLE_SECONDS_MAX || Instant::now() >= until {
                return Ok(used);
            }
            before = used;
        }
    }

    fn launch(&self, way: Way, count: usize) -> Result<Duration> {
        let mut command = self.on_launcher();
        if way == Way::Agent {
            command
                .arg(self.path("bin/muster-agent"))
                .args(["exec", "--"]);
        }
        command.args(["mpirun.openmpi", "-np", &count.to_string(), "hostname"]);
        let (took, (code, said)) = self.finish(command)?;
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

    /// How long it took, its code and what it said. Ended when the user or the time says so.
    fn finish(&self, mut command: Command) -> Result<(Duration, (Option<i32>, String))> {
        self.interruption.check()?;
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let begun = Instant::now();
        let child = command.spawn()?;
        let process = rustix::process::Pid::from_child(&child);
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            let output = child.wait_with_output();
            // Nobody listens when it was given up.
            let _ = sender.send((begun.elapsed(), output));
        });
        loop {
            match receiver.recv_timeout(LOOK_INTERVAL) {
                Ok((took, output)) => {
                    let output = output?;
                    let said = [output.stdout, output.stderr].concat();
                    let said = String::from_utf8_lossy(&said).into_owned();
                    return Ok((took, (output.status.code(), said)));
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(error) => bail!("a run was lost: {error}"),
            }
            let late = begun.elapsed() >= RUN_MAX;
            if late || self.interruption.check().is_err() {
                // It may have ended in this moment.
                let _ = rustix::process::kill_process(process, rustix::process::Signal::KILL);
                self.interruption.check()?;
                bail!("{command:?} did not end within {RUN_MAX:?}");
            }
        }
    }
}

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
