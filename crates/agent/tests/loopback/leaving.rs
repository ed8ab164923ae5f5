//! Stops that are announced: a worker, or the launcher, has to leave its node. The program's ranks are told and
//! get time to end, and the program goes on when the worker has a successor.

use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::launches::Launch;
use super::world::{text, wait_for};

const SOON: Duration = Duration::from_secs(20);
const SIGUSR1: &str = "10";

/// Two workers, and a program whose ranks write a line when they get SIGUSR1 in their first attempt.
struct Stoppable {
    launch: Launch,
}

impl Stoppable {
    fn new(on_signal: &str) -> Self {
        let mut launch = Launch::new(0);
        for number in 0..2 {
            let worker = launch.world.serve_as(&format!("w{number}"), may_stop);
            launch.workers.push(worker);
        }
        let stoppable = Self { launch };
        stoppable.list();
        let log = stoppable.launch.world.path("log");
        stoppable.launch.script(
            "rank",
            &format!(
                "R=$OMPI_COMM_WORLD_RANK; say() {{ echo \"$1 $R $MUSTER_ATTEMPT $MUSTER_RESTART_REASON\" >> {}; }}
                 [ $MUSTER_ATTEMPT = 1 ] || {{ say again; exit 0; }}
                 trap '{on_signal}' USR1; say begun; while :; do sleep 0.05; done\n",
                log.display()
            ),
        );
        stoppable
    }

    fn list(&self) {
        let ports = self.launch.workers.iter().map(|worker| worker.port);
        let hosts: Vec<_> = ["w0", "w1"].into_iter().zip(ports).collect();
        self.launch.world.write_hosts(&hosts);
    }

