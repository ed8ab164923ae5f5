//! The openmpi component's acceptance list, as far as it consists of facts about a job, its objects and
//! its status. The numbers are those of the list.

mod pods;
mod quickstart;

use planner::fixtures::noon;
use planner::observed::{Exit, PodPhase, Waiting};
use planner::{Kind, Object};
use quickstart::{created, lowered, master_exits, quickstart, refused, scenario, with};
use serde_json::{Value, json};

#[test]
fn a1_the_quickstart_is_accepted_unchanged() {
    let job = lowered(&quickstart());
    assert_eq!(job.owner.namespace, "kubeflow");
    assert_eq!((job.worker_count(), job.slots), (4, 1));
}

#[test]
fn a2_the_users_secret_is_mounted_and_no_other_is_made() {
    let run = created(quickstart());
    for pod in ["openmpi-master", "openmpi-worker-3"] {
        let volumes = run.pod(pod)["volumes"].as_array().expect("it has volumes");
        let secret = volumes
            .iter()
            .find(|volume| volume["name"] == "openmpi-secrets");
        let wanted = json!({"secretName": "openmpi-secret", "defaultMode": 256});
        assert_eq!(secret.map(|volume| &volume["secret"]), Some(&wanted));
    }
    assert_eq!(run.made(Kind::Secret).len(), 0);
}

#[test]
fn a4_a_missing_image_or_secret_is_refused_by_name() {
    let without = |name: &str| with(json!({name: null}));
    assert!(refused(&without("image")).starts_with("spec.image: Required value"));
    assert!(refused(&without("secret")).starts_with("spec.secret: Required value"));
    assert!(refused(&with(json!({"secret": "null"}))).contains("id_rsa"));
}

#[test]
fn a5_pods_are_called_as_the_component_called_them() {
    let run = created(quickstart());
    let pods = run.made(Kind::Pod).into_iter();
    let mut names: Vec<&str> = pods
        .filter_map(|pod| pod["metadata"]["name"].as_str())
        .collect();
    names.sort_unstable();
    let wanted = [
        "openmpi-master",
        "openmpi-worker-0",
        "openmpi-worker-1",
        "openmpi-worker-2",
    ];
    assert_eq!(names[..4], wanted);
    assert_eq!(names.len(), 5);
    for (name, role) in [("openmpi-master", "master"), ("openmpi-worker-0", "worker")] {
        let labels = &run.object(Kind::Pod, name)["metadata"]["labels"];
        assert_eq!(
            (&labels["app"], &labels["role"]),
            (&json!("openmpi"), &json!(role))
        );
        let spec = run.pod(name);
        assert_eq!(spec["hostname"], name);
        assert_eq!(spec["subdomain"], "openmpi");
        assert_eq!(spec["restartPolicy"], "Never");
        assert_eq!(spec["terminationGracePeriodSeconds"], 30);
        assert_eq!(spec["schedulerName"], "default-scheduler");
    }
}

#[test]
fn a5_the_service_has_the_components_port_and_selector() {
    let run = created(quickstart());
    let service = &run.object(Kind::Service, "openmpi")["spec"];
    assert_eq!(service["clusterIP"], "None");
    let selector = json!({"app": "openmpi", "muster.dev/job-uid": "u"});
    assert_eq!(service["selector"], selector);
    let port = json!({"name": "openmpi", "port": 12345, "targetPort": 12345, "protocol": "TCP"});
    assert_eq!(service["ports"], json!([port]));
}

