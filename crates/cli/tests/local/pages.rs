//! Every command of the page about failed jobs is run, as it stands there.

use crate::readme::{blocks, path_with_muster, shell};
use crate::world::World;

const DEBUG: &str = "docs/how-to/debug-a-failed-job.md";

#[test]
fn from_a_failed_job_to_its_cause() {
    let world = World::new("debug");
    let path = path_with_muster(&world);
    let run = shell(&world, &blocks(DEBUG, "# Debug a failed job\n")[0], &path);
    assert_eq!(run.code, 0, "{run:?}");
    for words in [
        "CommandFailed\n",
        "rank 3 on worker fails-worker-1",
        "/data/input.h5",
        "Events",
    ] {
        assert!(run.stdout.contains(words), "{words} is not in {run:?}");
    }
    assert!(world.processes().is_empty(), "{:?}", world.processes());

    let world = World::new("debug-kept");
    let patch = &blocks(DEBUG, "## If the pods are gone\n")[0];
    let begin = "set -e\neval \"$(muster up)\"\nkubectl apply -f examples/local/fails.yaml\n";
    let run = shell(&world, &format!("{begin}{patch}muster down\n"), &path);
    assert!(
        run.code == 0 && run.stdout.contains("fails patched"),
        "{run:?}"
    );
}
