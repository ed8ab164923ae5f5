//! Bad files, bad machines and bad programs: each a clear message or correct behaviour.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::world::{World, ended, hello, job};

/// What `run` says of a file that is wrong; it must never have started.
fn refused(name: &str, text: &str) -> String {
    let world = World::new(name);
    let file = world.file("job.yaml", text);
    let run = world.run(&["run", &file]);
    assert_eq!(run.code, 120, "{}", run.stderr);
    assert_eq!(run.stdout, "");
    let lint = world.run(&["lint", &file]);
    assert_eq!(lint.code, 1, "{}", lint.stdout);
    assert!(
        !world.directory.join("state/runs").exists(),
        "nothing was started"
    );
    run.stderr
}

#[test]
fn malformed_yaml() {
    let said = refused(
        "malformed",
        "apiVersion: kubeflow.org/v2beta1\nkind: [MPIJob\n",
    );
    assert!(said.contains("error[MalformedYaml]"), "{said}");
    assert!(said.contains("job.yaml:"), "{said}");
}

#[test]
fn an_unknown_field() {
    let said = refused(
        "unknown",
        &hello(2, 1, "true").replace("slotsPerWorker", "slotsPerWoker"),
    );
    assert!(said.contains("did you mean slotsPerWorker?"), "{said}");
    assert!(said.contains("job.yaml:6:3"), "{said}");
}

#[test]
fn a_warning_fails_a_strict_lint_alone() {
    let world = World::new("strict");
    let twice = "spec:\n  slotsPerWorker: 1\n  slots";
    let file = world.file(
        "job.yaml",
        &hello(2, 1, "true").replace("spec:\n  slots", twice),
    );
    let lint = world.run(&["lint", &file]);
    assert_eq!(lint.code, 0, "{}", lint.stdout);
    assert!(
        lint.stdout.contains("warning[DuplicateKey]"),
        "{}",
        lint.stdout
    );
    assert_eq!(world.run(&["lint", "--strict", &file]).code, 1);
    let good = world.file("good.yaml", &hello(2, 1, "true"));
    let lint = world.run(&["lint", "--strict", &good]);
    assert_eq!(lint.code, 0, "{}", lint.stdout);
}

#[test]
fn a_field_of_another_dialect() {
    let text =
        hello(2, 1, "true").replace("spec:\n  slots", "spec:\n  worker: {replicas: 2}\n  slots");
    let said = refused("dialect", &text);
    assert!(
        said.contains("spec.worker belongs to batch.tensorstack.dev"),
        "{said}"
    );
}

#[test]
fn more_ranks_than_slots() {
    let world = World::new("slots");
    let file = world.file("job.yaml", &hello(2, 1, "true").replace("'2'", "'16'"));
    let lint = world.run(&["lint", &file]);
    // The API server and every operator would accept it.
    assert_eq!(lint.code, 0, "{}", lint.stdout);
    assert!(
        lint.stdout.contains("warning[NotEnoughSlots]"),
        "{}",
        lint.stdout
    );
    assert!(lint.stdout.contains("  do: "), "{}", lint.stdout);
    let run = world.run(&["run", &file]);
    assert!(
        run.stderr.contains("warning[NotEnoughSlots]"),
        "{}",
        run.stderr
    );
    assert_ne!(run.code, 0, "{}", run.stderr);
}

#[test]
fn a_job_that_needs_the_agent_where_there_is_none() {
    let world = World::new("no-agent");
    let text = hello(2, 1, "true").replace(
        "spec:\n  slots",
        "spec:\n  muster: {transport: Agent}\n  slots",
    );
    let file = world.file("job.yaml", &text);
    let alone = world.directory.join("bin/muster");
    std::fs::create_dir(world.directory.join("bin")).unwrap();
    std::fs::copy(world.binary(), &alone).unwrap();
    let refused = |command: Command, place: &str| {
        let run = ended(command);
        assert_eq!(run.code, 120, "{}", run.stderr);
        let said = run.stderr;
        assert!(said.contains("error[AgentNotFound]: hello"), "{said}");
        assert!(said.contains(place), "{said}");
        assert!(said.contains("  do: "), "{said}");
        assert!(!world.directory.join("state/runs").exists());
    };
    let mut command = Command::new(&alone);
    command.args(["run", &file]);
    world.surround(&mut command);
    refused(command, "bin/muster-agent");
    let mut command = world.muster(&["run", &file]);
    command.env("MUSTER_AGENT", "/nowhere/agent");
    refused(command, "/nowhere/agent");
}