#[test]
fn a6_the_hostfile_has_a_line_for_each_worker() {
    let run = created(quickstart());
    let files = &run.object(Kind::ConfigMap, "openmpi-assets")["data"];
    let line = |index: u32| format!("openmpi-worker-{index}.openmpi.kubeflow slots=1\n");
    let wanted: String = (0..4).map(line).collect();
    assert_eq!(files["hostfile"], wanted.as_str());
    let mut names: Vec<&String> = files.as_object().expect("files").keys().collect();
    names.sort_unstable();
    let wanted = [
        "hostfile",
        "init.sh",
        "mca-params.conf",
        "ssh_config",
        "sshd_config",
    ];
    assert_eq!(names, wanted);
    let volumes = run.pod("openmpi-master")["volumes"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let assets = volumes
        .iter()
        .find(|volume| volume["name"] == "openmpi-assets");
    let assets = &assets.expect("there are assets")["configMap"];
    assert_eq!(
        (&assets["name"], &assets["defaultMode"]),
        (&json!("openmpi-assets"), &json!(0o644))
    );
    let init = json!({"key": "init.sh", "path": "init.sh", "mode": 0o555});
    assert!(
        assets["items"]
            .as_array()
            .is_some_and(|items| items.contains(&init))
    );
}

/// As the kubelet reads a word of a command: two dollars are one, and names without a value stay.
fn as_run(word: &str) -> String {
    word.replace("$$", "$")
}

#[test]
fn a7_the_command_reaches_its_shell_unchanged() {
    let exec = "echo \"it's $LD_LIBRARY_PATH $$ $(hostname)\" && sh -c 'echo \"$$(date)\"'";
    let run = created(with(json!({"exec": exec})));
    let command = run.pod("openmpi-master")["containers"][0]["command"].clone();
    let words: Vec<&str> = command
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    assert_eq!(
        words[..4],
        ["sh", "/kubeflow/openmpi/assets/init.sh", "master", "4"]
    );
    assert_eq!(as_run(words[4]), exec);
    assert_eq!(words[5], "300");
}

#[test]
fn a8_containers_are_as_the_component_made_them() {
    let run = created(quickstart());
    let master = run.pod("openmpi-master");
    assert_eq!(
        master["containers"].as_array().map(Vec::len),
        Some(1),
        "one container, for kubectl logs"
    );
    assert!(master.get("initContainers").is_none());
    let container = &master["containers"][0];
    assert_eq!(container["name"], "openmpi-job");
    assert_eq!(container["workingDir"], "/kubeflow/openmpi/data");
    assert_eq!(
        container["ports"],
        json!([{"containerPort": 2022, "protocol": "TCP"}])
    );
    assert_eq!(
        container["volumeMounts"],
        json!([
            {"name": "openmpi-data", "mountPath": "/kubeflow/openmpi/data"},
            {"name": "openmpi-assets", "mountPath": "/kubeflow/openmpi/assets"},
            {"name": "openmpi-secrets", "mountPath": "/kubeflow/openmpi/secrets"},
        ])
    );
    let sidecar = &run.pod("openmpi-worker-0")["containers"][1];
    assert_eq!(
        (&sidecar["name"], &sidecar["image"]),
        (&json!("openmpi-controller"), &json!("muster-agent:1"))
    );
    assert_eq!(
        sidecar["command"],
        json!([
            "/muster-agent",
            "sidecar",
            "--namespace",
            "kubeflow",
            "--job",
            "openmpi",
            "--signal-dir",
            ".openmpi-controller",
            "--num-gpus",
            "0",
            "--timeout-secs",
            "300"
        ])
    );
}

#[test]
fn a8_a_sidecar_image_of_the_users_gets_the_components_words() {
    let run = created(with(json!({"controllerImage": "mine:1"})));
    let sidecar = &run.pod("openmpi-worker-0")["containers"][1];
    assert_eq!(
        (&sidecar["image"], &sidecar["imagePullPolicy"]),
        (&json!("mine:1"), &json!("Always"))
    );
    let program = "/kubeflow/openmpi/openmpi-controller/controller/main.py";
    assert_eq!(sidecar["command"][1], program);
    assert_eq!(sidecar["command"][4], "--master");
    assert_eq!(sidecar["command"][5], "openmpi-master");
    assert_eq!(sidecar["volumeMounts"].as_array().map(Vec::len), Some(1));
    // It asks the API server itself, so it needs no agent.
    let mut run = scenario(with(json!({"controllerImage": "mine:1"})));
    run.world.site.agent_image = None;
    run.reconcile();
    assert_eq!(run.world.workers.len(), 4);
}

#[test]
fn without_an_agent_the_job_says_what_is_missing() {
    let mut run = scenario(quickstart());
    run.world.site.agent_image = None;
    run.reconcile();
    let muster = &run.stored["status"]["muster"];
    let message = muster["message"].as_str().unwrap_or_default();
    assert!(
        message.contains("sidecar") && message.contains("--agent-image"),
        "{message}"
    );
    assert!(run.world.workers.is_empty());
}

#[test]
fn a10_a_script_that_gave_up_is_a_failed_initialisation() {
    let mut run = scenario(with(json!({"initTimeout": 60}))).running();
    master_exits(
        &mut run,
        124,
        "initialisation: not all of 4 workers answered mpiexec within 60 s\n",
    );
    let failed = run.condition("Failed").expect("it failed");
    assert_eq!(failed["reason"], "InitializationFailed");
    let message = failed["message"].as_str().unwrap_or_default();
    for words in [
        "initialisation",
        "openmpi-master",
        "124",
        "initTimeout is 60 s",
    ] {
        assert!(message.contains(words), "{message}");
    }
}

#[test]
fn a10_a_program_may_exit_with_the_same_code() {
    let mut run = scenario(quickstart()).running();
    master_exits(&mut run, 124, "");
    assert_eq!(
        run.condition("Failed").expect("it failed")["reason"],
        "CommandFailed"
    );
}

#[test]
fn a10_the_failure_tells_of_the_worker_that_failed_first() {
    let mut run = scenario(quickstart()).running();
    run.worker_exits(2, 124, "initialisation: sshd ended")
        .reconcile();
    let waiting = &run.stored["status"]["muster"]["message"];
    assert!(
        waiting
            .as_str()
            .is_some_and(|said| said.contains("openmpi-worker-2 ended early")),
        "{waiting}"
    );
    master_exits(
        &mut run,
        124,
        "initialisation: not all of 4 workers answered mpiexec within 300 s",
    );
    let message = &run.condition("Failed").expect("it failed")["message"];
    let message = message.as_str().unwrap_or_default();
    assert!(
        message.contains("openmpi-worker-2 failed") && message.contains("sshd ended"),
        "{message}"
    );
}

#[test]
fn a11_a_worker_for_which_there_is_no_room_is_waited_for() {
    let mut run = scenario(with(json!({"initTimeout": 600})));
    run.reconcile();
    run.world.workers[0].waiting = Some(Waiting {
        reason: "Unschedulable".to_owned(),
        message: "0/3 nodes".to_owned(),
        since: noon(),
        ..Waiting::default()
    });
    run.at(500);
    run.reconcile();
    assert!(run.condition("Failed").is_none());
    assert_eq!(run.stored["status"]["muster"]["reason"], "Unschedulable");
}

#[test]
fn a20_horovod_with_gpus_is_accepted_as_its_manual_has_it() {
    let text = include_str!("../../../../examples/seeds/openmpi-horovod.yaml");
    let mut stored: Value = serde_saphyr::from_str(text).expect("the example is YAML");
    stored["metadata"]["uid"] = "u".into();
    let run = created(stored.clone());
    let worker = run.pod("openmpi-worker-3");
    let limits = &worker["containers"][0]["resources"]["limits"];
    assert_eq!(limits["nvidia.com/gpu"], "1");
    let master = &run.pod("openmpi-master")["containers"][0]["command"];
    let words = master.as_array().expect("a command is a list");
    assert!(words.contains(&stored["spec"]["exec"]), "{master}");
}

#[test]
fn a16_the_masters_exit_is_the_result_and_workers_are_told() {
    for (code, condition, word) in [(0, "Succeeded", "Succeeded"), (3, "Failed", "Failed")] {
        let mut run = scenario(quickstart()).running();
        assert!(run.world.workers.iter().all(|pod| !pod.told_end));
        master_exits(&mut run, code, "");
        assert_eq!(
            run.condition(condition).expect("it ended")["status"],
            "True"
        );
        assert_eq!(run.stored["status"]["muster"]["phase"], word);
        assert!(
            run.world.workers.iter().all(|pod| pod.told_end),
            "all are told"
        );
        assert_eq!(run.world.workers.len(), 4);
    }
}

#[test]
fn a17_nothing_is_deleted_after_the_end() {
    let mut run = scenario(quickstart()).running();
    master_exits(&mut run, 0, "");
    for pod in &mut run.world.workers {
        pod.phase = PodPhase::Succeeded;
    }
    run.at(100_000);
    run.reconcile();
    assert_eq!(
        (run.world.workers.len(), run.world.launcher_pods.len()),
        (4, 1)
    );
    assert_eq!(planner::plan(&run.world).steps, [[]; 0]);
}

#[test]
fn a17_workers_that_never_started_do_not_hold_a_claim_for_ever() {
    let mut run = scenario(quickstart()).running();
    let worker = &mut run.world.workers[1];
    (worker.phase, worker.ready, worker.begun) = (PodPhase::Pending, false, false);
    master_exits(
        &mut run,
        124,
        "initialisation: not all of 4 workers answered mpiexec within 300 s",
    );
    assert_eq!(run.world.workers.len(), 3);

    let mut run = scenario(quickstart()).running();
    let worker = &mut run.world.workers[1];
    // Its sidecar runs, and the program's image is nowhere.
    (worker.phase, worker.ready, worker.begun) = (PodPhase::Pending, false, true);
    master_exits(&mut run, 1, "");
    assert_eq!(run.world.workers.len(), 3);
}

#[test]
fn a17_a_worker_whose_sidecar_was_killed_does_not_wait_for_ever() {
    let mut run = scenario(quickstart()).running();
    run.world.workers[1].exit = Some(Exit {
        container: "openmpi-controller".to_owned(),
        code: 137,
        reason: "OOMKilled".to_owned(),
        message: String::new(),
    });
    master_exits(&mut run, 0, "");
    run.reconcile();
    assert_eq!(run.world.workers.len(), 3);
    assert!(run.world.workers.iter().all(|pod| pod.told_end));
}

#[test]
fn a18_every_object_is_the_jobs_own() {
    let run = created(quickstart());
    for Object { kind, name, body } in &run.created {
        let owner = &body["metadata"]["ownerReferences"][0];
        assert_eq!(owner["kind"], "OpenMPI", "{} {name}", kind.as_str());
        assert_eq!(
            (&owner["uid"], &owner["apiVersion"]),
            (&json!("u"), &json!("muster.dev/v1alpha1"))
        );
    }
}

#[test]
fn a18_an_account_that_may_read_pods_is_made_unless_one_is_given() {
    let run = created(quickstart());
    let role = run.object(Kind::Role, "openmpi");
    let rule = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]});
    assert_eq!(role["rules"], json!([rule]));
    run.object(Kind::ServiceAccount, "openmpi");
    run.object(Kind::RoleBinding, "openmpi");
    for pod in ["openmpi-master", "openmpi-worker-0"] {
        assert_eq!(run.pod(pod)["serviceAccountName"], "openmpi");
    }
    let first = |kind: Kind| run.created.iter().position(|object| object.kind == kind);
    let (at, pod) = (first(Kind::ServiceAccount), first(Kind::Pod));
    assert!(at < pod, "pods are refused without their account");
    let run = created(with(json!({"serviceAccountName": "mine"})));
    assert_eq!(run.made(Kind::ServiceAccount).len(), 0);
}

