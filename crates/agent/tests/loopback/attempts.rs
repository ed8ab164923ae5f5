//! A command that is started again in place: on the same hosts, after everything that the attempt before has
//! started is gone, and as often as the job allows.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::launches::Launch;
use super::world::{lives, text, wait_for};

const SOON: Duration = Duration::from_secs(20);

/// `exec` of a script that may be started again so often.
fn exec(launch: &Launch, restarts: u32, script: &str) -> Command {
    let mut command = launch.exec(script);
    command
        .env("MUSTER_RESTARTS", restarts.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn run(launch: &Launch, restarts: u32, script: &str) -> Output {
    exec(launch, restarts, script).output().unwrap()
}

/// The lines that separate attempts.
fn separators(output: &Output) -> Vec<String> {
    let said = text(&output.stderr);
    let lines = said.lines().map(str::to_owned);
    lines
        .filter(|line| line.starts_with("muster-agent: attempt "))
        .collect()
}

/// Runs a rank on each of two workers, and fails if one of them does.
const BOTH: &str = "$S w0 \"$D 0 $RANK\" & a=$!; $S w1 \"$D 1 $RANK\" & b=$!; wait $a && wait $b";

#[test]
fn a_program_whose_rank_was_killed_is_started_again_and_told_so() {
    let launch = Launch::new(2);
    // As mpirun and its daemon do, which are not ended by the signal themselves.
    launch.script(
        "orted",
        "export OMPI_COMM_WORLD_RANK=$1 OMPI_COMM_WORLD_LOCAL_SIZE=1; shift
         $OMPI_MCA_orte_fork_agent $* || exit 1\n",
    );
    let log = launch.world.path("log");
    launch.script(
        "rank",
        &format!(
            "[ $MUSTER_ATTEMPT$OMPI_COMM_WORLD_RANK = 11 ] && kill -9 $$
             echo \"$OMPI_COMM_WORLD_RANK $MUSTER_ATTEMPT $MUSTER_RESTART_REASON\" >> {}\n",
            log.display()
        ),
    );
    let rank = launch.world.path("bin/rank");
    let script = format!(
        "RANK={}; echo attempt $MUSTER_ATTEMPT, $MUSTER_RESTART_REASON; {BOTH} || exit 137",
        rank.display()
    );
    let output = run(&launch, 3, &script);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(
        text(&output.stdout),
        "attempt 1,\nattempt 2, RankKilled\n",
        "{output:?}"
    );
    let separators = separators(&output);
    let [separator] = &separators[..] else {
        panic!("{output:?}");
    };
    let begin = "muster-agent: attempt 2 of at most 4: RankKilled: rank 1 on worker w1 was ";
    assert!(separator.starts_with(begin), "{separator}");
    let said = std::fs::read_to_string(&log).unwrap();
    let second: Vec<_> = said.lines().filter(|line| line.contains(" 2 ")).collect();
    assert_eq!(second.len(), 2, "{said}");
    assert!(second.iter().all(|line| line.ends_with("RankKilled")));
    let verdict = launch.verdict();
    assert_eq!(verdict["verdict"], "Succeeded");
    assert_eq!(verdict["attempts"], 2);
    assert_eq!(verdict["earlier"][0]["reason"], "RankKilled");
    assert_eq!(
        verdict["message"],
        "attempt 2 succeeded; attempt 1 ended with RankKilled"
    );
}

#[test]
fn without_recovery_a_failure_is_the_end() {
    let launch = Launch::new(1);
    let runs = launch.world.path("runs");
    let script = format!(
        "env | grep -c -e ATTEMPT -e RESTART; echo run >> {}; $S w0 \"$D 0 'exit 3'\"",
        runs.display()
    );
    let output = launch.exec(&script).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert_eq!(text(&output.stdout), "0\n");
    assert_eq!(std::fs::read_to_string(&runs).unwrap(), "run\n");
    let verdict = launch.verdict();
    assert_eq!(verdict["attempts"], Value::Null, "{verdict}");
    // Nor does a worker keep an attempt apart that nobody spoke of.
    let output = launch.exec("$S w0 'env | grep -c MUSTER_EXEC'").output();
    assert_eq!(text(&output.unwrap().stdout), "0\n");
}

#[test]
fn when_no_restart_is_left_the_last_failure_is_the_verdict() {
    let launch = Launch::new(1);
    let output = run(&launch, 2, "$S w0 \"$D 0 'exit $MUSTER_ATTEMPT'\"");
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert_eq!(separators(&output).len(), 2, "{output:?}");
    let verdict = launch.verdict();
    assert_eq!(verdict["verdict"], "RankFailed");
    assert_eq!(
        (&verdict["attempts"], &verdict["exit"]),
        (&json!(3), &json!(3))
    );
    let message = verdict["message"].as_str().unwrap();
    let end =
        "; this was attempt 3; attempt 1 ended with CommandFailed, attempt 2 with CommandFailed";
    assert!(message.ends_with(end), "{message}");
}

#[test]
fn a_reason_that_the_job_does_not_name_is_the_end() {
    let launch = Launch::new(1);
    let mut command = exec(&launch, 2, "$S w0 \"$D 0 'exit 3'\"");
    let output = command.env("MUSTER_RESTART_ON", "RankKilled,WorkerLost");
    let output = output.output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(separators(&output).is_empty(), "{output:?}");
}

/// A process that only SIGKILL ends, that nothing in its environment gives away, and whose parents have gone.
/// It writes its number, and ends at the latest when the test has removed its files.
fn stubborn(file: &Path) -> String {
    let file = file.display();
    format!(
        "(setsid env -i /bin/sh -c 'trap \"\" TERM HUP; echo $$ > {file}.draft; mv {file}.draft {file}; \
         while [ -e {file} ]; do /bin/sleep 1; done' >/dev/null 2>&1 &); while [ ! -e {file} ]; do sleep 0.01; done"
    )
}

#[test]
fn nothing_of_an_attempt_is_left_when_the_next_one_begins() {
    let launch = Launch::new(2);
    let places = ["by-a-rank", "by-a-good-command", "by-the-launcher"];
    let files = places.map(|name| launch.world.path(name));
    launch.script("leave-rank", &format!("{}; exit 3\n", stubborn(&files[0])));
    launch.script("leave-good", &format!("{}\n", stubborn(&files[1])));
    launch.script("leave-here", &format!("{}\n", stubborn(&files[2])));
    let bin = launch.world.path("bin");
    let bin = bin.display();
    let known: Vec<_> = files
        .iter()
        .map(|file| file.display().to_string())
        .collect();
    let script = format!(
        "if [ $MUSTER_ATTEMPT = 1 ]; then
             $S w1 {bin}/leave-good && {bin}/leave-here && $S w0 \"$D 0 {bin}/leave-rank\"
             exit
         fi
         for file in {}; do kill -0 $(cat $file) 2>/dev/null && echo $file is left; done
         $S w0 \"$D 0 true\" && $S w1 \"$D 1 true\"",
        known.join(" ")
    );
    let output = run(&launch, 1, &script);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(text(&output.stdout), "", "{output:?}");
    assert_eq!(launch.verdict()["attempts"], 2);
    for file in &files {
        let pid = std::fs::read_to_string(file).unwrap();
        assert!(!lives(&pid), "{}", file.display());
    }
}

/// Its launcher has ended, and the worker reads it late.
#[test]
fn a_request_of_an_attempt_that_is_over_starts_nothing() {
    let launch = Launch::new(1);
    let marks = launch.world.path("marks");
    let script = format!(
        "echo $MUSTER_EXEC >> {}; $S w0 \"$D 0 '[ $MUSTER_ATTEMPT = 2 ]'\"",
        marks.display()
    );
    assert!(run(&launch, 1, &script).status.success());
    let marks = std::fs::read_to_string(&marks).unwrap();
    let marks: Vec<_> = marks.lines().collect();
    let request = |mark: &str| {
        let mut command = launch.world.agent("rsh");
        command
            .args(["w0", "echo started"])
            .env("MUSTER_ATTEMPT", "1")
            .env("MUSTER_EXEC", mark);
        command.output().unwrap()
    };
    let late = request(marks[0]);
    assert_eq!(late.status.code(), Some(255), "{late:?}");
    assert_eq!(text(&late.stdout), "");
    let why = text(&late.stderr);
    assert!(
        why.contains("the attempt that asks for it is over"),
        "{why}"
    );
    assert_eq!(text(&request(marks[1]).stdout), "started\n");
}

#[test]
fn the_worker_s_own_command_goes_on() {
    let launch = Launch::new(0);
    let file = launch.world.path("own");
    let own = format!(
        "(setsid sleep 61 & echo $! > {}); exec sleep 60",
        file.display()
    );
    let worker = launch.world.serve_with(|command| {
        command.args(["--", "/bin/sh", "-c", &own]);
    });
    launch.world.write_hosts(&[("w0", worker.port)]);
    wait_for("it has written", SOON, || {
        std::fs::read_to_string(&file).is_ok_and(|text| text.ends_with('\n'))
    });
    let mut command = exec(&launch, 1, "$S w0 \"$D 0 '[ $MUSTER_ATTEMPT = 2 ]'\"");
    let output = command.env("MUSTER_WORKERS", "1").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let orphan = std::fs::read_to_string(&file).unwrap();
    assert!(lives(&orphan));
    assert!(lives(&worker.process.id().to_string()));
    let orphan = Pid::from_raw(orphan.trim().parse().unwrap()).unwrap();
    kill_process(orphan, Signal::KILL).unwrap();
}

#[test]
fn a_worker_that_was_lost_is_waited_for() {
    let mut launch = Launch::new(2);
    let seen = launch.world.path("seen");
    let script = format!(
        "RANK=\"'[ \\$MUSTER_ATTEMPT = 2 ] || {{ touch {}; sleep 60; }}'\"; {BOTH}",
        seen.display()
    );
    let child = exec(&launch, 1, &script).spawn().unwrap();
    wait_for("a rank runs", SOON, || seen.exists());
    launch.workers[1].process.kill().unwrap();
    // Its pod is replaced.
    launch.workers[1] = launch.world.serve_as("w1", |_| {});
    let hosts = [
        ("w0", launch.workers[0].port),
        ("w1", launch.workers[1].port),
    ];
    launch.world.write_hosts(&hosts);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let verdict = launch.verdict();
    assert_eq!(verdict["earlier"][0]["reason"], "WorkerLost", "{verdict}");
}

#[test]
fn a_worker_that_does_not_come_back_is_the_end() {
    let mut launch = Launch::new(2);
    let seen = launch.world.path("seen");
    let script = format!("RANK=\"'touch {}; sleep 60'\"; {BOTH}", seen.display());
    let mut command = exec(&launch, 3, &script);
    command
        .env("MUSTER_LISTS_TIMEOUT", "1")
        .env("MUSTER_REPLACEMENT_TIMEOUT", "2");
    let child = command.spawn().unwrap();
    wait_for("a rank runs", SOON, || seen.exists());
    launch.workers[1].process.kill().unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(119), "{output:?}");
    let verdict = launch.verdict();
    assert_eq!(verdict["verdict"], "WorkerLost", "{verdict}");
    let message = verdict["message"].as_str().unwrap();
    let why = "attempt 2 could not begin: gave up after 2 s waiting for 1 of 2 workers: w1";
    assert!(message.starts_with(why), "{message}");
}

fn terminate(process: u32) {
    let target = Pid::from_raw(process.cast_signed()).unwrap();
    kill_process(target, Signal::TERM).unwrap();
}

#[test]
fn a_command_that_is_told_to_stop_is_not_started_again() {
    let launch = Launch::new(1);
    let seen = launch.world.path("seen");
    let script = format!(
        "$S w0 \"$D 0 '[ $MUSTER_ATTEMPT = 1 ] && exit 3; touch {}; sleep 60'\"",
        seen.display()
    );
    let child = exec(&launch, 9, &script).spawn().unwrap();
    wait_for("the second attempt runs", SOON, || seen.exists());
    terminate(child.id());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(143), "{output:?}");
    let verdict = launch.verdict();
    assert_eq!(verdict["verdict"], "Stopped");
    assert_eq!(verdict["attempts"], 2);
}

