//! What is rendered into pods for the agent and the gate, and what stays the user's.

use contract::labels::HOSTS_ANNOTATION;
use planner::fixtures::job;
use planner::job::Mpi;
use planner::{Job, Kind, Observed, plan};
use serde_json::{Value, json};

use super::{IMAGE, by_agent, by_ssh, command, launcher, variable, volume, waiting, worker};
use crate::{created_one, patch};

#[test]
fn s08_a_worker_serves_and_holds_no_key_but_its_own() {
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
    assert_eq!(keys, ["w1", "launcher.pub", "valid-until"]);
    assert_eq!(items[0]["path"], "worker.key");
    assert_eq!(spec["automountServiceAccountToken"], false);
    assert!(!spec.to_string().contains("ssh-auth"));
}

#[test]
fn a_worker_keeps_its_own_command_unless_that_is_an_sshd() {
    let with = |key: &str, words: &[&str]| {
        let job = job("demo").workers(1).with(|job| {
            let workers = job.worker_pods();
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
        let workers = job.worker_pods();
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
    let item = |name: &str| json!({"key": name, "path": name});
    assert_eq!(*items, json!([item("launcher.key"), item("valid-until")]));
    let field = &volume(&spec, "muster-hosts")["downwardAPI"]["items"][0]["fieldRef"];
    assert_eq!(
        field["fieldPath"],
        format!("metadata.annotations['{HOSTS_ANNOTATION}']")
    );
}

/// The kernel lets nobody replace a file that is a mount, so the agent would fail with the attempt.
#[test]
fn lists_are_not_written_again_where_a_promised_script_is_mounted_among_them() {
    for (promised, again) in [(false, Some(&json!("/etc/mpi"))), (true, None)] {
        let world = by_agent(
            job("demo")
                .workers(2)
                .with(|job| job.login_mut().exec_script = promised),
        );
        let spec = launcher(&world);
        let (main, gate) = (&spec["containers"][0], &spec["initContainers"][0]);
        assert_eq!(variable(main, "MUSTER_LISTS_DIR"), again, "{promised}");
        assert_eq!(variable(gate, "MUSTER_LISTS_DIR"), Some(&json!("/etc/mpi")));
        let mounts = main["volumeMounts"].to_string();
        assert_eq!(mounts.contains("discover_hosts.sh"), promised, "{mounts}");
    }
}

#[test]
fn what_the_user_has_set_stays() {
    let job = job("demo").workers(1).with(|job| {
        let container = &mut job.launcher.role.template["spec"]["containers"][0];
        container["env"] = json!([{"name": "OMPI_MCA_routed_radix", "value": "7"}]);
        job.launcher.role.template["spec"]["serviceAccountName"] = "mine".into();
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
        let workers = job.worker_pods();
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
        let workers = job.worker_pods();
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
        let workers = job.worker_pods();
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
    let world = by_agent(
        job("demo")
            .workers(2)
            .with(|job| job.login_mut().gate = false),
    );
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

/// Every variable that a container of the user's gets from us, set to something else by the user.
fn own_values(container: &Value) -> Vec<Value> {
    let variables = container["env"].as_array().unwrap().iter();
    let own = |variable: &Value| json!({"name": variable["name"], "value": "the user's"});
    variables.map(own).collect()
}

#[test]
fn m01_a_variable_of_the_users_template_wins_always() {
    for by in [by_ssh, by_agent] {
        for mpi in Mpi::ALL {
            let job = job("demo").workers(2).with(|job| {
                job.mpi = mpi;
                job.launcher.host = None;
                job.worker_pods().role.template["spec"]["hostNetwork"] = true.into();
                command(job, &["mpirun", "pi"]);
            });
            let bare = by(job.clone());
            let given = [
                own_values(&launcher(&bare)["containers"][0]),
                own_values(&worker(&bare, 0)["containers"][0]),
            ];
            assert!(given[0].len() > 4 && !given[1].is_empty(), "{given:?}");
            let [for_launcher, for_worker] = given.clone();
            let own = by(job.with(|job| {
                let launcher = &mut job.launcher.role.template["spec"]["containers"][0];
                launcher["env"] = for_launcher.into();
                let worker = &mut job.worker_pods().role.template["spec"]["containers"][0];
                worker["env"] = for_worker.into();
            }));
            let rendered = [launcher(&own), worker(&own, 0)];
            for (spec, given) in rendered.iter().zip(given) {
                assert_eq!(spec["containers"][0]["env"], json!(given), "{mpi:?}");
            }
        }
    }
}

/// Open MPI 5 reads another name, and ours there would undo what the user says to Open MPI 4.
#[test]
fn m01_what_the_user_says_under_one_name_holds_for_other_versions_too() {
    for (said, meant) in [
        ("OMPI_MCA_plm_rsh_args", "PRTE_MCA_plm_ssh_args"),
        ("PRTE_MCA_plm_ssh_args", "OMPI_MCA_plm_rsh_args"),
    ] {
        let job = job("demo").workers(2).with(|job| {
            let container = &mut job.launcher.role.template["spec"]["containers"][0];
            container["env"] = json!([{"name": said, "value": "-p 2222"}]);
        });
        let spec = launcher(&by_ssh(job));
        let main = &spec["containers"][0];
        for name in [said, meant] {
            assert_eq!(variable(main, name), Some(&json!("-p 2222")), "{name}");
        }
        let slots = variable(main, "PRTE_MCA_prte_set_default_slots");
        assert_eq!(slots, Some(&json!("1")), "the rest is ours");
    }
}

#[test]
fn m07_the_gate_does_not_take_the_nodes_sshd_for_a_workers() {
    let ports = |on_host: bool, change: &dyn Fn(&mut Job)| {
        let job = job("demo").workers(2).with(|job| {
            let template = &mut job.worker_pods().role.template;
            template["spec"]["hostNetwork"] = on_host.into();
            change(job);
        });
        let spec = launcher(&by_ssh(job));
        let gate = &spec["initContainers"][0];
        let text = |name| {
            variable(gate, name)
                .and_then(Value::as_str)
                .map(str::to_owned)
        };
        (
            text("MUSTER_SSH_PORTS").unwrap(),
            text("MUSTER_SSH_PATIENCE"),
        )
    };
    let sshd = |words: &'static [&str]| {
        move |job: &mut Job| {
            let template = &mut job.worker_pods().role.template;
            template["spec"]["containers"][0]["command"] = json!(words);
        }
    };
    let told = |port: &str| (port.to_owned(), None);
    assert_eq!(ports(false, &|_| {}), told("22,2222"));
    assert_eq!(
        ports(true, &|_| {}),
        ("2222".to_owned(), Some("10".to_owned()))
    );
    for on_host in [false, true] {
        let own = sshd(&[
            "sh",
            "-c",
            "mkdir -p /run/sshd && /usr/sbin/sshd -De -p 2022",
        ]);
        assert_eq!(ports(on_host, &own), told("2022"));
        let usual = sshd(&["/usr/sbin/sshd", "-De", "-p", "22"]);
        assert_eq!(ports(on_host, &usual), told("22"), "the user says so");
        let said = |job: &mut Job| job.login_mut().ssh_port = Some(3022);
        assert_eq!(ports(on_host, &said), told("3022"));
        let by_launcher = |job: &mut Job| {
            let container = &mut job.launcher.role.template["spec"]["containers"][0];
            let name = "PRTE_MCA_plm_ssh_args";
            container["env"] = json!([{"name": name, "value": "-p 2222"}]);
        };
        assert_eq!(ports(on_host, &by_launcher), told("2222"));
    }
}

#[test]
fn m08_init_containers_that_read_the_host_lists_run_after_the_gate() {
    let mount = json!([{"name": "mpi-job-config", "mountPath": "/etc/mpi"}]);
    let names = |by: fn(Job) -> Observed, gate: bool| {
        let job = job("demo").workers(2).with(|job| {
            job.login_mut().gate = gate;
            job.launcher.role.template["spec"]["initContainers"] = json!([
                {"name": "first", "image": "i"},
                {"name": "reads", "image": "i", "volumeMounts": mount},
            ]);
        });
        let spec = launcher(&by(job));
        let volume = volume(&spec, "mpi-job-config").clone();
        let containers = spec["initContainers"].as_array().unwrap().iter();
        let names: Vec<_> = containers
            .map(|container| container["name"].clone())
            .collect();
        (names, volume.get("configMap").is_some())
    };
    assert_eq!(
        names(by_agent, true),
        (
            vec![json!("first"), json!("muster-agent"), json!("reads")],
            false
        )
    );
    // Otherwise the lists are there from the start.
    for (by, gate) in [(by_agent as fn(Job) -> Observed, false), (by_ssh, true)] {
        assert_eq!(
            names(by, gate),
            (
                vec![json!("first"), json!("reads"), json!("muster-agent")],
                true
            )
        );
    }
}
