//! Jobs that run: where ranks are, what reaches which stream, how it ends, and what stays.

use std::io::Read as _;
use std::process::Command;

use crate::world::{World, ended, hello, job, lines, until};

#[test]
fn ranks_run_on_hosts_of_their_own_and_stdout_is_the_program_s_alone() {
    let world = World::new("hosts");
    let file = world.file("job.yaml", &hello(2, 2, "hostname"));
    let run = world.run(&["run", &file]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let mut hosts: Vec<&str> = run.stdout.lines().collect();
    hosts.sort_unstable();
    let expected = [
        "hello-worker-0",
        "hello-worker-0",
        "hello-worker-1",
        "hello-worker-1",
    ];
    assert_eq!(hosts, expected, "{}", run.stderr);
    assert!(run.stderr.contains("hello succeeded"), "{}", run.stderr);
    assert!(world.processes().is_empty());
    let logs = world.run(&["logs", "@last"]);
    assert_eq!(lines(&logs.stdout).len(), 4, "{}", logs.stderr);
    let get = world.run(&["get", "--local"]);
    assert!(get.stdout.contains("Succeeded"), "{}", get.stdout);
    let quiet = world.run(&["-q", "run", &file]);
    assert!(lines(&quiet.stderr).is_empty(), "{}", quiet.stderr);
}

#[test]
fn the_program_s_exit_code_is_ours_and_the_box_says_what_to_do() {
    let world = World::new("code");
    let file = world.file("job.yaml", &hello(2, 1, "echo going down >&2; exit 3"));
    let run = world.run(&["run", &file]);
    assert_eq!(run.code, 3, "{}", run.stderr);
    assert!(
        run.stderr.contains("error[CommandFailed]: hello failed"),
        "{}",
        run.stderr
    );
    assert!(run.stderr.contains("\n  do       "), "{}", run.stderr);
    let why = world.run(&["why", "@last"]);
    assert!(why.stdout.contains("exit code 3"), "{}", why.stdout);
    let json = world.run(&["-q", "run", &file, "-o", "json"]);
    let verdict: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(verdict["exitCode"], 3, "{verdict}");
    assert_eq!(verdict["reason"], "CommandFailed", "{verdict}");
}

/// Whoever reads the box copies its last line.
#[test]
fn the_command_below_a_failure_finds_the_same_job() {
    let world = World::new("hint");
    let file = world.file("job.yaml", &hello(1, 1, "echo going down; exit 3"));
    let run = world.run(&["run", &file]).stderr;
    let why_last = world.run(&["why", "@last"]).stdout;
    let why_named = world.run(&["why", "--local", "hello"]).stdout;
    for (said, command) in [
        (run, "muster logs @last --launcher --tail 200"),
        (why_last, "muster logs @last --launcher --tail 200"),
        (why_named, "muster logs hello --local --launcher --tail 200"),
    ] {
        let last = said.lines().last().unwrap_or_default().trim();
        assert_eq!(last, command, "{said}");
        let words: Vec<&str> = command.split(' ').skip(1).collect();
        let logs = world.run(&words);
        assert!(logs.stdout.contains("going down"), "{command}: {logs:?}");
    }
    let file = world.file("job.yaml", &hello(1, 1, "sleep 1000"));
    let run = world.run(&["run", &file, "--timeout", "2"]);
    assert_eq!(run.code, 124, "{}", run.stderr);
    let hint = "look at its output: muster logs @last\n";
    assert!(run.stderr.ends_with(hint), "{}", run.stderr);
}

#[test]
fn what_is_added_to_the_file_is_said_and_what_it_says_is_kept() {
    let world = World::new("once");
    let text = job(1, 1, "[sh, -c, 'echo tried; exit 4']");
    let run = world.run(&["run", &world.file("job.yaml", &text)]);
    let said = "note: the launcher is not retried (backoffLimit: 0, restartPolicy: Never), because \
                the file does not say otherwise\n";
    assert!(run.stderr.contains(said), "{}", run.stderr);
    assert_eq!((run.code, run.stdout.as_str()), (4, "tried\n"));
    let text = text
        .replace(
            "spec:\n  slots",
            "spec:\n  runPolicy: {backoffLimit: 1}\n  slots",
        )
        .replacen(
            "      replicas: 1\n",
            "      replicas: 1\n      restartPolicy: Never\n",
            1,
        );
    let run = world.run(&["run", &world.file("again.yaml", &text)]);
    assert!(!run.stderr.contains("is not retried"), "{}", run.stderr);
    assert_eq!((run.code, run.stdout.as_str()), (4, "tried\ntried\n"));
}

#[test]
fn mpich_runs_as_well() {
    let world = World::new("mpich");
    let text = job(2, 2, "[mpirun.mpich, -np, '4', hostname]").replace(
        "  slotsPerWorker",
        "  mpiImplementation: MPICH\n  slotsPerWorker",
    );
    let run = world.run(&["run", &world.file("job.yaml", &text)]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let of = |host: &str| run.stdout.lines().filter(|line| *line == host).count();
    assert_eq!(
        (of("hello-worker-0"), of("hello-worker-1")),
        (2, 2),
        "{}",
        run.stdout
    );
}

/// All workers of a local run see the same cores. Open MPI would bind the first rank of each to the
/// first core.
#[test]
fn v06_ranks_of_all_workers_use_all_cores() {
    let world = World::new("cores");
    let show = "grep Cpus_allowed_list /proc/self/status";
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    let text = hello(2, 1, show);
    let mpich = text.replace("mpirun", "mpirun.mpich").replace(
        "  slotsPerWorker",
        "  mpiImplementation: MPICH\n  slotsPerWorker",
    );
    for text in [text, mpich] {
        let run = world.run(&["run", &world.file("job.yaml", &text)]);
        assert_eq!(run.code, 0, "{}", run.stderr);
        let cores: Vec<_> = run
            .stdout
            .lines()
            .filter_map(|line| line.split_once('\t'))
            .collect();
        assert_eq!(cores, [("Cpus_allowed_list:", online.trim()); 2], "{text}");
    }
    let own = hello(2, 1, show).replace("mpirun,", "mpirun, --bind-to, core,");
    let run = world.run(&["run", &world.file("job.yaml", &own)]);
    let bound = run
        .stdout
        .lines()
        .filter(|line| line.ends_with("\t0"))
        .count();
    assert_eq!(bound, 2, "what the user asks for stays: {}", run.stdout);
}

#[test]
fn a_launcher_may_take_ranks_and_may_wait_for_its_workers() {
    let world = World::new("launcher");
    for field in [
        "runLauncherAsWorker: true",
        "launcherCreationPolicy: WaitForWorkersReady",
    ] {
        let ranks = if field.starts_with("run") { 3 } else { 2 };
        let command = format!("[mpirun, -np, '{ranks}', hostname]");
        let text = job(2, 1, &command)
            .replace("  slotsPerWorker", &format!("  {field}\n  slotsPerWorker"));
        let run = world.run(&["run", &world.file("job.yaml", &text)]);
        assert_eq!(run.code, 0, "{field}: {}", run.stderr);
        assert_eq!(run.stdout.lines().count(), ranks, "{field}: {}", run.stdout);
        let launcher = run
            .stdout
            .lines()
            .any(|host| host.starts_with("hello-launcher"));
        assert_eq!(launcher, ranks == 3, "{field}: {}", run.stdout);
    }
}

#[test]
fn an_ordinary_user_needs_nothing_more() {
    let world = World::new("user");
    let file = world.file("job.yaml", &hello(2, 1, "id -u; hostname"));
    let mut command = if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&world.directory, Some(65_534), Some(65_534)).unwrap();
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        command.arg(world.binary());
        command
    } else {
        Command::new(world.binary())
    };
    command.args(["run", &file]);
    world.surround(&mut command);
    let run = ended(command);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stdout.contains("hello-worker-1"), "{}", run.stdout);
    assert!(
        !run.stdout.lines().any(|line| line == "0"),
        "{}",
        run.stdout
    );
    assert!(world.processes().is_empty());
}

