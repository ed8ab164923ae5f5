//! What Kubernetes limits: annotations, ConfigMaps, the store. Every job that is accepted fits, and one
//! that does not is refused at once, with the largest size that does.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::process::Command;

use contract::host_list;
use contract::labels::HOSTS_ANNOTATION;
use planner::fixtures::{
    job, measured_config_bytes, measured_pod_bytes, pod, rendered_worker, world,
};
use planner::job::{LauncherHost, Mpi};
use planner::observed::{Observed, PodPhase};
use planner::{Action, Job, Kind, Phase, Reason, check, plan};
use serde_json::{Value, json};

use super::{deeds, patch};

const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;
const CONFIG_BYTES_MAX: usize = 1024 * 1024;
const WORKERS: u32 = 10_000;

/// With the agent's image, so that every transport works.
fn site(job: Job) -> Observed {
    world(job).with(|world| world.site.agent_image = Some("agent".to_owned()))
}

/// With workers at these addresses and a launcher that waits for them.
fn placed(job: Job, address: impl Fn(u32) -> String) -> Observed {
    site(job).settled().with(|world| {
        let count = world.job.worker_count();
        for (index, worker) in (0..count).zip(&mut world.workers) {
            (worker.phase, worker.address) = (PodPhase::Running, address(index));
        }
        world.launcher_pods.push(pod("demo-launcher-x"));
    })
}

fn config(observed: &Observed, name: &str) -> Value {
    let mut actions = plan(observed).steps.into_iter().flatten();
    let data = actions.find_map(|action| match action {
        Action::Create(object) if object.kind == Kind::ConfigMap && object.name == name => {
            Some(object.body["data"].clone())
        }
        _ => None,
    });
    data.unwrap_or_else(|| panic!("no ConfigMap {name}: {}", plan(observed).status.message))
}

fn config_bytes(data: &Value) -> usize {
    let files = data.as_object().expect("a ConfigMap has files");
    files.values().filter_map(Value::as_str).map(str::len).sum()
}

#[test]
fn c07_the_list_of_hosts_reaches_the_launcher_of_any_accepted_size() {
    let ipv4 = |index: u32| Ipv4Addr::from(0x0af4_0000 + index).to_string();
    let ipv6 = |index: u32| {
        let scattered = u128::from(index).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c834);
        Ipv6Addr::from(scattered).to_string()
    };
    let addresses: [&dyn Fn(u32) -> String; 2] = [&ipv4, &ipv6];
    for workers in [2, 6_000, WORKERS] {
        for address in addresses {
            for job in [
                job("demo").workers(workers),
                job("demo").workers(workers).by_agent(),
            ] {
                let world = placed(job, address);
                let list =
                    patch(&plan(&world))["metadata"]["annotations"][HOSTS_ANNOTATION].clone();
                let list = list.as_str().expect("the list is text");
                assert!(list.len() < ANNOTATIONS_BYTES_MAX, "{} bytes", list.len());
                let hosts = host_list::read(list);
                assert_eq!(host_list::read_workers(list), Some(workers as usize));
                assert_eq!(hosts.len(), workers as usize);
                for (index, host) in (0..).zip(hosts) {
                    assert_eq!(host.name, world.job.worker_name(index));
                    assert_eq!(host.address, address(index));
                }
            }
        }
    }
}

#[test]
fn c07_the_lists_of_any_accepted_size_fit_into_a_config_map() {
    let name = "a-name-of-usual-length-for-such-jobs";
    for mpi in Mpi::ALL {
        let plain = || job(name).workers(WORKERS).with(|job| job.mpi = mpi);
        let jobs = [
            plain(),
            plain().by_agent(),
            plain().of_pods(),
            plain().of_a_set(),
        ];
        for job in jobs {
            let data = config(&site(job), &format!("{name}-config"));
            let bytes = config_bytes(&data);
            assert!(bytes <= CONFIG_BYTES_MAX, "{bytes} bytes");
        }
    }
    let ssh = config(&site(job("demo").workers(WORKERS)), "demo-config");
    let hostfile = ssh["hostfile"].as_str().expect("ssh needs it");
    assert_eq!(hostfile.lines().count(), WORKERS as usize);
    assert!(hostfile.ends_with("demo-worker-9999.demo.team-a.svc slots=1\n"));
    let long = config(&site(job(name).workers(WORKERS)), &format!("{name}-config"));
    let hostfile = long["hostfile"].as_str().expect("ssh needs it");
    assert!(hostfile.ends_with(&format!("{name}-worker-9999.{name} slots=1\n")));
    let agent = config(
        &site(job("demo").workers(WORKERS).by_agent()),
        "demo-config",
    );
    assert!(agent.get("hostfile").is_none(), "the gate writes it");
}

