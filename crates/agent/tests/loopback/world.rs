//! A job's files and its workers, as processes. Decides nothing about what is tested.

use std::cell::Cell;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use ring::hmac;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

pub(crate) const AGENT: &str = env!("CARGO_BIN_EXE_muster-agent");

/// The keys of one start of a job, as the operator makes them.
pub(crate) struct Keys {
    root: [u8; 32],
}

impl Keys {
    /// The same for the same number, which no other job of the test has.
    pub(crate) fn new(job: u8) -> Self {
        Self { root: [job; 32] }
    }

    fn derived(&self, label: &str) -> [u8; 32] {
        let root = hmac::Key::new(hmac::HMAC_SHA256, &self.root);
        let tag = hmac::sign(&root, label.as_bytes());
        tag.as_ref().try_into().unwrap()
    }

    /// The private key of a worker.
    pub(crate) fn worker(&self, name: &str) -> [u8; 32] {
        self.derived(&format!("muster worker {name}"))
    }

    /// The launcher's own private key.
    pub(crate) fn launcher(&self) -> [u8; 32] {
        self.derived("muster launcher")
    }

    /// What the worker of this name has mounted.
    pub(crate) fn write_worker(&self, directory: &Path, name: &str) {
        std::fs::create_dir_all(directory).unwrap();
        let launcher = Ed25519KeyPair::from_seed_unchecked(&self.launcher()).unwrap();
        std::fs::write(directory.join("worker.key"), self.worker(name)).unwrap();
        let public = launcher.public_key().as_ref();
        std::fs::write(directory.join("launcher.pub"), public).unwrap();
        write_valid_until(directory, NEXT_CENTURY);
    }

    /// What the launcher has mounted.
    pub(crate) fn write_launcher(&self, directory: &Path) {
        std::fs::create_dir_all(directory).unwrap();
        std::fs::write(directory.join("launcher.key"), self.root).unwrap();
        write_valid_until(directory, NEXT_CENTURY);
    }
}

const NEXT_CENTURY: u64 = 4_102_444_800;

pub(crate) fn write_valid_until(directory: &Path, seconds: u64) {
    std::fs::write(directory.join("valid-until"), format!("{seconds}\n")).unwrap();
}

/// A directory for one test, with the files of a job.
pub(crate) struct World {
    pub(crate) directory: TempDir,
    pub(crate) keys: Keys,
    served: Cell<usize>,
}

/// A running `serve`; ended when dropped.
pub(crate) struct Worker {
    pub(crate) process: Child,
    pub(crate) port: u16,
}

impl Drop for Worker {
    /// Asked first, so that it ends what it runs; a killed one could not.
    fn drop(&mut self) {
        if let Some(pid) = Pid::from_raw(self.process.id().cast_signed())
            && self.process.try_wait().is_ok_and(|status| status.is_none())
        {
            let _ = kill_process(pid, Signal::TERM);
            let until = Instant::now() + Duration::from_secs(5);
            while Instant::now() < until && self.process.try_wait().is_ok_and(|s| s.is_none()) {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl World {
    pub(crate) fn new() -> Self {
        let world = Self {
            directory: tempfile::tempdir().unwrap(),
            keys: Keys::new(1),
            served: Cell::new(0),
        };
        world.keys.write_worker(&world.path("worker"), "w0");
        world.keys.write_launcher(&world.path("launcher"));
        world
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn serve(&self) -> Worker {
        self.serve_with(|_| {})
    }

    /// The first one is w0, the next one w1.
    pub(crate) fn serve_with(&self, change: impl FnOnce(&mut Command)) -> Worker {
        let number = self.served.replace(self.served.get() + 1);
        self.serve_as(&format!("w{number}"), change)
    }

    pub(crate) fn serve_as(&self, name: &str, change: impl FnOnce(&mut Command)) -> Worker {
        let directory = self.path(&format!("tls-of-{name}"));
        self.keys.write_worker(&directory, name);
        let mut command = Command::new(AGENT);
        command
            .arg("serve")
            .env("MUSTER_TLS_DIR", directory)
            .env("MUSTER_PORT", "0")
            .env("MUSTER_LISTEN", "127.0.0.1")
            .env("MUSTER_GRACE", "1")
            .stdin(Stdio::null())
            .stderr(Stdio::piped());
        change(&mut command);
        let mut process = command.spawn().unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let first = lines.next().unwrap().unwrap();
        let port = first.rsplit(':').next().unwrap().parse();
        let port = port.unwrap_or_else(|_| panic!("no port in {first:?}"));
        std::thread::spawn(move || lines.for_each(drop));
        Worker { process, port }
    }

    pub(crate) fn write_hosts(&self, workers: &[(&str, u16)]) {
        let lines = workers
            .iter()
            .map(|(name, port)| format!("{name} 127.0.0.1:{port}\n"));
        std::fs::write(self.path("hosts"), lines.collect::<String>()).unwrap();
    }

    /// A command of the agent with the launcher's files.
    pub(crate) fn agent(&self, subcommand: &str) -> Command {
        let mut command = Command::new(AGENT);
        command
            .arg(subcommand)
            .env("MUSTER_TLS_DIR", self.path("launcher"))
            .env("MUSTER_HOSTS_FILE", self.path("hosts"))
            .env_remove("MUSTER_RUN_DIR")
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn rsh(&self, words: &[&str]) -> Output {
        self.agent("rsh").args(words).output().unwrap()
    }

    /// Runs with something on standard input.
    pub(crate) fn rsh_with_input(&self, words: &[&str], input: &[u8]) -> Output {
        let mut command = self.agent("rsh");
        command.args(words).stdin(Stdio::piped());
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_vec();
        let writer = std::thread::spawn(move || stdin.write_all(&input));
        let output = child.wait_with_output().unwrap();
        let _ = writer.join().unwrap();
        output
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Polls until the condition holds; the test fails when it does not in time.
pub(crate) fn wait_for(what: &str, within: Duration, mut condition: impl FnMut() -> bool) {
    let until = Instant::now() + within;
    while !condition() {
        assert!(Instant::now() < until, "not within {within:?}: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Whether a process is there and not merely waiting to be collected.
pub(crate) fn lives(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}
