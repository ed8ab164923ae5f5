//! `model`: what the cluster in a value costs on one thread: ten thousand pods listed, watched and
//! brought to their node, and simple requests beside them. Everything is in this process.

use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use jiff::Timestamp;
use minicluster::kubelet::Order;
use minicluster::{Answer, Cluster, Config, Next, NodeConfig};
use serde_json::{Value, json};

use crate::results;

const PODS: usize = 10_000;
const REQUESTS: usize = 100_000;
const ONCE_MS_MAX: f64 = 1500.0;
const PER_SECOND_MIN: f64 = 20_000.0;
const PATH: &str = "/api/v1/namespaces/default/pods";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Whole runs, each with a cluster of its own
    #[arg(long, default_value_t = 5)]
    runs: u16,
}

/// Milliseconds of one run, and requests each second.
struct Sample {
    create: f64,
    list: f64,
    watch: f64,
    reconcile: f64,
    per_second: f64,
}

impl Sample {
    fn once(&self) -> f64 {
        self.list + self.watch + self.reconcile
    }

    fn to_json(&self) -> Value {
        json!({
            "createMs": self.create, "listMs": self.list, "watchMs": self.watch,
            "reconcileMs": self.reconcile, "requestsPerSecond": self.per_second.round(),
        })
    }
}

/// Prints, keeps and judges the numbers.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    ensure!(
        !cfg!(debug_assertions),
        "measured is what ships: cargo run --release -p bench -- model"
    );
    let machine = results::machine();
    let samples = (0..arguments.runs).map(|_| sample());
    let samples = samples.collect::<Result<Vec<Sample>>>()?;
    let middle = |of: fn(&Sample) -> f64| {
        let values: Vec<f64> = samples.iter().map(of).collect();
        results::median(&values)
    };
    let (once, per_second) = (middle(Sample::once), middle(|one| one.per_second));
    let parts = [
        middle(|one| one.list),
        middle(|one| one.watch),
        middle(|one| one.reconcile),
    ];
    println!(
        "{PODS} pods: listed {:.0} ms, watched {:.0} ms, reconciled {:.0} ms: {once:.0} ms",
        parts[0], parts[1], parts[2]
    );
    println!(
        "made in {:.0} ms; {per_second:.0} reads of one pod each second",
        middle(|one| one.create)
    );
    let rows: Vec<Value> = samples.iter().map(Sample::to_json).collect();
    let result = json!({
        "date": results::today(), "machine": machine, "pods": PODS, "requests": REQUESTS,
        "runs": rows,
    });
    results::write("model", &result)?;
    let cells = format!(
        "{:.0} + {:.0} + {:.0} = {once:.0} | {per_second:.0} |",
        parts[0], parts[1], parts[2]
    );
    results::add_row("model", &results::row(&machine, &cells))?;
    results::judge(&[("ms for all pods once", once, ONCE_MS_MAX)])?;
    ensure!(
        per_second >= PER_SECOND_MIN,
        "{per_second:.0} requests each second; at least {PER_SECOND_MIN} are wanted"
    );
    Ok(())
}

fn sample() -> Result<Sample> {
    let mut cluster = cluster();
    let now = Timestamp::now();
    let (create, ()) = timed(|| {
        for number in 0..PODS {
            let pod = pod(number);
            ask(&mut cluster, now, "POST", PATH, serde_json::to_vec(&pod)?)?;
        }
        Ok(())
    })?;
    let (list, listed) = timed(|| ask(&mut cluster, now, "GET", PATH, Vec::new()))?;
    ensure!(
        count(&listed, b"\"uid\":") == PODS,
        "not all pods were listed"
    );
    let (watch, watched) = timed(|| watch(&mut cluster, now))?;
    ensure!(watched == PODS, "{watched} pods were watched");
    let (reconcile, placed) = timed(|| {
        let orders = cluster.tick(now);
        let place = |order: &&Order| matches!(order, Order::Place { .. });
        Ok(orders.iter().filter(place).count())
    })?;
    ensure!(placed == PODS, "{placed} pods were brought to their node");
    let (requests, ()) = timed(|| {
        for number in 0..REQUESTS {
            // A stride that is prime to their number meets them all.
            let path = format!("{PATH}/pod-{}", number * 7919 % PODS);
            ask(&mut cluster, now, "GET", &path, Vec::new())?;
        }
        Ok(())
    })?;
    Ok(Sample {
        create,
        list,
        watch,
        reconcile,
        per_second: REQUESTS as f64 / (requests / 1e3),
    })
}

fn cluster() -> Cluster {
    Cluster::new(Config {
        node: Some(NodeConfig {
            name: "here".to_owned(),
            ip: "127.0.0.1".to_owned(),
            cpu: "100000".to_owned(),
            memory: "100000Gi".to_owned(),
            extended: Vec::new(),
            pods: 100_000,
        }),
        ..Config::default()
    })
}

/// Like a worker of ours: labels, resources, a probe and a volume.
fn pod(number: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("pod-{number}"),
            "labels": {"training.kubeflow.org/job-name": format!("job-{}", number / 16), "role": "worker"},
        },
        "spec": {
            "restartPolicy": "Never",
            "volumes": [{"name": "config", "configMap": {"name": "job-config"}}],
            "containers": [{
                "name": "worker", "image": "registry.example/train:1", "command": ["muster-agent", "serve"],
                "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
                "volumeMounts": [{"name": "config", "mountPath": "/etc/mpi"}],
                "readinessProbe": {"tcpSocket": {"port": 7077}, "periodSeconds": 1},
            }],
        },
    })
}

/// A watch from the beginning, as far as it has anything to say.
fn watch(cluster: &mut Cluster, now: Timestamp) -> Result<usize> {
    let path = format!(
        "{PATH}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    );
    let request = http::Request::get(path).body(Vec::new())?;
    let Answer::Watch(mut watch) = cluster.handle(now, request) else {
        bail!("a watch was refused");
    };
    let mut seen = 0;
    while let Next::Lines(lines) = cluster.follow(now, &mut watch) {
        seen += count(&lines, b"\"ADDED\"");
    }
    Ok(seen)
}

fn ask(
    cluster: &mut Cluster,
    now: Timestamp,
    method: &str,
    path: &str,
    body: Vec<u8>,
) -> Result<Vec<u8>> {
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", "application/json")
        .body(body)?;
    let Answer::Whole(answer) = cluster.handle(now, request) else {
        bail!("{path} is not answered at once");
    };
    ensure!(answer.status().is_success(), "{path}: {}", answer.status());
    Ok(answer.into_body())
}

fn count(bytes: &[u8], word: &[u8]) -> usize {
    let starts = bytes.windows(word.len());
    starts.filter(|part| *part == word).count()
}

fn timed<T>(work: impl FnOnce() -> Result<T>) -> Result<(f64, T)> {
    let begun = Instant::now();
    let done = work().context("a run failed")?;
    Ok((results::rounded(begun.elapsed().as_secs_f64() * 1e3), done))
}
