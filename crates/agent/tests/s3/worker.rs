//! A worker's directory, and a sidecar that works in it, as a process of this machine.

use std::fs;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::server::KEY_ID;

pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A worker's directory, and a sidecar that works in it.
pub(crate) struct Worker {
    pub(crate) home: TempDir,
    pub(crate) sidecar: Child,
}

pub(crate) struct Setup<'a> {
    pub(crate) endpoint: Option<String>,
    pub(crate) secret: &'a str,
    pub(crate) words: &'a [&'a str],
    pub(crate) variables: &'a [(&'a str, &'a str)],
}

impl Worker {
    pub(crate) fn start(setup: &Setup<'_>) -> Self {
        let home = tempfile::tempdir().unwrap();
        let data = home.path().join("data");
        fs::create_dir(&data).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_muster-agent"));
        command
            .args([
                "sidecar",
                "--namespace",
                "ns",
                "--job",
                "job",
                "--signal-dir",
                ".signals",
                "--num-gpus",
            ])
            .args(setup.words)
            .current_dir(&data)
            .env_clear()
            .env("MUSTER_END_FILE", home.path().join("end"))
            .env("MUSTER_TERMINATION_LOG", home.path().join("last-words"))
            .env("MUSTER_POD", "job-worker-0")
            .env("AWS_ACCESS_KEY_ID", KEY_ID)
            .env("AWS_SECRET_ACCESS_KEY", setup.secret)
            .envs(setup.variables.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit());
        if let Some(endpoint) = &setup.endpoint {
            command.env("AWS_ENDPOINT_URL", endpoint);
        }
        let sidecar = command.spawn().unwrap();
        Self { home, sidecar }
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.home.path().join("data")
    }

    pub(crate) fn signal(&self, name: &str) -> PathBuf {
        self.data().join(".signals").join(name)
    }

    pub(crate) fn await_file(&self, file: &Path) {
        let until = Instant::now() + PATIENCE;
        while !file.exists() {
            assert!(Instant::now() < until, "{} does not come", file.display());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn may_start(&self) {
        self.await_file(&self.signal("SIGCONT"));
    }

    pub(crate) fn job_is_over(&self) {
        fs::write(self.home.path().join("end"), "Succeeded").unwrap();
    }

    pub(crate) fn last_words(&self) -> String {
        fs::read_to_string(self.home.path().join("last-words")).unwrap_or_default()
    }

    /// Its exit code and what it said. The worker must end then.
    pub(crate) fn ended(mut self) -> (Option<i32>, String, Self) {
        let until = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.sidecar.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < until, "the sidecar does not end");
            std::thread::sleep(Duration::from_millis(20));
        };
        let mut said = String::new();
        self.sidecar
            .stdout
            .take()
            .unwrap()
            .read_to_string(&mut said)
            .unwrap();
        assert!(
            self.signal("SIGTERM").exists(),
            "the worker is not told to end: {said}"
        );
        assert_eq!(status.signal(), None, "{said}");
        (status.code(), said, self)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It has usually ended by itself.
        drop(self.sidecar.kill());
        drop(self.sidecar.wait());
    }
}
