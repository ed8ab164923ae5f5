//! The launcher's wrapper with a made-up launcher, which calls its shim and starts a daemon and
//! ranks as real ones do, and misbehaves on demand.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::world::{Worker, World, lives, text, wait_for};

const SOON: Duration = Duration::from_secs(10);

pub(crate) struct Launch {
    pub(crate) world: World,
    pub(crate) workers: Vec<Worker>,
}

impl Launch {
    /// Workers, the installed agent, and a daemon that runs `RANK` as the rank given to it.
    pub(crate) fn new(workers: usize) -> Self {
        let world = World::new();
        let workers: Vec<_> = (0..workers).map(|_| world.serve()).collect();
        let names: Vec<_> = (0..workers.len()).map(|n| format!("w{n}")).collect();
        let ports = workers.iter().map(|worker| worker.port);
        let hosts: Vec<_> = names.iter().map(String::as_str).zip(ports).collect();
        world.write_hosts(&hosts);
        let bin = world.path("bin");
        assert!(world.agent("install").arg(&bin).status().unwrap().success());
        let launch = Self { world, workers };
        launch.script(
            "orted",
            "export OMPI_COMM_WORLD_RANK=$1 OMPI_COMM_WORLD_LOCAL_SIZE=1; shift
             $OMPI_MCA_orte_fork_agent sh -c \"$*\"\n",
        );
        launch
    }

    pub(crate) fn script(&self, name: &str, text: &str) {
        let path = self.world.path("bin").join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{text}")).unwrap();
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    }

