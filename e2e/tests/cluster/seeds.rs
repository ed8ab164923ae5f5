//! The manifests that the manuals of other operators begin with: what `examples/seeds` has is theirs
//! word for word but for the image, and ends as they say. Flyte's is in `flyte.rs`.

use std::fs;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use e2e::cluster_fixture::{PATIENCE, repository};
use e2e::{condition, wait_for};
use serde_json::json;

use crate::kubeflow_guide::give_gpus;
use crate::t9k::{self, T9k};
use crate::with_cluster;

/// A file, what it begins with, the image that the manual has, and the SHA-256 of the manual's text.
const SEEDS: [(&str, &str, &str, &str); 3] = [
    (
        "mpi-example.yaml",
        "apiVersion:",
        "t9kpublic/mpi-tutorial:2021022-2",
        "cce8ccc83c579320ff6e3c08bb0c15c87260c8c007ebda00f8655ba41080210d",
    ),
    (
        "tensorflow-benchmarks.yaml",
        "apiVersion:",
        "mpioperator/tensorflow-benchmarks:latest",
        "841ee622f930f4871732318e7de8b2bc99dfb91e3f6f9fce80f4ecdb3a088fbc",
    ),
    (
        "mpi_task.py",
        "@task(",
        "",
        "fc743338ca5953ce7d63f13ae5cb3f108a22eaa5819b6d36b48d75f1ca52adfb",
    ),
];

#[test]
fn the_seeds_are_the_manuals_own_words() -> Result<()> {
    for (file, begins, image, digest) in SEEDS {
        let path = repository().join("examples/seeds").join(file);
        let text = fs::read_to_string(&path).with_context(|| format!("reading {file}"))?;
        let begin = text.find(begins).context("it does not begin so")?;
        let end = text.find("def mpi_task").unwrap_or(text.len());
        let words = text[begin..end].replace("muster.test/seeds:1", image);
        let found = sha256(&words)?;
        ensure!(found == digest, "{file} says something else: {found}");
    }
    Ok(())
}

fn sha256(text: &str) -> Result<String> {
    let mut child = Command::new("sha256sum")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("starting sha256sum")?;
    let mut input = child.stdin.take().expect("its input was piped");
    std::io::Write::write_all(&mut input, text.as_bytes())?;
    drop(input);
    let output = child.wait_with_output()?;
    let said = String::from_utf8(output.stdout)?;
    Ok(said.split(' ').next().unwrap_or_default().to_owned())
}

#[test]
fn the_benchmark_of_kubeflows_guide_ends_as_the_guide_says() -> Result<()> {
    with_cluster("seed-kubeflow", |fixture| {
        give_gpus(fixture)?;
        let job = fixture.submit_example("seeds/tensorflow-benchmarks")?;
        job.succeeded_on(2, &["tensorflow-benchmarks-worker-0"])?;
        let output = job.output()?;
        let called = "called as scripts/tf_cnn_benchmarks/tf_cnn_benchmarks.py --model=resnet101 \
                      --batch_size=64 --variable_update=horovod";
        ensure!(output.text.contains(called), "{}", output.text);
        ensure!(output.text.contains("NCCL_DEBUG=INFO"), "{}", output.text);
        let status = job.get()?;
        for (kind, holds) in [
            ("Created", "True"),
            ("Running", "False"),
            ("Succeeded", "True"),
        ] {
            ensure!(
                condition(&status, kind) == Some(holds),
                "{kind} is not {holds}"
            );
        }
        let replicas = json!({"Launcher": {"succeeded": 1}, "Worker": {}});
        ensure!(status["status"]["replicaStatuses"] == replicas);
        Ok(())
    })
}

/// Lines 1, 2, 4 to 9, 11, 17, 26 to 28, 30 and 31 of T9k's list.
#[test]
fn the_random_walk_of_t9ks_manual_ends_as_the_manual_says() -> Result<()> {
    with_cluster("seed-t9k", |fixture| {
        let file = repository().join("examples/seeds/mpi-example.yaml");
        let file = file.to_str().context("the repository's path is not text")?;
        fixture
            .cluster
            .kubectl(&["apply", "-n", &fixture.namespace, "--filename", file])?;
        let job = T9k::named(fixture, "mpi-example");
        let (phases, workers) = job.followed_to_its_end()?;
        ensure!(phases == ["Pending", "Running", "Succeeded"], "{phases:?}");
        let names: Vec<String> = (0..5).map(|i| format!("mpi-example-worker-{i}")).collect();
        ensure!(workers == names, "{workers:?}");

        let text = fixture.log("mpi-example-launcher")?.text;
        for name in &names {
            let ranks = text
                .lines()
                .filter(|line| line.ends_with(&format!(" of 15 on {name}")));
            ensure!(ranks.count() == 3, "not 3 ranks on {name}:\n{text}");
        }
        ensure!(text.contains("all 30 walkers arrived"), "{text}");
        let launcher = fixture.pod("mpi-example-launcher")?;
        ensure!(launcher["spec"]["schedulerName"] == "default-scheduler");
        let command = &launcher["spec"]["containers"][0];
        let words = format!("{} {}", command["command"], command["args"]);
        for words_in_order in [
            r#""/usr/local/bin/mpirun""#,
            r#""--mca","btl","^openib""#,
            r#""-N","3","--enable-recovery","--max-restarts","100","--allow-run-as-root","-bind-to","none""#,
            r#""./random_walk","20","40","2""#,
        ] {
            ensure!(
                words.contains(words_in_order),
                "no {words_in_order} in {words}"
            );
        }

        // The status counts a pod as deleted from the moment it is being deleted.
        t9k::await_deleted(&job, 5)?;
        let left = wait_for("the workers to go", PATIENCE, || {
            let left = fixture.leftovers()?;
            let gone = !left.iter().any(|name| name.contains("-worker-"));
            Ok(gone.then_some(left))
        })?;
        ensure!(
            left.contains(&"pod/mpi-example-launcher".to_owned()),
            "{left:?}"
        );
        let status = job.get()?["status"].take();
        let tasks = &status["tasks"];
        ensure!(
            tasks[0]["type"] == "launcher" && tasks[1]["type"] == "worker",
            "{tasks}"
        );
        ensure!(tasks[0]["status"][0]["phase"] == "Succeeded", "{tasks}");
        ensure!(
            tasks[1]["status"][4]["name"] == "mpi-example-worker-4",
            "{tasks}"
        );
        let aggregate = json!({"creating": 0, "deleted": 5, "failed": 0, "pending": 0,
            "running": 0, "succeeded": 1, "unknown": 0});
        ensure!(status["aggregate"] == aggregate, "{}", status["aggregate"]);
        Ok(())
    })
}
