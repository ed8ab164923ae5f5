//! The agent in pods: what is rendered for it, what the launcher is told, what its word decides,
//! and how long certificates live.

use planner::contract::HOSTS_ANNOTATION;
use planner::fixtures::{job, noon, noon_and, world};
use planner::job::{CleanUp, Transport};
use planner::observed::{Exit, LauncherEnd, Observed, PodPhase, Slot, Waiting};
use planner::{Action, Job, Keys, Kind, Phase, Reason, Verdict, plan};
use serde_json::{Value, json};

use super::{created_one, deeds, patch};

const IMAGE: &str = "muster-agent:1";

fn site_with_agent(world: &mut Observed) {
    world.site.agent_image = Some(IMAGE.to_owned());
}

fn by_ssh(job: Job) -> Observed {
    world(job).with(site_with_agent)
}

fn by_agent(job: Job) -> Observed {
    by_ssh(job.with(|job| job.transport = Some(Transport::Agent)))
}

fn command(job: &mut Job, words: &[&str]) {
    job.launcher.template["spec"]["containers"][0]["command"] = json!(words);
}

fn worker(world: &Observed, index: u32) -> Value {
    let name = format!("demo-worker-{index}");
    created_one(&plan(world), Kind::Pod, &name)["spec"].clone()
}

fn launcher(world: &Observed) -> Value {
    let job = created_one(&plan(world), Kind::Job, "demo-launcher");
    job["spec"]["template"]["spec"].clone()
}

fn variable<'v>(container: &'v Value, name: &str) -> Option<&'v Value> {
    let variables = container["env"].as_array()?.iter();
    variables
        .rev()
        .find(|variable| variable["name"] == name)
        .map(|variable| &variable["value"])
}

fn volume<'v>(spec: &'v Value, name: &str) -> &'v Value {
    let volumes = spec["volumes"].as_array().unwrap().iter();
    let mut found = volumes.filter(|volume| volume["name"] == name);
    let volume = found.next().unwrap_or_else(|| panic!("no volume {name}"));
    assert!(found.next().is_none(), "two volumes {name}");
    volume
}

/// A gated job whose workers run at these addresses, and whose launcher waits.
fn waiting(world: Observed) -> Observed {
    let mut world = world
        .settled()
        .workers_ready()
        .launcher_pod("l-0", PodPhase::Pending)
        .recorded();
    for (index, pod) in world.workers.iter_mut().enumerate() {
        pod.address = format!("10.0.0.{index}");
    }
    world
}

#[test]
fn a_worker_serves_and_holds_no_key_of_the_launcher() {
    let spec = worker(&by_agent(job("demo").workers(2)), 1);
    let main = &spec["containers"][0];
    assert_eq!(
        main["command"],
        json!(["/muster/bin/muster-agent", "serve"])
    );
    let init = &spec["initContainers"][0];
    assert_eq!(init["image"], IMAGE);
    let install = json!(["/muster-agent", "install", "/muster/bin"]);
    assert_eq!(init["command"], install);
    let items = &volume(&spec, "muster-tls")["secret"]["items"];
    let keys: Vec<_> = items
        .as_array()
        .unwrap()
        .iter()
        .map(|item| &item["key"])
        .collect();
    assert_eq!(keys, ["server.crt", "server.key", "ca.crt"]);
    assert_eq!(spec["automountServiceAccountToken"], false);
    assert!(!spec.to_string().contains("ssh-auth"));
}

#[test]
fn a_worker_keeps_its_own_command_unless_that_is_an_sshd() {
    let with = |key: &str, words: &[&str]| {
        let job = job("demo").workers(1).with(|job| {
            let workers = job.workers.as_mut().unwrap();
            workers.role.template["spec"]["containers"][0][key] = json!(words);
        });
        worker(&by_agent(job), 0)["containers"][0].clone()
    };
    let own = with("command", &["train", "--daemon"]);
    let agent = ["/muster/bin/muster-agent", "serve", "--"];
    assert_eq!(
        own["command"],
        json!([&agent[..], &["train", "--daemon"]].concat())
    );
    let arguments = with("args", &["train"]);
    assert_eq!(arguments["command"], json!(agent));
    assert_eq!(arguments["args"], json!(["train"]));
    let sshd = with("command", &["/usr/sbin/sshd", "-De"]);
    assert_eq!(sshd["command"], json!(agent[..2]));
}

