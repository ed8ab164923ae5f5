//! What pods a job gets, and what runs in them: lines 1 to 16 and 33 of the list.

use serde_json::{Value, json};

use super::seed::{lowered, pod, pods, refused, scenario, seed, with};

#[test]
fn a01_a02_the_first_manifest_gets_its_pods_by_name() {
    let names: Vec<String> = pods(&seed()).into_iter().map(|(name, _)| name).collect();
    let workers = (0..5).map(|index| format!("mpi-example-worker-{index}"));
    let all: Vec<String> = std::iter::once("mpi-example-launcher".to_owned())
        .chain(workers)
        .collect();
    assert_eq!(names, all);
}

#[test]
fn a03_a_template_without_the_container_is_refused_by_its_name() {
    let job =
        with(|job| job["spec"]["worker"]["template"]["spec"]["containers"][0]["name"] = "w".into());
    assert!(refused(&job).contains("\"mpi-worker\""));
}

#[test]
fn a04_workers_run_sshd_whatever_their_template_says() {
    let job = with(|job| {
        let container = &mut job["spec"]["worker"]["template"]["spec"]["containers"][0];
        (container["command"], container["args"]) = (json!(["sleep"]), json!(["9"]));
    });
    let container = pod(&job, "mpi-example-worker-0")["containers"][0].clone();
    assert_eq!(container["command"], json!(["/usr/sbin/sshd", "-De"]));
    assert_eq!(container.get("args"), None);
}

#[test]
fn a05_the_launcher_comes_when_all_workers_are_ready() {
    let mut run = scenario(seed());
    run.reconcile();
    assert_eq!(
        (run.world.workers.len(), run.world.launcher_pods.len()),
        (5, 0)
    );
    run.workers_run();
    run.world.workers[4].ready = false;
    run.at(1).reconcile();
    assert_eq!(run.world.launcher_pods.len(), 0);
    run.workers_run().at(2).reconcile();
    assert_eq!(run.world.launcher_pods.len(), 1);
}

#[test]
fn a06_to_a09_mpirun_is_made_of_the_fields_in_order() {
    let container = pod(&seed(), "mpi-example-launcher")["containers"][0].clone();
    let line = "/usr/local/bin/mpirun --mca btl ^openib -N 3 --enable-recovery --max-restarts 100 \
                --allow-run-as-root -bind-to none ./random_walk 20 40 2";
    let words: Vec<&str> = line.split(' ').collect();
    assert_eq!(container["command"], json!(words));
    assert_eq!(container["workingDir"], "/usr/local/code");
    assert_eq!(container.get("resources"), None);
    assert_eq!(lowered(&seed()).slots, 3);
}

#[test]
fn slots_follow_mpiruns_own_words() {
    let slots =
        |words: Value| lowered(&with(|job| job["spec"]["worker"]["extraMPIArgs"] = words)).slots;
    assert_eq!(slots(json!([])), 1);
    assert_eq!(slots(json!(["--npernode", "4"])), 4);
    assert_eq!(slots(json!(["--map-by", "ppr:2:node"])), 2);
    assert_eq!(slots(json!(["-np", "12"])), 3);
}

#[test]
fn a10_one_worker_is_the_default() {
    let job = with(|job| {
        drop(
            job["spec"]["worker"]
                .as_object_mut()
                .unwrap()
                .remove("replicas"),
        )
    });
    assert_eq!(lowered(&job).worker_count(), 1);
}

#[test]
fn a12_keys_are_where_the_job_wants_them() {
    assert_eq!(lowered(&seed()).login_mut().ssh_mount_path, "/root/.ssh");
    let job = with(|job| job["spec"]["ssh"]["sshAuthMountPath"] = "/keys".into());
    assert_eq!(lowered(&job).login_mut().ssh_mount_path, "/keys");
}

#[test]
fn a13_a16_variables_of_the_container_reach_every_rank() {
    let job = with(|job| {
        job["spec"]["mca"]["pml"] = "ob1".into();
        job["spec"]["worker"]["template"]["spec"]["containers"][0]["env"] = json!([
            {"name": "NCCL_DEBUG", "value": "INFO"},
            {"name": "ENV_REFERENCED", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        ]);
    });
    let launcher = pod(&job, "mpi-example-launcher")["containers"][0].clone();
    let words = launcher["command"].as_array().expect("a command");
    let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
    let begin = [
        "/usr/local/bin/mpirun",
        "--mca",
        "btl",
        "^openib",
        "--mca",
        "pml",
        "ob1",
    ];
    assert_eq!(words[..7], begin);
    assert_eq!(words[7..11], ["-x", "NCCL_DEBUG", "-x", "ENV_REFERENCED"]);
    assert_eq!(launcher["env"][1]["valueFrom"]["secretKeyRef"]["name"], "s");
}

#[test]
fn a14_a15_resources_and_volumes_pass_through_to_workers() {
    let job = with(|job| {
        let spec = &mut job["spec"]["worker"]["template"]["spec"];
        spec["volumes"] =
            json!([{"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}]);
        spec["containers"][0]["volumeMounts"] = json!([{"name": "dshm", "mountPath": "/dev/shm"}]);
    });
    let worker = pod(&job, "mpi-example-worker-2");
    assert_eq!(
        worker["containers"][0]["resources"]["limits"]["cpu"],
        "100m"
    );
    assert_eq!(
        worker["containers"][0]["volumeMounts"][0]["mountPath"],
        "/dev/shm"
    );
    assert_eq!(worker["volumes"][0]["emptyDir"]["sizeLimit"], "1Gi");
}

#[test]
fn a33_the_other_shapes_give_the_same_pods() {
    let first = with(|job| {
        let worker = job["spec"]["worker"].as_object_mut().expect("a worker");
        worker.remove("extraMPIArgs");
        worker.insert("processesPerWorker".to_owned(), 3.into());
    });
    let third = with(|job| {
        let mut worker = job["spec"]["worker"]["template"].take();
        worker["spec"]["containers"][0]["name"] = "worker".into();
        job["spec"] = json!({
            "mpiConfig": {"mca": {"btl": "^openib"}, "home": "/usr/local",
                "extraArgs": ["--allow-run-as-root", "-N", "3"],
                "script": ["./random_walk", "20", "40", "2"]},
            "replicaSpecs": [
                {"type": "worker", "replicas": 5, "template": worker},
                {"type": "launcher", "replicas": 1, "template": {}},
            ],
            "ssh": {"sshdPath": "/usr/sbin/sshd"},
        });
    });
    let names = |job: &Value| {
        pods(job)
            .into_iter()
            .map(|(name, _)| name)
            .collect::<Vec<_>>()
    };
    let line = |job: &Value| pod(job, "mpi-example-launcher")["containers"][0]["command"].clone();
    assert_eq!(names(&first), names(&seed()));
    assert_eq!(names(&third), names(&seed()));
    assert_eq!(line(&first), line(&third));
    assert_eq!((lowered(&first).slots, lowered(&third).slots), (3, 3));
    let mixed = with(|job| job["spec"]["mpiConfig"] = json!({"script": ["x"]}));
    assert!(refused(&mixed).contains("spec.worker: Forbidden"));
}
