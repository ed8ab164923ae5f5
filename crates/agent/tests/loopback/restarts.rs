//! A launcher's container that is restarted in place: no init container runs again, while workers may
//! have been replaced and the job may have been scaled.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getuid, kill_process};
use serde_json::json;

use super::launches::Launch;
use super::world::{Worker, text, wait_for};

const NOBODY: u32 = 65534;

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

fn serve_at(launch: &Launch, ip: &'static str) -> Worker {
    launch.world.serve_with(|command| {
        command.env("MUSTER_LISTEN", ip);
    })
}

fn write_hosts(launch: &Launch, text: &str) {
    let draft = launch.world.path("hosts.draft");
    std::fs::write(&draft, text).unwrap();
    std::fs::rename(draft, launch.world.path("hosts")).unwrap();
}

/// `exec` of a script for which the operator wants lists, in a directory that anyone may write.
fn exec(launch: &Launch, script: &str) -> Command {
    let lists = launch.world.path("lists");
    std::fs::create_dir_all(&lists).unwrap();
    set_mode(&lists, 0o777);
    let mut command = launch.exec(script);
    command
        .env("MUSTER_LISTS_DIR", lists)
        .env("MUSTER_SLOTS", "2")
        .env("MUSTER_CENSUS", "Off");
    command
}

#[test]
fn lists_follow_a_worker_that_was_replaced() {
    let launch = Launch::new(0);
    let worker = serve_at(&launch, "127.0.0.22");
    let line = format!("# workers 1\nw0 127.0.0.22:{}\n", worker.port);
    // The kubelet brings the new address a while after the start.
    write_hosts(&launch, "# workers 1\nw0 127.0.0.21:9\n");
    let mut command = exec(&launch, "cat $MUSTER_LISTS_DIR/hostfile");
    // The gate wrote them, as another user; what it may have left half-written is in nobody's way.
    let hostfile = launch.world.path("lists/hostfile");
    std::fs::write(&hostfile, "127.0.0.21 slots=2\n").unwrap();
    set_mode(&hostfile, 0o444);
    if getuid().is_root() {
        set_mode(launch.world.directory.path(), 0o755);
        command.uid(NOBODY).gid(NOBODY);
    }
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    assert!(first.contains("waiting for 1 of 1 workers: w0"), "{first}");
    write_hosts(&launch, &line);
    let said: Vec<_> = lines.map(Result::unwrap).collect();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{said:?}");
    assert_eq!(text(&output.stdout), "127.0.0.22 slots=2\n");
    // Nothing has changed: not a word, and not a write either.
    let written = std::fs::metadata(&hostfile).unwrap().modified().unwrap();
    let output = exec(&launch, "cat $MUSTER_LISTS_DIR/hostfile").output();
    let output = output.unwrap();
    assert_eq!(text(&output.stdout), "127.0.0.22 slots=2\n");
    assert_eq!(text(&output.stderr), "");
    let later = std::fs::metadata(&hostfile).unwrap().modified().unwrap();
    assert_eq!(written, later);
}

#[test]
fn a_worker_that_does_not_come_back_is_named() {
    let launch = Launch::new(0);
    let worker = serve_at(&launch, "127.0.0.22");
    let lines = format!(
        "# workers 2\nw0 127.0.0.22:{}\nw1 127.0.0.21:9\n",
        worker.port
    );
    write_hosts(&launch, &lines);
    let ran = launch.world.path("ran");
    let begun = Instant::now();
    let output = exec(&launch, &format!("touch {}", ran.display()))
        .env("MUSTER_LISTS_TIMEOUT", "2")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(119), "{output:?}");
    assert!(begun.elapsed() >= Duration::from_secs(2));
    assert!(!ran.exists());
    let verdict = launch.verdict();
    assert_eq!(verdict["verdict"], "WorkerUnreachable");
    assert_eq!(verdict["lost"], json!(["w1"]));
    assert_eq!(verdict["asked"], 2);
}

#[test]
fn it_can_be_told_to_stop_while_it_waits() {
    let launch = Launch::new(0);
    write_hosts(&launch, "# workers 1\nw0 127.0.0.21:9\n");
    let mut run = exec(&launch, "exit 0").spawn().unwrap();
    let target = Pid::from_raw(run.id().cast_signed()).unwrap();
    // Before it watches for signals it would simply end.
    wait_for("it waits", Duration::from_secs(10), || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", run.id())).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = caught.map(|mask| u64::from_str_radix(mask.trim(), 16).unwrap());
        caught.is_some_and(|mask| mask & (1 << 14) != 0)
    });
    kill_process(target, Signal::TERM).unwrap();
    wait_for("it ends", Duration::from_secs(10), || {
        run.try_wait().unwrap().is_some()
    });
    assert_eq!(run.wait().unwrap().code(), Some(143));
    assert_eq!(launch.verdict()["verdict"], "Stopped");
}

#[test]
fn the_list_says_how_many_workers_must_take_part() {
    let launch = Launch::new(2);
    let hosts = std::fs::read_to_string(launch.world.path("hosts")).unwrap();
    let one_run = "$S w0 \"$D 0 true\"";
    let status = launch.exec(one_run).status().unwrap();
    assert_eq!(status.code(), Some(118), "two by the environment");
    write_hosts(&launch, &format!("# workers 1\n{hosts}"));
    let status = launch.exec(one_run).status().unwrap();
    assert_eq!(status.code(), Some(0), "{}", launch.verdict());
    assert_eq!(launch.verdict()["asked"], 1);
    write_hosts(&launch, &format!("# workers 3\n{hosts}"));
    let status = launch.exec(one_run).status().unwrap();
    assert_eq!(status.code(), Some(118));
    assert_eq!(launch.verdict()["asked"], 3);
}