#[test]
fn it_can_be_told_to_stop_between_two_attempts() {
    let launch = Launch::new(0);
    let worker = launch.world.serve_with(|command| {
        command.env("MUSTER_GRACE", "60");
    });
    launch.world.write_hosts(&[("w0", worker.port)]);
    let left = launch.world.path("left");
    launch.script("leave", &format!("{}; exit 3\n", stubborn(&left)));
    let leave = launch.world.path("bin/leave");
    let script = format!("$S w0 \"$D 0 {}\"", leave.display());
    let mut command = exec(&launch, 9, &script);
    let mut child = command.env("MUSTER_WORKERS", "1").spawn().unwrap();
    wait_for("the attempt has ended", SOON, || {
        let path = format!("/proc/{0}/task/{0}/children", child.id());
        let children = std::fs::read_to_string(path).unwrap();
        left.exists() && children.trim().is_empty()
    });
    terminate(child.id());
    let begun = Instant::now();
    wait_for("it ends", SOON, || child.try_wait().unwrap().is_some());
    assert!(begun.elapsed() < Duration::from_secs(10));
    assert_eq!(child.wait().unwrap().code(), Some(143));
    assert_eq!(launch.verdict()["verdict"], "Stopped");
    let pid = std::fs::read_to_string(&left).unwrap();
    assert!(lives(&pid), "the worker still had time to end it");
    let pid = Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
}
