//! The operators that are compared, as processes of this machine: muster as it is shipped, and
//! Kubeflow's operator at the flags of its manifest (P0) and at flags that take its limits away (P1).
//! Decides how they are started, and what the kernel says they cost. Must not know what they do.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::api::collection;
use e2e::operator::Account;
use e2e::wait_for;
use jiff::Timestamp;

use super::rig::Rig;

/// A polite end takes no longer.
const END_MAX: Duration = Duration::from_secs(20);
/// A start with ten thousand pods to read takes no longer.
const LEAD_MAX: Duration = Duration::from_secs(120);
/// Both operators have the same lease.
const LEASE: &str = "mpi-operator";
/// All that throttles the other operator, at values that throttle nothing here.
const TUNED: [&str; 5] = [
    "--kube-api-qps=1000",
    "--kube-api-burst=2000",
    "--threadiness=20",
    "--controller-queue-rate-limit=1000",
    "--controller-queue-burst=1000",
];

/// One of the operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Muster,
    P1,
    P0,
}

impl Side {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Muster => "muster",
            Self::P1 => "P1",
            Self::P0 => "P0",
        }
    }

    pub(super) fn account(self, rig: &Rig) -> &Account {
        match self {
            Self::Muster => &rig.muster,
            Self::P1 | Self::P0 => &rig.peer,
        }
    }

    pub(super) fn program(self, rig: &Rig) -> &Path {
        match self {
            Self::Muster => &rig.muster_program,
            Self::P1 | Self::P0 => &rig.peer_program,
        }
    }

    /// What its manifest gives it, and what P1 is given besides.
    fn flags(self) -> &'static [&'static str] {
        match self {
            Self::Muster => &["--agent-image=muster.test/muster-agent:1"],
            Self::P1 => &TUNED,
            Self::P0 => &["-alsologtostderr"],
        }
    }

    /// How long something may take that grows with the number of objects, so that a run ends.
    pub(super) fn patience(self, objects: usize) -> Duration {
        let each = match self {
            Self::P0 => Duration::from_millis(450),
            Self::Muster | Self::P1 => Duration::from_millis(60),
        };
        Duration::from_secs(60) + each * u32::try_from(objects).unwrap_or(u32::MAX)
    }
}

/// A running operator for all namespaces. It is killed when it is dropped; if this program is killed,
/// the kernel ends the operator.
pub(super) struct Process {
    child: Child,
    lease: String,
    log: PathBuf,
    /// Just before it was started.
    pub(super) begun: Timestamp,
}

impl Process {
    /// Starts an operator; nobody else holds the lease.
    pub(super) fn start(rig: &Rig, side: Side) -> Result<Self> {
        static COUNT: AtomicUsize = AtomicUsize::new(1);
        let account = side.account(rig);
        let lease = format!("{}/{LEASE}", collection(&account.lock_namespace, "leases"));
        // The last holder may have been killed, and its lease would have to expire first.
        let answer = rig.api.send("DELETE", &lease, None)?;
        ensure!(
            answer.code < 300 || answer.code == 404,
            "{}",
            answer.message()
        );
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let log = format!("log/operator-{}-{count}.log", side.name());
        let log = rig.cluster.state.join(log);
        let output = File::create(&log).with_context(|| format!("creating {}", log.display()))?;
        let begun = Timestamp::now();
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL"])
            .arg(side.program(rig))
            .arg(format!("--lock-namespace={}", account.lock_namespace))
            .args(side.flags())
            .env_clear()
            .env("KUBECONFIG", &account.kubeconfig)
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .context("starting an operator by way of setpriv")?;
        let mut process = Self {
            child,
            lease,
            log,
            begun,
        };
        wait_for("the operator to lead", LEAD_MAX, || {
            process.assert_alive()?;
            let lease = rig.api.get(&process.lease)?;
            let holder =
                lease.and_then(|lease| Some(lease["spec"]["holderIdentity"].as_str()?.to_owned()));
            Ok(holder.filter(|holder| !holder.is_empty()))
        })?;
        Ok(process)
    }

    /// Fails, with the end of its log, unless it runs.
    pub(super) fn assert_alive(&mut self) -> Result<()> {
        let ended = self.child.try_wait()?;
        ensure!(
            ended.is_none(),
            "the operator ended: {ended:?}\n{}",
            self.last_words()
        );
        Ok(())
    }

    fn last_words(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(25)..].join("\n")
    }

    /// Asks it to end, as Kubernetes does, and waits for that.
    pub(super) fn end(mut self) -> Result<()> {
        self.assert_alive()?;
        let pid = self.child.id().to_string();
        Command::new("kill").args(["-s", "TERM", &pid]).status()?;
        wait_for("the operator to end", END_MAX, || {
            Ok(self.child.try_wait()?)
        })?;
        Ok(())
    }

    /// Processor time so far, in seconds; the kernel tells hundredths.
    pub(super) fn cpu_secs(&self) -> Result<f64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let ticks = ticks(&stat).context("the kernel does not say how much time it used")?;
        Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
    }

    /// Memory that it holds, and the most that it ever held, in MiB.
    pub(super) fn memory_mib(&self) -> Result<(f64, f64)> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let value = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key))?;
            let kilobytes: f64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
            Some(kilobytes / 1024.0)
        };
        let both = value("VmRSS:").zip(value("VmHWM:"));
        both.context("the kernel does not say how much memory it has")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already, which is as good.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Of the user and of the system, with all threads; the name before them may hold spaces.
fn ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_process_is_found_behind_any_name() {
        let stat = "7 (a b) c) S 1 7 7 0 -1 4194304 100 0 0 0 25 17 0 0 20 0 1 0 5 0 0";
        assert_eq!(ticks(stat), Some(42));
    }
}
