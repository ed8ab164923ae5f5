//! Hosts on which muster's agent answers, and a launcher that reaches them: what measurements of launchers
//! have in common. Decides how they are started, when all of them answer and how long a command may take;
//! must not know what is measured.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use tempfile::TempDir;

use crate::hosts::{self, Host, Network};
use crate::identities;
use crate::interruption::Interruption;
use crate::processor_group::ProcessorGroup;

/// The transport that needs an sshd.
const SSH: &str = "ssh";
const START_MAX: Duration = Duration::from_secs(60);
const RUN_MAX: Duration = Duration::from_secs(120);
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// Idle hosts still keep their own time and answer nobody.
const IDLE_SECONDS_MAX: f64 = 0.002;
const IDLE_WAIT_MAX: Duration = Duration::from_secs(5);

fn addresses(count: usize) -> Vec<String> {
    let hosts = 1..=count;
    hosts
        .map(|host| Network::address(host).to_string())
        .collect()
}

/// What runs on the hosts, in which `$scratch` is the directory of the measurement.
pub(crate) struct Servers {
    /// On the launcher's.
    pub(crate) launcher: &'static str,
    /// On every other.
    pub(crate) worker: &'static str,
    /// The transports in which the workers answer.
    pub(crate) answer: &'static [&'static str],
}

/// All hosts, running their servers. Fields are dropped in this order: processes before networks and
/// groups before files.
pub(crate) struct Bed<'i> {
    running: Vec<Host>,
    network: Network,
    group: ProcessorGroup,
    scratch: TempDir,
    interruption: &'i Interruption,
}

impl<'i> Bed<'i> {
    /// So many workers, and a launcher.
    pub(crate) fn make(
        agent: &Path,
        most: usize,
        servers: &Servers,
        interruption: &'i Interruption,
    ) -> Result<Self> {
        let scratch = tempfile::Builder::new()
            .prefix("muster-bench")
            .tempdir_in("/var/tmp")?;
        let addresses = addresses(most);
        identities::write_agent_keys(scratch.path(), most)?;
        if servers.answer.contains(&SSH) {
            identities::write_ssh_keys(scratch.path(), &addresses)?;
        }
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
        bed.running.push(bed.network.start(0, servers.launcher)?);
        for host in 1..=most {
            interruption.check()?;
            bed.running.push(bed.network.start(host, servers.worker)?);
        }
        bed.wait_until_all_answer(most, servers.answer)?;
        Ok(bed)
    }

    /// The gate itself asks, in both transports.
    fn wait_until_all_answer(&mut self, most: usize, transports: &[&str]) -> Result<()> {
        self.write_lists(most)?;
        let until = Instant::now() + START_MAX;
        while self.running.iter().any(|host| host.init().is_none()) {
            self.interruption.check()?;
            let ended = self.running.iter_mut().any(Host::has_ended);
            ensure!(!ended && Instant::now() < until, "a host does not start");
            std::thread::sleep(LOOK_INTERVAL);
        }
        for transport in transports {
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

    /// A file of the measurement, which all hosts see.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// From now on the job has so many of the workers.
    pub(crate) fn write_lists(&self, count: usize) -> Result<()> {
        let addresses = addresses(count);
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
    pub(crate) fn on_launcher(&self) -> Command {
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

    /// Seconds of processors that all hosts have used.
    pub(crate) fn used(&self) -> Result<f64> {
        self.group.used()
    }

    /// What the last run left to be done is not the next one's. Returns what was used so far.
    pub(crate) fn wait_until_idle(&self) -> Result<f64> {
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

    /// How long it took, its code and what it said. Ended when the user or the time says so.
    pub(crate) fn finish(&self, mut command: Command) -> Result<(Duration, (Option<i32>, String))> {
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