#[test]
fn a_probe_of_the_sshd_that_is_not_there_asks_the_agent() {
    let probe = json!({"tcpSocket": {"port": 2222}, "periodSeconds": 1});
    let job = job("demo").workers(1).with(|job| {
        let workers = job.workers.as_mut().unwrap();
        let container = &mut workers.role.template["spec"]["containers"][0];
        container["args"] = json!(["/usr/sbin/sshd", "-De"]);
        container["readinessProbe"] = probe;
    });
    let main = worker(&by_agent(job), 0)["containers"][0].clone();
    assert_eq!(main["readinessProbe"]["tcpSocket"]["port"], 7077);
    assert_eq!(main["readinessProbe"]["periodSeconds"], 1);
    assert_eq!(main.get("args"), None);
}

#[test]
fn a_launcher_waits_and_runs_under_the_agent() {
    let job = job("demo").workers(2).with(|job| {
        command(job, &["mpirun", "pi"]);
        job.slots = 3;
    });
    let spec = launcher(&by_agent(job));
    let main = &spec["containers"][0];
    let under = json!(["/muster/bin/muster-agent", "exec", "--", "mpirun", "pi"]);
    assert_eq!(main["command"], under);
    for (name, value) in [
        ("OMPI_MCA_plm_rsh_agent", "/muster/bin/ssh"),
        ("PRTE_MCA_plm_ssh_agent", "/muster/bin/ssh"),
        ("HYDRA_LAUNCHER_EXEC", "/muster/bin/ssh"),
        ("I_MPI_HYDRA_BOOTSTRAP_EXEC", "/muster/bin/ssh"),
        (
            "OMPI_MCA_orte_default_hostfile",
            "/etc/mpi/hostfile.openmpi",
        ),
        ("HYDRA_HOST_FILE", "/etc/mpi/hostfile.hydra"),
        ("I_MPI_PERHOST", "3"),
        ("MUSTER_WORKERS", "2"),
    ] {
        assert_eq!(variable(main, name), Some(&json!(value)), "{name}");
    }
    let gate = &spec["initContainers"][0];
    let words = json!(["/muster-agent", "gate", "--install", "/muster/bin"]);
    assert_eq!(gate["command"], words);
    assert_eq!(variable(gate, "MUSTER_LISTS_DIR"), Some(&json!("/etc/mpi")));
    assert_eq!(volume(&spec, "mpi-job-config")["emptyDir"], json!({}));
    let items = &volume(&spec, "muster-tls")["secret"]["items"];
    assert_eq!(items[0]["key"], "client.crt");
    let field = &volume(&spec, "muster-hosts")["downwardAPI"]["items"][0]["fieldRef"];
    assert_eq!(
        field["fieldPath"],
        format!("metadata.annotations['{HOSTS_ANNOTATION}']")
    );
}

#[test]
fn what_the_user_has_set_stays() {
    let job = job("demo").workers(1).with(|job| {
        let container = &mut job.launcher.template["spec"]["containers"][0];
        container["env"] = json!([{"name": "OMPI_MCA_routed_radix", "value": "7"}]);
        job.launcher.template["spec"]["serviceAccountName"] = "mine".into();
    });
    let spec = launcher(&by_agent(job));
    let main = &spec["containers"][0];
    assert_eq!(variable(main, "OMPI_MCA_routed_radix"), Some(&json!("7")));
    assert_eq!(main["command"], Value::Null, "the image's own entry point");
    assert_eq!(spec.get("automountServiceAccountToken"), None);
}

