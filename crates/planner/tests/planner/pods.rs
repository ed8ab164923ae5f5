//! What pods and Job look like when users ask for more than the defaults.

use planner::fixtures::{job, world};
use planner::job::{End, JobRestart, LauncherHost, LauncherKind, Limits, Mpi};
use planner::{Job, Kind, plan};
use serde_json::{Value, json};

use super::created_one;

fn launcher(job: Job) -> Value {
    let name = job.names.launcher.clone();
    created_one(&plan(&world(job)), Kind::Job, &name)
}

fn worker(job: Job, index: u32) -> Value {
    let name = job.worker_name(index);
    created_one(&plan(&world(job)), Kind::Pod, &name)
}

fn variables(container: &Value) -> Vec<String> {
    let env = container["env"]
        .as_array()
        .expect("the container has variables")
        .iter();
    env.map(|v| {
        format!(
            "{}={}",
            v["name"].as_str().unwrap(),
            v["value"].as_str().unwrap()
        )
    })
    .collect()
}

#[test]
fn a_launcher_that_is_a_host_has_index_0_and_keeps_its_gpus() {
    let as_host = job("demo")
        .workers(1)
        .with(|job| job.launcher.host = Some(LauncherHost::Indexed));
    let template = &launcher(as_host.clone())["spec"]["template"];
    assert_eq!(
        template["metadata"]["labels"]["training.kubeflow.org/replica-index"],
        "0"
    );
    let variables = variables(&template["spec"]["containers"][0]);
    assert!(
        !variables
            .iter()
            .any(|variable| variable.starts_with("NVIDIA_")),
        "{variables:?}"
    );

    let worker = worker(as_host.clone(), 0);
    assert_eq!(
        worker["metadata"]["labels"]["training.kubeflow.org/replica-index"],
        "1"
    );
    assert_eq!(worker["spec"]["hostname"], "demo-worker-0");

    let service = created_one(&plan(&world(as_host)), Kind::Service, "demo");
    assert_eq!(service["spec"]["publishNotReadyAddresses"], true);
}

#[test]
fn intel_gets_its_own_variables() {
    let intel = job("demo")
        .workers(1)
        .with(|job| (job.mpi, job.slots) = (Mpi::Intel, 5));
    let container = &launcher(intel)["spec"]["template"]["spec"]["containers"][0];
    let expected = [
        "K_MPI_JOB_ROLE=launcher",
        "I_MPI_HYDRA_HOST_FILE=/etc/mpi/hostfile",
        "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS=-o ConnectionAttempts=10",
        "I_MPI_PERHOST=5",
        "NVIDIA_VISIBLE_DEVICES=",
        "NVIDIA_DRIVER_CAPABILITIES=",
    ];
    assert_eq!(variables(container), expected);
}

#[test]
fn mpich_gets_its_own_variables() {
    let mpich = job("demo").workers(1).with(|job| job.mpi = Mpi::Mpich);
    let container = &launcher(mpich)["spec"]["template"]["spec"]["containers"][0];
    let expected = [
        "K_MPI_JOB_ROLE=launcher",
        "HYDRA_HOST_FILE=/etc/mpi/hostfile",
        "HYDRA_LAUNCH_EXTRA_ARGS=-o ConnectionAttempts=10",
        "NVIDIA_VISIBLE_DEVICES=",
        "NVIDIA_DRIVER_CAPABILITIES=",
    ];
    assert_eq!(variables(container), expected);
}

/// A template that uses all that we touch.
fn rich_template() -> Value {
    json!({
        "metadata": {"labels": {"foo": "bar"}, "annotations": {"a": "b"}, "name": "ignored"},
        "spec": {
            "hostNetwork": true,
            "restartPolicy": "Always",
            "securityContext": {"runAsUser": 1000},
            "dnsConfig": {"searches": ["mine.example"]},
            "volumes": [{"name": "fool-vol"}],
            "fieldOfTheFuture": {"kept": true},
            "containers": [
                {
                    "name": "main",
                    "command": ["/entrypoint.sh"],
                    "env": [{"name": "FOO", "value": "bar"}],
                    "volumeMounts": [{"name": "fool-vol", "mountPath": "/mnt/foo"}],
                },
                {"name": "sidecar", "env": [{"name": "X", "value": "y"}]},
            ],
        },
    })
}

fn rich() -> Job {
    job("demo").workers(13).with(|job| {
        job.login_mut().ssh_mount_path = "/home/mpiuser/.ssh".to_owned();
        let restart = JobRestart::OnFailure;
        let ttl_secs = Some(1);
        job.launcher.kind = LauncherKind::Job { restart, ttl_secs };
        job.lifecycle.end = End::WithLauncher(Limits {
            deadline_secs: Some(2),
            backoff_limit: Some(3),
            ..Limits::NONE
        });
        job.launcher.role.template = rich_template();
        job.worker_role().template = rich_template();
    })
}

