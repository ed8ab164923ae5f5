//! Jobs of any size that is accepted: what a plan costs grows with the number of workers, not with its
//! square. Sizes are compared within one run, so that a busy machine changes both.

use planner::fixtures::{growth, job, pod, rendered_worker, world};
use planner::job::{CleanUp, LauncherHost};
use planner::observed::Observed;
use planner::{Action, Job, Kind, Object, check, plan};
use serde_json::json;

use super::created;

/// With room for logarithms and a busy machine.
const GROWTH_MAX: f64 = 5.0;

/// A world with so many workers of the job.
fn crowded(job: Job, workers: u32) -> Observed {
    let mut world = world(job);
    world.workers = (0..workers)
        .map(|index| pod(&world.job.worker_name(index)))
        .collect();
    world
}

fn grows_with_the_number(what: &str, of: impl Fn(u32) -> Observed) {
    let growth = growth(1_000, |workers| {
        let (observed, what) = (of(workers), what.to_owned());
        Box::new(move || {
            let plan = plan(&observed);
            let broken = check::violations(&observed, &plan);
            assert!(broken.is_empty(), "{what}: {broken:?}");
        })
    });
    println!("{what}: {growth:.1}");
    assert!(growth < GROWTH_MAX, "{what}: {growth:.1}");
}

#[test]
fn c02_every_plan_takes_time_by_the_number_of_workers() {
    grows_with_the_number("scaled down", |workers| {
        crowded(job("demo").workers(100), workers)
    });
    grows_with_the_number("created", |workers| world(job("demo").workers(workers)));
    grows_with_the_number("waiting", |workers| {
        crowded(job("demo").workers(workers), workers)
    });
    grows_with_the_number("with a foreign pod among them", |workers| {
        crowded(job("demo").workers(workers).suspended(), workers)
            .with(|world| world.foreign_in_selection = true)
    });
    grows_with_the_number("names taken", |workers| {
        world(job("demo").workers(workers)).with(|world| {
            world.foreign_pods = world.job.worker_names().collect();
        })
    });
    grows_with_the_number("allowed in", |workers| {
        crowded(job("demo").workers(workers).of_a_set(), workers)
    });
    grows_with_the_number("told of the end", |workers| {
        let job = job("demo")
            .workers(workers)
            .provided()
            .clean(CleanUp::Notify);
        crowded(job, workers).over(planner::Verdict::Succeeded)
    });
}

#[test]
fn c02_a_worker_is_known_by_its_name_as_we_spell_it() {
    let job = job("demo").workers(3);
    for (name, index) in [
        ("demo-worker-0", Some(0)),
        ("demo-worker-10", Some(10)),
        ("demo-worker-4294967295", Some(u32::MAX)),
        ("demo-worker-4294967296", None),
        ("demo-worker-01", None),
        ("demo-worker-00", None),
        ("demo-worker-+1", None),
        ("demo-worker--1", None),
        ("demo-worker-", None),
        ("demo-worker-1x", None),
        ("demo-worker", None),
        ("demo-1", None),
    ] {
        assert_eq!(job.worker_index(name), index, "{name}");
    }
}

#[test]
fn c03_s01_a_plan_holds_one_pod_however_many_it_creates() {
    const TEMPLATE_BYTES: usize = 10 * 1024;
    let large = job("demo").workers(10_000).with(|job| {
        let text = "x".repeat(TEMPLATE_BYTES);
        job.worker_role().template["metadata"] = json!({"annotations": {"about": text}});
    });
    let plan = plan(&world(large));
    let held = format!("{:?}", plan.steps).len();
    println!("the plan holds {held} bytes");
    // The template once, the host lists, and a number for each worker.
    assert!(held < 2 * TEMPLATE_BYTES + 2 * 1024 * 1024, "{held} bytes");
    let batches = plan
        .steps
        .iter()
        .flatten()
        .filter_map(|action| match action {
            Action::CreateWorkers(batch) => Some(batch),
            _ => None,
        });
    let batches: Vec<_> = batches.collect();
    assert_eq!(batches.len(), 1);
    assert_eq!(batches[0].indices.len(), 10_000);
    assert!(batches[0].body(9_999).contains("demo-worker-9999"));
}

#[test]
fn c03_the_pod_of_a_batch_is_the_one_that_is_rendered_alone() {
    let on_host = |job: Job| {
        job.with(|job| {
            job.worker_role().template["spec"]["hostNetwork"] = true.into();
            let container = &mut job.worker_role().template["spec"]["containers"][0];
            container["command"] = json!(["/usr/sbin/sshd", "-De"]);
            container["readinessProbe"] = json!({"tcpSocket": {"port": 22}});
        })
    };
    let jobs = [
        job("demo").workers(11),
        job("demo").workers(11).by_agent(),
        on_host(job("demo").workers(11)).by_agent(),
        on_host(job("demo").workers(11)),
        job("de.mo").workers(11).of_pods(),
        job("demo").workers(11).provided(),
        job("demo").workers(11).with(|job| {
            job.launcher.host = Some(LauncherHost::Indexed);
            let marks = json!({"labels": {"~worker-0~n": "~worker-1~p", "n": "demo-worker-0"}});
            job.worker_role().template["metadata"] = marks;
        }),
    ];
    for job in jobs {
        let mut world = world(job);
        world.site.agent_image = Some("agent".to_owned());
        let pods = created(&plan(&world)).into_iter();
        let pods: Vec<Object> = pods.filter(|object| is_worker(&world, object)).collect();
        assert_eq!(pods.len(), 11);
        for (index, pod) in (0..).zip(&pods) {
            assert_eq!(Some(&pod.body), rendered_worker(&world, index).as_ref());
        }
    }
}

fn is_worker(world: &Observed, object: &Object) -> bool {
    object.kind == Kind::Pod && world.job.worker_index(&object.name).is_some()
}