#[test]
fn what_is_injected_is_restricted_and_costs_nothing() {
    let amounts = json!({"limits": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "8"}});
    let job = job("demo").workers(1).with(|job| {
        let workers = job.workers.as_mut().unwrap();
        workers.role.template["spec"]["containers"][0]["resources"] = amounts;
    });
    let spec = worker(&by_agent(job.clone()), 0);
    let init = &spec["initContainers"][0];
    let limits = &init["resources"]["limits"];
    assert_eq!(limits, &json!({"cpu": "1", "memory": "1Gi"}));
    let security = &init["securityContext"];
    assert_eq!(security["runAsNonRoot"], true);
    assert_eq!(security["allowPrivilegeEscalation"], false);
    assert_eq!(security["capabilities"]["drop"], json!(["ALL"]));
    assert_eq!(security["seccompProfile"]["type"], "RuntimeDefault");
    assert_eq!(security["readOnlyRootFilesystem"], true);
    let as_root = job.with(|job| {
        let workers = job.workers.as_mut().unwrap();
        workers.role.template["spec"]["securityContext"] = json!({"runAsUser": 0});
    });
    let spec = worker(&by_agent(as_root), 0);
    let security = &spec["initContainers"][0]["securityContext"];
    assert_eq!(
        security.get("runAsNonRoot"),
        None,
        "the pod says who runs it"
    );
}

#[test]
fn workers_on_the_hosts_network_have_ports_of_their_own() {
    let job = job("demo").workers(2).with(|job| {
        let workers = job.workers.as_mut().unwrap();
        workers.role.template["spec"]["hostNetwork"] = true.into();
    });
    let world = by_agent(job);
    let port = |index| {
        let main = worker(&world, index)["containers"][0].clone();
        assert_eq!(
            main["ports"][0]["hostPort"],
            main["ports"][0]["containerPort"]
        );
        let port = main["ports"][0]["hostPort"].as_u64().unwrap();
        assert_eq!(
            variable(&main, "MUSTER_PORT"),
            Some(&json!(port.to_string()))
        );
        port
    };
    assert_eq!(port(0) + 1, port(1));
    let told = patch(&plan(&waiting(world.clone())));
    let lines = told["metadata"]["annotations"][HOSTS_ANNOTATION]
        .as_str()
        .unwrap();
    let first = format!("# workers 2\ndemo-worker-0 10.0.0.0:{}\n", port(0));
    assert!(lines.starts_with(&first), "{lines}");
}

#[test]
fn without_a_gate_the_lists_are_the_config_maps() {
    let world = by_agent(job("demo").workers(2).with(|job| job.gate = false));
    let spec = launcher(&world);
    let install = json!(["/muster-agent", "install", "/muster/bin"]);
    assert_eq!(spec["initContainers"][0]["command"], install);
    assert_eq!(
        volume(&spec, "mpi-job-config")["configMap"]["name"],
        "demo-config"
    );
    let config = created_one(&plan(&world), Kind::ConfigMap, "demo-config");
    let hydra = "demo-worker-0.demo.team-a.svc:1\ndemo-worker-1.demo.team-a.svc:1\n";
    assert_eq!(config["data"]["hostfile.hydra"], hydra);
}

#[test]
fn over_ssh_the_launcher_waits_too_and_finds_workers_without_dns() {
    let spec = launcher(&by_ssh(job("demo").workers(2)));
    let gate = &spec["initContainers"][0];
    assert_eq!(variable(gate, "MUSTER_GATE_TRANSPORT"), Some(&json!("ssh")));
    assert_eq!(variable(gate, "MUSTER_SSH_PORTS"), Some(&json!("22,2222")));
    let words = variable(&spec["containers"][0], "OMPI_MCA_plm_rsh_args").unwrap();
    let words: Vec<_> = words.as_str().unwrap().split(' ').collect();
    let proxy = "ProxyCommand=/muster/bin/muster-agent\tconnect\t%h\t%p";
    assert_eq!(words, ["-o", "ConnectionAttempts=10", "-o", proxy]);
    let many = launcher(&by_ssh(job("demo").workers(65)));
    let words = variable(&many["containers"][0], "OMPI_MCA_plm_rsh_args").unwrap();
    assert_eq!(
        words, "-o ConnectionAttempts=10",
        "workers call each other then"
    );
}

#[test]
fn a_job_without_workers_has_nothing_to_wait_for() {
    assert_eq!(launcher(&by_ssh(job("demo"))).get("initContainers"), None);
}