#[test]
fn ctrl_c_interrupts_the_program_and_leaves_nothing() {
    let world = World::new("interrupt");
    let file = world.file("job.yaml", &hello(2, 1, "echo up; sleep 1000"));
    let mut run = world.muster(&["run", &file]).spawn().unwrap();
    let mut byte = [0];
    run.stdout.as_mut().unwrap().read_exact(&mut byte).unwrap();
    let pid = rustix::process::Pid::from_child(&run);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let mut said = String::new();
    run.stderr
        .as_mut()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    assert_eq!(run.wait().unwrap().code(), Some(130), "{said}");
    assert!(said.contains("nothing was left running"), "{said}");
    assert!(world.processes().is_empty());
}

#[test]
fn a_reader_who_has_gone_ends_the_run_quietly() {
    let world = World::new("pipe");
    let file = world.file(
        "job.yaml",
        &job(1, 1, "[sh, -c, 'while :; do echo y; done']"),
    );
    let mut run = world.muster(&["-q", "run", &file]).spawn().unwrap();
    let mut bytes = [0; 100];
    run.stdout.as_mut().unwrap().read_exact(&mut bytes).unwrap();
    drop(run.stdout.take());
    let mut said = String::new();
    run.stderr
        .as_mut()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    assert_eq!(run.wait().unwrap().code(), Some(141));
    assert_eq!(said, "");
}

