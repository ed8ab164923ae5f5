//! Jobs whose launcher is a pod of ours: how it is made, when it is recreated, what ends the job,
//! and what goes afterwards.

use planner::fixtures::{job, noon, noon_and, world};
use planner::job::{CleanUp, Job, LauncherHost, RestartPolicy};
use planner::observed::{Exit, Pod, PodPhase};
use planner::{Kind, Observed, Outcome, Phase, Reason, Verdict, WaitingOn, plan};
use serde_json::json;

use super::{created_one, deeds};

const LAUNCHER: &str = "demo-launcher";

fn site(job: Job) -> Observed {
    world(job).with(|world| world.site.agent_image = Some("muster-agent".to_owned()))
}

fn demo() -> Job {
    job("demo").workers(2).of_pods()
}

fn launcher(world: &mut Observed) -> &mut Pod {
    world
        .launcher_pods
        .first_mut()
        .expect("the launcher exists")
}

/// Everything runs, and the status says so.
fn running(job: Job) -> Observed {
    let world = site(job).settled().workers_ready().settled();
    world
        .with(|world| launcher(world).phase = PodPhase::Running)
        .recorded()
}

fn exit(code: i32) -> Option<Exit> {
    Some(Exit {
        container: "mpi".to_owned(),
        code,
        reason: "Error".to_owned(),
        message: "no such table".to_owned(),
    })
}

fn launcher_fails(code: i32) -> impl FnOnce(&mut Observed) {
    move |world| {
        let pod = launcher(world);
        (pod.phase, pod.exit, pod.node) = (PodPhase::Failed, exit(code), "n1".to_owned());
    }
}

fn failure(world: &Observed) -> (String, String) {
    let outcome = plan(world).status.outcome.expect("it is over");
    match outcome.verdict {
        Verdict::Failed { reason, message } => (reason, message),
        Verdict::Succeeded => panic!("it succeeded"),
    }
}

fn again(job: Job) -> Job {
    job.launcher_restarts(RestartPolicy::ExitCode)
}

fn all_again(job: Job) -> Job {
    again(job).with(|job| job.worker_pods().restart = RestartPolicy::ExitCode)
}

#[test]
fn no_service_is_made_and_the_launcher_comes_last() {
    let steps = plan(&site(demo())).steps;
    let kinds: Vec<Vec<String>> = steps
        .iter()
        .map(|step| step.iter().flat_map(super::deeds_of).collect())
        .collect();
    assert_eq!(
        kinds,
        [
            vec![
                "create ConfigMap demo-config",
                "create Secret demo-agent-n0nce"
            ],
            vec!["create Pod demo-worker-0", "create Pod demo-worker-1"],
            vec!["create Pod demo-launcher"],
        ]
    );
}

#[test]
fn lists_spell_bare_pod_names_and_the_script_tells_slots() {
    let made = plan(&site(demo().with(|job| job.slots = 3)));
    let data = created_one(&made, Kind::ConfigMap, "demo-config")["data"].clone();
    assert_eq!(
        data["hostfile"],
        "demo-worker-0 slots=3\ndemo-worker-1 slots=3\n"
    );
    assert_eq!(
        data["discover_hosts.sh"],
        "#!/bin/sh\necho demo-worker-0:3\necho demo-worker-1:3\n"
    );
    assert_eq!(
        data["kubexec.sh"],
        "#!/bin/sh\nexec /muster/bin/ssh \"$@\"\n"
    );
}