#[test]
fn a_job_whose_transport_this_machine_does_not_have() {
    let world = World::new("exec");
    let template = "{spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}";
    let text = format!(
        "apiVersion: batch.test.bdap.com/v1\nkind: MPIJob\nmetadata: {{name: train}}\nspec:\n  \
         numWorkers: 2\n  launcherTemplate: {template}\n  workerTemplate: {template}\n"
    );
    let run = world.run(&["run", &world.file("job.yaml", &text)]);
    assert_eq!(run.code, 120, "{}", run.stderr);
    assert!(
        run.stderr.contains("error[TransportNotHere]: train"),
        "{}",
        run.stderr
    );
    assert!(run.stderr.contains("pods/exec"), "{}", run.stderr);
    assert!(run.stderr.contains("  do: "), "{}", run.stderr);
}

#[test]
fn a_file_that_is_not_there() {
    let world = World::new("nofile");
    let run = world.run(&["run", "no-such.yaml"]);
    assert_eq!(run.code, 125);
    assert!(
        run.stderr.contains("cannot read no-such.yaml"),
        "{}",
        run.stderr
    );
}

#[test]
fn wrong_arguments_exit_with_2_whatever_the_command() {
    let world = World::new("usage");
    let file = world.file("job.yaml", &hello(1, 1, "true"));
    let own = world.directory.to_str().unwrap().to_owned();
    let wrong: &[&[&str]] = &[
        &["frobnicate"],
        &["run"],
        &["run", "--no-such-flag", &file],
        &["-q", "run"],
        &["run", &file, "--mount", &own],
        &["run", &file, "--env", "NO_SUCH_VARIABLE"],
        &["wait"],
        &["submit", "--wait"],
        &["logs"],
    ];
    for words in wrong {
        let run = world.run(words);
        assert_eq!(
            (run.code, run.stdout.as_str()),
            (2, ""),
            "{words:?}: {}",
            run.stderr
        );
    }
    let recorded = world.run(&["get", "--local", "-o", "name"]);
    assert_eq!(recorded.stdout, "", "what never began is not recorded");
}

#[test]
fn no_mpirun() {
    let world = World::new("nompirun");
    let mut command = world.muster(&["run", &world.file("job.yaml", &hello(2, 1, "true"))]);
    command.env("PATH", "/nowhere");
    let run = ended(command);
    assert_eq!(run.code, 127);
    assert!(
        run.stderr
            .contains("error[CommandNotFound]: mpirun is not in PATH=/nowhere"),
        "{}",
        run.stderr
    );
    assert!(
        run.stderr.contains("apt install openmpi-bin"),
        "{}",
        run.stderr
    );
}

#[test]
fn no_program() {
    let world = World::new("noprogram");
    let text = job(2, 1, "[mpirun, -np, '2', /no/such/program]");
    let run = world.run(&["run", &world.file("job.yaml", &text)]);
    assert_ne!(run.code, 0);
    assert!(run.stderr.contains("/no/such/program"), "{}", run.stderr);
    assert!(run.stderr.contains("  do  "), "{}", run.stderr);
}

#[test]
fn a_port_that_is_taken() {
    let world = World::new("port");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let up = world.run(&["up", "--port", &port]);
    assert_eq!(up.code, 1, "{}", up.stdout);
    assert!(
        up.stderr
            .contains(&format!("cannot listen on 127.0.0.1:{port}")),
        "{}",
        up.stderr
    );
    assert!(up.stderr.contains("--port"), "{}", up.stderr);
    assert!(world.processes().is_empty());
}

