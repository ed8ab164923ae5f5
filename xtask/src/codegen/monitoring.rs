//! What is made for those who watch the operator: the alerts as the Prometheus operator reads them, and a dashboard
//! for Grafana. Decides what the dashboard shows. The alerts are written in deploy/monitoring/rules.yaml.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

/// Both are in deploy/.
pub(crate) const RULES: &str = "monitoring/prometheus-rule.yaml";
pub(crate) const DASHBOARD: &str = "monitoring/dashboard.json";
const SOURCE: &str = "monitoring/rules.yaml";

const RULES_HEAD: &str = "\
# Written by `cargo xtask codegen` from rules.yaml; do not edit.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: muster
  namespace: muster-system
  labels:
    app.kubernetes.io/name: muster
    app.kubernetes.io/instance: muster
spec:
";

/// The alerts as an object of the Prometheus operator.
pub(crate) fn rules(deploy: &Path) -> Result<String> {
    let path = deploy.join(SOURCE);
    let text = std::fs::read_to_string(&path);
    let text = text.with_context(|| format!("cannot read {}", path.display()))?;
    let lines = text.lines().skip_while(|line| *line != "groups:");
    let lines = lines.map(|line| match line {
        "" => "\n".to_owned(),
        line => format!("  {line}\n"),
    });
    Ok(RULES_HEAD.to_owned() + &lines.collect::<String>())
}

/// One picture of the dashboard.
struct Panel {
    title: &'static str,
    /// What it means, or what to do.
    about: &'static str,
    shape: Shape,
    unit: &'static str,
    /// Each with the name of its lines.
    queries: &'static [(&'static str, &'static str)],
}

/// What a panel looks like.
#[derive(Clone, Copy)]
enum Shape {
    Number,
    Lines,
    Stack,
    /// A line for each job, with a link to its page.
    Jobs,
}

const fn panel(
    title: &'static str,
    about: &'static str,
    shape: Shape,
    unit: &'static str,
    queries: &'static [(&'static str, &'static str)],
) -> Panel {
    Panel {
        title,
        about,
        shape,
        unit,
        queries,
    }
}

/// Rows, from what concerns users to what concerns administrators.
const ROWS: &[(&str, &[Panel])] = &[
    ("Now", NOW),
    ("How jobs start", START),
    ("How jobs end", ENDS),
    ("The operator", OPERATOR),
];

const NOW: &[Panel] = &[
    panel(
        "Jobs by phase",
        "`kubectl mpi get --all-namespaces` lists them.",
        Shape::Stack,
        "short",
        &[("sum by (state) (muster_jobs)", "{{state}}")],
    ),
    panel(
        "Jobs that do not get on, by reason",
        "`kubectl mpi why JOB` says more of one job; docs/reference/reasons.md of all reasons.",
        Shape::Stack,
        "short",
        &[("sum by (reason) (muster_jobs_waiting)", "{{reason}}")],
    ),
    panel(
        "Workers",
        "Wanted and not ready: workers that hold back their job, and the nodes of those that are ready.",
        Shape::Lines,
        "short",
        &[("sum by (state) (muster_workers)", "{{state}}")],
    ),
    panel(
        "Operators that lead",
        "One, always.",
        Shape::Number,
        "short",
        &[("sum(mpi_operator_is_leader)", "leaders")],
    ),
    panel(
        "Jobs with a launcher",
        "Set the variable `Address of muster ui`, for example to http://127.0.0.1:8080, and each job has a link to \
         its page. Without it there are no links.",
        Shape::Jobs,
        "short",
        &[(JOBS, "")],
    ),
];

/// The name of the job is that of its launcher without the last part. Where the variable is no address, the label
/// `page` is not set.
const JOBS: &str = "label_replace(label_join(label_replace(label_replace(mpi_operator_job_info, \"job\", \"$1\", \
    \"launcher\", \"(.+)-[a-z]+\"), \"base\", \"${ui}/find\", \"\", \"\"), \"path\", \"/\", \"base\", \"namespace\", \"job\"), \
    \"page\", \"$1\", \"path\", \"(https?://.+)\")";

