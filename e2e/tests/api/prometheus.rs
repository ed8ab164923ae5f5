//! The metrics as others read them: who may, what a real Prometheus makes of them under the shipped configuration,
//! and whether the shipped alerts and the dashboard are about what is there.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use e2e::api_fixture::{ApiFixture, FAILED, SOON};
use e2e::flyte::program;
use e2e::jobs::MpiJob;
use e2e::operator::repository;
use e2e::scraper::{Prometheus, account, promtool, scrape};
use e2e::wait_for;
use serde_json::Value;

use super::fixture::new_fixture;

const PHASES: [&str; 5] = ["queue", "schedule", "start", "gate", "run"];

const DASHBOARD: &str = "deploy/monitoring/dashboard.json";
const PAGE: &str = "docs/reference/metrics.md";
const BIND: &str = "kubectl create clusterrolebinding ";

/// The account of a Prometheus that has its right by the page's command, and a token of it.
fn reader(fixture: &ApiFixture) -> Result<String> {
    let namespace = &fixture.namespace;
    let token = account(&fixture.api, namespace, "prometheus")?;
    let page = fs::read_to_string(repository().join(PAGE))?;
    let command = page.lines().find(|line| line.starts_with(BIND));
    let command = command.with_context(|| format!("{PAGE} does not say how"))?;
    let command = command
        .replace("prometheus-reads-muster", &format!("reads-{namespace}"))
        .replace("monitoring:", &format!("{namespace}:"));
    let words: Vec<&str> = command.split_whitespace().skip(1).collect();
    fixture.cluster.kubectl(&words)?;
    Ok(token)
}

/// Three jobs that run to their end, one of them badly.
fn run_three(fixture: &ApiFixture) -> Result<()> {
    for good in ["one", "two"] {
        fixture.submit(&MpiJob::named(good).workers(2))?;
        fixture.run(good, 2)?;
        fixture.finish(good)?;
        fixture.await_condition(good, "Succeeded")?;
    }
    let bad = MpiJob::named("three").workers(1).backoff_limit(0);
    fixture.submit(&bad.launcher_restart_policy("Never"))?;
    fixture.run("three", 1)?;
    let launcher = fixture.await_pods("three", "launcher", 1)?;
    fixture.set(&launcher, FAILED)?;
    fixture.await_condition("three", "Failed")?;
    Ok(())
}

#[test]
fn t14_metrics_are_for_those_who_may_get_them() -> Result<()> {
    let fixture = new_fixture("readers")?;
    let operator = fixture.operator()?;
    let port = operator.guarded_port();
    ensure!(scrape(port, None)?.0 == 401);
    ensure!(scrape(port, Some("a guess"))?.0 == 401);
    let stranger = account(&fixture.api, &fixture.namespace, "stranger")?;
    let (code, text) = scrape(port, Some(&stranger))?;
    ensure!(
        code == 403 && text.contains("muster-metrics-reader"),
        "{code}: {text}"
    );
    let token = reader(&fixture)?;
    let text = wait_for("the reader's right to be there", SOON, || {
        let (code, text) = scrape(port, Some(&token))?;
        Ok((code == 200).then_some(text))
    })?;
    ensure!(text.contains("\nmpi_operator_is_leader 1\n"), "{text}");
    Ok(())
}