#[test]
fn the_launcher_pod_is_ours_and_knows_the_promised_script() {
    let made = plan(&site(demo()));
    let pod = created_one(&made, Kind::Pod, LAUNCHER);
    assert_eq!(pod["metadata"]["ownerReferences"][0]["uid"], "uid-demo");
    assert_eq!(pod["spec"]["restartPolicy"], "Never");
    assert_eq!(pod["spec"].get("hostname"), None);
    assert_eq!(pod["spec"].get("subdomain"), None);
    let container = &pod["spec"]["containers"][0];
    let mounts = container["volumeMounts"].as_array().expect("it has mounts");
    let script = json!({"name": "mpi-job-script", "mountPath": "/etc/mpi/kubexec.sh", "subPath": "kubexec.sh"});
    assert!(mounts.contains(&script), "{mounts:?}");
    let agent = json!({"name": "OMPI_MCA_plm_rsh_agent", "value": "/etc/mpi/kubexec.sh"});
    let variables = container["env"].as_array().expect("it has variables");
    assert!(variables.contains(&agent), "{variables:?}");
    let worker = created_one(&made, Kind::Pod, "demo-worker-0");
    let mount = json!({"name": "mpi-job-config", "mountPath": "/etc/mpi"});
    let mounts = &worker["spec"]["containers"][0]["volumeMounts"];
    assert!(mounts.as_array().is_some_and(|all| all.contains(&mount)));
}

#[test]
fn a_host_whose_pod_has_dots_in_its_name_calls_itself_by_one_label() {
    let dotted = |name: &str| {
        let job = job(name).workers(2).of_pods();
        let pod = created_one(&plan(&site(job)), Kind::Pod, &format!("{name}-worker-1"));
        pod["spec"].clone()
    };
    assert_eq!(dotted("a.b")["hostname"], "a-b-worker-1");
    assert_eq!(dotted("a.b").get("subdomain"), None);
    let long = format!("a.{}", "b".repeat(61));
    let hostname = dotted(&long)["hostname"].clone();
    assert_eq!(hostname, format!("{}-worker-1", "b".repeat(54)));
    let made = plan(&site(job("a.b").workers(2).of_pods()));
    let launcher = created_one(&made, Kind::Pod, "a.b-launcher");
    let kept = json!({"name": "PRTE_MCA_prte_keep_fqdn_hostnames", "value": "true"});
    let variables = launcher["spec"]["containers"][0]["env"].as_array();
    assert!(variables.is_some_and(|all| all.contains(&kept)));
}

#[test]
fn labels_of_a_role_come_after_those_that_every_pod_has() {
    let job = demo().with(|job| {
        let labels = [("training.kubeflow.org/job-role", "master"), ("x", "y")];
        job.launcher.role.labels = labels.map(|(k, v)| (k.to_owned(), v.to_owned())).into();
    });
    let labels = created_one(&plan(&site(job)), Kind::Pod, LAUNCHER)["metadata"]["labels"].clone();
    assert_eq!(labels["training.kubeflow.org/job-role"], "master");
    assert_eq!(
        labels["training.kubeflow.org/operator-name"],
        "mpi-operator"
    );
    assert_eq!(labels["x"], "y");
    assert_eq!(labels["muster.dev/job-uid"], "uid-demo");
}

#[test]
fn a_host_launcher_without_an_index_leaves_the_workers_theirs() {
    let job = demo().with(|job| job.launcher.host = Some(LauncherHost::Unindexed));
    let made = plan(&site(job));
    let index = "training.kubeflow.org/replica-index";
    let labels = |name: &str| created_one(&made, Kind::Pod, name)["metadata"]["labels"].clone();
    assert_eq!(labels(LAUNCHER).get(index), None);
    assert_eq!(labels("demo-worker-0")[index], "0");
}

#[test]
fn arguments_without_a_command_are_dropped_only_where_the_job_says_so() {
    let job = |drops: bool| {
        demo().with(|job| {
            let workers = job.worker_pods();
            workers.drops_bare_args = drops;
            workers.role.template["spec"]["containers"][0]["args"] = json!(["mpirun", "-np", "2"]);
        })
    };
    let container = |drops: bool| {
        let worker = created_one(&plan(&site(job(drops))), Kind::Pod, "demo-worker-0");
        worker["spec"]["containers"][0].clone()
    };
    assert_eq!(
        container(true)["command"],
        json!(["/muster/bin/muster-agent", "serve"])
    );
    assert_eq!(container(true).get("args"), None);
    assert_eq!(container(false)["args"], json!(["mpirun", "-np", "2"]));
}

