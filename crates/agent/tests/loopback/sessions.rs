//! What a launcher sees of a session: exit codes, bytes, variables, deadlines.

use std::time::{Duration, Instant};

use super::world::{AGENT, World, text};

fn world_with_worker() -> (World, super::world::Worker) {
    let world = World::new();
    let worker = world.serve_as("pi-worker-0", |_| {});
    world.write_hosts(&[("pi-worker-0", worker.port)]);
    (world, worker)
}

#[test]
fn exit_codes_are_the_commands() {
    let (world, _worker) = world_with_worker();
    let cases = [
        ("true", 0),
        ("exit 3", 3),
        ("exit 255", 255),
        ("kill -9 $$", 137),
        ("kill -15 $$", 143),
        ("/no/such/program", 127),
    ];
    for (command, code) in cases {
        let output = world.rsh(&["pi-worker-0", command]);
        assert_eq!(output.status.code(), Some(code), "{command}: {output:?}");
    }
}

#[test]
fn hosts_go_by_name_longer_name_and_address() {
    let (world, _worker) = world_with_worker();
    for host in [
        "pi-worker-0",
        "pi-worker-0.pi.ns.svc",
        "me@pi-worker-0",
        "127.0.0.1",
    ] {
        let output = world.rsh(&["-x", host, "echo", "here;", "echo there >&2"]);
        assert_eq!(text(&output.stdout), "here\n", "{host}: {output:?}");
        assert_eq!(text(&output.stderr), "there\n");
    }
}

#[test]
fn a_deadline_beyond_the_clock_is_no_deadline() {
    let (world, _worker) = world_with_worker();
    let longest = u64::MAX.to_string();
    let option = format!("-oConnectTimeout={longest}");
    let output = world.rsh(&[&option, "pi-worker-0", "exit 3"]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let mut command = world.agent("rsh");
    command.env("MUSTER_CONNECT_TIMEOUT", &longest);
    let output = command.args(["pi-worker-0", "exit 4"]).output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{output:?}");
}

#[test]
fn called_as_ssh_it_is_the_shim() {
    let (world, _worker) = world_with_worker();
    let bin = world.path("bin");
    let install = world.agent("install").arg(&bin).output().unwrap();
    assert!(install.status.success(), "{install:?}");
    let again = world.agent("install").arg(&bin).output().unwrap();
    assert!(again.status.success(), "{again:?}");
    for name in ["ssh", "rsh", "kubexec.sh"] {
        let mut command = std::process::Command::new(bin.join(name));
        let output = command
            .args([
                "-o",
                "StrictHostKeyChecking=no",
                "pi-worker-0",
                "-p",
                "22",
                "exit 7",
            ])
            .env("MUSTER_TLS_DIR", world.path("launcher"))
            .env("MUSTER_HOSTS_FILE", world.path("hosts"))
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(7), "{name}: {output:?}");
    }
    let version = std::process::Command::new(bin.join("ssh"))
        .arg("-V")
        .output();
    assert!(version.unwrap().status.success());
}

#[test]
fn input_arrives_and_ends() {
    let (world, _worker) = world_with_worker();
    let output = world.rsh_with_input(&["pi-worker-0", "cat; echo end"], b"12 of 12 bytes");
    assert_eq!(text(&output.stdout), "12 of 12 bytesend\n");
    let output = world.rsh_with_input(&["-n", "pi-worker-0", "cat; echo end"], b"unread");
    assert_eq!(text(&output.stdout), "end\n");
}

#[test]
fn much_input_and_output_pass_unchanged() {
    let (world, _worker) = world_with_worker();
    let bytes: Vec<u8> = (0..10_000_000_u32).map(|n| (n % 251) as u8).collect();
    let output = world.rsh_with_input(&["pi-worker-0", "cat"], &bytes);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(
        output.stdout == bytes,
        "{} bytes came back",
        output.stdout.len()
    );
}

#[test]
fn a_command_that_ignores_its_input_is_not_held_up() {
    let (world, _worker) = world_with_worker();
    let output = world.rsh_with_input(&["pi-worker-0", "exit 4"], &vec![0; 3_000_000]);
    assert_eq!(output.status.code(), Some(4), "{}", text(&output.stderr));
}

