//! The real controller over the cluster in a value, with the shipped definitions and a kubelet
//! that follows a script: no process runs, and no API server.
#![expect(
    clippy::disallowed_methods,
    reason = "a test is a shell of its own: it has the clock that the crate has not"
)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context as _, bail};
use jiff::Timestamp;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use minicluster::kubelet::{Order, PodRef, Report};
use minicluster::service::{LogStream, Shared};
use minicluster::{Cluster, Config, NodeConfig};
use serde_json::{Value, json};

const DEFINITION: &str = include_str!("../../../deploy/crds/kubeflow.org_mpijobs.yaml");
const PATIENCE: Duration = Duration::from_secs(60);

fn cluster() -> Shared {
    let node = NodeConfig {
        name: "here".to_owned(),
        ip: "127.0.0.1".to_owned(),
        cpu: "8".to_owned(),
        memory: "16Gi".to_owned(),
        extended: Vec::new(),
        pods: 110,
    };
    let config = Config {
        node: Some(node),
        ..Config::default()
    };
    let logs = |_| -> LogStream { Box::pin(futures::stream::empty()) };
    Shared::new(Cluster::new(config), Timestamp::now, logs)
}

fn api(
    client: &kube::Client,
    group: &str,
    version: &str,
    kind: &str,
    plural: &str,
    namespaced: bool,
) -> Api<DynamicObject> {
    let resource = ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: if group.is_empty() {
            version.to_owned()
        } else {
            format!("{group}/{version}")
        },
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    };
    if namespaced {
        Api::namespaced_with(client.clone(), "default", &resource)
    } else {
        Api::all_with(client.clone(), &resource)
    }
}

fn jobs(client: &kube::Client) -> Api<DynamicObject> {
    api(client, "kubeflow.org", "v2beta1", "MPIJob", "mpijobs", true)
}

fn mpi_job(name: &str) -> Value {
    let template = |command: &str| json!({"spec": {"containers": [{"name": "main", "image": "none", "command": [command]}]}});
    json!({
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"mpiReplicaSpecs": {
            "Launcher": {"replicas": 1, "template": template("mpirun")},
            "Worker": {"replicas": 2, "template": template("sshd")},
        }},
    })
}

/// Starts whatever is ordered; containers end as the script says, or when they are stopped.
async fn drive(shared: Shared, ends: fn(&PodRef) -> Option<i32>, seen: Arc<Mutex<Vec<Order>>>) {
    let mut addresses = 0;
    loop {
        for order in shared.tick() {
            seen.lock()
                .expect("no test panics with the lock")
                .push(order.clone());
            let exited = |pod: PodRef, container: String, code: i32| Report::Exited {
                pod,
                container,
                code,
                signal: None,
                message: String::new(),
                oom: false,
            };
            match order {
                Order::Place { pod, .. } => {
                    addresses += 1;
                    let ip = format!("127.0.1.{addresses}");
                    shared.report(Report::Placed { pod, ip });
                }
                Order::Start {
                    pod,
                    container,
                    init,
                    ..
                } => {
                    shared.report(Report::Started {
                        pod: pod.clone(),
                        container: container.clone(),
                    });
                    let code = if init { Some(0) } else { ends(&pod) };
                    if let Some(code) = code {
                        shared.report(exited(pod, container, code));
                    }
                }
                Order::Stop { pod, container, .. } => shared.report(exited(pod, container, 143)),
                Order::Refresh { .. } | Order::Release { .. } => {}
            }
        }
        let wake = shared.with(|cluster, now| {
            let at = cluster.next_wake()?;
            Some(Duration::try_from(at.duration_since(now)).unwrap_or_default())
        });
        let wake = wake.unwrap_or(Duration::from_secs(3600));
        tokio::select! {
            () = shared.changed() => {}
            () = tokio::time::sleep(wake) => {}
        }
    }
}

