//! `make demo` from its first line to its last, as root and as an ordinary user: what is shown, how
//! it ends, and that nothing is left. Cargo finds everything built, in a copy of what it built for
//! this test.

#[path = "demo/stage.rs"]
mod stage;
#[path = "local/world.rs"]
mod world;

use std::io::{BufRead as _, BufReader};

use rustix::process::{Pid, Signal, geteuid, kill_process_group};

use stage::{Stage, User};

#[test]
fn whoever_runs_it_sees_pi_and_a_failure() {
    let stage = Stage::new("demo-self", User::Own);
    let run = stage.make_demo();
    assert_eq!(run.code, 0, "{run:?}");
    shows_both_jobs(&run);
    stage.is_tidy();
}

#[test]
fn an_ordinary_user_sees_the_same() {
    assert!(
        geteuid().is_root(),
        "only root can become another user: run this test as root"
    );
    let stage = Stage::new("demo-user", User::Nobody);
    let run = stage.make_demo();
    assert_eq!(run.code, 0, "{run:?}");
    shows_both_jobs(&run);
    stage.is_tidy();
}

#[test]
fn without_an_mpi_it_says_the_one_command() {
    let stage = Stage::new("demo-nompi", User::Nobody).without_mpi();
    let run = stage.make_demo();
    assert_ne!(run.code, 0, "{run:?}");
    assert!(run.stderr.contains("Error 127"), "{run:?}");
    assert!(
        run.stderr
            .contains("\n  sudo apt-get install openmpi-bin\n"),
        "{run:?}"
    );
    assert!(!run.stdout.contains("$ muster"), "{run:?}");
    stage.is_tidy();
}

#[test]
fn who_may_install_packages_gets_an_mpi() {
    for (name, user) in [("demo-apt", User::Own), ("demo-sudo", User::Nobody)] {
        let stage = Stage::new(name, user).without_mpi().with_package_tools();
        let run = stage.make_demo();
        assert_eq!(run.code, 0, "{run:?}");
        shows_both_jobs(&run);
        let said = stage.said_to_apt();
        assert!(
            said.contains("install --yes --no-install-recommends openmpi-bin"),
            "{said}"
        );
        stage.is_tidy();
    }
}

#[test]
fn ctrl_c_leaves_nothing() {
    let stage = Stage::new("demo-interrupt", User::Own);
    let mut make = stage.start_demo();
    let output = BufReader::new(make.stdout.take().unwrap());
    for line in output.lines() {
        let line = line.unwrap();
        if line == "$ muster run examples/local/pi.yaml" {
            // As a terminal does it: to all that it runs.
            kill_process_group(Pid::from_child(&make), Signal::INT).unwrap();
        }
        assert!(!line.contains("fails.yaml"), "it went on: {line}");
    }
    assert!(!make.wait().unwrap().success());
    stage.is_tidy();
}

fn shows_both_jobs(run: &world::Ended) {
    let pi = "pi is approximately 3.1415926536: 4 ranks on 2 hosts";
    assert!(run.stdout.lines().any(|line| line == pi), "{run:?}");
    assert!(
        run.stderr.contains("error[CommandFailed]: fails failed"),
        "{run:?}"
    );
    assert!(run.stderr.contains("cannot open /data/input.h5"), "{run:?}");
    assert!(
        run.stdout.contains("Nothing was left running. Next:"),
        "{run:?}"
    );
}
