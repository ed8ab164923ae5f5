//! What muster keeps on this machine: one directory per local run, with its record and logs, and
//! the one of `muster up`. Decides where the state directory is, that only its owner can read it, and
//! what is removed: the working files of runs that are over, and all but the newest runs. Must never
//! change or remove what muster did not create.

pub(crate) mod changes;

use std::fs::{self, File};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use kube::api::LogParams;
use minicluster::kubelet::PodRef;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::local::cluster::Objects;
use crate::local::runner::log;
use crate::view::JobView;

/// Runs that are remembered.
const RUNS_MAX: usize = 50;
const RECORD: &str = "record.json";
/// The reason of a job whose run was killed; the operator never writes it.
pub(crate) const CANCELLED: &str = "Cancelled";
const LOCK: &str = "lock";
/// Marks the state directory as muster's.
const MARKER: &str = ".muster-state";

/// The state directory, created if it does not exist.
pub(crate) fn directory() -> Result<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let path = match (
        variable(contract::env::STATE_DIR),
        variable("XDG_STATE_HOME"),
        variable("HOME"),
    ) {
        (Some(own), _, _) => PathBuf::from(own),
        (None, Some(state), _) => Path::new(&state).join("muster"),
        (None, None, Some(home)) => Path::new(&home).join(".local/state/muster"),
        (None, None, None) => bail!("HOME is not set: name a directory in MUSTER_STATE_DIR"),
    };
    claim(&path)?;
    path.canonicalize()
        .with_context(|| format!("cannot use {}", path.display()))
}

/// Marks a new or empty directory as muster's; refuses any other that is not.
fn claim(path: &Path) -> Result<()> {
    let marker = path.join(MARKER);
    if marker.exists() {
        return check_owner(path);
    }
    create_private(path)?;
    check_owner(path)?;
    let is_empty = fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
    // Another muster may have claimed it since the first look.
    if !is_empty && !marker.exists() {
        bail!(
            "{} holds files that are not muster's: name an empty or new directory in \
             MUSTER_STATE_DIR",
            path.display()
        );
    }
    fs::write(marker, "").with_context(|| cannot_keep(path))
}

fn cannot_keep(path: &Path) -> String {
    let path = path.display();
    format!("cannot keep state in {path}: name another directory in MUSTER_STATE_DIR")
}

fn create_private(path: &Path) -> Result<()> {
    let mut builder = fs::DirBuilder::new();
    let created = builder.recursive(true).mode(0o700).create(path);
    created.with_context(|| cannot_keep(path))
}

fn check_owner(path: &Path) -> Result<()> {
    let meta = fs::metadata(path).with_context(|| cannot_keep(path))?;
    if meta.uid() != rustix::process::geteuid().as_raw() {
        bail!(
            "{} belongs to another user: name a directory of your own in MUSTER_STATE_DIR",
            path.display()
        );
    }
    Ok(())
}

/// A directory inside the state directory that only its owner can enter.
pub(crate) fn private(path: &Path) -> Result<()> {
    create_private(path)?;
    check_owner(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o700)).with_context(|| cannot_keep(path))
}

/// The directory of a run in progress, locked until this is dropped.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) directory: PathBuf,
    _lock: File,
}

impl Run {
    /// A new run. Removes what killed runs left behind first.
    pub(crate) fn begin() -> Result<Self> {
        let runs = directory()?.join("runs");
        private(&runs)?;
        // Held until the new run has its own lock: nobody takes its directory for a killed run's.
        let all = File::open(&runs).with_context(|| cannot_keep(&runs))?;
        flock(&all, FlockOperation::LockExclusive).with_context(|| cannot_keep(&runs))?;
        remove_old_runs(&runs)?;
        // Sorts by time; two runs of one moment differ in their process.
        let now = jiff::Timestamp::now().as_millisecond();
        let path = runs.join(format!("{now:014}-{}", std::process::id()));
        Self::at(path)
    }

    /// The cluster of `muster up`; an error when it runs already.
    pub(crate) fn up() -> Result<Self> {
        Self::at(directory()?.join("up"))
    }

    fn at(path: PathBuf) -> Result<Self> {
        private(&path)?;
        let lock = File::create(path.join(LOCK))
            .with_context(|| format!("cannot write to {}", path.display()))?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            bail!(
                "another muster uses {}: end it with `muster down`",
                path.display()
            );
        }
        Ok(Self {
            directory: path,
            _lock: lock,
        })
    }

    /// Replaces the record, atomically.
    pub(crate) fn record(&self, record: &Record) -> Result<()> {
        let draft = self.directory.join("record.tmp");
        let written = fs::write(&draft, serde_json::to_vec(record)?)
            .and_then(|()| fs::rename(&draft, self.directory.join(RECORD)));
        written.with_context(|| format!("cannot write to {}", self.directory.display()))
    }
}

fn is_held(directory: &Path) -> bool {
    File::open(directory.join(LOCK))
        .is_ok_and(|lock| flock(&lock, FlockOperation::NonBlockingLockShared).is_err())
}