const START: &[Panel] = &[
    panel(
        "Parts of the life, median",
        "Of jobs that ended: queue until the first pod, schedule until the last worker has a node, start until its \
         containers run (images are pulled here), gate until the launcher's program starts.",
        Shape::Lines,
        "s",
        &[(
            "histogram_quantile(0.5, sum by (phase, le) (rate(muster_job_phase_seconds_bucket{phase!=\"run\"}[1h])))",
            "{{phase}}",
        )],
    ),
    panel(
        "Parts of the life, the slowest of twenty",
        "The same, 95th percentile.",
        Shape::Lines,
        "s",
        &[(
            "histogram_quantile(0.95, sum by (phase, le) (rate(muster_job_phase_seconds_bucket{phase!=\"run\"}[1h])))",
            "{{phase}}",
        )],
    ),
    panel(
        "Where the time goes",
        "Seconds of jobs' lives per second, without their programs.",
        Shape::Stack,
        "s",
        &[(
            "sum by (phase) (rate(muster_job_phase_seconds_sum{phase!=\"run\"}[1h]))",
            "{{phase}}",
        )],
    ),
    panel(
        "How long programs ran",
        "Median and 95th percentile.",
        Shape::Lines,
        "s",
        &[
            (
                "histogram_quantile(0.5, sum by (le) (rate(muster_job_phase_seconds_bucket{phase=\"run\"}[1h])))",
                "median",
            ),
            (
                "histogram_quantile(0.95, sum by (le) (rate(muster_job_phase_seconds_bucket{phase=\"run\"}[1h])))",
                "95 %",
            ),
        ],
    ),
];

const ENDS: &[Panel] = &[
    panel(
        "Jobs that succeeded, of those that ended",
        "In the last 24 hours.",
        Shape::Number,
        "percentunit",
        &[(
            "sum(increase(mpi_operator_jobs_successful_total[24h])) / (sum(increase(mpi_operator_jobs_successful_total[24h])) + sum(increase(mpi_operator_jobs_failed_total[24h])))",
            "succeeded",
        )],
    ),
    panel(
        "Jobs an hour",
        "Created, and ended well or badly.",
        Shape::Lines,
        "short",
        &[
            (
                "3600 * sum(rate(mpi_operator_jobs_created_total[1h]))",
                "created",
            ),
            (
                "3600 * sum by (result) (rate(muster_jobs_finished_total[1h]))",
                "{{result}}",
            ),
        ],
    ),
    panel(
        "Failures an hour, by reason",
        "docs/reference/reasons.md says who can do what about each.",
        Shape::Stack,
        "short",
        &[(
            "3600 * sum by (reason) (rate(muster_jobs_finished_total{result=\"failed\"}[1h]))",
            "{{reason}}",
        )],
    ),
    panel(
        "Jobs an hour, by API",
        "Which of the APIs people use.",
        Shape::Stack,
        "short",
        &[(
            "3600 * sum by (dialect) (rate(muster_jobs_finished_total[1h]))",
            "{{dialect}}",
        )],
    ),
];

const OPERATOR: &[Panel] = &[
    panel(
        "Jobs that wait for a pass",
        "Of which something changed that the operator has not looked at.",
        Shape::Lines,
        "short",
        &[(
            "sum by (operator_pod) (muster_work_queue_depth)",
            "{{operator_pod}}",
        )],
    ),
    panel(
        "How long changes wait, and passes take",
        "99th percentile.",
        Shape::Lines,
        "s",
        &[
            (
                "histogram_quantile(0.99, sum by (le) (rate(muster_work_queue_seconds_bucket[5m])))",
                "wait",
            ),
            (
                "histogram_quantile(0.99, sum by (le) (rate(muster_reconcile_seconds_bucket[5m])))",
                "pass",
            ),
        ],
    ),
    panel(
        "Requests to the API server",
        "By verb; watches are not among them.",
        Shape::Stack,
        "reqps",
        &[(
            "sum by (verb) (rate(muster_api_requests_total[5m]))",
            "{{verb}}",
        )],
    ),
    panel(
        "Requests that failed",
        "429: the API server asks for patience. none: it did not answer.",
        Shape::Stack,
        "reqps",
        &[(
            "sum by (code) (rate(muster_api_requests_total{code!=\"200\"}[5m]))",
            "{{code}}",
        )],
    ),
    panel(
        "How long the API server takes",
        "95th percentile, by resource.",
        Shape::Lines,
        "s",
        &[(
            "histogram_quantile(0.95, sum by (resource, le) (rate(muster_api_request_seconds_bucket[5m])))",
            "{{resource}}",
        )],
    ),
    panel(
        "Failed passes",
        "By the step that failed; `unlawful` and `panicked` are bugs in muster.",
        Shape::Stack,
        "short",
        &[(
            "sum by (kind) (rate(muster_reconcile_errors_total[5m]))",
            "{{kind}}",
        )],
    ),
];

