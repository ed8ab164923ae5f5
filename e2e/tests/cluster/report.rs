//! Reports of real jobs, in a real browser: one that went well, one that failed, one that recovered, and one whose last
//! worker was late. Then of one that has nothing left but its status.

#[path = "../../../crates/cli/tests/local/browser.rs"]
#[expect(dead_code, reason = "each test target uses its own part")]
mod browser;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use browser::Browser;
use e2e::cluster_fixture::ClusterFixture;
use e2e::cluster_fixture::agent::{self, MISBEHAVE};
use e2e::cluster_fixture::pi::Mpi;
use e2e::jobs::MpiJob;
use serde_json::{Value, json};

use crate::with_cluster;

const MPI: Mpi = Mpi::OpenMpi4;
const WORKERS: u32 = 3;
/// What is wrong with the bars of a page.
const BARS: &str = include_str!("../../../crates/cli/tests/local/bars.js");
/// Seconds by which one worker is late.
const LATE_SECS: i64 = 12;

#[test]
fn reports_of_real_jobs_show_what_happened() -> Result<()> {
    with_cluster("report", |fixture| {
        let good = fixture.submit(&job("good", "exec mpirun -n 3 {} 2 wait"))?;
        let failed = fixture.submit(&job("failed", "exec mpirun -n 3 {} 2 exit"))?;
        let again =
            "[ $MUSTER_ATTEMPT -gt 1 ] && exec mpirun -n 3 {} 2 wait; exec mpirun -n 3 {} 2 kill";
        let recovered =
            job("recovered", again).with("/spec/muster/recovery", json!({"restarts": 1}));
        let recovered = fixture.submit(&recovered)?;
        let late = format!("case $(hostname) in *-2) sleep {LATE_SECS};; esac");
        let late = json!([{"name": "late", "image": agent::image(MPI), "imagePullPolicy": "Never",
            "command": ["sh", "-c", late]}]);
        let slow = job("slow", "exec mpirun -n 3 {} 2 wait").with(
            "/spec/mpiReplicaSpecs/Worker/template/spec/initContainers",
            late,
        );
        let slow = fixture.submit(&slow)?;
        good.succeeded()?;
        failed.failed()?;
        recovered.succeeded()?;
        slow.succeeded()?;

        let desk = Desk::new(fixture)?;
        let mut browser = Browser::start(&desk.directory);
        browser.go_offline();
        for (name, words) in [
            ("good", "good succeeded in"),
            ("failed", "rank 2 on worker failed-worker-2"),
            ("recovered", "attempt 2 succeeded"),
            ("slow", "slow succeeded in"),
        ] {
            let page = desk.report(name)?;
            looks_right(&mut browser, &page)?;
            let text = browser.text("document.body.innerText");
            ensure!(text.contains(words), "{name}: no `{words}` in {text}");
        }
        let attempts = &desk.data("recovered")?["attempts"];
        ensure!(attempts[0]["reason"] == "RankKilled", "{attempts:#}");
        let late = desk.data("slow")?;
        let starting = |index: u32| seconds(&late, &format!("slow-worker-{index}"), "Starting");
        let started = [starting(0), starting(1), starting(2)];
        ensure!(
            started[2] >= LATE_SECS && started[0] < started[2] && started[1] < started[2],
            "{started:?}"
        );
        let census = &desk.data("good")?["census"];
        ensure!(
            census["ranks"] == WORKERS && census["hosts"] == WORKERS,
            "{census:#}"
        );

        // Its pods, its logs and its events are gone; the verdict stays.
        for what in ["pods", "jobs", "events"] {
            fixture
                .cluster
                .kubectl(&["delete", what, "--all", "-n", &fixture.namespace])?;
        }
        let page = desk.report("failed")?;
        looks_right(&mut browser, &page)?;
        let text = browser.text("document.body.innerText");
        ensure!(text.contains("rank 2 on worker failed-worker-2"), "{text}");
        ensure!(
            browser.complaints().is_empty(),
            "{:?}",
            browser.complaints()
        );
        Ok(())
    })
}

/// A job whose launcher runs a script; `{}` stands for the program that goes wrong.
fn job(name: &str, script: &str) -> MpiJob {
    agent::job(
        MPI,
        WORKERS,
        &["sh", "-c", &script.replace("{}", MISBEHAVE)],
    )
    .with("/metadata/name", name)
    .launcher_restart_policy("Never")
    .clean_pod_policy("None")
}

fn looks_right(browser: &mut Browser, page: &Path) -> Result<()> {
    browser.open(&format!("file://{}", page.display()));
    for width in [360, 1_920] {
        browser.width(width);
        let faults = browser.value(BARS);
        ensure!(
            faults == json!([]),
            "{} at {width} px: {faults}",
            page.display()
        );
    }
    let faults = browser.faults();
    ensure!(faults.is_empty(), "{}: {faults:?}", page.display());
    Ok(())
}

/// Seconds that a pod spent in a phase.
fn seconds(report: &Value, pod: &str, phase: &str) -> i64 {
    let rows = report["timeline"]["rows"].as_array().into_iter().flatten();
    let spans = rows
        .filter(|row| row["pod"] == pod)
        .flat_map(|row| row["phases"].as_array().into_iter().flatten());
    let spans = spans.filter(|span| span["phase"] == phase);
    spans.filter_map(|span| span["seconds"].as_i64()).sum()
}

/// Where the reports are written; removed when the test has ended.
struct Desk<'a> {
    fixture: &'a ClusterFixture,
    directory: PathBuf,
    muster: PathBuf,
}

impl<'a> Desk<'a> {
    fn new(fixture: &'a ClusterFixture) -> Result<Self> {
        let muster = std::env::var_os("MUSTER_E2E_CLI");
        let muster = muster
            .context("MUSTER_E2E_CLI names muster; `cargo xtask test --only cluster` sets it")?;
        let directory = std::env::temp_dir().join(&fixture.namespace);
        std::fs::create_dir_all(&directory)?;
        Ok(Self {
            fixture,
            directory,
            muster: muster.into(),
        })
    }

    fn muster(&self, name: &str, output: &str) -> Result<Vec<u8>> {
        let made = Command::new(&self.muster)
            .args([
                "report",
                name,
                "-n",
                &self.fixture.namespace,
                "-o",
                output,
                "--kubeconfig",
            ])
            .arg(self.fixture.cluster.kubeconfig())
            .env("HOME", &self.directory)
            .output()?;
        ensure!(
            made.status.success(),
            "{name}: {}",
            String::from_utf8_lossy(&made.stderr)
        );
        Ok(made.stdout)
    }

    fn report(&self, name: &str) -> Result<PathBuf> {
        let page = self.directory.join(format!("{name}.html"));
        self.muster(name, &page.display().to_string())?;
        Ok(page)
    }

    fn data(&self, name: &str) -> Result<Value> {
        Ok(serde_json::from_slice(&self.muster(name, "json")?)?)
    }
}

impl Drop for Desk<'_> {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
