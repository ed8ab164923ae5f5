//! The operator within the memory that its Deployment gives it, started again whenever it ends, as a
//! kubelet would do. Decides what is measured of it; must not know what it is made to do.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use quantity::Quantity;

use crate::memory_group::MemoryGroup;
use crate::operator::{Account, Operator, Settings, shipped};
use crate::{Cluster, wait_for};

/// Between two looks at whether it still runs, and how much memory it has.
const LOOK: Duration = Duration::from_millis(20);
/// A gauge of its own making.
const BLOCK: &str = "muster_event_loop_block_seconds_max";

/// An operator for all namespaces, with the shipped rights and the shipped limit.
#[derive(Debug)]
pub struct LimitedOperator {
    shared: Arc<Shared>,
    keeper: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    cluster: Cluster,
    account: Account,
    // Dropped before the group that it is in.
    state: Mutex<State>,
    group: MemoryGroup,
    closed: AtomicBool,
}

#[derive(Debug)]
struct State {
    operator: Operator,
    /// How each operator ended that did so by itself.
    ends: Vec<String>,
    peak_bytes: u64,
    block: Duration,
}

/// What it took.
#[derive(Clone, Debug)]
pub struct Usage {
    /// Most memory at any time, in bytes.
    pub peak_bytes: u64,
    /// What it may use, in bytes.
    pub limit_bytes: u64,
    /// For how long its event loop was blocked at most.
    pub block: Duration,
    /// How often it was started again.
    pub restarts: usize,
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let megabytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        write!(
            f,
            "peak {:.1} of {:.0} MiB, longest block {:.1} ms, {} restarts",
            megabytes(self.peak_bytes),
            megabytes(self.limit_bytes),
            self.block.as_secs_f64() * 1000.0,
            self.restarts
        )
    }
}

impl LimitedOperator {
    /// Starts it and waits until it leads.
    pub fn start(cluster: &Cluster, account: &Account) -> Result<Self> {
        let group = MemoryGroup::new(shipped_limit(cluster)?)?;
        let operator = start(cluster, account, &group)?;
        operator.await_leading()?;
        let shared = Arc::new(Shared {
            cluster: cluster.clone(),
            account: account.clone(),
            group,
            state: Mutex::new(State {
                operator,
                ends: Vec::new(),
                peak_bytes: 0,
                block: Duration::ZERO,
            }),
            closed: AtomicBool::new(false),
        });
        let kept = shared.clone();
        let keeper = Some(thread::spawn(move || kept.keep()));
        Ok(Self { shared, keeper })
    }

    /// What it took so far.
    pub fn usage(&self) -> Result<Usage> {
        let mut state = self.shared.state();
        // One that was just started again may not listen yet, and has nothing to tell.
        state.ask().or_else(|error| match state.ends.is_empty() {
            true => Err(error),
            false => Ok(()),
        })?;
        Ok(Usage {
            peak_bytes: state.peak_bytes,
            limit_bytes: self.shared.group.limit,
            block: state.block,
            restarts: state.ends.len(),
        })
    }

    /// Fails if it ever ended by itself.
    pub fn assert_never_restarted(&self) -> Result<()> {
        let state = self.shared.state();
        ensure!(
            state.ends.is_empty(),
            "the operator ended: {:#?}",
            state.ends
        );
        Ok(())
    }

    /// Ends it and starts another, as an upgrade does, which must lead and have seen everything
    /// within this time.
    pub fn restart(&self, at_most: Duration) -> Result<()> {
        let mut state = self.shared.state();
        state.ask()?;
        state.operator.terminate()?;
        wait_for("the operator to end", at_most, || state.operator.ended())?;
        state.operator = self.shared.start_again()?;
        drop(state);
        wait_for("the next operator to lead", at_most, || {
            let state = self.shared.state();
            Ok((state.operator.is_ready()?).then_some(()))
        })
        .with_context(|| format!("it ended {:?}", self.shared.state().ends))
    }

    /// The end of its log.
    pub fn last_words(&self) -> String {
        self.shared.state().operator.last_words()
    }
}

impl Drop for LimitedOperator {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::SeqCst);
        if let Some(keeper) = self.keeper.take() {
            // A thread that panicked has said so.
            drop(keeper.join());
        }
        self.shared.state().operator.kill();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .expect("nobody panics with this lock held")
    }

    fn start_again(&self) -> Result<Operator> {
        start(&self.cluster, &self.account, &self.group)
    }

    fn keep(&self) {
        while !self.closed.load(Ordering::SeqCst) {
            let mut state = self.state();
            if let Ok(Some(status)) = state.operator.ended() {
                let end = format!("{status}; it said last:\n{}", state.operator.last_words());
                state.ends.push(end);
                match self.start_again() {
                    Ok(operator) => state.operator = operator,
                    Err(error) => state.ends.push(format!("{error:#}")),
                }
            } else {
                state.look();
            }
            drop(state);
            thread::sleep(LOOK);
        }
    }
}

impl State {
    /// Takes down what an operator that has ended cannot be asked any more.
    fn look(&mut self) {
        let peak = self.operator.peak_resident_bytes().unwrap_or(0);
        self.peak_bytes = self.peak_bytes.max(peak);
    }

    /// The same, with what only the operator itself knows.
    fn ask(&mut self) -> Result<()> {
        self.look();
        let metrics = self.operator.metrics()?;
        let mut lines = metrics.lines();
        let seconds = lines.find_map(|line| line.strip_prefix(BLOCK)?.strip_prefix(' '));
        let seconds = seconds.with_context(|| format!("{BLOCK} is not in\n{metrics}"))?;
        self.block = self.block.max(Duration::from_secs_f64(seconds.parse()?));
        Ok(())
    }
}

fn start(cluster: &Cluster, account: &Account, group: &MemoryGroup) -> Result<Operator> {
    let settings = Settings {
        account,
        namespace: "",
        kubeconfig: &account.kubeconfig,
        group: Some(group),
        flags: &[],
    };
    Operator::start(cluster, &settings)
}

/// The memory of the shipped Deployment's container, in bytes.
fn shipped_limit(cluster: &Cluster) -> Result<u64> {
    let objects = shipped(cluster)?;
    let mut deployments = objects
        .iter()
        .filter(|object| object["kind"] == "Deployment");
    let deployment = deployments.next().context("no Deployment is shipped")?;
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    let limit = container["resources"]["limits"]["memory"].as_str();
    let limit = limit.context("the shipped Deployment has no limit of memory")?;
    let bytes = Quantity::parse(limit).map(Quantity::ones);
    let bytes = bytes.with_context(|| format!("{limit} is no amount of memory"))?;
    Ok(bytes.try_into()?)
}
