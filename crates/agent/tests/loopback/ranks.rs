//! Ranks are counted, and their ends are told, exactly or not at all. The daemons are scripts that
//! start ranks as the real ones do.

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::launches::Launch;
use super::world::{AGENT, World, text};

/// This kernel, and one on which a rank's wrapper must stay its parent.
const KERNELS: [&str; 2] = ["", "5.15.0-91-generic"];

/// A launch of one worker whose daemon has this name and text.
fn launch(daemon: &str, script: &str) -> Launch {
    let launch = Launch::new(1);
    launch.script(daemon, script);
    launch
}

/// The verdict on a run of it, whose launcher exits with this code.
fn verdict(launch: &Launch, daemon: &str, exit: u8) -> Value {
    let bin = launch.world.path("bin");
    let script = format!("$S w0 {}/{daemon}; exit {exit}", bin.display());
    launch.exec(&script).status().unwrap();
    launch.verdict()
}

/// Starts so many ranks, each of them with this text, as Open MPI does.
fn open_mpi(kernel: &str, ranks: u32, rank: &str) -> String {
    format!(
        "export MUSTER_KERNEL_RELEASE={kernel} OMPI_COMM_WORLD_LOCAL_SIZE={ranks} PMIX_NAMESPACE=1
         for rank in $(seq 0 {last}); do
             OMPI_COMM_WORLD_RANK=$rank $OMPI_MCA_orte_fork_agent sh -c '{rank}' &
         done
         wait\n",
        last = ranks - 1,
    )
}

#[test]
fn v05_every_rank_is_counted_however_short() {
    for kernel in KERNELS {
        let launch = launch("orted", &open_mpi(kernel, 16, "exit 0"));
        let verdict = verdict(&launch, "orted", 0);
        assert_eq!(verdict["verdict"], "Succeeded", "{verdict}");
        assert_eq!(verdict["ranksPerHost"], json!({"w0": 16}), "{kernel}");
    }
}

#[test]
fn v05_the_rank_that_failed_is_named_with_its_exact_end() {
    for kernel in KERNELS {
        for (end, exit, sentence) in [
            ("exit 66", 66, "rank 3 on worker w0 exited with code 66"),
            (
                "kill -SEGV $$",
                139,
                "rank 3 on worker w0 was ended by signal 11",
            ),
            (
                "kill -KILL $$",
                137,
                "rank 3 on worker w0 was ended by signal 9",
            ),
        ] {
            let rank = format!("[ $OMPI_COMM_WORLD_RANK != 3 ] || {end}");
            let launch = launch("orted", &open_mpi(kernel, 4, &rank));
            let verdict = verdict(&launch, "orted", exit);
            let message = verdict["message"].as_str().unwrap();
            assert!(message.starts_with(sentence), "{kernel} {end}: {message}");
            assert_eq!(verdict["exit"], exit, "{kernel} {end}");
            assert_eq!(verdict["ranksPerHost"], json!({"w0": 4}));
        }
    }
}

/// What a rank starts, or leaves behind, carries the rank's variables too.
#[test]
fn a_rank_that_executes_forks_and_leaves_daemons_is_one_rank() {
    for kernel in KERNELS {
        let rank = "(setsid sh -c \"exit 7\" &) ; sh -c \"exit 5\"; exec sh -c \"exit 0\"";
        let launch = launch("orted", &open_mpi(kernel, 2, rank));
        let verdict = verdict(&launch, "orted", 0);
        assert_eq!(verdict["verdict"], "Succeeded", "{verdict}");
        assert_eq!(verdict["ranksPerHost"], json!({"w0": 2}));
    }
}

#[test]
fn v05_a_daemon_that_runs_a_second_program_leaves_no_count() {
    let spawned = "PMIX_NAMESPACE=2 OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=1 \
                   $OMPI_MCA_orte_fork_agent sh -c 'exit 0'\n";
    let launch = launch("orted", &(spawned.to_owned() + &open_mpi("", 2, "exit 0")));
    let verdict = verdict(&launch, "orted", 0);
    assert_eq!(verdict["verdict"], "Succeeded", "{verdict}");
    assert_eq!(verdict["ranksPerHost"], json!({}));
}

/// It has nothing that could be put in front of a rank. One rank that is seen tells the number of all.
#[test]
fn v05_ranks_of_hydra_are_counted_only_if_it_is_certain() {
    let hydra = |ranks: &str| {
        let script = format!("export PMI_RANK=0 MPI_LOCALNRANKS=3; {ranks}\n");
        let launch = launch("hydra_pmi_proxy", &script);
        verdict(&launch, "hydra_pmi_proxy", 0)["ranksPerHost"].clone()
    };
    let long = "env PMI_RANK=2 sleep 1 & unset PMI_RANK; wait";
    assert_eq!(hydra(&format!("unset PMI_RANK; {long}")), json!({"w0": 3}));
    assert_eq!(
        hydra(&format!("unset PMI_RANK MPI_LOCALNRANKS; {long}")),
        json!({})
    );
}