#[test]
fn a_real_prometheus_counts_what_ran() -> Result<()> {
    let fixture = new_fixture("prometheus")?;
    let operator = fixture.operator()?;
    run_three(&fixture)?;
    let prometheus = Prometheus::start(
        &fixture.cluster,
        operator.guarded_port(),
        &reader(&fixture)?,
    )?;
    prometheus.await_number("up{job=\"muster\"}", 1.0)?;
    prometheus.await_number("mpi_operator_jobs_successful_total", 2.0)?;
    prometheus.await_number("mpi_operator_jobs_failed_total", 1.0)?;
    prometheus.await_number("sum(muster_jobs)", 3.0)?;
    for phase in PHASES {
        let count = format!("sum(muster_job_phase_seconds_count{{phase=\"{phase}\"}})");
        prometheus.await_number(&count, 3.0)?;
    }
    let failed = "muster_jobs_finished_total{result=\"failed\",reason=\"CommandFailed\"}";
    prometheus.await_number(failed, 1.0)?;
    let created =
        prometheus.query("muster_api_requests_total{verb=\"create\",resource=\"pods\"}")?;
    ensure!(
        created.iter().any(|(_, count)| *count >= 5.0),
        "{created:?}"
    );
    prometheus.await_number("muster_work_queue_depth", 0.0)?;

    let mut asked = 0;
    for expression in dashboard()? {
        let found = prometheus.query(&expression);
        found.with_context(|| format!("the dashboard asks for {expression}"))?;
        asked += 1;
    }
    ensure!(asked >= 18, "{asked} expressions");
    let firing = prometheus.query("ALERTS{alertstate=\"firing\"}")?;
    ensure!(firing.is_empty(), "{firing:?}");
    operator.assert_alive()
}

#[test]
fn promtool_finds_nothing_to_say() -> Result<()> {
    let fixture = new_fixture("promtool")?;
    let operator = fixture.operator()?;
    run_three(&fixture)?;
    let said = promtool(&["check", "metrics"], &operator.metrics()?)?;
    ensure!(said.trim().is_empty(), "{said}");
    promtool(&["check", "rules", "rules.yaml"], "")?;
    promtool(&["test", "rules", "rules-test.yaml"], "")?;
    Ok(())
}

/// What the types that Grafana publishes say about a dashboard: nothing if it is one.
fn grafana_says(file: &Path) -> Result<String> {
    let mut python = Command::new(program("MUSTER_E2E_GRAFANA")?);
    let check = repository().join("e2e/grafana/check.py");
    let output = python.arg(check).arg(file).output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(errors.is_empty(), "{errors}");
    let found = String::from_utf8(output.stdout)?;
    ensure!(output.status.success() == found.is_empty(), "{found}");
    Ok(found)
}

#[test]
fn the_dashboard_is_one_by_grafanas_own_types() -> Result<()> {
    let ours = repository().join(DASHBOARD);
    let said = grafana_says(&ours)?;
    ensure!(said.is_empty(), "{said}");
    // The judge is judged: a wrong name, a wrong word, a panel that does not exist.
    let text = fs::read_to_string(ours)?;
    for (right, wrong, complaint) in [
        (
            "\"expr\"",
            "\"exprs\"",
            ".targets[0].exprs is not Grafana's",
        ),
        ("\"never\"", "\"seldom\"", "'seldom' is not a "),
        (
            "\"stat\"",
            "\"number\"",
            "no panel of Grafana is called 'number'",
        ),
    ] {
        let file = format!("muster-dashboard-{}.json", std::process::id());
        let file = std::env::temp_dir().join(file);
        fs::write(&file, text.replace(right, wrong))?;
        let said = grafana_says(&file);
        fs::remove_file(&file)?;
        let said = said?;
        ensure!(said.contains(complaint), "{wrong}: {said}");
    }
    Ok(())
}

/// All expressions of the dashboard.
fn dashboard() -> Result<Vec<String>> {
    let text = fs::read_to_string(repository().join(DASHBOARD))?;
    let dashboard: Value = serde_json::from_str(&text)?;
    let panels = dashboard["panels"].as_array().context("no panels")?;
    let targets = panels
        .iter()
        .filter_map(|panel| panel["targets"].as_array());
    let expressions = targets.flatten().map(|target| target["expr"].as_str());
    let expressions: Option<Vec<&str>> = expressions.collect();
    let expressions = expressions.context("a query without an expression")?;
    Ok(expressions.into_iter().map(str::to_owned).collect())
}