    fn log(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.launch.world.path("log"));
        let mut lines: Vec<String> = text
            .unwrap_or_default()
            .lines()
            .map(|line| line.trim_end().to_owned())
            .collect();
        lines.sort();
        lines
    }

    fn exec(&self, grace_secs: u32) -> Command {
        let rank = self.launch.world.path("bin/rank");
        let script = format!(
            "R={}; $S w0 \"$D 0 $R\" & a=$!; $S w1 \"$D 1 $R\" & b=$!; wait $a && wait $b",
            rank.display()
        );
        let mut command = self.launch.exec(&script);
        command
            .env("MUSTER_RESTARTS", "0")
            .env("MUSTER_STOP_SIGNAL", SIGUSR1)
            .env("MUSTER_STOP_GRACE", grace_secs.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn wait_for_both(&self, word: &str) {
        let count = || {
            self.log()
                .iter()
                .filter(|line| line.starts_with(word))
                .count()
        };
        wait_for(word, SOON, || count() == 2);
    }

    /// The pod of the second worker is deleted, and another one created.
    fn move_second_worker(&mut self) {
        let process = &mut self.launch.workers[1].process;
        wait_for("the worker ends", SOON, || {
            process.try_wait().unwrap().is_some()
        });
        assert_eq!(process.wait().unwrap().code(), Some(0));
        self.launch.workers[1] = self.launch.world.serve_as("w1", may_stop);
        self.list();
    }
}

fn may_stop(command: &mut Command) {
    command.env("MUSTER_STOP_GRACE", "30");
}

fn terminate(process: u32) {
    let target = Pid::from_raw(process.cast_signed()).unwrap();
    kill_process(target, Signal::TERM).unwrap();
}

#[test]
fn when_a_worker_leaves_the_program_stops_in_good_order_and_goes_on_elsewhere() {
    let mut world = Stoppable::new("say stopped; exit 0");
    let child = world.exec(30).spawn().unwrap();
    world.wait_for_both("begun");
    terminate(world.launch.workers[1].process.id());
    world.wait_for_both("stopped");
    world.move_second_worker();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(
        world.log(),
        [
            "again 0 2 Evicted",
            "again 1 2 Evicted",
            "begun 0 1",
            "begun 1 1",
            "stopped 0 1",
            "stopped 1 1",
        ]
    );
    let said = text(&output.stderr);
    let told = "worker w1 was told to end; the ranks get signal 10 and have 30 s to end";
    assert!(said.contains(told), "{said}");
    // No restart was allowed, and none was used up.
    assert!(
        said.contains("muster-agent: attempt 2 of at most 2: Evicted: "),
        "{said}"
    );
    let verdict = world.launch.verdict();
    assert_eq!(verdict["verdict"], "Succeeded", "{verdict}");
    assert_eq!(verdict["earlier"][0]["reason"], "Evicted", "{verdict}");
}

#[test]
fn ranks_that_do_not_end_in_time_are_ended() {
    let mut world = Stoppable::new("say asked");
    let child = world.exec(1).spawn().unwrap();
    world.wait_for_both("begun");
    terminate(world.launch.workers[1].process.id());
    world.move_second_worker();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    world.wait_for_both("again");
    assert_eq!(world.launch.verdict()["earlier"][0]["reason"], "Evicted");
}

/// Its pod was lost, so nobody ended what it had started.
#[test]
fn nothing_of_an_earlier_launcher_is_left_when_the_next_one_begins() {
    let launch = Launch::new(1);
    let left = launch.world.path("left");
    let stays = format!(
        "echo $$ > {0}.draft; mv {0}.draft {0}; exec sleep 60",
        left.display()
    );
    let mut earlier = launch.world.agent("rsh");
    let mut earlier = earlier.args(["w0", &stays]).spawn().unwrap();
    wait_for("the earlier program runs", SOON, || left.exists());
    let script = format!("$S w0 \"$D 0 '! kill -0 $(cat {})'\"", left.display());
    let mut next = launch.exec(&script);
    let output = next.env("MUSTER_RESTARTS", "1").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(launch.verdict()["attempts"], serde_json::Value::Null);
    assert!(!earlier.wait().unwrap().success());
}

/// Somebody forced its pod out of the API while its node did not answer.
#[test]
fn a_later_launcher_takes_the_workers_from_one_that_lives() {
    let launch = Launch::new(2);
    let log = launch.world.path("log");
    // A rank holds its worker's lock as long as it lives.
    launch.script(
        "rank",
        &format!(
            "exec 9>{0}.$OMPI_COMM_WORLD_RANK; flock -n 9 || echo two at once >> {0}
             echo begun $1 >> {0}; while [ ! -e {0}.$1 ]; do sleep 0.05; done\n",
            log.display()
        ),
    );
    let exec = |name: &str| {
        let rank = format!("{} {name}", launch.world.path("bin/rank").display());
        let script = format!(
            "$S w0 \"$D 0 {rank}\" & a=$!; $S w1 \"$D 1 {rank}\" & b=$!; wait $a && wait $b"
        );
        let mut command = launch.exec(&script);
        command
            .env("MUSTER_RESTARTS", "5")
            .env("MUSTER_LISTS_TIMEOUT", "3")
            .env("MUSTER_TERMINATION_LOG", launch.world.path(name))
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let said = || std::fs::read_to_string(&log).unwrap_or_default();
    let begun = |name: &str| said().matches(&format!("begun {name}\n")).count();
    let earlier = exec("earlier");
    wait_for("the earlier program runs", SOON, || begun("earlier") == 2);
    let later = exec("later");
    wait_for("the later program runs", SOON, || begun("later") == 2);
    let earlier = earlier.wait_with_output().unwrap();
    assert!(!earlier.status.success(), "{earlier:?}");
    let why = "another launcher of this job has this worker";
    assert!(text(&earlier.stderr).contains(why), "{earlier:?}");
    std::fs::write(launch.world.path("log.later"), "").unwrap();
    let later = later.wait_with_output().unwrap();
    assert!(later.status.success(), "{later:?}");
    assert_eq!(said().lines().count(), 4, "{}", said());
}

#[test]
fn a_launcher_that_has_to_leave_tells_its_ranks_first() {
    let world = Stoppable::new("say stopped; exit 0");
    let child = world.exec(30).spawn().unwrap();
    world.wait_for_both("begun");
    terminate(child.id());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(143), "{output:?}");
    assert_eq!(
        world.log(),
        ["begun 0 1", "begun 1 1", "stopped 0 1", "stopped 1 1"]
    );
    assert_eq!(world.launch.verdict()["verdict"], "Stopped");
}