#[test]
fn v05_a_rank_of_hydra_that_is_seen_is_named_with_its_exact_end() {
    let script = "MPI_LOCALNRANKS=1 PMI_RANK=3 sh -c 'sleep 1; exit 66'\n";
    let launch = launch("hydra_pmi_proxy", script);
    let verdict = verdict(&launch, "hydra_pmi_proxy", 66);
    let message = verdict["message"].as_str().unwrap();
    let sentence = "rank 3 on worker w0 exited with code 66";
    assert!(message.starts_with(sentence), "{message}");
}

#[test]
fn a_users_own_wrapper_wins() {
    let world = World::new();
    let worker = world.serve_with(|command| {
        command.env("OMPI_MCA_orte_fork_agent", "/opt/tool");
    });
    world.write_hosts(&[("w0", worker.port)]);
    let shown = |daemon: &str, variable: &str| {
        let output = world.rsh(&["w0", &format!("echo ${variable} # {daemon}")]);
        text(&output.stdout).trim().to_owned()
    };
    assert_eq!(shown("orted", "OMPI_MCA_orte_fork_agent"), "/opt/tool");
    let ours = format!("{AGENT} rank");
    assert_eq!(shown("prted", "PRTE_MCA_odls_base_exec_agent"), ours);
    assert_eq!(shown("hostname", "PRTE_MCA_odls_base_exec_agent"), "");
}

/// The wrapper of rank 0, in front of a program.
fn wrapped(kernel: &str, words: &[&str]) -> Command {
    let mut command = Command::new(AGENT);
    command
        .arg("rank")
        .args(words)
        .env("OMPI_COMM_WORLD_RANK", "0")
        .env("MUSTER_SESSION", "0123456789abcdef")
        .env("MUSTER_KERNEL_RELEASE", kernel)
        .env("OMPI_MCA_orte_fork_agent", format!("{AGENT} rank"))
        .env("I_MPI_GTOOL", "vtune:0")
        .process_group(0);
    command
}

#[test]
fn a_wrapped_program_cannot_tell_the_difference() {
    for kernel in KERNELS {
        let script = "read line; echo $line $0 $1 ${OMPI_MCA_orte_fork_agent-none} $I_MPI_GTOOL
                      ps -o pgid= -p $$; echo error >&2; exit 9";
        let mut command = wrapped(kernel, &["sh", "-c", script, "name", "two words"]);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let number = child.id();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"input\n").unwrap();
        let output = child.wait_with_output().unwrap();
        let stdout = text(&output.stdout);
        let lines: Vec<_> = stdout.lines().map(str::trim).collect();
        let group = number.to_string();
        assert_eq!(
            lines,
            ["input name two words none vtune:0", &group],
            "{kernel}"
        );
        assert_eq!(text(&output.stderr), "error\n");
        assert_eq!(output.status.code(), Some(9));
    }
}

#[test]
fn a_wrapped_program_gets_signals_of_its_group_and_ends_by_them() {
    for kernel in KERNELS {
        let ended = |script: &str, signal: &str| {
            let script = format!("{script} kill -{signal} 0; sleep 60");
            wrapped(kernel, &["sh", "-c", &script]).status().unwrap()
        };
        assert_eq!(ended("", "TERM").signal(), Some(15), "{kernel}");
        assert_eq!(ended("", "ABRT").signal(), Some(6), "{kernel}");
        assert_eq!(ended("", "KILL").signal(), Some(9), "{kernel}");
        assert_eq!(
            ended("trap 'exit 4' USR1;", "USR1").code(),
            Some(4),
            "{kernel}"
        );
    }
}

/// Without a parent in between, the daemon's child is the program itself.
#[test]
fn the_process_stays_the_same_where_the_kernel_keeps_its_end() {
    let mut command = wrapped("6.15.0", &["sh", "-c", "echo $$"]);
    let child = command.stdout(Stdio::piped()).spawn().unwrap();
    let number = child.id().to_string();
    let output = child.wait_with_output().unwrap();
    assert_eq!(text(&output.stdout).trim(), number);
}

#[test]
fn a_program_is_found_where_launchers_find_it() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::copy("/bin/echo", directory.path().join("only-here")).unwrap();
    let found = |words: &[&str]| {
        let output = wrapped("", words).current_dir(directory.path()).output();
        let output = output.unwrap();
        (output.status.code(), text(&output.stdout))
    };
    let said = (Some(0), "hello\n".to_owned());
    assert_eq!(found(&["echo", "hello"]), said);
    assert_eq!(found(&["./only-here", "hello"]), said);
    assert_eq!(found(&["only-here", "hello"]), said);
    assert_eq!(found(&["nowhere", "hello"]), (Some(127), String::new()));
}
