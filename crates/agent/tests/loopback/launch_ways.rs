//! Launchers that call ssh by its name, for real: pdsh, and the launcher code of Horovod and
//! DeepSpeed as published. Nothing is skipped: what is missing fails and says what to install.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rustix::fs::{FlockOperation, flock};

use super::launches::Launch;
use super::world::text;

/// Where `prepare.sh` put both launchers, made when they are not there or were made otherwise.
fn prepared() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/launchers");
    let wanted = std::fs::read_to_string(here.join("prepare.sh")).unwrap();
    let cache = std::env::var_os("MUSTER_CACHE").map(PathBuf::from);
    let home = || PathBuf::from(std::env::var_os("HOME").expect("HOME or MUSTER_CACHE is set"));
    let cache = cache.unwrap_or_else(|| home().join(".cache/muster"));
    std::fs::create_dir_all(&cache).unwrap();
    let directory = cache.join("python-launchers");
    let stamp = directory.join("prepared-by");
    let lock = std::fs::File::create(cache.join("python-launchers.lock")).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    if std::fs::read_to_string(&stamp).ok().as_ref() != Some(&wanted) {
        let made = Command::new(here.join("prepare.sh"))
            .arg(&directory)
            .output()
            .unwrap();
        assert!(
            made.status.success(),
            "cannot fetch Horovod's and DeepSpeed's launchers; install python3 and python3-venv, and \
             see that pip can reach its package index:\n{}",
            text(&made.stderr)
        );
        std::fs::write(&stamp, wanted).unwrap();
    }
    directory
}

fn need_pdsh() {
    let found = Command::new("pdsh").arg("-V").output();
    assert!(found.is_ok(), "pdsh is missing: apt-get install pdsh");
}

/// What the launcher printed, and its exit code.
fn finished(output: &Output) -> (String, Option<i32>) {
    let both = text(&output.stdout) + &text(&output.stderr);
    (both, output.status.code())
}

fn run(launch: &Launch, script: &str) -> (String, Option<i32>) {
    let output = launch
        .exec(script)
        .current_dir(launch.world.directory.path())
        .output();
    finished(&output.unwrap())
}

#[track_caller]
fn assert_lines(said: &str, lines: &[&str]) {
    for line in lines {
        assert!(said.lines().any(|other| other == *line), "{line}: {said}");
    }
}

#[test]
fn pdsh() {
    need_pdsh();
    let launch = Launch::new(2);
    let (said, code) = run(&launch, "pdsh -R ssh -S -w w0,w1 'echo rank %n on %h'");
    assert_eq!(code, Some(0), "{said}");
    assert_lines(&said, &["w0: rank 0 on w0", "w1: rank 1 on w1"]);
    assert_eq!(launch.verdict()["verdict"], "Succeeded");
    let (said, code) = run(&launch, "pdsh -S -l me -w w0,w1 '[ %h = w0 ] || exit 3'");
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("w1: ssh exited with exit code 3"), "{said}");
}

#[test]
fn horovod() {
    let directory = prepared();
    let launch = Launch::new(2);
    let horovod = format!("{0}/bin/python {0}/horovodrun.py", directory.display());
    let rank = "echo rank $HOROVOD_RANK of $HOROVOD_SIZE on $HOROVOD_HOSTNAME";
    let started = format!("{horovod} --gloo --disable-cache -np 2 -H w0:1,w1:1 -p 2222 sh -c");
    let (said, code) = run(&launch, &format!("{started} '{rank}'"));
    assert_eq!(code, Some(0), "{said}");
    assert_lines(
        &said,
        &[
            "[0]<stdout>:rank 0 of 2 on w0",
            "[1]<stdout>:rank 1 of 2 on w1",
        ],
    );
    assert_eq!(launch.verdict()["hosts"], 2);
    let (said, code) = run(&launch, &format!("{started} 'exit $((3 * HOROVOD_RANK))'"));
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("Exit code: 3"), "{said}");
}

/// Jobs of bdap and of kubeflow.org/v1 promise that file; Horovod looks for exactly this variable and
/// calls it with a host and a command, which is how `kubexec` is called.
#[test]
fn horovod_calls_kubexec_where_it_is_promised() {
    let directory = prepared();
    let ask = "from horovod.runner.util import remote; \
               print(remote.get_remote_command('cd /a && echo b', 'pi-worker-0'))";
    let called = |agent: &str| {
        let mut python = std::process::Command::new(directory.join("bin/python"));
        python
            .args(["-c", ask])
            .env("OMPI_MCA_plm_rsh_agent", agent);
        let output = python.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let promised = "/etc/mpi/kubexec.sh";
    let wanted = "/etc/mpi/kubexec.sh pi-worker-0 cd /a && echo b\n";
    assert_eq!(called(promised), wanted);
    assert!(called("/etc/mpi/other.sh").starts_with("ssh "));
}

#[test]
fn deepspeed() {
    need_pdsh();
    let directory = prepared();
    let launch = Launch::new(2);
    let script = "import os, sys\n\
        print('rank', os.environ['RANK'], 'of', os.environ['WORLD_SIZE'], sys.argv[2:])\n\
        sys.exit(int(sys.argv[2]) * int(os.environ['RANK']))\n";
    std::fs::write(launch.world.path("train.py"), script).unwrap();
    std::fs::write(launch.world.path("list"), "w0 slots=1\nw1 slots=1\n").unwrap();
    let python = directory.join("bin/python");
    let started = format!(
        "{} -m deepspeed.launcher.runner --hostfile list train.py",
        python.display()
    );
    let (said, code) = run(&launch, &format!("{started} 0 'two words'"));
    assert_eq!(code, Some(0), "{said}");
    assert_lines(
        &said,
        &[
            "w0: rank 0 of 2 ['0', 'two words']",
            "w1: rank 1 of 2 ['0', 'two words']",
        ],
    );
    assert_eq!(launch.verdict()["hosts"], 2);
    let (said, code) = run(&launch, &format!("{started} 5"));
    assert_eq!(code, Some(5), "{said}");
}