#[test]
fn what_users_write_comes_first_and_stays() {
    let pod = worker(rich(), 12);
    let (spec, metadata) = (&pod["spec"], &pod["metadata"]);
    assert_eq!(metadata["name"], "demo-worker-12");
    assert_eq!(metadata["labels"]["foo"], "bar");
    assert_eq!(
        metadata["labels"]["training.kubeflow.org/replica-index"],
        "12"
    );
    assert_eq!(metadata["annotations"], json!({"a": "b"}));
    assert_eq!(spec["dnsPolicy"], "ClusterFirstWithHostNet");
    let searches = json!(["mine.example", "demo.team-a.svc.cluster.local"]);
    assert_eq!(spec["dnsConfig"]["searches"], searches);
    assert_eq!(spec["restartPolicy"], "Never", "the replica's policy wins");
    assert_eq!(spec["securityContext"], json!({"runAsUser": 1000}));
    assert_eq!(spec["fieldOfTheFuture"], json!({"kept": true}));
    let container = &spec["containers"][0];
    assert_eq!(container["command"], json!(["/entrypoint.sh"]));
    assert_eq!(variables(container), ["FOO=bar", "K_MPI_JOB_ROLE=worker"]);
    assert_eq!(container["volumeMounts"][0]["name"], "fool-vol");
    assert_eq!(
        container["volumeMounts"][1]["mountPath"],
        "/home/mpiuser/.ssh"
    );
    assert_eq!(
        spec["containers"][1],
        json!({"name": "sidecar", "env": [{"name": "X", "value": "y"}]})
    );
    assert_eq!(spec["volumes"][0]["name"], "fool-vol");
    assert!(
        spec["volumes"][1]["secret"].get("defaultMode").is_none(),
        "another user reads it"
    );
}

#[test]
fn the_job_carries_deadline_and_retries_but_no_time_to_live_yet() {
    let job = launcher(rich());
    assert_eq!(job["spec"]["activeDeadlineSeconds"], 2);
    assert_eq!(job["spec"]["backoffLimit"], 3);
    assert!(job["spec"].get("ttlSecondsAfterFinished").is_none());
    assert!(job["spec"].get("suspend").is_none());
    let template = &job["spec"]["template"];
    assert!(template["metadata"].get("ownerReferences").is_none());
    assert!(template["metadata"].get("name").is_none());
    assert_eq!(
        template["spec"]["dnsConfig"],
        json!({"searches": ["mine.example"]})
    );
    assert_eq!(template["spec"]["restartPolicy"], "OnFailure");
    assert_eq!(template["spec"]["containers"][1]["name"], "sidecar");
}

#[test]
fn a_worker_with_args_only_keeps_its_entrypoint() {
    let with_args = job("demo").workers(1).with(|job| {
        let container = json!({"name": "main", "args": ["/usr/sbin/sshd", "-De"], "command": []});
        job.worker_role().template = json!({"spec": {"containers": [container]}});
    });
    assert_eq!(
        worker(with_args, 0)["spec"]["containers"][0]["command"],
        json!([])
    );
}

#[test]
fn the_search_domain_follows_the_site() {
    let world = world(job("demo").workers(1))
        .with(|world| world.site.cluster_domain = "corp.example".to_owned());
    let pod = created_one(&plan(&world), Kind::Pod, "demo-worker-0");
    assert_eq!(
        pod["spec"]["dnsConfig"]["searches"],
        json!(["demo.team-a.svc.corp.example"])
    );
}

#[test]
fn a_template_of_any_shape_is_rendered_without_a_panic() {
    let shapes = [
        json!(null),
        json!("text"),
        json!(7),
        json!([]),
        json!({}),
        json!({"spec": 3}),
    ];
    let nested = json!({"metadata": {"labels": 1}, "spec": {"containers": ["a"], "volumes": {}}});
    for shape in shapes.into_iter().chain([nested]) {
        let odd = job("demo").workers(1).with(|job| {
            job.launcher.role.template = shape.clone();
            job.worker_role().template = shape.clone();
        });
        assert_eq!(
            worker(odd, 0)["spec"]["hostname"],
            "demo-worker-0",
            "{shape}"
        );
    }
}

/// A worker that was broken into must not speak for the namespace's default account.
#[test]
fn s03_over_ssh_pods_have_a_token_only_if_their_template_asks_for_it() {
    let plain = job("demo").workers(1);
    let specs = |job: Job| {
        let launcher = launcher(job.clone())["spec"]["template"]["spec"].clone();
        [launcher, worker(job, 0)["spec"].clone()]
    };
    for spec in specs(plain.clone()) {
        assert_eq!(spec["automountServiceAccountToken"], false);
    }
    for (key, value) in [
        ("serviceAccountName", json!("mine")),
        ("serviceAccount", json!("mine")),
        ("automountServiceAccountToken", json!(true)),
    ] {
        let asked = plain.clone().with(|job| {
            job.launcher.role.template["spec"][key] = value.clone();
            job.worker_role().template["spec"][key] = value.clone();
        });
        for spec in specs(asked) {
            let token = spec.get("automountServiceAccountToken");
            assert!(token.is_none_or(|token| *token == true), "{key}");
        }
    }
}
