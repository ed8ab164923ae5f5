//! The real `kubectl` against the cluster in a value, served on a loopback socket: the verbs that
//! people use every day. `KUBECTL` names the program; without it, the one on the PATH is used.
#![expect(
    clippy::disallowed_methods,
    reason = "a test is a shell of its own: it has a clock, an environment and files"
)]

use std::io::Write as _;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use minicluster::kubelet::{Order, PodReport};
use minicluster::service::{LogStream, Shared};
use minicluster::{Cluster, Config, NodeConfig};
use tower_service::Service as _;

/// How long a timer of the cluster may be late: nobody computes when the next one is due here.
const LOOK: Duration = Duration::from_secs(1);
const DEFINITION: &str = include_str!("../../../deploy/crds/kubeflow.org_mpijobs.yaml");
const JOB: &str = "
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: pi}
spec:
  mpiReplicaSpecs:
    Launcher: {template: {spec: {containers: [{name: main, image: none, command: [mpirun]}]}}}
    Worker: {replicas: 2, template: {spec: {containers: [{name: main, image: none}]}}}
";
// Sent with apply: recent kubectls speak protobuf in `create configmap` and the like.
const OTHERS: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: c}
data: {a: b}
---
apiVersion: v1
kind: Namespace
metadata: {name: other}
---
apiVersion: batch/v1
kind: Job
metadata: {name: once}
spec:
  template:
    spec: {restartPolicy: Never, containers: [{name: main, image: none, command: ['true']}]}
";
const POD: &str = "
apiVersion: v1
kind: Pod
metadata: {name: talker, labels: {app: talk}}
spec:
  restartPolicy: Never
  containers: [{name: main, image: none, command: [echo, hello], env: [{name: A, value: '1'}]}]
";

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
    let logs =
        |_| -> LogStream { Box::pin(futures::stream::iter([bytes::Bytes::from("hello\n")])) };
    Shared::new(Cluster::new(config), Timestamp::now, logs)
}

/// A kubelet whose containers succeed at once.
async fn drive(shared: Shared) {
    loop {
        for order in shared.tick() {
            match order {
                Order::Place { pod, .. } => {
                    let ip = "127.0.1.1".to_owned();
                    shared.report(PodReport::Placed { pod, ip });
                }
                Order::Start { pod, container, .. } => {
                    let (of, named) = (pod.clone(), container.clone());
                    shared.report(PodReport::Started { pod, container });
                    shared.report(PodReport::Exited {
                        pod: of,
                        container: named,
                        code: 0,
                        signal: None,
                        message: String::new(),
                        oom: false,
                    });
                }
                Order::Stop { .. } | Order::Refresh { .. } | Order::Release { .. } => {}
            }
        }
        let pause = tokio::time::sleep(LOOK);
        tokio::select! {
            () = shared.changed() => {}
            () = pause => {}
        }
    }
}

async fn serve(shared: Shared) -> anyhow::Result<SocketAddr> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = shared.service();
            tokio::spawn(async move {
                let answer =
                    hyper::service::service_fn(move |request| service.clone().call(request));
                let server = hyper::server::conn::http1::Builder::new();
                drop(server.serve_connection(TokioIo::new(stream), answer).await);
            });
        }
    });
    Ok(address)
}

struct Kubectl {
    server: String,
    home: std::path::PathBuf,
}

impl Kubectl {
    /// What it prints; an error with all that it said when it fails.
    async fn run(&self, args: &str, input: &str) -> anyhow::Result<String> {
        let program = std::env::var_os("KUBECTL").unwrap_or_else(|| "kubectl".into());
        let mut command = Command::new(&program);
        command
            .arg(format!("--server={}", self.server))
            .arg("--request-timeout=60s")
            .args(args.split_whitespace())
            .env("HOME", &self.home)
            .env_remove("KUBECONFIG")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let input = input.as_bytes().to_vec();
        let output = tokio::task::spawn_blocking(move || {
            let mut child = command.spawn().with_context(|| {
                let program = program.display();
                format!("cannot start {program}: install kubectl or name it in KUBECTL")
            })?;
            let mut stdin = child.stdin.take().context("its input is piped")?;
            stdin.write_all(&input)?;
            drop(stdin);
            anyhow::Ok(child.wait_with_output()?)
        });
        let output = output.await??;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        ensure!(
            output.status.success(),
            "kubectl {args} failed\n{out}\n{err}"
        );
        Ok(format!("{out}{err}"))
    }