#[test]
fn a_launcher_is_told_once_where_all_its_workers_are() {
    let world = waiting(by_agent(job("demo").workers(2)));
    let early = world.clone().with(|world| world.workers[1].address.clear());
    assert_eq!(deeds(&plan(&early)), Vec::<String>::new());
    assert_eq!(deeds(&plan(&world)), ["patch Pod l-0"]);
    let told = world.settled();
    assert_eq!(
        told.launcher_pods[0].hosts,
        "# workers 2\ndemo-worker-0 10.0.0.0\ndemo-worker-1 10.0.0.1\n"
    );
    let moved = told.with(|world| world.workers[0].address = "10.0.0.9".to_owned());
    assert_eq!(deeds(&plan(&moved)), ["patch Pod l-0"]);
}

#[test]
fn certificates_are_made_for_one_start_and_go_with_it() {
    let world = by_agent(job("demo").workers(1));
    let key = plan(&world)
        .steps
        .into_iter()
        .flatten()
        .find_map(|action| match action {
            Action::CreateKey { secret, keys } => Some((secret.name, keys)),
            _ => None,
        });
    let certificates = Keys::Certificates {
        job: "uid-demo".to_owned(),
    };
    assert_eq!(key, Some(("demo-agent".to_owned(), certificates)));

    let running = world.running();
    assert!(running.key.ours().is_some());
    let over = running.clone().over(Verdict::Succeeded).settled();
    assert_eq!(over.key, Slot::Absent);
    assert_eq!(plan(&over).status.phase, Phase::Finished);

    let held = running
        .with(|world| world.job.policy.suspended = true)
        .settled();
    assert_eq!(held.key, Slot::Absent);
    let resumed = held
        .recorded()
        .with(|world| world.job.policy.suspended = false);
    assert!(deeds(&plan(&resumed)).contains(&"create Secret demo-agent".to_owned()));
}

#[test]
fn without_an_image_transport_agent_says_what_is_missing() {
    let world = world(
        job("demo")
            .workers(1)
            .with(|job| job.transport = Some(Transport::Agent)),
    );
    let plan = plan(&world);
    assert_eq!(plan.steps, Vec::<Vec<Action>>::new());
    assert_eq!(plan.status.reason, Some(Reason::Invalid));
    assert!(
        plan.status.message.contains("--agent-image"),
        "{}",
        plan.status.message
    );
}

#[test]
fn the_site_decides_for_a_job_that_does_not_say() {
    let world = by_ssh(job("demo").workers(1));
    let world = world.with(|world| world.site.transport = Transport::Agent);
    assert!(deeds(&plan(&world)).contains(&"create Secret demo-agent".to_owned()));
}

fn stuck(reason: &str, since: i64) -> Observed {
    waiting(by_agent(job("demo").workers(2))).with(|world| {
        world.workers[1].phase = PodPhase::Pending;
        world.workers[1].waiting = Some(Waiting {
            reason: reason.to_owned(),
            message: "key K not found".to_owned(),
            since: noon_and(since),
        });
    })
}

#[test]
fn a_worker_that_can_never_start_ends_the_job_with_its_name() {
    let hope = stuck("CreateContainerConfigError", -11);
    assert_eq!(plan(&hope).status.outcome, None);
    assert_eq!(plan(&hope).wake, Some(noon_and(1)));
    let status = plan(&stuck("CreateContainerConfigError", -12)).status;
    assert_eq!(status.reason, Some(Reason::WorkerCannotStart));
    assert_eq!(
        status.message,
        "worker demo-worker-1 cannot start: CreateContainerConfigError: key K not found"
    );
    for (reason, patience) in [("ErrImageNeverPull", 5), ("ImagePullBackOff", 12)] {
        let hope = stuck(reason, 1 - patience);
        assert_eq!(plan(&hope).status.outcome, None, "{reason}");
        let status = plan(&stuck(reason, -patience)).status;
        assert_eq!(status.reason, Some(Reason::WorkerCannotStart), "{reason}");
    }
    assert_eq!(plan(&stuck("Unschedulable", -9999)).status.outcome, None);
}

