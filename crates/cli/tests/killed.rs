//! Two hundred runs that are killed without warning leave nothing behind.

#[path = "local/world.rs"]
mod world;

use std::time::{Duration, Instant};

use world::{World, hello};

const CYCLES: u64 = 200;
/// Longer than the kernel takes to end a few dozen processes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn two_hundred_runs_killed_at_any_moment_leave_nothing() {
    let world = World::new("killed");
    let file = world.file("job.yaml", &hello(2, 1, "sleep 424242"));
    let mounts = world::mounts_below(&world.directory);
    for cycle in 0..CYCLES {
        let mut run = world.muster(&["-q", "run", &file]).spawn().unwrap();
        // From the first moment to well after the program runs.
        std::thread::sleep(Duration::from_millis(cycle * 37 % 900));
        run.kill().unwrap();
        run.wait().unwrap();
        let since = Instant::now();
        loop {
            let left = world.processes();
            if left.is_empty() {
                break;
            }
            assert!(since.elapsed() < PATIENCE, "cycle {cycle}: {left:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    assert_eq!(world::mounts_below(&world.directory), mounts);
    // The next run sweeps what the last one could not.
    let file = world.file("last.yaml", &hello(1, 1, "true"));
    assert_eq!(world.run(&["-q", "run", &file]).code, 0);
    let runs = std::fs::read_dir(world.directory.join("state/runs")).unwrap();
    let mut count = 0;
    for run in runs {
        let run = run.unwrap().path();
        assert!(!run.join("pods").exists(), "{}", run.display());
        count += 1;
    }
    assert!(count <= 51, "{count} runs are remembered");
}