#[test]
fn mpi_runs_in_the_container_that_the_role_names() {
    let job = demo().with(|job| {
        let workers = job.worker_pods();
        workers.drops_bare_args = true;
        workers.role.container = Some("mpi".to_owned());
        workers.role.template["spec"]["containers"] =
            json!([{"name": "side", "image": "s"}, {"name": "mpi", "image": "m"}]);
    });
    let worker = created_one(&plan(&site(job)), Kind::Pod, "demo-worker-0");
    let containers = &worker["spec"]["containers"];
    assert_eq!(
        containers[1]["command"],
        json!(["/muster/bin/muster-agent", "serve"])
    );
    assert_eq!(containers[0]["command"], json!(["sleep"]));
    assert_eq!(containers[0].get("volumeMounts"), None);
}

#[test]
fn a_launcher_that_ended_well_is_the_jobs_success_also_beside_a_failed_worker() {
    let world = running(demo()).with(|world| {
        launcher(world).phase = PodPhase::Succeeded;
        world.workers[0].phase = PodPhase::Failed;
    });
    let outcome = plan(&world).status.outcome.expect("it is over");
    assert_eq!(outcome.verdict, Verdict::Succeeded);
}

#[test]
fn a_failed_launcher_is_final_and_says_where_and_how() {
    let world = running(demo()).with(launcher_fails(3));
    let (reason, message) = failure(&world);
    assert_eq!(reason, "CommandFailed");
    assert_eq!(
        message,
        "launcher demo-launcher on n1 failed: container mpi exited with 3 (Error): no such table"
    );
    assert_eq!(deeds(&plan(&world)), [""; 0]);
    assert_eq!(
        deeds(&plan(&world.recorded())),
        ["delete Secret demo-agent-n0nce"]
    );
}

#[test]
fn a_launcher_that_somebody_deleted_is_made_again() {
    let leaving = running(demo()).with(launcher_fails(143)).with(|world| {
        launcher(world).deleting = true;
    });
    assert_eq!(plan(&leaving).status.outcome, None);
    assert_eq!(deeds(&plan(&leaving)), [""; 0]);
    let gone = leaving.with(|world| world.launcher_pods.clear());
    assert_eq!(deeds(&plan(&gone)), ["create Pod demo-launcher"]);
}

#[test]
fn a_failed_worker_ends_the_job_by_name() {
    let world = running(demo()).with(|world| {
        (world.workers[1].phase, world.workers[1].exit) = (PodPhase::Failed, exit(1));
    });
    let (reason, message) = failure(&world);
    assert_eq!(reason, "WorkerLost");
    assert!(message.starts_with("worker demo-worker-1 failed: container mpi exited with 1"));
}

#[test]
fn exit_code_makes_a_pod_again_that_was_ended_from_outside() {
    let killed = running(again(demo())).with(launcher_fails(137));
    let first = plan(&killed);
    assert_eq!(first.status.outcome, None);
    assert_eq!(
        (first.status.replacements.restarts, deeds(&first)),
        (1, vec![])
    );
    assert_eq!(
        first.status.replacements.last.as_deref(),
        Some("uid-demo-launcher")
    );

    let mut counted = killed.recorded();
    assert_eq!(deeds(&plan(&counted)), ["delete Pod demo-launcher"]);
    let deletion = plan(&counted);
    counted.carry_out(&deletion);
    assert_eq!(deeds(&plan(&counted)), ["create Pod demo-launcher"]);
    assert_eq!(plan(&counted).status.replacements.restarts, 1);
}