#[test]
fn workers_environment_with_the_launchers_choice_on_top() {
    let world = World::new();
    let worker = world.serve_with(|command| {
        command
            .env("ONLY_WORKER", "w")
            .env("BOTH", "worker")
            .env_remove("HOME");
    });
    world.write_hosts(&[("w0", worker.port)]);
    let mut rsh = world.agent("rsh");
    rsh.args([
        "w0",
        "echo $ONLY_WORKER $BOTH $LAUNCHER [$SECRET] [$MUSTER_TLS_DIR] $HOME",
    ])
    .env("BOTH", "launcher")
    .env("LAUNCHER", "l")
    .env("SECRET", "not named")
    .env("MUSTER_FORWARD_ENV", "BOTH,LAUNCHER,MUSTER_TLS_DIR,ABSENT");
    let output = rsh.output().unwrap();
    assert_eq!(
        text(&output.stdout),
        "w launcher l [] [] /tmp\n",
        "{output:?}"
    );
}

#[test]
fn failures_of_our_own_are_255_with_one_sentence_in_time() {
    let world = World::new();
    // A port that nobody listens on: bound and closed again.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    world.write_hosts(&[("w0", port)]);
    for (words, sentence) in [
        (&["-oConnectTimeout=1", "w0", "true"][..], "w0 at 127.0.0.1"),
        (
            &["-oConnectTimeout=1", "w9", "true"],
            "w9 is not among the 1 workers",
        ),
        (&["w0"], "no command given for w0"),
    ] {
        let begun = Instant::now();
        let output = world.rsh(words);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(255), "{words:?}: {stderr}");
        assert!(stderr.contains(sentence), "{words:?}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        assert!(begun.elapsed() < Duration::from_secs(5), "{words:?}");
    }
}

#[test]
fn a_worker_that_comes_late_is_reached() {
    let world = World::new();
    let rsh = world.agent("rsh").args(["w0", "exit 5"]).spawn();
    let worker = world.serve();
    world.write_hosts(&[("w0", worker.port)]);
    assert_eq!(rsh.unwrap().wait().unwrap().code(), Some(5));
}

#[test]
fn the_workers_own_command_decides_the_containers_exit() {
    let world = World::new();
    let mut worker = world.serve_with(|command| {
        command.args([
            "--",
            "/bin/sh",
            "-c",
            "trap 'exit 9' USR1; while :; do sleep 0.05; done",
        ]);
    });
    world.write_hosts(&[("w0", worker.port)]);
    assert!(world.rsh(&["w0", "true"]).status.success());
    let pid = rustix::process::Pid::from_raw(worker.process.id().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::USR1).unwrap();
    assert_eq!(worker.process.wait().unwrap().code(), Some(9));
}

#[test]
fn wrong_words_are_refused() {
    for words in [&[][..], &["dance"], &["install"]] {
        let output = std::process::Command::new(AGENT).args(words).output();
        assert_eq!(output.unwrap().status.code(), Some(64), "{words:?}");
    }
}

/// On a node's network all pods carry the node's name, which Open MPI 5 takes for one host.
#[test]
fn a_daemon_whose_worker_shares_its_address_has_a_name_of_its_own() {
    let world = World::new();
    let serve = |name| world.serve_as(name, |_| {});
    let (first, second) = (serve("w0.pi"), serve("w1.pi"));
    world.write_hosts(&[("w0.pi", first.port), ("w1.pi", second.port)]);
    let named = |host: &str, command: &str| text(&world.rsh(&[host, command]).stdout);
    let as_daemon = "uname -n # prted";
    assert_eq!(named("w0.pi", as_daemon), "w0\n");
    assert_eq!(named("w1.pi", as_daemon), "w1\n");
    let node = text(
        &std::process::Command::new("uname")
            .arg("-n")
            .output()
            .unwrap()
            .stdout,
    );
    assert_eq!(named("w1.pi", "uname -n"), node);
    assert_eq!(named("w1.pi", "id -u # prted"), named("w1.pi", "id -u"));
    world.write_hosts(&[("w0.pi", first.port)]);
    assert_eq!(named("w0.pi", as_daemon), node);
}

/// As in a pod whose seccomp profile does not allow it.
#[test]
fn a_name_that_cannot_be_had_is_a_failure_that_says_so() {
    let run = |need: &str| {
        let script =
            "echo 0 > /proc/sys/user/max_uts_namespaces; exec \"$0\" as \"$1\" w0 echo ran";
        std::process::Command::new("unshare")
            .args(["--user", "--map-root-user", "sh", "-c", script, AGENT, need])
            .output()
            .unwrap()
    };
    let output = run("needed");
    assert_eq!(output.status.code(), Some(64), "{output:?}");
    assert_eq!(text(&output.stdout), "");
    let stderr = text(&output.stderr);
    assert!(
        stderr.contains("keep workers on different nodes"),
        "{stderr}"
    );
    let output = run("wanted");
    assert_eq!(text(&output.stdout), "ran\n", "{output:?}");
    assert_eq!(text(&output.stderr).lines().count(), 1, "{output:?}");
}