async fn start(
    shared: &Shared,
    ends: fn(&PodRef) -> Option<i32>,
) -> anyhow::Result<(kube::Client, Arc<Mutex<Vec<Order>>>)> {
    let client = kube::Client::new(shared.service(), "default");
    let request = http::Request::post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
        .header("content-type", "application/yaml")
        .body(DEFINITION.as_bytes().to_vec())?;
    let answer = shared.handle(request);
    anyhow::ensure!(
        answer.status() == 201,
        "the definition was refused: {answer:?}"
    );
    let seen = Arc::new(Mutex::new(Vec::new()));
    tokio::spawn(drive(shared.clone(), ends, Arc::clone(&seen)));
    let scope = controller::Scope {
        site: Default::default(),
        namespace: None,
        concurrency: 2,
    };
    tokio::spawn(controller::operate(
        client.clone(),
        scope,
        std::future::pending(),
    ));
    Ok((client, seen))
}

fn is(job: &DynamicObject, kind: &str) -> bool {
    let conditions = job.data["status"]["conditions"].as_array();
    conditions
        .into_iter()
        .flatten()
        .any(|one| one["type"] == kind && one["status"] == "True")
}

async fn until(client: &kube::Client, name: &str, kind: &str) -> anyhow::Result<DynamicObject> {
    let wait = async {
        loop {
            let job = jobs(client).get(name).await?;
            if is(&job, kind) {
                return anyhow::Ok(job);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    match tokio::time::timeout(PATIENCE, wait).await {
        Ok(job) => job,
        Err(_) => bail!(
            "{name} is not {kind}: {}",
            jobs(client).get(name).await?.data
        ),
    }
}

#[tokio::test]
async fn a_job_runs_to_its_end() -> anyhow::Result<()> {
    let shared = cluster();
    let launcher_succeeds = |pod: &PodRef| pod.name.contains("launcher").then_some(0);
    let (client, seen) = start(&shared, launcher_succeeds).await?;
    let job = serde_json::from_value(mpi_job("pi"))?;
    jobs(&client).create(&PostParams::default(), &job).await?;
    let job = until(&client, "pi", "Succeeded").await?;
    assert!(!job.data["status"]["completionTime"].is_null());
    let workers =
        |order: &&Order| matches!(order, Order::Start { pod, .. } if pod.name.contains("worker"));
    let seen = seen.lock().expect("no test panics with the lock");
    assert_eq!(seen.iter().filter(workers).count(), 2);
    Ok(())
}

#[tokio::test]
async fn a_failing_launcher_fails_the_job() -> anyhow::Result<()> {
    let shared = cluster();
    let launcher_fails = |pod: &PodRef| pod.name.contains("launcher").then_some(3);
    let (client, _) = start(&shared, launcher_fails).await?;
    let mut job = mpi_job("bad");
    job["spec"]["runPolicy"] = json!({"backoffLimit": 0});
    job["spec"]["mpiReplicaSpecs"]["Launcher"]["restartPolicy"] = "Never".into();
    jobs(&client)
        .create(&PostParams::default(), &serde_json::from_value(job)?)
        .await?;
    until(&client, "bad", "Failed").await?;
    Ok(())
}

#[tokio::test]
async fn a_suspended_job_waits_and_goes_on() -> anyhow::Result<()> {
    let shared = cluster();
    let launcher_succeeds = |pod: &PodRef| pod.name.contains("launcher").then_some(0);
    let (client, seen) = start(&shared, launcher_succeeds).await?;
    let mut job = mpi_job("later");
    job["spec"]["runPolicy"] = json!({"suspend": true});
    jobs(&client)
        .create(&PostParams::default(), &serde_json::from_value(job)?)
        .await?;
    until(&client, "later", "Suspended").await?;
    assert!(
        seen.lock()
            .expect("no test panics with the lock")
            .is_empty()
    );
    let resume = json!({"spec": {"runPolicy": {"suspend": false}}});
    jobs(&client)
        .patch("later", &PatchParams::default(), &Patch::Merge(resume))
        .await
        .context("resuming")?;
    until(&client, "later", "Succeeded").await?;
    Ok(())
}
