//! How much memory the operator uses for what others write. The whole operator reads lists from a small
//! API server in this process, which makes up each page when it is asked for; an allocator counts the
//! bytes. `api_server` has that server.
//!
//! Each measure is compared with an operator in an empty cluster. All are in one test, because the
//! allocator counts for the whole process.

mod api_server;

use std::pin::pin;
use std::time::Duration;

use peak_alloc::PeakAlloc;
use planner::site::Site;

use crate::api_server::{ApiServer, World};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
/// The lists of a test are read in seconds, also by a debug build on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// What an operator uses after it has read everything, and while it reads, in bytes.
#[derive(Clone, Copy, Debug)]
struct Used {
    kept: usize,
    peak: usize,
}

/// Runs an operator until it has listed this world.
fn measure(world: World) -> Used {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime can be made");
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    let used = runtime.block_on(async {
        let server = ApiServer::new(world);
        let scope = controller::Scope {
            site: Site::default(),
            namespace: None,
            concurrency: 2,
            clock: jiff::Timestamp::now,
            nonce: controller::nonce,
            keys: controller::KeySource::FRESH,
        };
        let client = kube::Client::new(server.clone(), "default");
        // It lives on while it is measured.
        let mut operator = pin!(controller::operate(client, scope, std::future::pending()));
        tokio::select! {
            ended = &mut operator => panic!("the operator ended: {ended:?}"),
            () = server.all_listed() => {}
            () = tokio::time::sleep(PATIENCE) => panic!("not all was listed"),
        }
        Used {
            kept: MEMORY.current_usage().saturating_sub(before),
            peak: MEMORY.peak_usage().saturating_sub(before),
        }
    });
    drop(runtime);
    used
}

#[test]
fn memory_is_bounded_by_what_we_own() {
    // The first run fills caches of the process.
    measure(World::default());
    let empty = measure(World::default());
    let over = |name: &str, world: World| {
        let used = measure(world);
        let used = Used {
            kept: used.kept.saturating_sub(empty.kept),
            peak: used.peak.saturating_sub(empty.kept),
        };
        println!(
            "{name}: {} KiB kept, {} KiB at the peak",
            used.kept / KIB,
            used.peak / KIB
        );
        used
    };
    s01c_foreign_objects(&over);
    s01b_large_jobs(&over);
    b14_own_pods(&over);
}

fn s01c_foreign_objects(over: &dyn Fn(&str, World) -> Used) {
    let large = over(
        "130 foreign ConfigMaps of 1 MiB",
        World {
            foreign_maps: 130,
            map_bytes: MIB,
            ..World::default()
        },
    );
    assert!(large.kept < 256 * KIB && large.peak < 12 * MIB, "{large:?}");
    let many = over(
        "8 000 small foreign ConfigMaps",
        World {
            foreign_maps: 8_000,
            ..World::default()
        },
    );
    assert!(many.kept < 256 * KIB && many.peak < 12 * MIB, "{many:?}");
    let forged = over(
        "8 000 ConfigMaps with the forged owner reference of a job",
        World {
            jobs: 1,
            forged_maps: 8_000,
            ..World::default()
        },
    );
    assert!(
        forged.kept < 4 * MIB && forged.peak < 16 * MIB,
        "{forged:?}"
    );
    let hosts = over(
        "200 foreign pods with a host list of 200 KiB",
        World {
            foreign_pods: 200,
            pod_annotation_bytes: 200 * KIB,
            ..World::default()
        },
    );
    assert!(hosts.kept < 256 * KIB && hosts.peak < 12 * MIB, "{hosts:?}");
}

fn s01b_large_jobs(over: &dyn Fn(&str, World) -> Used) {
    let large = over(
        "50 jobs of 1 MiB",
        World {
            jobs: 50,
            job_bytes: MIB,
            ..World::default()
        },
    );
    assert!(large.kept < MIB && large.peak < 40 * MIB, "{large:?}");
    let many = over(
        "3 000 jobs of 4 KiB in one namespace",
        World {
            jobs: 3_000,
            job_bytes: 4 * KIB,
            ..World::default()
        },
    );
    assert!(many.kept < 20 * MIB, "{many:?}");
}

fn b14_own_pods(over: &dyn Fn(&str, World) -> Used) {
    let pods = 5_000;
    let own = over(
        "5 000 own pods",
        World {
            jobs: 1,
            own_pods: pods,
            ..World::default()
        },
    );
    let each = own.kept / pods;
    println!("that is {each} bytes for each pod");
    assert!(each < KIB && own.peak < 24 * MIB, "{own:?}");
}