    async fn says(&self, args: &str, input: &str, expected: &[&str]) -> anyhow::Result<()> {
        let said = self.run(args, input).await?;
        for part in expected {
            ensure!(
                said.contains(part),
                "kubectl {args} does not say {part:?}:\n{said}"
            );
        }
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_works_with_it() -> anyhow::Result<()> {
    let shared = cluster();
    tokio::spawn(drive(shared.clone()));
    let address = serve(shared).await?;
    let home = std::env::temp_dir().join(format!("minicluster-kubectl-{}", std::process::id()));
    std::fs::create_dir_all(&home)?;
    let kubectl = Kubectl {
        server: format!("http://{address}"),
        home: home.clone(),
    };
    let done = every_verb(&kubectl).await;
    std::fs::remove_dir_all(&home)?;
    done
}

#[expect(clippy::too_many_lines, reason = "a script reads best in one piece")]
async fn every_verb(kubectl: &Kubectl) -> anyhow::Result<()> {
    kubectl.says("version", "", &["Server Version"]).await?;
    kubectl
        .says("api-resources", "", &["configmaps", "jobs", "leases"])
        .await?;
    kubectl
        .says("apply -f -", DEFINITION, &["mpijobs.kubeflow.org created"])
        .await?;
    kubectl
        .says(
            "wait --for=condition=Established crd/mpijobs.kubeflow.org --timeout=10s",
            "",
            &["condition met"],
        )
        .await?;
    kubectl
        .says("apply -f -", DEFINITION, &["unchanged"])
        .await?;

    kubectl
        .says("apply -f -", POD, &["pod/talker created"])
        .await?;
    kubectl
        .says(
            "wait --for=jsonpath={.status.phase}=Succeeded pod/talker --timeout=30s",
            "",
            &["condition met"],
        )
        .await?;
    kubectl
        .says("get pods", "", &["NAME", "talker", "0/1", "Completed"])
        .await?;
    kubectl
        .says("get pods -o wide", "", &["here", "127.0.1.1"])
        .await?;
    kubectl
        .says("get pod talker -o yaml", "", &["exitCode: 0"])
        .await?;
    kubectl
        .says(
            "describe pod talker",
            "",
            &["Node:", "Scheduled", "Exit Code:"],
        )
        .await?;
    kubectl.says("logs talker", "", &["hello"]).await?;
    let labelled = POD.replace("app: talk", "app: chat");
    kubectl
        .says("apply -f -", &labelled, &["configured"])
        .await?;
    kubectl
        .says("get pods -l app=chat -o name", "", &["pod/talker"])
        .await?;
    kubectl
        .says("label pod talker more=x", "", &["labeled"])
        .await?;
    kubectl
        .says("delete pod talker --timeout=30s", "", &["deleted"])
        .await?;

    kubectl
        .says("apply --server-side -f -", JOB, &["serverside-applied"])
        .await?;
    kubectl
        .says("get mpijobs", "", &["NAME", "STATE", "pi"])
        .await?;
    kubectl
        .says("describe mpijob pi", "", &["Mpi Replica Specs"])
        .await?;
    kubectl
        .says(
            "explain mpijob.spec.slotsPerWorker",
            "",
            &["slotsPerWorker"],
        )
        .await?;
    kubectl
        .says("explain pod.spec.containers.image", "", &["image"])
        .await?;
    kubectl
        .says(
            "patch mpijob pi --type=merge -p {\"spec\":{\"slotsPerWorker\":3}}",
            "",
            &["patched"],
        )
        .await?;
    kubectl
        .says(
            "get mpijob pi -o jsonpath={.spec.slotsPerWorker}",
            "",
            &["3"],
        )
        .await?;
    kubectl
        .says("delete mpijob pi --timeout=30s", "", &["deleted"])
        .await?;

    kubectl
        .says(
            "apply -f -",
            OTHERS,
            &["configmap/c created", "job.batch/once created"],
        )
        .await?;
    kubectl
        .says("get cm c -o jsonpath={.data.a}", "", &["b"])
        .await?;
    kubectl
        .says(
            "wait --for=condition=Complete job/once --timeout=30s",
            "",
            &["condition met"],
        )
        .await?;
    kubectl.says("get jobs", "", &["once", "1/1"]).await?;
    kubectl
        .says("delete job once --timeout=30s", "", &["deleted"])
        .await?;
    kubectl
        .says("delete namespace other --timeout=30s", "", &["deleted"])
        .await?;
    kubectl
        .says("get events", "", &["SuccessfulCreate"])
        .await?;
    kubectl.says("get all", "", &[]).await?;
    Ok(())
}