/// Panels in a row.
const ACROSS: usize = 4;
/// Grafana divides its width by this.
const WIDTH: usize = 24;
const HEIGHT: usize = 8;

/// The dashboard, as Grafana imports it.
pub(crate) fn dashboard() -> Result<String> {
    let mut panels = Vec::new();
    let mut top = 0;
    for (title, row) in ROWS {
        panels.push(json!({
            "id": panels.len() + 1,
            "type": "row",
            "title": title,
            "collapsed": false,
            "gridPos": {"x": 0, "y": top, "w": WIDTH, "h": 1},
            "panels": [],
        }));
        top += 1;
        for (index, panel) in row.iter().enumerate() {
            let (x, y) = (index % ACROSS, index / ACROSS);
            let place = json!({
                "x": x * WIDTH / ACROSS, "y": top + y * HEIGHT, "w": WIDTH / ACROSS, "h": HEIGHT,
            });
            panels.push(shown(panel, panels.len() + 1, &place));
        }
        top += row.len().div_ceil(ACROSS) * HEIGHT;
    }
    let dashboard = json!({
        "uid": "muster",
        "title": "muster: MPI jobs",
        "description": "Made by `cargo xtask codegen`. What the numbers mean: docs/reference/metrics.md of muster.",
        "tags": ["kubernetes", "mpi", "muster"],
        "schemaVersion": 39,
        "editable": true,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [
            {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"},
            {"name": "ui", "type": "textbox", "query": "", "label": "Address of muster ui"},
        ]},
        "panels": panels,
    });
    Ok(serde_json::to_string_pretty(&dashboard)? + "\n")
}

fn shown(panel: &Panel, id: usize, place: &Value) -> Value {
    let source = json!({"type": "prometheus", "uid": "${datasource}"});
    if let Shape::Jobs = panel.shape {
        return jobs(panel, id, place, &source);
    }
    let targets = panel.queries.iter().zip('A'..='Z');
    let targets = targets.map(|((expression, name), letter)| {
        json!({
            "refId": letter.to_string(), "datasource": source, "expr": expression, "legendFormat": name,
        })
    });
    let stacking = match panel.shape {
        Shape::Stack => "normal",
        Shape::Lines | Shape::Number | Shape::Jobs => "none",
    };
    let kind = match panel.shape {
        Shape::Number => "stat",
        Shape::Lines | Shape::Stack => "timeseries",
        Shape::Jobs => "table",
    };
    let lines = json!({"fillOpacity": 10, "showPoints": "never", "stacking": {"mode": stacking}});
    json!({
        "id": id,
        "type": kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": source,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0, "custom": lines}, "overrides": []},
        "targets": targets.collect::<Vec<_>>(),
    })
}

