//! The host list and the discovery script.

use contract::labels::DISCOVERY_ANNOTATION;
use planner::fixtures::{job, world};
use planner::job::{LauncherHost, Mpi};
use planner::observed::PodPhase;
use planner::{Fingerprint, Job, Kind, Observed, plan};
use serde_json::json;

use super::{created_one, deeds, patch};

fn hostfile(observed: &Observed) -> String {
    let config = created_one(&plan(observed), Kind::ConfigMap, "demo-config");
    config["data"]["hostfile"]
        .as_str()
        .expect("the host list is text")
        .to_owned()
}

fn in_domain(job: Job) -> Observed {
    world(job).with(|world| world.site.cluster_domain = "cluster.local".to_owned())
}

fn as_host(job: Job) -> Job {
    job.with(|job| job.launcher.host = Some(LauncherHost::Indexed))
}

#[test]
fn open_mpi_counts_slots_by_name() {
    let two = world(job("demo").workers(2));
    let expected = "demo-worker-0.demo.team-a.svc slots=1\ndemo-worker-1.demo.team-a.svc slots=1\n";
    assert_eq!(hostfile(&two), expected);
    let ten = world(job("demo").workers(1).with(|job| job.slots = 10));
    assert_eq!(hostfile(&ten), "demo-worker-0.demo.team-a.svc slots=10\n");
}

#[test]
fn intel_and_mpich_count_slots_after_a_colon() {
    for mpi in [Mpi::Intel, Mpi::Mpich] {
        let ten = world(
            job("demo")
                .workers(1)
                .with(|job| (job.mpi, job.slots) = (mpi, 10)),
        );
        assert_eq!(hostfile(&ten), "demo-worker-0.demo.team-a.svc:10\n");
        let domain = in_domain(job("demo").workers(1).with(|job| job.mpi = mpi));
        assert_eq!(
            hostfile(&domain),
            "demo-worker-0.demo.team-a.svc.cluster.local:1\n"
        );
    }
}

#[test]
fn a_launcher_that_is_a_host_stands_first() {
    let expected = "demo-launcher.demo.team-a.svc slots=1\n\
                    demo-worker-0.demo.team-a.svc slots=1\n\
                    demo-worker-1.demo.team-a.svc slots=1\n";
    assert_eq!(hostfile(&world(as_host(job("demo").workers(2)))), expected);
    let domain = in_domain(as_host(job("demo").workers(1)));
    let expected = "demo-launcher.demo.team-a.svc.cluster.local slots=1\n\
                    demo-worker-0.demo.team-a.svc.cluster.local slots=1\n";
    assert_eq!(hostfile(&domain), expected);
    let alone = world(as_host(job("demo")));
    assert_eq!(hostfile(&alone), "demo-launcher.demo.team-a.svc slots=1\n");
}

#[test]
fn workers_stand_in_the_order_of_their_numbers() {
    let hosts = hostfile(&world(job("demo").workers(11)));
    let last = hosts.lines().last().expect("there are hosts");
    assert_eq!(last, "demo-worker-10.demo.team-a.svc slots=1");
}

fn elastic(workers: u32) -> Job {
    job("demo").workers(workers).with(|job| job.elastic = true)
}

fn script(observed: &Observed) -> String {
    let script = match observed.config.is_absent() {
        true => created_one(&plan(observed), Kind::ConfigMap, "demo-config")["data"].clone(),
        false => patch(&plan(observed))["data"].clone(),
    };
    script["discover_hosts.sh"]
        .as_str()
        .expect("the script is text")
        .to_owned()
}

#[test]
fn an_elastic_job_discovers_nobody_before_its_pods_run() {
    assert_eq!(script(&world(elastic(2))), "#!/bin/sh\n");
    let launcher = script(&world(as_host(elastic(2))));
    assert_eq!(launcher, "#!/bin/sh\necho demo-launcher.demo.team-a.svc\n");
}