#[test]
fn no_namespaces() {
    let world = World::new("bare");
    let file = world.file("job.yaml", &hello(2, 1, "echo ran"));
    // A user namespace in which no other may be made, and without any capability.
    let script = "echo 0 >/proc/sys/user/max_user_namespaces && exec setpriv --bounding-set=-all \
                  --inh-caps=-all \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "sh", "-c", script, "sh"]);
    command.arg(world.binary()).args(["run", &file]);
    world.surround(&mut command);
    let run = ended(command);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(run.stdout, "ran\nran\n");
    assert_eq!(
        run.stderr.matches("allows no namespaces").count(),
        1,
        "{}",
        run.stderr
    );
    assert!(world.processes().is_empty());
}

#[test]
fn a_full_disk() {
    let world = World::new("full");
    let file = world.file("job.yaml", &hello(2, 1, "true"));
    let state = world.directory.join("state");
    std::fs::create_dir(&state).unwrap();
    let script = format!(
        "mount -t tmpfs -o size=64k,mode=700 none {0} && head -c 100000 /dev/zero >{0}/fill; exec \"$@\"",
        state.display()
    );
    let mut command = Command::new("unshare");
    command.args([
        "--user",
        "--map-root-user",
        "--mount",
        "sh",
        "-c",
        &script,
        "sh",
    ]);
    command.arg(world.binary()).args(["run", &file]);
    world.surround(&mut command);
    let run = ended(command);
    assert_ne!(run.code, 0);
    assert!(
        run.stderr.contains("No space left on device"),
        "{}",
        run.stderr
    );
    assert!(world.processes().is_empty());
}

#[test]
fn a_disk_that_fills_while_the_program_writes() {
    let world = World::new("filling");
    // There is room for the agent's program in two pods, and not for all of a log beside it.
    let script = "head -c 80000000 /dev/zero | tr '\\\\0' x | fold -w 99";
    let text = job(1, 1, &format!("[sh, -c, \"{script}\"]")).replace(
        "spec:\n  slots",
        "spec:\n  muster: {census: \"Off\"}\n  slots",
    );
    let file = world.file("job.yaml", &text);
    let state = world.directory.join("state");
    std::fs::create_dir(&state).unwrap();
    let mount = format!(
        "mount -t tmpfs -o size=48m,mode=700 none {} && exec \"$@\"",
        state.display()
    );
    let mut command = Command::new("unshare");
    command.args([
        "--user",
        "--map-root-user",
        "--mount",
        "sh",
        "-c",
        &mount,
        "sh",
    ]);
    command.arg(world.binary()).args(["run", &file]);
    world.surround(&mut command);
    let run = ended(command);
    // The log is cut short, and that is said; the program's output is not.
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(run.stdout.len(), 80_000_000 + 80_000_000 / 99);
    assert!(
        run.stderr.contains("No space left on device") || run.stderr.contains("is full"),
        "{}",
        run.stderr
    );
    assert!(world.processes().is_empty());
}

#[test]
fn a_state_directory_of_somebody_else() {
    let world = World::new("foreign");
    let file = world.file("job.yaml", &hello(1, 1, "true"));
    let mut command = world.muster(&["run", &file]);
    // Root gives a directory away; everybody else finds one that is root's.
    if rustix::process::geteuid().is_root() {
        let state = world.directory.join("state");
        std::fs::create_dir(&state).unwrap();
        std::os::unix::fs::chown(&state, Some(65_534), None).unwrap();
    } else {
        command.env("MUSTER_STATE_DIR", "/usr");
    }
    let run = ended(command);
    assert_eq!(run.code, 125);
    assert!(
        run.stderr.contains("belongs to another user"),
        "{}",
        run.stderr
    );
}

#[test]
fn s05_a_directory_that_is_not_muster_s_is_left_as_it_is() {
    use std::os::unix::fs::PermissionsExt as _;
    let world = World::new("precious");
    let state = world.directory.join("state");
    let precious = state.join("runs/thesis/chapter");
    std::fs::create_dir_all(&precious).unwrap();
    let mode = || std::fs::metadata(&state).unwrap().permissions().mode();
    std::fs::set_permissions(&state, std::fs::Permissions::from_mode(0o755)).unwrap();
    let before = mode();
    let run = world.run(&["run", &world.file("job.yaml", &hello(1, 1, "true"))]);
    assert_eq!(run.code, 125, "{}", run.stderr);
    assert!(run.stderr.contains("are not muster's"), "{}", run.stderr);
    assert!(precious.is_dir());
    assert_eq!(mode(), before);
}

