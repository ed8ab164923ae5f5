//! What is left of a request when it ends, in every way that it can.

use std::process::{Child, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::world::{Worker, World, lives, wait_for};

const SOON: Duration = Duration::from_secs(10);

/// A tree as launchers make it: a child in the group, one in its own session, and one whose parents
/// are gone. Each writes its number.
fn start_tree(world: &World, extra: &str) -> (Child, Vec<String>) {
    let directory = world.path("pids");
    std::fs::create_dir_all(&directory).unwrap();
    let directory = directory.display();
    let member = |name: &str| format!("sh -c 'echo $$ > {directory}/{name}; exec sleep 60'");
    let script = format!(
        "{extra} {} & setsid {} & (setsid {} &) ; wait",
        member("group"),
        member("session"),
        member("orphan"),
    );
    let child = world
        .agent("rsh")
        .args(["w0", &script])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let names = ["group", "session", "orphan"];
    let read = || -> Vec<String> {
        let texts = names.map(|name| std::fs::read_to_string(world.path("pids").join(name)));
        texts
            .into_iter()
            .filter_map(|text| text.ok().filter(|text| text.ends_with('\n')))
            .collect()
    };
    wait_for("the tree stands", SOON, || read().len() == names.len());
    (child, read())
}

fn world_with_worker() -> (World, Worker) {
    let world = World::new();
    let worker = world.serve();
    world.write_hosts(&[("w0", worker.port)]);
    (world, worker)
}

fn signal(process: &Child, signal: Signal) {
    let pid = Pid::from_raw(process.id().cast_signed()).unwrap();
    kill_process(pid, signal).unwrap();
}

fn assert_gone(pids: &[String]) {
    wait_for("all are gone", SOON, || !pids.iter().any(|pid| lives(pid)));
}

#[test]
fn a_killed_shim_ends_the_whole_tree() {
    let (world, _worker) = world_with_worker();
    let (mut shim, pids) = start_tree(&world, "");
    assert!(pids.iter().all(|pid| lives(pid)));
    shim.kill().unwrap();
    shim.wait().unwrap();
    assert_gone(&pids);
    assert!(world.rsh(&["w0", "true"]).status.success());
}

#[test]
fn a_terminated_shim_ends_the_whole_tree_and_says_so() {
    let (world, _worker) = world_with_worker();
    let (mut shim, pids) = start_tree(&world, "");
    signal(&shim, Signal::TERM);
    assert_eq!(shim.wait().unwrap().code(), Some(143));
    assert_gone(&pids);
}

#[test]
fn who_ignores_the_request_is_killed_after_the_grace() {
    let (world, _worker) = world_with_worker();
    let (mut shim, pids) = start_tree(&world, "trap '' TERM HUP;");
    shim.kill().unwrap();
    shim.wait().unwrap();
    assert_gone(&pids);
}

#[test]
fn a_stopping_worker_leaves_nothing_and_the_shim_says_255() {
    let (world, mut worker) = world_with_worker();
    let (mut shim, pids) = start_tree(&world, "");
    signal(&worker.process, Signal::TERM);
    assert_eq!(shim.wait().unwrap().code(), Some(255));
    assert_eq!(worker.process.wait().unwrap().code(), Some(0));
    assert_gone(&pids);
}

#[test]
fn a_failed_command_leaves_nothing_behind() {
    let (world, _worker) = world_with_worker();
    let pid = world.path("pid");
    let script = format!(
        "setsid sh -c 'echo $$ > {0}; exec sleep 60' >/dev/null 2>&1 & \
         until [ -s {0} ]; do sleep 0.02; done; exit 6",
        pid.display()
    );
    assert_eq!(world.rsh(&["w0", &script]).status.code(), Some(6));
    assert_gone(&[std::fs::read_to_string(&pid).unwrap()]);
}

#[test]
fn a_daemon_outlives_a_command_that_succeeded_and_ends_with_the_worker() {
    let (world, worker) = world_with_worker();
    let pid = world.path("pid");
    let script = format!(
        "setsid sh -c 'echo $$ > {0}; exec sleep 60' >/dev/null 2>&1 </dev/null & \
         until [ -s {0} ]; do sleep 0.02; done",
        pid.display()
    );
    assert!(world.rsh(&["w0", &script]).status.success());
    let daemon = std::fs::read_to_string(&pid).unwrap();
    assert!(lives(&daemon));
    drop(worker);
    let daemon = Pid::from_raw(daemon.trim().parse().unwrap()).unwrap();
    kill_process(daemon, Signal::KILL).unwrap();
}

#[test]
fn a_signal_reaches_the_command() {
    let (world, _worker) = world_with_worker();
    let ready = world.path("ready");
    let script = format!(
        "trap 'exit 12' USR1; touch {}; while :; do sleep 0.02; done",
        ready.display()
    );
    let mut shim = world.agent("rsh").args(["w0", &script]).spawn().unwrap();
    wait_for("the trap is set", SOON, || ready.exists());
    signal(&shim, Signal::USR1);
    assert_eq!(shim.wait().unwrap().code(), Some(12));
}

#[test]
fn orphans_are_collected() {
    let (world, worker) = world_with_worker();
    world.rsh(&["w0", "for i in 1 2 3 4 5; do (sh -c : &) ; done"]);
    let parent = format!(" {} ", worker.process.id());
    let zombies = || {
        let entries = std::fs::read_dir("/proc").unwrap();
        let stats = entries
            .filter_map(|entry| std::fs::read_to_string(entry.ok()?.path().join("stat")).ok());
        stats
            .filter(|stat| stat.contains(&format!(") Z{parent}")))
            .count()
    };
    wait_for("no zombie is left", SOON, || zombies() == 0);
}

/// A peer that is there but silent, as when a cable is pulled: no packet says so.
#[test]
fn silence_of_the_worker_is_a_loss() {
    let (world, worker) = world_with_worker();
    let (mut shim, pids) = start_tree(&world, "");
    signal(&worker.process, Signal::STOP);
    wait_for("the shim gives up", Duration::from_secs(15), || {
        shim.try_wait().unwrap().is_some()
    });
    assert_eq!(shim.wait().unwrap().code(), Some(255));
    signal(&worker.process, Signal::CONT);
    assert_gone(&pids);
}

#[test]
fn silence_of_the_shim_ends_the_tree() {
    let (world, _worker) = world_with_worker();
    let (mut shim, pids) = start_tree(&world, "");
    signal(&shim, Signal::STOP);
    wait_for("all are gone", Duration::from_secs(20), || {
        !pids.iter().any(|pid| lives(pid))
    });
    shim.kill().unwrap();
    shim.wait().unwrap();
}