#[test]
fn what_comes_with_a_job_reaches_its_containers() {
    let world = World::new("companions");
    let text = job(1, 1, "[sh, -c, 'cat /etc/of-test/greeting; echo $SECRET $GIVEN']")
        .replace(
            "            command: [sh",
            "            env: [{name: SECRET, valueFrom: {secretKeyRef: {name: s, key: k}}}]\n            \
             volumeMounts: [{name: c, mountPath: /etc/of-test}]\n            command: [sh",
        )
        .replacen("          containers:", "          volumes: [{name: c, configMap: {name: c}}]\n          containers:", 1)
        .replace("spec:\n  slots", "spec:\n  muster: {census: \"Off\"}\n  slots")
        + "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {greeting: \"hi\\n\"}\n\
           ---\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {k: hidden}\n";
    let run = world.run(&["run", &world.file("job.yaml", &text), "-e", "GIVEN=by-hand"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(run.stdout, "hi\nhidden by-hand\n");
    assert!(!std::path::Path::new("/etc/of-test").exists());
}

#[test]
fn a_run_that_is_killed_leaves_no_process() {
    let world = World::new("kill");
    let file = world.file("job.yaml", &hello(2, 1, "echo up; sleep 1000"));
    let mut run = world.muster(&["-q", "run", &file]).spawn().unwrap();
    let mut byte = [0];
    run.stdout.as_mut().unwrap().read_exact(&mut byte).unwrap();
    assert!(world.processes().len() > 5, "{:?}", world.processes());
    run.kill().unwrap();
    run.wait().unwrap();
    until("everything has ended", || world.processes().is_empty());
    let get = world.run(&["get", "--local"]);
    assert!(get.stdout.contains("Failed"), "{}", get.stdout);
}

#[test]
fn pods_may_have_a_network_of_their_own() {
    let world = World::new("isolated");
    let script = "hostname; cat /sys/class/net/eth0/operstate 2>/dev/null; ip -o -4 address";
    let file = world.file("job.yaml", &hello(2, 1, script));
    let run = world.run(&["run", &file, "--network", "isolated"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stdout.contains("10.88."), "{}", run.stdout);
    assert!(run.stdout.contains("hello-worker-1"), "{}", run.stdout);
    assert!(world.processes().is_empty(), "{:?}", world.processes());
}

#[test]
fn ssh_works_where_sshd_is_installed() {
    assert!(
        rustix::process::geteuid().is_root(),
        "sshd becomes other users, which only root can: run this test as root"
    );
    let sshd = std::path::Path::new("/usr/sbin/sshd").exists();
    assert!(sshd, "sshd must be installed: apt install openssh-server");
    let world = World::new("ssh");
    let text = hello(2, 2, "hostname").replace(
        "  slotsPerWorker",
        "  muster: {transport: SSH}\n  slotsPerWorker",
    );
    let run = world.run(&["run", &world.file("job.yaml", &text)]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(run.stdout.lines().count(), 4, "{}", run.stdout);
    assert!(run.stdout.contains("hello-worker-1"), "{}", run.stdout);
    assert!(world.processes().is_empty(), "{:?}", world.processes());
}