#[test]
fn an_elastic_job_discovers_the_workers_that_run() {
    let started = world(as_host(elastic(2)))
        .settled()
        .workers_are(PodPhase::Running);
    let expected = "#!/bin/sh\n\
                    echo demo-launcher.demo.team-a.svc\n\
                    echo demo-worker-0.demo.team-a.svc\n\
                    echo demo-worker-1.demo.team-a.svc\n";
    assert_eq!(script(&started), expected);
    let half = world(elastic(2)).settled().with(|world| {
        world.site.cluster_domain = "cluster.local".to_owned();
        world.workers[1].phase = PodPhase::Running;
    });
    let expected = "#!/bin/sh\necho demo-worker-1.demo.team-a.svc.cluster.local\n";
    assert_eq!(script(&half), expected);
}

/// However long it takes to end, nothing may be started there any more.
#[test]
fn a_worker_that_goes_is_discovered_no_more() {
    let three = world(elastic(3))
        .settled()
        .workers_are(PodPhase::Running)
        .settled();
    let two = "#!/bin/sh\necho demo-worker-0.demo.team-a.svc\necho demo-worker-1.demo.team-a.svc\n";
    let scaled = three
        .clone()
        .with(|world| world.job = elastic(2).with(|job| job.owner = world.job.owner.clone()));
    assert_eq!(script(&scaled), two);
    let going = three.with(|world| world.workers[2].deleting = true);
    assert_eq!(script(&going), two);
}

/// In the ConfigMap it would arrive a minute and a half later, and without a gate nothing else of the
/// launcher's pod changes.
#[test]
fn an_elastic_launcher_is_told_of_its_workers_by_an_annotation() {
    let created = plan(&world(elastic(2)).keys_recorded());
    let launcher = created_one(&created, Kind::Job, "demo-launcher")["spec"]["template"].clone();
    let annotation = &launcher["metadata"]["annotations"][DISCOVERY_ANNOTATION];
    assert_eq!(*annotation, "#!/bin/sh\n", "an empty file is no script");
    let volumes = launcher["spec"]["volumes"].as_array().expect("volumes");
    let lists = volumes.iter().find(|one| one["name"] == "mpi-job-config");
    let sources = &lists.expect("the lists")["projected"]["sources"];
    assert_eq!(
        sources[0]["configMap"]["items"],
        json!([{"key": "hostfile", "path": "hostfile", "mode": 0o444}])
    );
    assert_eq!(
        sources[1]["downwardAPI"]["items"],
        json!([{"path": "discover_hosts.sh", "mode": 0o555,
            "fieldRef": {"fieldPath": "metadata.annotations['muster.dev/discover-hosts']"}}])
    );

    let running = world(elastic(2))
        .settled()
        .launcher_pod("l-0", PodPhase::Running)
        .settled()
        .workers_are(PodPhase::Running);
    assert_eq!(
        deeds(&plan(&running)),
        ["patch ConfigMap demo-config", "patch Pod l-0"],
        "the lists are there before the kubelet looks again"
    );
    let told = running.settled();
    let both =
        "#!/bin/sh\necho demo-worker-0.demo.team-a.svc\necho demo-worker-1.demo.team-a.svc\n";
    assert_eq!(told.launcher_pods[0].discovery, Fingerprint::of(both));
    assert_eq!(deeds(&plan(&told)), Vec::<String>::new());
}

#[test]
fn the_script_is_sorted_whatever_the_order_of_the_pods() {
    let shuffled = world(elastic(3))
        .settled()
        .workers_are(PodPhase::Running)
        .with(|world| {
            world.workers.swap(0, 2);
            world.workers.swap(1, 2);
        });
    let script = script(&shuffled);
    let hosts: Vec<&str> = script.lines().skip(1).collect();
    let mut sorted = hosts.clone();
    sorted.sort_unstable();
    assert_eq!(hosts, sorted);
    assert_eq!(hosts.len(), 3);
}

#[test]
fn a_job_that_is_not_elastic_is_told_all_hosts_once() {
    let started = world(job("demo").workers(3))
        .settled()
        .workers_are(PodPhase::Running);
    assert!(
        plan(&started).steps.is_empty(),
        "nothing is rewritten as pods start"
    );
}
