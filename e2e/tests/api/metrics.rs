//! The numbers that dashboards of the Kubeflow operator read, and the answer that probes get.

use anyhow::{Context, Result, ensure};
use e2e::api_fixture::{FAILED, PodState};
use e2e::jobs::MpiJob;
use e2e::operator::Operator;
use e2e::{api_fixture::SOON, wait_for};

use serde_json::json;

use super::fixture::new_fixture;

/// The value of a series without labels.
fn number(operator: &Operator, series: &str) -> Result<f64> {
    let text = operator.metrics()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.with_context(|| format!("{series} is not in\n{text}"))?
        .parse()
        .context("no number")
}

/// The five that dashboards know, and no other of their name.
fn assert_five_families(text: &str) -> Result<()> {
    for (series, kind) in [
        ("mpi_operator_jobs_created_total", "counter"),
        ("mpi_operator_jobs_successful_total", "counter"),
        ("mpi_operator_jobs_failed_total", "counter"),
        ("mpi_operator_job_info", "gauge"),
        ("mpi_operator_is_leader", "gauge"),
    ] {
        let line = format!("# TYPE {series} {kind}");
        ensure!(
            text.lines().any(|found| found == line),
            "{line} is not in\n{text}"
        );
    }
    let families: std::collections::BTreeSet<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE mpi_operator_")?.split(' ').next())
        .collect();
    ensure!(
        families.len() == 5,
        "more than the five that dashboards know: {families:?}"
    );
    Ok(())
}

#[test]
fn each_job_is_counted_once_under_the_names_that_dashboards_know() -> Result<()> {
    let fixture = new_fixture("metrics")?;
    let operator = fixture.operator()?;
    ensure!(operator.health("/healthz")? == (200, "ok".to_owned()));
    for series in [
        "jobs_created_total",
        "jobs_successful_total",
        "jobs_failed_total",
    ] {
        ensure!(
            number(&operator, &format!("mpi_operator_{series}"))? == 0.0,
            "{series}"
        );
    }
    ensure!(number(&operator, "mpi_operator_is_leader")? == 1.0);

    for good in ["one", "two"] {
        fixture.submit(&MpiJob::named(good).workers(1))?;
        fixture.run(good, 1)?;
        fixture.finish(good)?;
        fixture.await_condition(good, "Succeeded")?;
    }
    let bad = MpiJob::named("three")
        .workers(1)
        .backoff_limit(0)
        .launcher_restart_policy("Never");
    fixture.submit(&bad)?;
    fixture.run("three", 1)?;
    let launcher = fixture.await_pods("three", "launcher", 1)?;
    fixture.set(&launcher, FAILED)?;
    fixture.await_condition("three", "Failed")?;
    // Whatever happens to a job that is over, it is over only once.
    let workers = fixture.await_pods("one", "worker", 1)?;
    fixture.set(&workers, PodState::Succeeded)?;
    let edited = fixture.edit("one", &json!({"spec": {"slotsPerWorker": 2}}))?;
    fixture.await_job("one", "its edited spec to be seen", SOON, |job| {
        job["status"]["observedGeneration"] == edited["metadata"]["generation"]
    })?;

    wait_for("three jobs to be counted", SOON, || {
        Ok((number(&operator, "mpi_operator_jobs_failed_total")? == 1.0).then_some(()))
    })?;
    ensure!(number(&operator, "mpi_operator_jobs_created_total")? == 3.0);
    ensure!(number(&operator, "mpi_operator_jobs_successful_total")? == 2.0);
    let text = operator.metrics()?;
    for job in ["one", "two", "three"] {
        let info = format!(
            "mpi_operator_job_info{{launcher=\"{job}-launcher\",namespace=\"{}\"}} 1",
            fixture.namespace
        );
        ensure!(
            text.lines().any(|line| line == info),
            "{info} is not in\n{text}"
        );
    }
    assert_five_families(&text)?;
    ensure!(operator.health("/healthz")?.0 == 200);

    fixture.api.delete(&fixture.path("mpijobs", "two"))?;
    wait_for("the series of a deleted job to go", SOON, || {
        Ok((!operator.metrics()?.contains("\"two-launcher\"")).then_some(()))
    })
}