#[test]
fn s05_only_directories_of_runs_are_removed() {
    let world = World::new("sweep");
    let file = world.file("job.yaml", &hello(1, 1, "true"));
    assert_eq!(world.run(&["run", &file]).code, 0);
    let runs = world.directory.join("state/runs");
    let (foreign, unlocked) = (runs.join("thesis"), runs.join("00000000000001-1"));
    let (killed, killed_early) = (runs.join("00000000000002-1"), runs.join("00000000000003-1"));
    for directory in [&foreign, &unlocked, &killed, &killed_early] {
        std::fs::create_dir_all(directory).unwrap();
    }
    std::fs::write(unlocked.join("chapter"), "").unwrap();
    std::fs::write(killed.join("lock"), "").unwrap();
    assert_eq!(world.run(&["run", &file]).code, 0);
    assert!(foreign.is_dir(), "a directory that no run made was removed");
    assert!(
        unlocked.join("chapter").is_file(),
        "a file without a run's lock beside it was removed"
    );
    assert!(!killed.exists(), "a killed run without a record was kept");
    assert!(!killed_early.exists(), "an empty run was kept");
}

#[test]
fn a_program_that_forks_daemons() {
    let world = World::new("daemons");
    let script = "(setsid sleep 31415 </dev/null >/dev/null 2>&1 &); echo forked";
    let run = world.run(&["run", &world.file("job.yaml", &hello(2, 1, script))]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(run.stdout, "forked\nforked\n");
    assert!(world.processes().is_empty(), "{:?}", world.processes());
}

#[test]
fn a_program_that_ignores_sigterm() {
    let world = World::new("rude");
    let text = job(
        1,
        1,
        "[sh, -c, \"trap '' TERM; echo up; while :; do sleep 0.1; done\"]",
    )
    .replace(
        "spec:\n  slots",
        "spec:\n  runPolicy: {activeDeadlineSeconds: 2}\n  slots",
    )
    .replacen(
        "          containers:",
        "          terminationGracePeriodSeconds: 1\n          containers:",
        1,
    );
    let since = Instant::now();
    let run = world.run(&["run", &world.file("job.yaml", &text)]);
    assert_eq!(run.code, 124, "{}", run.stderr);
    assert!(since.elapsed() < Duration::from_secs(30));
    assert!(run.stderr.contains("DeadlineExceeded"), "{}", run.stderr);
    assert!(world.processes().is_empty());
}

#[test]
fn a_gigabyte_of_output() {
    let world = World::new("gigabyte");
    let script = "head -c 1000000000 /dev/zero | tr '\\\\0' x | fold -w 999";
    let text = job(1, 1, &format!("[sh, -c, \"{script}\"]")).replace(
        "spec:\n  slots",
        "spec:\n  muster: {census: \"Off\"}\n  slots",
    );
    let file = world.file("job.yaml", &text);
    let mut run = world.muster(&["-q", "run", &file]).spawn().unwrap();
    let mut output = run.stdout.take().unwrap();
    let bytes = std::io::copy(&mut output, &mut std::io::sink()).unwrap();
    assert_eq!(run.wait().unwrap().code(), Some(0));
    // Every 999 characters one line end, but not after the last.
    assert_eq!(bytes, 1_000_000_000 + 1_000_000_000 / 999);
    let kept = size(&world.directory.join("state"));
    assert!(kept < 80_000_000, "{kept} bytes are kept");
}

fn size(directory: &std::path::Path) -> u64 {
    let entries = std::fs::read_dir(directory).unwrap().flatten();
    entries
        .map(|entry| match entry.file_type().unwrap().is_dir() {
            true => size(&entry.path()),
            false => entry.metadata().unwrap().len(),
        })
        .sum()
}