#[test]
fn a19_without_a_command_the_master_sleeps() {
    let run = created(with(json!({"exec": "null"})));
    let command = &run.pod("openmpi-master")["containers"][0]["command"];
    assert_eq!(command[4], "sleep infinity");
}

#[test]
fn there_is_no_second_try() {
    let job = lowered(&quickstart());
    assert_eq!(job.launcher.kind.restart(), "Never");
    assert_eq!(job.limits().backoff_limit, None);
    let mut run = scenario(quickstart()).running();
    run.world.launcher_pods[0].deleting = true;
    run.reconcile();
    let failed = run.condition("Failed").expect("it failed");
    assert_eq!(failed["reason"], "LauncherLost");
    run.world.launcher_pods.clear();
    run.reconcile();
    assert!(
        run.world.launcher_pods.is_empty(),
        "the master is not recreated"
    );
    assert!(run.world.workers.iter().all(|pod| pod.told_end));

    let mut run = scenario(quickstart()).running();
    run.world.launcher_pods.clear();
    run.reconcile();
    let failed = run.condition("Failed").expect("it failed");
    assert_eq!(failed["reason"], "LauncherLost", "nobody saw it go");
    assert!(run.world.launcher_pods.is_empty());
}

#[test]
fn a_job_that_is_ended_from_outside_takes_its_master_with_it() {
    let mut run = scenario(quickstart()).running();
    run.world.workers[0].phase = PodPhase::Failed;
    "Evicted".clone_into(&mut run.world.workers[0].reason);
    run.reconcile();
    run.reconcile();
    assert_eq!(run.stored["status"]["muster"]["phase"], "Failed");
    assert!(run.world.launcher_pods.is_empty());
}