/// The script is what it prints.
#[test]
fn c07_a_script_that_counts_prints_what_one_that_lists_does() {
    let elastic = |workers: u32| {
        let job = job("demo").workers(workers).with(|job| {
            job.elastic = true;
            job.launcher.host = Some(LauncherHost::Unindexed);
        });
        site(job).with(|world| {
            let present = (0..workers).filter(|index| index % 1_000 != 7 && *index != 0);
            world.workers = present
                .map(|index| pod(&format!("demo-worker-{index}")))
                .collect();
            world
                .workers
                .iter_mut()
                .for_each(|pod| pod.phase = PodPhase::Running);
        })
    };
    for workers in [20, 5_000] {
        let world = elastic(workers);
        let script = config(&world, "demo-config")["discover_hosts.sh"].clone();
        let script = script.as_str().expect("it is text");
        assert!(script.len() < 2_000, "{} bytes", script.len());
        let shell = Command::new("sh").args(["-c", script]).output();
        let printed = String::from_utf8(shell.expect("there is a shell").stdout);
        let printed = printed.expect("hosts are text");
        let mut printed: Vec<&str> = printed.lines().collect();
        assert_eq!(printed.remove(0), "demo-launcher.demo.team-a.svc");
        let hosts = world
            .workers
            .iter()
            .map(|pod| format!("{}.demo.team-a.svc", pod.name));
        let mut hosts: Vec<String> = hosts.collect();
        hosts.sort();
        printed.sort_unstable();
        assert_eq!(printed, hosts);
    }
}

/// It is refused before anything exists, and one worker less than what is named is accepted.
fn is_refused_beyond(fits: u32, words: &str, of: impl Fn(u32) -> Job) {
    let refused = site(of(fits + 1));
    let plan = plan(&refused);
    assert_eq!(deeds(&plan), [""; 0]);
    assert_eq!(check::violations(&refused, &plan), [""; 0]);
    assert_eq!(plan.status.phase, Phase::Blocked);
    assert_eq!(plan.status.reason, Some(Reason::TooLarge));
    let message = &plan.status.message;
    assert!(message.contains(words), "{message}");
    assert!(
        message.contains(&format!("; {fits} workers fit")),
        "{message}"
    );
    let accepted = planner::plan(&site(of(fits)));
    assert_eq!(accepted.status.phase, Phase::Preparing);
    assert!(!accepted.steps.is_empty());
}

/// The number of workers that the message says fits.
fn named_in(message: &str) -> u32 {
    let rest = message.split("allowed; ").nth(1).unwrap_or_default();
    let number = rest.split(' ').next().unwrap_or_default();
    number
        .parse()
        .unwrap_or_else(|_| panic!("no number in {message}"))
}

/// Workers with so many bytes of their own in the template.
fn of_bytes(bytes: usize) -> impl Fn(u32) -> Job {
    move |workers: u32| {
        job("demo").workers(workers).with(|job| {
            let about = json!({"annotations": {"about": "x".repeat(bytes)}});
            job.worker_role().template["metadata"] = about;
        })
    }
}

#[test]
fn s01_pods_that_would_fill_the_store_are_refused_at_once() {
    let plenty = planner::plan(&site(of_bytes(12 * 1024)(WORKERS)));
    assert_eq!(
        plenty.status.phase,
        Phase::Preparing,
        "{}",
        plenty.status.message
    );

    // 160 MiB, however many workers share them.
    for (bytes, about) in [(1024 * 1024, 155..160), (256 * 1024, 620..640)] {
        let large = of_bytes(bytes);
        let message = planner::plan(&site(large(WORKERS))).status.message;
        let fits = named_in(&message);
        assert!(about.contains(&fits), "{message}");
        is_refused_beyond(fits, "the pods of its workers would have", large);
    }
}