#[test]
fn c05_two_pods_that_fail_together_are_counted_once_each() {
    let both = running(all_again(demo().workers(4))).with(|world| {
        for index in [1, 3] {
            let worker = &mut world.workers[index];
            (worker.phase, worker.exit) = (PodPhase::Failed, exit(137));
        }
        world.recorded.replacements.restarts = 1;
        world.recorded.replacements.last = Some("uid-demo-worker-3".to_owned());
    });
    let first = plan(&both);
    assert_eq!(deeds(&first), ["delete Pod demo-worker-3"]);
    assert_eq!(
        first.status.replacements.restarts, 1,
        "another is counted after this one"
    );

    let mut world = both.clone();
    world.carry_out(&first);
    let second = plan(&world);
    assert_eq!(deeds(&second), ["create Pod demo-worker-3"]);
    assert_eq!(second.status.replacements.restarts, 2);
    let replaced = second.status.replacements.last.as_deref();
    assert_eq!(replaced, Some("uid-demo-worker-1"));
    world.carry_out(&second);
    let mut world = world.recorded();
    let third = plan(&world);
    assert_eq!(deeds(&third), ["delete Pod demo-worker-1"]);
    world.carry_out(&third);
    let world = world.settled().recorded();
    assert_eq!(world.recorded.replacements.restarts, 2, "two pods failed");
    assert_eq!(world.workers.len(), 4);
}

#[test]
fn c05_the_limit_is_reached_by_the_failure_after_the_last_that_it_allows() {
    let limited = all_again(demo()).limited(|limits| limits.backoff_limit = Some(2));
    let both = running(limited).with(|world| {
        for worker in &mut world.workers {
            (worker.phase, worker.exit) = (PodPhase::Failed, exit(137));
        }
        world.recorded.replacements.restarts = 1;
        world.recorded.replacements.last = Some("uid-demo-worker-1".to_owned());
    });
    assert_eq!(
        plan(&both).status.outcome,
        None,
        "two failures, two retries"
    );
    let (reason, message) = failure(&both.with(|world| world.recorded.replacements.restarts = 2));
    assert_eq!(reason, "BackoffLimitExceeded");
    assert!(message.ends_with("demo-worker-0 failed again"), "{message}");
}

#[test]
fn exit_code_takes_an_error_of_the_program_for_final() {
    let world = running(again(demo())).with(launcher_fails(127));
    assert_eq!(failure(&world).0, "CommandNotFound");
}

#[test]
fn exit_code_stops_at_the_backoff_limit() {
    let limited = again(demo()).limited(|limits| limits.backoff_limit = Some(2));
    let killed = running(limited).with(launcher_fails(137));
    assert_eq!(plan(&killed).status.outcome, None);
    let (reason, message) = failure(&killed.with(|world| world.recorded.replacements.restarts = 2));
    assert_eq!(reason, "BackoffLimitExceeded");
    assert_eq!(
        message,
        "Job demo has failed because it has reached the specified backoff limit: \
         demo-launcher failed again"
    );
}

#[test]
fn containers_that_are_started_again_count_against_the_limit() {
    let limited = |limit: u32, restarts: u32| {
        let job = demo()
            .launcher_restarts(RestartPolicy::OnFailure)
            .limited(|limits| limits.backoff_limit = Some(limit));
        let world = running(job).with(|world| launcher(world).restarts = restarts);
        plan(&world).status.outcome.is_some()
    };
    assert!(!limited(0, 0));
    assert!(limited(0, 1));
    assert!(!limited(3, 2));
    assert!(limited(3, 3));
}

#[test]
fn the_deadline_has_a_timer_while_the_program_runs() {
    let bounded = demo().limited(|limits| limits.deadline_secs = Some(60));
    let world = running(bounded);
    assert_eq!(plan(&world).wake, Some(noon_and(60)));
    let late = world.with(|world| world.now = noon_and(60));
    assert_eq!(plan(&late).status.reason, Some(Reason::DeadlineExceeded));
}

#[test]
fn a_suspension_takes_the_launcher_too_and_resuming_makes_a_fresh_one() {
    let held = running(demo()).with(|world| world.job.lifecycle.suspended = true);
    assert_eq!(
        deeds(&plan(&held)),
        [
            "delete Pod demo-launcher",
            "delete workers demo-worker-0 demo-worker-1",
            "delete Secret demo-agent-n0nce"
        ]
    );
    let rest = held.settled().recorded();
    assert_eq!(plan(&rest).because, WaitingOn::Resume);
    let resumed = rest
        .with(|world| world.job.lifecycle.suspended = false)
        .settled();
    assert_eq!((resumed.launcher_pods.len(), resumed.workers.len()), (1, 2));
}

