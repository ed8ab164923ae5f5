//! `muster get --watch` and `muster wait` as people leave them running: what they print while jobs come, run and end,
//! and while the API server is away.

use std::fs;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use crate::kubectl::Up;
use crate::ui::{Relay, until_go};
use crate::world::{hello, lines, until};

#[test]
fn get_watch_follows_a_job_to_its_end_and_says_when_the_api_server_is_away() {
    let up = Up::start("get-watch");
    let (out, err) = (
        up.world.directory.join("out"),
        up.world.directory.join("err"),
    );
    let mut watch = up.world.muster(&["get", "--local", "--watch"]);
    watch.stdin(Stdio::null());
    watch.stdout(fs::File::create(&out).unwrap());
    watch.stderr(fs::File::create(&err).unwrap());
    let mut watch = watch.spawn().unwrap();
    let said = |path| fs::read_to_string(path).unwrap_or_default();
    until("the first line", || said(&out).starts_with("NAME"));
    let file = up.world.file("job.yaml", &hello(2, 1, "echo hello"));
    up.ok(&["apply", "-f", &file]);
    until("the job's end", || said(&out).contains("Succeeded"));
    let text = said(&out);
    let states: Vec<&str> = lines(&text)
        .into_iter()
        .skip(1)
        .filter_map(|line| line.split_whitespace().nth(2))
        .collect();
    assert_eq!(states.last(), Some(&"Succeeded"), "{text}");
    assert!(states.contains(&"Waiting"), "{text}");
    up.ok(&["delete", "mpijob", "hello"]);
    until("the job's deletion", || said(&out).contains("Deleted"));
    let down = up.world.run(&["down"]);
    assert_eq!(down.code, 0, "{}", down.stderr);
    until("a word about it", || {
        said(&err).contains("muster goes on trying")
    });
    let process = Pid::from_child(&watch);
    kill_process(process, Signal::INT).unwrap();
    assert_eq!(watch.wait().unwrap().code(), Some(130));
    assert!(
        up.world.processes().is_empty(),
        "{:?}",
        up.world.processes()
    );
}

#[test]
fn wait_outlasts_an_api_server_that_goes_away() {
    let up = Up::start("wait-away");
    let world = &up.world;
    let (relay, kubeconfig) = Relay::before_cluster(world);
    let file = world.file("job.yaml", &hello(1, 1, &until_go(world)));
    up.ok(&["apply", "-f", &file]);
    let err = world.directory.join("err");
    let said = || fs::read_to_string(&err).unwrap_or_default();
    let mut wait = world.muster(&["wait", "hello", "--kubeconfig", &kubeconfig]);
    wait.stdin(Stdio::null()).stdout(Stdio::null());
    wait.stderr(fs::File::create(&err).unwrap());
    let mut wait = wait.spawn().unwrap();
    until("the job runs", || said().contains("running"));
    relay.set_open(false);
    until("a word about it", || said().contains("trying again"));
    world.file("go", "");
    relay.set_open(true);
    assert_eq!(wait.wait().unwrap().code(), Some(0), "{}", said());
    world.run(&["down"]);
}
