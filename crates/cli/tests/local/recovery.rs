//! Programs that are started again in place: what they see, what is left of an attempt when the next one
//! begins, and what people read in the end. With each family of MPI that this machine has.

use crate::world::{Ended, World, job, lines, until};

/// Launchers, and the families that they are of.
const FAMILIES: [(&str, &str); 2] = [("mpirun", "OpenMPI"), ("mpirun.mpich", "MPICH")];

/// A job with two ranks on two workers that run a script, and this much of `spec.muster`.
fn ranks(world: &World, family: (&str, &str), muster: &str, script: &str) -> String {
    let (mpirun, implementation) = family;
    let directory = world.directory.display();
    let script =
        format!("rank=${{OMPI_COMM_WORLD_RANK:-$PMI_RANK}}\ncd {directory}\n{MEET}\n{script}\n");
    let rank = world.file("rank.sh", &script);
    let text = job(2, 1, &format!("[{mpirun}, -np, '2', sh, {rank}]")).replace(
        "  slotsPerWorker",
        &format!("  mpiImplementation: {implementation}\n  muster: {muster}\n  slotsPerWorker"),
    );
    world.file("job.yaml", &text)
}

/// How the rank that died is named. Hydra then ends all others by the same signal, and the agent may hear of one of
/// them first.
fn victim(family: (&str, &str)) -> &'static str {
    match family.1 {
        "MPICH" => "rank ",
        _ => "rank 1 on worker hello-worker-1 ",
    }
}

fn recovery(restarts: u32) -> String {
    format!("{{transport: Agent, recovery: {{restarts: {restarts}}}}}")
}

/// Waits for the other rank. Hydra may wait without end for a rank that died before all of them had started, and
/// the agent finds the ranks of Hydra in the process table, where it needs a moment.
const MEET: &str = "
touch up-$MUSTER_ATTEMPT-$rank
while [ ! -e up-$MUSTER_ATTEMPT-0 ] || [ ! -e up-$MUSTER_ATTEMPT-1 ]; do sleep 0.01; done
sleep 0.5";

/// What the ranks printed, in the order of the ranks.
fn said(run: &Ended) -> Vec<&str> {
    let mut lines = lines(&run.stdout);
    lines.sort_unstable();
    lines
}

