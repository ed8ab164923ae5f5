//! A job's files and its workers, as processes. Decides nothing about what is tested.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair,
};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

pub(crate) const AGENT: &str = env!("CARGO_BIN_EXE_muster-agent");
pub(crate) const JOB: &str = "6f1c2d3e.muster";

/// The authority of one job.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Self(CertifiedIssuer::self_signed(params, key).unwrap())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate and its key.
    pub(crate) fn issue(
        &self,
        name: &str,
        purposes: &[ExtendedKeyUsagePurpose],
        expired: bool,
    ) -> (String, String) {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.extended_key_usages = purposes.to_vec();
        if expired {
            params.not_after = rcgen::date_time_ymd(2020, 1, 1);
        }
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    pub(crate) fn server(&self) -> (String, String) {
        let purposes = [ExtendedKeyUsagePurpose::ServerAuth];
        self.issue(&format!("worker.{JOB}"), &purposes, false)
    }

    pub(crate) fn client(&self) -> (String, String) {
        let purposes = [ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(&format!("launcher.{JOB}"), &purposes, false)
    }
}

/// Writes a pair under its names in a directory with the authority.
pub(crate) fn write_tls(directory: &Path, ca: &str, role: &str, pair: &(String, String)) {
    std::fs::create_dir_all(directory).unwrap();
    std::fs::write(directory.join("ca.crt"), ca).unwrap();
    std::fs::write(directory.join(format!("{role}.crt")), &pair.0).unwrap();
    std::fs::write(directory.join(format!("{role}.key")), &pair.1).unwrap();
}

/// A directory for one test, with the files of a job.
pub(crate) struct World {
    pub(crate) directory: TempDir,
    pub(crate) authority: Authority,
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
            authority: Authority::new(),
        };
        let ca = world.authority.pem();
        write_tls(
            &world.path("worker"),
            &ca,
            "server",
            &world.authority.server(),
        );
        write_tls(
            &world.path("launcher"),
            &ca,
            "client",
            &world.authority.client(),
        );
        world
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn serve(&self) -> Worker {
        self.serve_with(|_| {})
    }

    pub(crate) fn serve_with(&self, change: impl FnOnce(&mut Command)) -> Worker {
        let mut command = Command::new(AGENT);
        command
            .arg("serve")
            .env("MUSTER_TLS_DIR", self.path("worker"))
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
