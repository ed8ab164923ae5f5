//! A place for one test: a state directory, files, and what runs on behalf of it.

#![allow(dead_code, reason = "each test target uses its own part")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Longer than any job here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// `muster` and `muster-agent` in a directory that every user can read.
static BINARIES: LazyLock<PathBuf> = LazyLock::new(|| {
    let muster = Path::new(env!("CARGO_BIN_EXE_muster"));
    let profile = muster.parent().unwrap();
    // The one that runs this test: another would build everything anew.
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    // What cargo says of this package to its tests is no news for the build of another; a build
    // script that looks at it would run anew.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            build.env_remove(&name);
        }
    }
    let built = build
        .args(["build", "--quiet", "-p", "agent", "--target-dir"])
        .arg(profile.parent().unwrap())
        .status()
        .unwrap();
    assert!(built.success(), "muster-agent must build");
    let directory = std::env::temp_dir().join(format!("muster-bin-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).unwrap();
    remove_when_this_program_ends(&directory);
    for name in ["muster", "muster-agent"] {
        fs::copy(profile.join(name), directory.join(name)).unwrap();
    }
    directory
});

/// Nobody tells a test program when its last test has ended. A shell that reads from it until it is
/// gone, however it ended, removes the directory then.
#[expect(clippy::zombie_processes, reason = "the shell outlives this program")]
fn remove_when_this_program_ends(directory: &Path) {
    let mut shell = Command::new("sh")
        .args(["-c", "cat; rm -r \"$1\"", "sh"])
        .arg(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    std::mem::forget(shell.stdin.take());
}

pub(crate) struct World {
    pub(crate) directory: PathBuf,
}

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl World {
    pub(crate) fn new(name: &str) -> Self {
        let place = format!("muster-test-{}-{name}", std::process::id());
        let directory = std::env::temp_dir().join(place);
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).unwrap();
        Self { directory }
    }

    /// A file of this test.
    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let path = self.directory.join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    pub(crate) fn binary(&self) -> PathBuf {
        BINARIES.join("muster")
    }

    /// The command, with nothing of the surroundings but a way to programs.
    pub(crate) fn muster(&self, words: &[&str]) -> Command {
        let mut command = Command::new(self.binary());
        command.args(words);
        self.surround(&mut command);
        command
    }

    /// Gives a command the surroundings of this test.
    pub(crate) fn surround(&self, command: &mut Command) {
        command
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
            .env("HOME", &self.directory)
            .env("MUSTER_STATE_DIR", self.directory.join("state"))
            .current_dir(&self.directory)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
    }

    /// Runs to the end.
    pub(crate) fn run(&self, words: &[&str]) -> Ended {
        ended(self.muster(words))
    }

    /// Command lines of what still runs for this test, us excepted.
    pub(crate) fn processes(&self) -> Vec<String> {
        let line = |pid: &Pid| {
            let path = format!("/proc/{}/cmdline", pid.as_raw_nonzero());
            let line = fs::read(path).unwrap_or_default();
            String::from_utf8_lossy(&line).replace('\0', " ")
        };
        self.running().iter().map(line).collect()
    }

    pub(crate) fn running(&self) -> Vec<Pid> {
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let ours = entries.filter(|entry| {
            let names_us = |file: &str| {
                let bytes = fs::read(entry.path().join(file)).unwrap_or_default();
                holds(&bytes, &self.directory)
            };
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            // Programs do not inherit our variables; their mounts come from our directory.
            !line.is_empty() && (names_us("environ") || names_us("mountinfo"))
        });
        ours.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?))
            .collect()
    }
}

/// Whether a path, and not a longer one that begins alike, occurs in a file of the kernel's.
fn holds(bytes: &[u8], path: &Path) -> bool {
    let path = path.as_os_str().as_encoded_bytes();
    let ends = |byte: &u8| b"/ \0\n:".contains(byte);
    bytes.windows(path.len() + 1).any(|part| {
        let (start, next) = part.split_at(path.len());
        start == path && next.iter().all(ends)
    })
}

impl Drop for World {
    fn drop(&mut self) {
        // A test that failed halfway has not ended what it began, `muster up` above all.
        for pid in self.running() {
            let _ = kill_process(pid, Signal::KILL);
        }
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Runs any command to its end.
pub(crate) fn ended(command: Command) -> Ended {
    ended_within(PATIENCE, command)
}

/// The same for one that takes long.
pub(crate) fn ended_within(patience: Duration, mut command: Command) -> Ended {
    let child = command.spawn().unwrap();
    let id = child.id();
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(child.wait_with_output()));
    let output: Output = receiver
        .recv_timeout(patience)
        .unwrap_or_else(|_| panic!("process {id} did not end in time: {command:?}"))
        .unwrap();
    use std::os::unix::process::ExitStatusExt as _;
    Ended {
        code: output
            .status
            .code()
            .unwrap_or_else(|| 128 + output.status.signal().unwrap_or(0)),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// The lines of a program, without one of mpirun's own: Open MPI may lose a race with its child, and
/// then warns of it on stderr, which is part of every log.
pub(crate) fn lines(text: &str) -> Vec<&str> {
    let warning = |line: &&str| line.contains("plm:rsh: Warning: setpgid");
    text.lines().filter(|line| !warning(line)).collect()
}

/// Polls until something holds.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let since = Instant::now();
    while !holds() {
        assert!(since.elapsed() < PATIENCE, "{what}: not in time");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Mounts of this machine that lie below a directory.
pub(crate) fn mounts_below(directory: &Path) -> usize {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let place = directory.to_str().unwrap();
    mounts.lines().filter(|line| line.contains(place)).count()
}

/// A job whose ranks run a shell command.
pub(crate) fn hello(workers: u32, slots: u32, script: &str) -> String {
    let ranks = workers * slots;
    job(
        workers,
        slots,
        &format!("[mpirun, -np, '{ranks}', sh, -c, {script:?}]"),
    )
}

/// A job with this launcher command, written as a YAML list.
pub(crate) fn job(workers: u32, slots: u32, command: &str) -> String {
    format!(
        "\
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata:
  name: hello
spec:
  slotsPerWorker: {slots}
  mpiReplicaSpecs:
    Launcher:
      replicas: 1
      template:
        spec:
          containers:
          - name: launcher
            image: any
            command: {command}
    Worker:
      replicas: {workers}
      template:
        spec:
          containers:
          - name: worker
            image: any
"
    )
}