/// In the first attempt, rank 1 dies and rank 0 would wait for it without end.
const DIES_ONCE: &str = "
if [ \"$MUSTER_ATTEMPT\" = 1 ]; then
    echo first $rank
    [ $rank = 1 ] && kill -9 $$
    sleep 1000
fi
echo rank $rank, attempt $MUSTER_ATTEMPT, after $MUSTER_RESTART_REASON";

#[test]
fn a_job_whose_rank_was_killed_succeeds_at_its_second_attempt() {
    for family in FAMILIES {
        let world = World::new(&format!("recovers-{}", family.1));
        let run = world.run(&["run", &ranks(&world, family, &recovery(3), DIES_ONCE)]);
        assert_eq!(run.code, 0, "{family:?}: {}", run.stderr);
        let second = said(&run);
        let second = second.iter().filter(|line| line.starts_with("rank"));
        let second: Vec<_> = second.copied().collect();
        let expected = [
            "rank 0, attempt 2, after RankKilled",
            "rank 1, attempt 2, after RankKilled",
        ];
        assert_eq!(second, expected, "{family:?}: {}", run.stderr);
        let victim = victim(family);
        let line = format!("muster-agent: attempt 2 of at most 4: RankKilled: {victim}");
        assert!(run.stderr.contains(&line), "{family:?}: {}", run.stderr);
        let verdict = "attempt 2 succeeded; attempt 1 ended with RankKilled";
        for words in [&["why", "@last"][..], &["describe", "@last"]] {
            let told = world.run(words).stdout;
            assert!(told.contains(verdict), "{family:?}: {told}");
        }
        assert!(run.stderr.contains(verdict), "{family:?}: {}", run.stderr);
        assert!(world.processes().is_empty(), "{:?}", world.processes());
    }
}

#[test]
fn the_log_of_one_attempt_can_be_read() {
    let world = World::new("recovery-logs");
    let file = ranks(&world, FAMILIES[0], &recovery(1), DIES_ONCE);
    assert_eq!(world.run(&["run", &file]).code, 0);
    let log = |attempt: &str| world.run(&["logs", "@last", "--attempt", attempt]);
    let (first, second) = (log("1").stdout, log("2").stdout);
    assert!(
        first.contains("first 1") && !first.contains("attempt 2"),
        "{first}"
    );
    assert!(
        second.contains("rank 0, attempt 2") && !second.contains("first"),
        "{second}"
    );
    let third = log("3");
    assert!(
        third.code != 0 && third.stderr.contains("ends with attempt 2"),
        "{third:?}"
    );
}

/// Nobody has written that to the API server: it is in the launcher's log.
#[test]
fn the_attempt_that_runs_is_told() {
    let world = World::new("recovery-runs");
    let script = "
if [ \"$MUSTER_ATTEMPT\" = 1 ]; then
    while [ ! -e die ]; do sleep 0.1; done
    [ $rank = 1 ] && kill -9 $$
fi
while [ ! -e go ]; do sleep 0.1; done";
    let file = ranks(&world, FAMILIES[0], &recovery(3), script);
    assert_eq!(world.run(&["up"]).code, 0);
    assert_eq!(world.run(&["submit", "--local", &file]).code, 0);
    let why = || world.run(&["why", "--local", "hello"]).stdout;
    until("it runs", || why().contains("has been running"));
    until("both ranks run", || world.directory.join("up-1-1").exists());
    assert!(!why().contains("attempt"), "{}", why());
    world.file("die", "");
    until("the second attempt is told", || {
        why().contains("This is attempt 2 of at most 4, for ")
    });
    assert!(
        why().contains(": RankKilled: rank 1 on worker "),
        "{}",
        why()
    );
    let described = world.run(&["describe", "--local", "hello"]).stdout;
    assert!(
        described.contains("Attempt:   attempt 2 of at most 4, for "),
        "{described}"
    );
    world.file("go", "");
    assert_eq!(world.run(&["wait", "--local", "hello"]).code, 0);
    assert_eq!(world.run(&["down"]).code, 0);
}

#[test]
fn when_no_restart_is_left_the_job_fails_with_the_truth() {
    for family in FAMILIES {
        let world = World::new(&format!("gives-up-{}", family.1));
        let script = "echo attempt $MUSTER_ATTEMPT\n[ $rank = 1 ] && kill -9 $$\nsleep 1000";
        let run = world.run(&["run", &ranks(&world, family, &recovery(2), script)]);
        let family_said =
            |text: &str| assert!(run.stderr.contains(text), "{family:?}: {}", run.stderr);
        assert_ne!(run.code, 0, "{family:?}: {}", run.stderr);
        family_said("error[RankKilled]: hello failed");
        family_said(victim(family));
        family_said("was ended by signal 9");
        family_said(
            "this was attempt 3; attempt 1 ended with RankKilled, attempt 2 with RankKilled",
        );
        assert!(said(&run).contains(&"attempt 3"), "{run:?}");
        assert!(!said(&run).contains(&"attempt 4"), "{run:?}");
        assert!(world.processes().is_empty(), "{:?}", world.processes());
    }
}

#[test]
fn without_recovery_the_job_fails_at_once() {
    for family in FAMILIES {
        let world = World::new(&format!("no-recovery-{}", family.1));
        let script = "echo once $MUSTER_ATTEMPT.\n[ $rank = 1 ] && kill -9 $$\nsleep 1000";
        let run = world.run(&["run", &ranks(&world, family, "{transport: Agent}", script)]);
        assert_ne!(run.code, 0, "{family:?}: {}", run.stderr);
        let failed = "error[RankKilled]: hello failed";
        assert!(run.stderr.contains(failed), "{family:?}: {}", run.stderr);
        assert!(
            !run.stderr.contains("attempt"),
            "{family:?}: {}",
            run.stderr
        );
        // Launchers may drop what ranks said just before the end.
        let once = said(&run).into_iter().filter(|line| *line == "once .");
        assert!((1..=2).contains(&once.count()), "{run:?}");
    }
}

/// Each rank holds a lock for as long as anything of it lives, and cannot be asked to end.
#[test]
fn ranks_that_do_not_want_to_end_are_gone_when_the_next_attempt_begins() {
    for family in FAMILIES {
        let world = World::new(&format!("stubborn-{}", family.1));
        let script = "
exec 9>lock-$rank
flock -n 9 || echo a rank $rank of the attempt before is left
if [ \"$MUSTER_ATTEMPT\" = 1 ]; then
    trap '' TERM HUP INT
    (setsid env -i /bin/sh -c 'trap \"\" TERM; while [ -e rank.sh ]; do /bin/sleep 1; done' >/dev/null 2>&1 &)
    [ $rank = 1 ] && kill -9 $$
    while [ -e rank.sh ]; do sleep 1; done
fi
echo good";
        let run = world.run(&["run", &ranks(&world, family, &recovery(1), script)]);
        assert_eq!(run.code, 0, "{family:?}: {}", run.stderr);
        let good = said(&run).into_iter().filter(|line| *line == "good");
        assert_eq!(good.count(), 2, "{family:?}: {run:?}");
        assert!(!run.stdout.contains("is left"), "{family:?}: {run:?}");
        assert!(world.processes().is_empty(), "{:?}", world.processes());
    }
}