    /// `exec` of a shell text, in which `$D` is the daemon and `$S` the shim.
    pub(crate) fn exec(&self, script: &str) -> Command {
        let bin = self.world.path("bin");
        let mut command = Command::new(bin.join("muster-agent"));
        command
            .args(["exec", "--", "/bin/sh", "-c"])
            .arg(format!(
                "S=$OMPI_MCA_plm_rsh_agent D={}/orted; {script}",
                bin.display()
            ))
            .env("MUSTER_TLS_DIR", self.world.path("launcher"))
            .env("MUSTER_HOSTS_FILE", self.world.path("hosts"))
            .env("MUSTER_WORKERS", self.workers.len().to_string())
            .env("MUSTER_TERMINATION_LOG", self.world.path("termination"))
            .env("MUSTER_GRACE", "1")
            .env_remove("MUSTER_RUN_DIR")
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn verdict(&self) -> Value {
        let json = std::fs::read_to_string(self.world.path("termination")).unwrap();
        serde_json::from_str(&json).unwrap()
    }

    fn start(&self, script: &str) -> Child {
        self.exec(script).spawn().unwrap()
    }
}

fn wait_within(process: &mut Child, within: Duration) -> Option<i32> {
    wait_for("the run ends", within, || {
        process.try_wait().unwrap().is_some()
    });
    process.wait().unwrap().code()
}

#[test]
fn the_command_finds_what_launchers_need() {
    let launch = Launch::new(1);
    let output = launch
        .exec(
            "command -v ssh; echo $HOME; echo $HYDRA_LAUNCHER_EXEC; ls -d $MUSTER_RUN_DIR; exit 5",
        )
        .env_remove("HOME")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    let shim = launch.world.path("bin/ssh").display().to_string();
    let stdout = text(&output.stdout);
    let lines: Vec<_> = stdout.lines().collect();
    assert_eq!(lines[..3], [shim.as_str(), "/tmp", shim.as_str()]);
    assert!(
        !std::path::Path::new(lines[3]).exists(),
        "the run's directory is left"
    );
    assert_eq!(launch.verdict()["verdict"], "Failed");
}

#[test]
fn files_of_a_run_are_where_temporary_files_belong() {
    let launch = Launch::new(1);
    let temporary = launch.world.path("");
    let output = launch
        .exec("echo $MUSTER_RUN_DIR")
        .env("TMPDIR", &temporary)
        .output()
        .unwrap();
    let directory = text(&output.stdout);
    assert!(Path::new(&directory).starts_with(&temporary), "{output:?}");
}

#[test]
fn a_good_run_is_counted() {
    let launch = Launch::new(2);
    let now = || u64::try_from(Timestamp::now().as_millisecond()).unwrap();
    let before = now();
    let code = launch
        .exec("$S w0 \"$D 0 true\" & $S w1 \"$D 1 true\" & wait")
        .status()
        .unwrap();
    assert_eq!(code.code(), Some(0));
    let mut verdict = launch.verdict();
    let started = verdict.as_object_mut().unwrap();
    let started = started.remove("ranksStartedMs").and_then(|at| at.as_u64());
    assert!(started.is_some_and(|at| (before..=now()).contains(&at)));
    assert_eq!(
        verdict,
        json!({
            "muster": 1, "verdict": "Succeeded", "exit": 0, "hosts": 2, "asked": 2,
            "ranksPerHost": {"w0": 1, "w1": 1}, "lost": [], "message": "",
        })
    );
}

#[test]
fn success_without_the_workers_is_none() {
    let launch = Launch::new(2);
    assert_eq!(launch.exec("exit 0").status().unwrap().code(), Some(118));
    let verdict = launch.verdict();
    assert_eq!(verdict["verdict"], "RanksNotDistributed");
    let message = verdict["message"].as_str().unwrap();
    assert!(message.contains("only 0 of 2 workers"), "{message}");
    let opted_out = launch.exec("exit 0").env("MUSTER_CENSUS", "Off").status();
    assert_eq!(opted_out.unwrap().code(), Some(0));
}

#[test]
fn a_lost_worker_ends_a_launcher_that_does_not_notice() {
    let mut launch = Launch::new(2);
    let seen = launch.world.path("seen");
    let script = format!(
        "$S w0 \"$D 0 sleep 60\" & $S w1 \"$D 1 'touch {}; sleep 60'\" & sleep 60",
        seen.display()
    );
    let mut run = launch.start(&script);
    wait_for("the rank runs", SOON, || seen.exists());
    launch.workers[1].process.kill().unwrap();
    assert_eq!(wait_within(&mut run, SOON), Some(119));
    let verdict = launch.verdict();
    assert_eq!(verdict["verdict"], "WorkerLost");
    assert_eq!(verdict["lost"], json!(["w1"]));
}

#[test]
fn a_lost_worker_outweighs_a_launcher_that_says_zero() {
    let mut launch = Launch::new(2);
    let seen = launch.world.path("seen");
    let script = format!(
        "$S w0 \"$D 0 true\"; $S w1 \"$D 1 'touch {}; sleep 60'\"; exit 0",
        seen.display()
    );
    let mut run = launch.start(&script);
    wait_for("the rank runs", SOON, || seen.exists());
    launch.workers[1].process.kill().unwrap();
    assert_eq!(wait_within(&mut run, SOON), Some(119));
    assert_eq!(launch.verdict()["verdict"], "WorkerLost");
}

/// Hydra waits without end when a rank fails before it has finalized. Intel MPI does not even collect the
/// status of the rank meanwhile.
#[test]
fn a_failed_rank_ends_a_launcher_that_waits() {
    let launch = Launch::new(1);
    launch.script(
        "orted",
        "export OMPI_COMM_WORLD_RANK=$1; shift
         $OMPI_MCA_orte_fork_agent sh -c \"$*\" & exec sleep 60\n",
    );
    let mut run = launch.start("$S w0 \"$D 3 'exit 3'\"");
    assert_eq!(wait_within(&mut run, SOON), Some(3));
    let verdict = launch.verdict();
    assert_eq!(verdict["verdict"], "RankFailed");
    let message = verdict["message"].as_str().unwrap();
    assert!(
        message.starts_with("rank 3 on worker w0 exited with code 3"),
        "{message}"
    );
}

#[test]
fn a_worker_that_cannot_be_reached_ends_a_launcher_that_waits() {
    let mut launch = Launch::new(1);
    launch.workers[0].process.kill().unwrap();
    launch.workers[0].process.wait().unwrap();
    let begun = Instant::now();
    let mut run = launch.start("$S -oConnectTimeout=1 w0 \"$D 0 true\"; sleep 60");
    assert_eq!(wait_within(&mut run, SOON), Some(119));
    assert!(begun.elapsed() < SOON);
    assert_eq!(launch.verdict()["verdict"], "WorkerUnreachable");
}

/// Intel's `mpirun` is a shell script: SIGTERM ends the script and not what it runs.
#[test]
fn a_signal_reaches_the_whole_tree() {
    let launch = Launch::new(1);
    let pid = launch.world.path("pid");
    let remote = launch.world.path("remote");
    let script = format!(
        "setsid sh -c 'echo $$ > {}; exec sleep 60' & $S w0 \"$D 0 'echo \\$\\$ > {}; exec sleep 60'\"",
        pid.display(),
        remote.display(),
    );
    let mut run = launch.start(&script);
    let number = |path| {
        std::fs::read_to_string(path)
            .ok()
            .filter(|text| text.ends_with('\n'))
    };
    wait_for("both run", SOON, || {
        number(&pid).is_some() && number(&remote).is_some()
    });
    let target = Pid::from_raw(run.id().cast_signed()).unwrap();
    kill_process(target, Signal::TERM).unwrap();
    assert_eq!(wait_within(&mut run, SOON), Some(143));
    assert_eq!(launch.verdict()["verdict"], "Stopped");
    for path in [&pid, &remote] {
        let pid = number(path).unwrap();
        wait_for("the tree is gone", SOON, || !lives(&pid));
    }
}

#[test]
fn a_missing_program_is_named() {
    let launch = Launch::new(0);
    let output = launch
        .world
        .agent("exec")
        .args(["--", "no-such-mpirun"])
        .env("MUSTER_TERMINATION_LOG", launch.world.path("termination"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(127));
    assert!(text(&output.stderr).contains("cannot run no-such-mpirun"));
    assert_eq!(launch.verdict()["exit"], 127);
}

#[test]
fn a_worker_whose_own_command_is_missing_says_so() {
    let launch = Launch::new(0);
    let output = launch
        .world
        .agent("serve")
        .args(["--", "no-such-command"])
        .env("MUSTER_TLS_DIR", launch.world.path("worker"))
        .env("MUSTER_PORT", "0")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(127), "{output:?}");
    assert!(text(&output.stderr).contains("cannot run no-such-command"));
}

impl Launch {
    /// A launcher that is not a shell by name, as `mpirun`; otherwise it is one.
    fn with_mpirun(workers: usize) -> Self {
        let launch = Self::new(workers);
        let shell = std::fs::canonicalize("/bin/sh").unwrap();
        std::fs::copy(shell, launch.world.path("bin/mpirun")).unwrap();
        launch
    }
}

/// Both workers' daemons, from a launcher that fails if one does.
const GOOD_RUN: &str = "mpirun -c '$S w0 \"$D 0 sleep 3\" & $S w1 \"$D 1 sleep 3\" & wait'";

/// One that cannot find its worker, and takes as long to end as real ones do.
const BAD_RUN: &str = "mpirun -c '$S nowhere \"$D 0 true\"; sleep 3; exit 1'";

#[test]
fn a_script_that_tries_again_is_judged_by_its_last_try() {
    let launch = Launch::with_mpirun(2);
    let script = format!("export S D; {BAD_RUN} || {GOOD_RUN}");
    let output = launch.exec(&script).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let verdict = launch.verdict();
    assert_eq!(verdict["verdict"], "Succeeded", "{verdict}");
    // The other way round the failure is the last word, though the script does not pass it on.
    let script = format!("export S D; {GOOD_RUN}; {BAD_RUN}; exit 0");
    let status = launch.exec(&script).status().unwrap();
    assert_eq!(status.code(), Some(119), "{}", launch.verdict());
    assert_eq!(launch.verdict()["verdict"], "WorkerUnreachable");
}

#[test]
fn a_launcher_of_a_script_that_does_not_end_is_ended() {
    let launch = Launch::with_mpirun(1);
    let stuck = "mpirun -c '$S nowhere \"$D 0 true\"; sleep 60; exit 1'";
    let mut run = launch.start(&format!("export S D; {stuck}; exit 0"));
    assert_eq!(wait_within(&mut run, 2 * SOON), Some(119));
    assert_eq!(launch.verdict()["verdict"], "WorkerUnreachable");
}

#[test]
fn of_two_launchers_at_once_each_counts() {
    let launch = Launch::with_mpirun(2);
    let script = format!("export S D; {GOOD_RUN} & sleep 1; {BAD_RUN} & wait; exit 0");
    let status = launch.exec(&script).status().unwrap();
    assert_eq!(status.code(), Some(119), "{}", launch.verdict());
    assert_eq!(launch.verdict()["verdict"], "WorkerUnreachable");
    let first = format!("export S D; {BAD_RUN} & {GOOD_RUN} & wait; exit 0");
    let status = launch.exec(&first).status().unwrap();
    assert_eq!(status.code(), Some(119), "{}", launch.verdict());
}