#[test]
fn a_launcher_that_can_never_start_ends_the_job_too() {
    let world = waiting(by_agent(job("demo").workers(1))).with(|world| {
        world.launcher_pods[0].waiting = Some(Waiting {
            reason: "ErrImageNeverPull".to_owned(),
            message: String::new(),
            since: noon_and(-60),
        });
    });
    let status = plan(&world).status;
    assert_eq!(status.reason, Some(Reason::LauncherCannotStart));
    assert_eq!(
        status.message,
        "launcher l-0 cannot start: ErrImageNeverPull"
    );
}

#[test]
fn a_launcher_does_not_wait_for_a_worker_that_has_ended() {
    let world = waiting(by_agent(job("demo").workers(2)))
        .with(|world| world.workers[1].phase = PodPhase::Failed);
    let status = plan(&world).status;
    assert_eq!(status.reason, Some(Reason::WorkerLost));
    assert!(
        status.message.contains("demo-worker-1"),
        "{}",
        status.message
    );
    let running = world.with(|world| world.launcher_pods[0].phase = PodPhase::Running);
    assert_eq!(plan(&running).status.outcome, None, "its program decides");
}

#[test]
fn a_start_that_takes_too_long_is_a_failure() {
    let limited = |secs| {
        let job = job("demo")
            .workers(2)
            .with(|job| job.policy.startup_secs = Some(secs));
        waiting(by_agent(job)).with(|world| world.recorded.started_at = Some(noon_and(-10)))
    };
    assert_eq!(plan(&limited(11)).wake, Some(noon_and(1)));
    let status = plan(&limited(10)).status;
    assert_eq!(status.reason, Some(Reason::DeadlineExceeded));
    assert!(status.message.contains("within 10 s"), "{}", status.message);
    let begun = limited(10).with(|world| world.launcher_pods[0].phase = PodPhase::Running);
    assert_eq!(plan(&begun).status.outcome, None);
}

/// A job whose launcher pod left these last words.
fn testified(phase: PodPhase, words: &str) -> Observed {
    let job = job("demo").workers(3).clean(CleanUp::Running);
    by_agent(job).running().with(|world| {
        world.launcher_pods[0].phase = phase;
        world.launcher_pods[0].finished_at = Some(noon());
        world.launcher_pods[0].exit = Some(Exit {
            container: "main".to_owned(),
            code: 118,
            reason: "Error".to_owned(),
            message: words.to_owned(),
        });
    })
}

#[test]
fn ranks_that_were_not_distributed_fail_the_job_at_once() {
    let words = r#"{"muster":1,"verdict":"RanksNotDistributed","exit":118,"hosts":0,"asked":3,"message":"0 of 3"}"#;
    for phase in [PodPhase::Running, PodPhase::Failed] {
        let status = plan(&testified(phase, words)).status;
        assert_eq!(status.reason, Some(Reason::RanksNotDistributed));
        assert_eq!(status.message, "0 of 3");
    }
}

#[test]
fn the_agents_word_names_the_cause() {
    let failed = |phase: PodPhase, words: &str| {
        let end = LauncherEnd::Failed {
            reason: "BackoffLimitExceeded".to_owned(),
            message: "limit".to_owned(),
        };
        plan(&testified(phase, words).launcher_ended(end)).status
    };
    for (verdict, exit, reason) in [
        ("WorkerLost", 119, Reason::WorkerLost),
        ("WorkerUnreachable", 119, Reason::Unreachable),
        ("RankFailed", 3, Reason::CommandFailed),
        ("RankFailed", 137, Reason::RankKilled),
        ("Failed", 1, Reason::CommandFailed),
        ("Failed", 127, Reason::CommandNotFound),
    ] {
        let words = format!(
            r#"{{"muster":1,"verdict":"{verdict}","exit":{exit},"hosts":3,"message":"this"}}"#
        );
        // A pod whose container was started again is not Failed; it is removed, still running.
        for phase in [PodPhase::Failed, PodPhase::Running, PodPhase::Pending] {
            let status = failed(phase, &words);
            assert_eq!(status.reason, Some(reason), "{verdict}");
            assert_eq!(status.message, "this: limit");
        }
    }
    for strange in [
        "",
        "{",
        r#"{"muster":2,"verdict":"WorkerLost","exit":1}"#,
        "{}\n",
    ] {
        let status = failed(PodPhase::Failed, strange);
        assert_eq!(status.reason, Some(Reason::CommandFailed), "{strange}");
    }
}