/// A table of the labels that people read, as they are now.
fn jobs(panel: &Panel, id: usize, place: &Value, source: &Value) -> Value {
    let targets = panel.queries.iter().map(|(expression, _)| {
        json!({
            "refId": "A", "datasource": source, "expr": expression, "format": "table", "instant": true,
        })
    });
    let columns = ["namespace", "job", "page"].into_iter().zip(0..);
    let columns: serde_json::Map<String, Value> = columns
        .map(|(name, place)| (name.to_owned(), json!(place)))
        .collect();
    json!({
        "id": id,
        "type": "table",
        "title": panel.title,
        "description": panel.about,
        "datasource": source,
        "gridPos": place,
        "fieldConfig": {"defaults": {}, "overrides": [{
            "matcher": {"id": "byName", "options": "page"},
            "properties": [{"id": "links", "value": [
                {"title": "Open the job's page", "url": "${__value.raw}", "targetBlank": true},
            ]}],
        }]},
        "transformations": [
            {"id": "filterFieldsByName", "options": {"include": {"names": ["namespace", "job", "page"]}}},
            {"id": "organize", "options": {"indexByName": columns}},
        ],
        "targets": targets.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::root;

    /// The names in docs/reference/metrics.md, which a test of the controller holds to the operator's own.
    fn exported() -> Result<BTreeSet<String>> {
        let page = std::fs::read_to_string(root().join("docs/reference/metrics.md"))?;
        let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
        let mut names = BTreeSet::new();
        for row in rows {
            let mut cells = row.split('|').map(|cell| cell.trim().trim_end_matches('`'));
            let (name, kind) = (cells.next(), cells.next());
            let (name, kind) = name.zip(kind).context("a row without a kind")?;
            names.insert(name.to_owned());
            if kind == "histogram" {
                names.extend(["bucket", "count", "sum"].map(|part| format!("{name}_{part}")));
            }
        }
        Ok(names)
    }

    /// Names of ours that an expression asks for.
    fn asked(expression: &str) -> Vec<&str> {
        let words = expression.split(|found: char| !found.is_ascii_alphanumeric() && found != '_');
        let ours = |word: &&str| word.starts_with("muster_") || word.starts_with("mpi_operator_");
        words.filter(ours).collect()
    }

    fn expressions(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    match value.as_str().filter(|_| name == "expr") {
                        Some(expression) => found.push(expression.to_owned()),
                        None => expressions(value, found),
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| expressions(item, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    #[test]
    fn dashboard_and_alerts_ask_for_what_the_operator_exports() -> Result<()> {
        let exported = exported()?;
        let dashboard: Value = serde_json::from_str(&dashboard()?)?;
        let rules: Value = serde_saphyr::from_str(&rules(&root().join("deploy"))?)?;
        let mut found = Vec::new();
        expressions(&dashboard, &mut found);
        let panels = found.len();
        expressions(&rules, &mut found);
        assert!(panels >= 18 && found.len() >= panels + 9, "{found:?}");
        for expression in &found {
            let asked = asked(expression);
            assert!(!asked.is_empty(), "{expression} asks for nothing of ours");
            for name in asked {
                assert!(
                    exported.contains(name),
                    "{name} of {expression} is not exported"
                );
            }
        }
        Ok(())
    }

    /// Where nobody says where `muster ui` is, there is nothing to click.
    #[test]
    fn jobs_are_linked_only_where_the_address_is_known() -> Result<()> {
        let dashboard: Value = serde_json::from_str(&dashboard()?)?;
        let variables = &dashboard["templating"]["list"];
        let ui = variables.as_array().context("no variables")?;
        let ui = ui.iter().find(|variable| variable["name"] == "ui");
        assert_eq!(ui.context("no address")?["query"], "");
        let panels = dashboard["panels"].as_array().context("no panels")?;
        let table = panels.iter().find(|panel| panel["type"] == "table");
        let table = table.context("no table")?;
        let override_ = &table["fieldConfig"]["overrides"][0];
        assert_eq!(override_["matcher"]["options"], "page");
        assert_eq!(
            override_["properties"][0]["value"][0]["url"],
            "${__value.raw}"
        );
        let expression = table["targets"][0]["expr"].as_str().unwrap_or_default();
        assert!(
            expression.ends_with(r#""page", "$1", "path", "(https?://.+)")"#),
            "{expression}"
        );
        Ok(())
    }

    #[test]
    fn no_two_panels_lie_upon_each_other() -> Result<()> {
        let dashboard: Value = serde_json::from_str(&dashboard()?)?;
        let mut taken = BTreeSet::new();
        for panel in dashboard["panels"].as_array().context("no panels")? {
            let place = |key: &str| panel["gridPos"][key].as_u64().unwrap_or_default();
            for x in place("x")..place("x") + place("w") {
                for y in place("y")..place("y") + place("h") {
                    assert!(x < 24 && taken.insert((x, y)), "{}", panel["title"]);
                }
            }
        }
        Ok(())
    }
}