/// A time in milliseconds and a process, as [`Run::begin`] writes them.
fn is_run_name(name: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let parts = name.split_once('-');
    parts.is_some_and(|(time, process)| time.len() == 14 && is_number(time) && is_number(process))
}

/// The directories of runs, newest first.
fn runs() -> Result<Vec<PathBuf>> {
    let runs = directory()?.join("runs");
    let entries = fs::read_dir(runs).into_iter().flatten().flatten();
    let mut runs: Vec<PathBuf> = entries
        .filter(|entry| is_run_name(&entry.file_name().to_string_lossy()))
        .map(|entry| entry.path())
        .filter(|path| path.join(LOCK).is_file())
        .collect();
    runs.sort();
    runs.reverse();
    Ok(runs)
}

fn remove_old_runs(directory: &Path) -> Result<()> {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if is_run_name(&entry.file_name().to_string_lossy()) {
            // Succeeds only if it is empty: the run was killed before it could lock it.
            let _ = fs::remove_dir(entry.path());
        }
    }
    for (age, run) in runs()?.into_iter().enumerate() {
        if is_held(&run) {
            continue;
        }
        let _ = fs::remove_dir_all(run.join("pods"));
        if age >= RUNS_MAX || !run.join(RECORD).exists() {
            remove_run(&run);
        }
    }
    Ok(())
}

/// The lock goes last: if we are killed meanwhile, the next run knows by it that the rest is muster's.
fn remove_run(run: &Path) {
    for entry in fs::read_dir(run).into_iter().flatten().flatten() {
        if entry.file_name() != LOCK {
            let path = entry.path();
            let _ = fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path));
        }
    }
    let _ = fs::remove_file(run.join(LOCK)).and_then(|()| fs::remove_dir(run));
}

/// Whether `muster up` runs.
pub(crate) fn up_is_alive() -> bool {
    directory().is_ok_and(|directory| is_held(&directory.join("up")))
}

/// The kubeconfig of `muster up`.
pub(crate) fn up_kubeconfig() -> Result<PathBuf> {
    Ok(directory()?.join("up/kubeconfig"))
}

/// What is known of a local run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) jobs: Vec<Value>,
    pub(crate) pods: Vec<Value>,
    pub(crate) events: Vec<Value>,
    #[serde(skip)]
    directory: PathBuf,
}

/// All runs that are remembered, newest first.
pub(crate) fn records() -> Result<Vec<Record>> {
    let records = runs()?.into_iter().filter_map(|run| {
        let bytes = fs::read(run.join(RECORD)).ok()?;
        let mut record: Record = serde_json::from_slice(&bytes).ok()?;
        if !is_held(&run) {
            record.jobs.iter_mut().for_each(abandon);
        }
        record.directory = run;
        Some(record)
    });
    Ok(records.collect())
}

/// Where runs are, and each of them.
pub(crate) fn run_directories() -> Result<Vec<PathBuf>> {
    let all = directory()?.join("runs");
    private(&all)?;
    let mut directories = runs()?;
    directories.push(all);
    Ok(directories)
}

/// A job whose run was killed has ended with it.
fn abandon(job: &mut Value) {
    let muster = &mut job["status"]["muster"];
    if muster["finished"] != true {
        muster["finished"] = true.into();
        muster["phase"] = "Failed".into();
        muster["reason"] = CANCELLED.into();
        muster["message"] = "muster was stopped while the job ran, which ended the job".into();
    }
}

impl Record {
    /// Of these objects.
    pub(crate) fn of(objects: Objects) -> Self {
        Self {
            jobs: objects.jobs,
            pods: objects.pods,
            events: objects.events,
            directory: PathBuf::new(),
        }
    }

    /// Of a run that is over, with the logs in its directory.
    pub(crate) fn over(mut self, run: &Run) -> Self {
        self.jobs.iter_mut().for_each(abandon);
        self.directory.clone_from(&run.directory);
        self
    }

    pub(crate) fn jobs(&self) -> impl Iterator<Item = &Value> {
        self.jobs.iter()
    }

    /// Whether it is the record of this very job.
    pub(crate) fn holds(&self, job: JobView<'_>) -> bool {
        self.jobs.iter().any(|own| JobView(own).uid() == job.uid())
    }

    /// The directory of a container's log, which changes when a line is written.
    pub(crate) fn log_directory(&self, pod: &Value, container: &str) -> Option<PathBuf> {
        let path = log::last(&self.directory, &PodRef::of(pod), container, false)?;
        path.parent().map(Path::to_owned)
    }

    /// A container's log as it was kept.
    pub(crate) fn log(&self, pod: &Value, params: &LogParams) -> Result<Vec<u8>> {
        let pod = PodRef::of(pod);
        let container = params.container.as_deref().unwrap_or_default();
        let path = log::last(&self.directory, &pod, container, params.previous);
        let path =
            path.with_context(|| format!("container {container} of {} has no log", pod.name))?;
        Ok(log::select(&log::read(&path)?, params))
    }
}