#[test]
fn an_elastic_program_begins_with_the_workers_that_are_there() {
    let elastic = job("demo").workers(3).with(|job| job.elastic = true);
    let spec = launcher(&by_agent(elastic.clone()));
    let install = json!(["/muster-agent", "install", "/muster/bin"]);
    assert_eq!(spec["initContainers"][0]["command"], install, "no gate");
    let main = &spec["containers"][0];
    assert_eq!(variable(main, "MUSTER_CENSUS"), Some(&json!("Off")));

    let world = waiting(by_agent(elastic)).with(|world| {
        world.workers[1].phase = PodPhase::Failed;
        world.workers[2].address.clear();
        world.workers[2].phase = PodPhase::Pending;
        world.workers[2].waiting = Some(Waiting {
            reason: "ErrImageNeverPull".to_owned(),
            message: String::new(),
            since: noon_and(-999),
        });
    });
    assert_eq!(plan(&world).status.outcome, None);
    let told = world.settled().launcher_pods[0].hosts.clone();
    assert_eq!(told, "# workers 3\ndemo-worker-0 10.0.0.0\n");
}

#[test]
fn over_ssh_a_worker_counts_once_its_containers_run() {
    let world = waiting(by_ssh(job("demo").workers(1)));
    let preparing = world
        .clone()
        .with(|world| world.workers[0].phase = PodPhase::Pending);
    assert_eq!(deeds(&plan(&preparing)), Vec::<String>::new());
    assert_eq!(deeds(&plan(&world)), ["patch Pod l-0"]);
}

#[test]
fn a_registry_in_trouble_is_waited_for_longer_than_an_image_that_is_not_there() {
    let pulling = |message: &str| {
        let stuck = stuck("ImagePullBackOff", -60);
        let stuck = stuck.with(|world| {
            let waiting = world.workers[1].waiting.as_mut().unwrap();
            waiting.message = message.to_owned();
        });
        plan(&stuck).status.reason
    };
    assert_eq!(
        pulling("manifest: not found"),
        Some(Reason::WorkerCannotStart)
    );
    assert_eq!(pulling("429 Too Many Requests"), Some(Reason::PullingImage));
}

#[test]
fn another_try_is_not_a_start() {
    let job = job("demo")
        .workers(1)
        .with(|job| job.policy.startup_secs = Some(10));
    let world = waiting(by_agent(job)).with(|world| {
        world.recorded.started_at = Some(noon_and(-7200));
        let Slot::Ours(launcher) = &mut world.launcher else {
            panic!("there is a launcher");
        };
        launcher.failed_pods = 1;
    });
    assert_eq!(plan(&world).status.outcome, None);
}

#[test]
fn a_program_that_was_told_to_end_keeps_its_workers_for_a_while() {
    let job = job("demo").workers(2).clean(CleanUp::Running);
    let verdict = Verdict::Failed {
        reason: "DeadlineExceeded".to_owned(),
        message: String::new(),
    };
    let ended = LauncherEnd::Failed {
        reason: "DeadlineExceeded".to_owned(),
        message: String::new(),
    };
    let leaving = by_ssh(job).running().launcher_ended(ended).over(verdict);
    assert_eq!(deeds(&plan(&leaving)), Vec::<String>::new());
    assert_eq!(plan(&leaving).status.phase, Phase::Finishing);
    assert_eq!(plan(&leaving).wake, Some(noon_and(60)));
    let patient = leaving.clone().with(|world| world.now = noon_and(60));
    assert_eq!(
        deeds(&plan(&patient)),
        ["delete workers demo-worker-0 demo-worker-1"]
    );
    let left = leaving.with(|world| world.launcher_pods[0].phase = PodPhase::Failed);
    assert_eq!(
        deeds(&plan(&left)),
        ["delete workers demo-worker-0 demo-worker-1"]
    );
}