#[test]
fn clean_up_covers_the_launcher() {
    let ended = |clean: CleanUp| {
        let world = running(demo().clean(clean));
        let world = world.with(|world| launcher(world).phase = PodPhase::Succeeded);
        deeds(&plan(&world.recorded()))
    };
    assert_eq!(ended(CleanUp::Nothing), ["delete Secret demo-agent-n0nce"]);
    let workers = "delete workers demo-worker-0 demo-worker-1";
    assert_eq!(
        ended(CleanUp::Running),
        [workers, "delete Secret demo-agent-n0nce"]
    );
    assert_eq!(
        ended(CleanUp::All),
        [
            workers,
            "delete Pod demo-launcher",
            "delete Secret demo-agent-n0nce"
        ]
    );
}

#[test]
fn a_job_with_a_time_to_live_goes_itself_when_that_is_over_and_not_before() {
    let job = demo().limited(|limits| limits.expires_secs = Some(90));
    let ended = running(job).with(|world| launcher(world).phase = PodPhase::Succeeded);
    let rest = ended.recorded().settled();
    assert_eq!(plan(&rest).status.phase, Phase::Finished);
    assert_eq!(plan(&rest).wake, Some(noon_and(90)));
    let late = rest.with(|world| world.now = noon_and(90));
    assert_eq!(deeds(&plan(&late)), ["delete the job uid-demo"]);
    assert!(!plan(&late).steps.is_empty());
}

#[test]
fn the_law_refuses_to_delete_a_job_before_its_time() {
    let job = demo().limited(|limits| limits.expires_secs = Some(90));
    let late = running(job)
        .over(Verdict::Succeeded)
        .with(|world| world.now = noon_and(90));
    let deletion = plan(&late);
    assert_eq!(planner::check::violations(&late, &deletion), [""; 0]);
    let early = late.with(|world| world.now = noon());
    let broken = planner::check::violations(&early, &deletion);
    assert!(broken.contains(&"the job is deleted before its time".to_owned()));
}

#[test]
fn a_job_that_leaves_loses_its_pods_and_gets_no_new_ones() {
    let leaving = running(demo()).with(|world| world.job.owner.deleting = true);
    assert_eq!(
        deeds(&plan(&leaving)),
        [
            "delete Pod demo-launcher",
            "delete workers demo-worker-0 demo-worker-1"
        ]
    );
    let rest = leaving.settled();
    assert_eq!(plan(&rest).because, WaitingOn::Departures);
}

#[test]
fn a_launchers_name_that_others_hold_blocks_the_job() {
    let world = site(demo()).with(|world| world.foreign_pods = vec![LAUNCHER.to_owned()]);
    let blocked = plan(&world);
    assert_eq!(blocked.status.phase, Phase::Blocked);
    assert_eq!(blocked.status.reason, Some(Reason::NameTaken));
}

/// Another operator recorded the outcome, and we see that before we see that the launcher has ended.
#[test]
fn the_launcher_of_a_job_that_succeeded_is_not_deleted_because_it_is_seen_late() {
    let takes_launcher = |verdict: Verdict| {
        let world = running(demo().clean(CleanUp::Running)).with(|world| {
            let at = world.now;
            world.recorded.outcome = Some(Outcome { verdict, at });
            world.now = at + jiff::SignedDuration::from_secs(120);
        });
        deeds(&plan(&world)).contains(&"delete Pod demo-launcher".to_owned())
    };
    assert!(!takes_launcher(Verdict::Succeeded));
    let (reason, message) = ("CommandFailed".to_owned(), String::new());
    assert!(takes_launcher(Verdict::Failed { reason, message }));
}