#[test]
fn values_of_the_wrong_kind_are_named() {
    for (parameters, path) in [
        (json!({"workers": "many"}), "spec.workers"),
        (json!({"workers": -1}), "spec.workers"),
        (json!({"gpu": 0.5}), "spec.gpu"),
        (json!({"cpu": "fast"}), "spec.cpu"),
        (json!({"exec": ["a"]}), "spec.exec"),
        (json!({"exec": ""}), "spec.exec"),
        (json!({"imagePullPolicy": "Often"}), "spec.imagePullPolicy"),
        (json!({"imagePullSecrets": "a, b"}), "spec.imagePullSecrets"),
        (json!({"nodeSelector": "a"}), "spec.nodeSelector"),
        (json!({"customResources": "a=b"}), "spec.customResources"),
        (
            json!({"supplementalGroups": "1,-2"}),
            "spec.supplementalGroups",
        ),
        (json!({"useHostNetwork": "maybe"}), "spec.useHostNetwork"),
        (json!({"volumes": {}}), "spec.volumes"),
        (json!({"name": "other"}), "spec.name"),
        (json!({"namespace": "other"}), "spec.namespace"),
        (json!({"downloadDataTo": "in"}), "spec.downloadDataFrom"),
        (
            json!({"uploadDataFrom": "o", "uploadDataTo": "s3://b"}),
            "spec.s3Secret",
        ),
        (
            json!({"uploadDataFrom": "o", "uploadDataTo": "s3:///b", "s3Secret": "k"}),
            "spec.uploadDataTo",
        ),
    ] {
        let said = refused(&with(parameters.clone()));
        assert!(said.starts_with(path), "{parameters}: {said}");
    }
    let mut long = quickstart();
    long["metadata"]["name"] = "a".repeat(54).into();
    assert!(lowered(&long).worker_count() == 4, "63 characters fit");
    long["metadata"]["name"] = "a".repeat(55).into();
    assert!(refused(&long).starts_with("metadata.name"));
}