/// What is computed without writing anything down is never less than what is written, and hardly more.
#[test]
fn s01_what_a_job_is_measured_at_is_what_it_has() {
    let name = "a-name-of-usual-length-for-such-jobs";
    for workers in [1, 9, 101, 1_000, 1_001, 4_321] {
        let plain = || job(name).workers(workers).with(|job| job.slots = 12);
        let elastic = |job: Job| job.with(|job| job.elastic = true);
        let host = |job: Job| job.with(|job| job.launcher.host = Some(LauncherHost::Indexed));
        let jobs = [
            plain(),
            host(plain()),
            elastic(plain()),
            plain().by_agent(),
            elastic(plain()).by_agent(),
            plain().of_pods(),
            plain().of_a_set(),
            plain().provided(),
        ];
        for job in jobs {
            let world = site(job).with(|world| {
                let present = world.job.worker_names().step_by(2);
                world.workers = present.map(|name| pod(&name)).collect();
                world
                    .workers
                    .iter_mut()
                    .for_each(|pod| pod.phase = PodPhase::Running);
            });
            let written = config_bytes(&config(&world, &world.job.names.config));
            let measured = measured_config_bytes(&world).expect("there is an image");
            // Any workers of an elastic job may be running, and its script lists those.
            let spare = if world.job.elastic { 128 * 1024 } else { 1024 };
            assert!(
                (written..=written + spare).contains(&measured),
                "{workers} workers: {measured} for {written}: {:?}",
                world.job.workers
            );
            if let Some(pod) = rendered_worker(&world, workers - 1) {
                let (written, measured) = (pod.to_string().len(), measured_pod_bytes(&world));
                assert!(written <= measured, "{measured} for {written}: {pod}");
            }
        }
    }
}

#[test]
fn c07_lists_that_do_not_fit_are_refused_with_the_number_that_does() {
    let name = "x".repeat(51);
    let config = format!("ConfigMap {name}-config");
    let of = |workers: u32| job(&name).workers(workers);
    let message = planner::plan(&site(of(WORKERS))).status.message;
    let fits = named_in(&message);
    assert!(fits > 8_000, "{message}");
    is_refused_beyond(fits, &config, of);
}

#[test]
fn c07_annotations_of_a_launcher_that_leave_no_room_are_refused() {
    let of = |workers: u32| {
        job("demo").workers(workers).with(|job| {
            let about = json!({"annotations": {"about": "x".repeat(120 * 1024)}});
            job.launcher.role.template["metadata"] = about;
        })
    };
    let message = planner::plan(&site(of(WORKERS))).status.message;
    let fits = named_in(&message);
    assert!(fits > 4_000, "{message}");
    is_refused_beyond(fits, "the annotations of its launcher", of);
}

/// Its script is an annotation too, and has a line for each gap between its workers.
#[test]
fn c07_an_elastic_job_whose_script_leaves_no_room_is_refused() {
    let elastic = |job: Job| job.with(|job| job.elastic = true);
    let of = |workers: u32| elastic(job("demo").workers(workers).by_agent());
    let message = planner::plan(&site(of(WORKERS))).status.message;
    let fits = named_in(&message);
    assert!((6_000..7_000).contains(&fits), "{message}");
    is_refused_beyond(fits, "the annotations of its launcher", of);
    let over_ssh = planner::plan(&site(elastic(job("demo").workers(WORKERS))));
    assert_eq!(over_ssh.status.phase, Phase::Preparing, "it has one list");
}

/// Few workers too: their list is lines, which take more for each.
#[test]
fn c07_a_launcher_with_no_room_for_the_list_of_a_few_workers_is_refused() {
    let of = |workers: u32| {
        job("demo").workers(workers).with(|job| {
            let about = json!({"annotations": {"about": "x".repeat(230 * 1024)}});
            job.launcher.role.template["metadata"] = about;
        })
    };
    let message = planner::plan(&site(of(1_000))).status.message;
    let fits = named_in(&message);
    assert!((100..300).contains(&fits), "{message}");
    is_refused_beyond(fits, "the annotations of its launcher", of);
}
