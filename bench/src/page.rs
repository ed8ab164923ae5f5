//! The page that shows the comparison, and its drawings, from the kept results alone. Decides what it says; must
//! not know how anything is measured. A test compares the page with what is in the repository, so no
//! number of it can be written by hand.

mod metrics;
mod plot;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::{compare, results};
use metrics::{METRICS, Metric, Row, SIDES, Target};
use plot::Line;

const PAGE: &str = "docs/performance.md";
/// The more thorough first.
const EXTENTS: [&str; 2] = ["full", "quick"];
const HEAD: &str =
    "| | L | muster | P1 | P0 | muster ÷ P1 | target | |\n|---|---|---|---|---|---|---|---|\n";
const MUSTER: usize = 1;
const MISSED: &str = "missed";

/// Writes the page and its drawings.
pub(crate) fn write() -> Result<()> {
    let files = files()?;
    ensure!(
        !files.is_empty(),
        "there are no results: `cargo xtask bench` makes them"
    );
    for (file, text) in files {
        fs::create_dir_all(file.parent().expect("every file has a folder"))?;
        fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
        println!("wrote {}", file.display());
    }
    Ok(())
}

/// What the page consists of: each file and its text.
fn files() -> Result<Vec<(PathBuf, String)>> {
    let parts = kept()?;
    if parts.is_empty() {
        return Ok(Vec::new());
    }
    let result = joined(&parts);
    let root = e2e::operator::repository();
    let mut files = vec![(root.join(PAGE), page(&parts, &result))];
    for metric in METRICS.iter().filter(|metric| metric.drawn) {
        if let Some(svg) = drawing(metric, &result) {
            files.push((root.join("docs").join(file_of(metric)), svg));
        }
    }
    Ok(files)
}

/// The results of one experiment.
struct Part {
    file: String,
    metrics: &'static [&'static str],
    result: Value,
}

/// The results that the page is made of.
fn kept() -> Result<Vec<Part>> {
    let mut parts = Vec::new();
    for (experiment, metrics) in compare::METRICS {
        for extent in EXTENTS {
            let file = experiment.file(extent);
            if let Some(result) = results::read(&file)? {
                parts.push(Part {
                    file,
                    metrics,
                    result,
                });
                break;
            }
        }
    }
    Ok(parts)
}

/// All samples, list by list: two experiments have some in the same.
fn joined(parts: &[Part]) -> Value {
    let mut lists: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    let fields = parts
        .iter()
        .filter_map(|part| part.result.as_object())
        .flatten();
    for (name, value) in fields {
        if let Some(samples) = value.as_array() {
            lists.entry(name).or_default().extend_from_slice(samples);
        }
    }
    serde_json::json!(lists)
}

fn file_of(metric: &Metric) -> String {
    format!("performance/{}.svg", metric.id.to_lowercase())
}

fn page(parts: &[Part], result: &Value) -> String {
    let versions = &parts[0].result["versions"];
    let mega = |key: &str| versions[key].as_f64().unwrap_or_default() / 1e6;
    let mut page = INTRODUCTION
        .replace("KUBERNETES", text(&versions["kubernetes"]))
        .replace("PEER_MB", &format!("{:.1}", mega("peerBytes")))
        .replace("PEER", text(&versions["peer"]))
        .replace("MUSTER_MB", &format!("{:.1}", mega("musterBytes")))
        .replace(
            "PARTS",
            parts.iter().map(provenance).collect::<String>().trim_end(),
        );
    page += &summary(result);
    page += CLOSING;
    page
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// When, where and of what a part was measured.
fn provenance(part: &Part) -> String {
    let Part {
        file,
        metrics,
        result,
    } = part;
    let machine = &result["machine"];
    let load = text(&machine["load"]);
    let load = load.split(' ').next().unwrap_or_default();
    let minutes = result["secs"].as_u64().unwrap_or_default().div_ceil(60);
    format!(
        "| [{}](../bench/results/{file}.json) | {} | {} | {minutes} | {} | {} cores, Linux {}, load {load} |\n",
        metrics.join(", "),
        text(&result["date"]),
        text(&result["extent"]),
        text(&result["versions"]["muster"]),
        machine["cores"],
        text(&machine["kernel"]),
    )
}

/// All tables of a result.
pub(crate) fn summary(result: &Value) -> String {
    METRICS
        .iter()
        .map(|metric| section(metric, result))
        .collect()
}

/// One metric, unless nobody measured it.
fn section(metric: &Metric, result: &Value) -> String {
    let rows = metric.rows(result);
    if rows.is_empty() {
        return String::new();
    }
    let Metric {
        id,
        title,
        text,
        code,
        missed,
        ..
    } = metric;
    let mut section =
        format!("\n### {id}: {title}\n\n{text} ([code](../bench/src/compare/{code}))\n\n{HEAD}");
    for row in &rows {
        section += &line(metric, row);
    }
    if !missed.is_empty() && rows.iter().any(|row| judged(metric, row).1 == MISSED) {
        write!(section, "\n{missed}\n").expect("a string takes all that is written to it");
    }
    if drawing(metric, result).is_some() {
        write!(section, "\n![{title}]({})\n", file_of(metric))
            .expect("a string takes all that is written to it");
    }
    section
}

fn line(metric: &Metric, row: &Row) -> String {
    let digits = metric.digits;
    let cell = |side: usize| {
        let mut values = row.values(side);
        values.sort_by(f64::total_cmp);
        let (Some(least), Some(most)) = (values.first(), values.last()) else {
            return "–".to_owned();
        };
        let shown = |value: f64| format!("{value:.digits$}");
        match shown(*least) == shown(*most) {
            true => shown(*least),
            false => format!(
                "{} ({}–{})",
                shown(median(&values)),
                shown(*least),
                shown(*most)
            ),
        }
    };
    let cells: Vec<String> = (0..SIDES.len()).map(cell).collect();
    let (wanted, met) = judged(metric, row);
    format!(
        "| {} | {} | {} | {wanted} | {met} |\n",
        row.label,
        cells.join(" | "),
        ratio(row)
    )
}

/// Of the medians, and the least and the most of those of single blocks.
fn ratio(row: &Row) -> String {
    let Some(whole) = middle(row, MUSTER).zip(middle(row, PEER)).and_then(divided) else {
        return "–".to_owned();
    };
    let blocks: std::collections::BTreeSet<u64> =
        row.sides[MUSTER].iter().map(|(block, _)| *block).collect();
    let of_block = |side: usize, block: u64| {
        let values = row.sides[side].iter().filter(|(of, _)| *of == block);
        let values: Vec<f64> = values.map(|(_, value)| *value).collect();
        (!values.is_empty()).then(|| median(&values))
    };
    let ratios = blocks
        .iter()
        .filter_map(|block| of_block(MUSTER, *block).zip(of_block(PEER, *block)))
        .filter_map(divided);
    let mut ratios: Vec<f64> = ratios.collect();
    ratios.sort_by(f64::total_cmp);
    match (ratios.first(), ratios.last()) {
        (Some(least), Some(most)) if ratios.len() > 1 => {
            format!("**{whole:.2}** ({least:.2}–{most:.2})")
        }
        _ => format!("**{whole:.2}**"),
    }
}

const FLOOR: usize = 0;
const PEER: usize = 2;

fn middle(row: &Row, side: usize) -> Option<f64> {
    let values = row.values(side);
    (!values.is_empty()).then(|| median(&values))
}

/// The middle one; of an even number the mean of the two, because each block has two.
fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    match sorted.len() % 2 {
        0 => f64::midpoint(sorted[half - 1], sorted[half]),
        _ => sorted[half],
    }
}

fn divided((above, below): (f64, f64)) -> Option<f64> {
    (below > 0.0).then(|| above / below)
}

/// What is wanted, and whether it is so.
fn judged(metric: &Metric, row: &Row) -> (String, &'static str) {
    let (Some(target), Some(value)) = ((metric.target)(row.workers), middle(row, MUSTER)) else {
        return ("–".to_owned(), "");
    };
    let of = |side: usize, times: f64| middle(row, side).map(|other| times * other);
    let (words, limit, is_least) = match target {
        Target::AtMost(most) => (format!("≤ {most}"), Some(most), false),
        Target::WorkersAnd(more) => (format!("≤ W + {more}"), Some(row.workers + more), false),
        Target::OfFloor(times) => (format!("≤ {times} × L"), of(FLOOR, times), false),
        Target::OfPeer(times) => (format!("≤ {times} × P1"), of(PEER, times), false),
        Target::TimesPeer(times) => (format!("≥ {times} × P1"), of(PEER, times), true),
    };
    let met = match limit {
        None => "",
        Some(limit) if (value <= limit && !is_least) || (value >= limit && is_least) => "met",
        Some(_) => MISSED,
    };
    (words, met)
}

/// The numbers over the workers, if there are enough of both.
fn drawing(metric: &Metric, result: &Value) -> Option<String> {
    let rows = metric.rows(result);
    if !metric.drawn || rows.len() < 2 {
        return None;
    }
    let lines = SIDES.iter().enumerate().map(|(side, name)| Line {
        name,
        points: rows
            .iter()
            .filter_map(|row| Some((row.workers, middle(row, side)?)))
            .filter(|(across, up)| *across > 0.0 && *up > 0.0)
            .collect(),
    });
    let lines: Vec<Line> = lines.collect();
    let title = format!("{}: {}", metric.id, metric.title);
    Some(plot::draw(&title, "workers", &lines))
}

const INTRODUCTION: &str = "\
# Performance

This page compares muster with [Kubeflow's MPI operator](https://github.com/kubeflow/mpi-operator) on a real API server.
`cargo xtask bench` writes it from [bench/results](../bench/results), which has every sample; a
[test](../bench/src/page.rs) fails if the page says anything else.

| column | |
|---|---|
| **L** | the floor: a client that only posts the job's pods, 32 requests in flight |
| **muster** | muster as it is shipped; a program of MUSTER_MB MB |
| **P1** | Kubeflow's operator PEER from its published Go module, with its rate limits raised until they limit nothing; PEER_MB MB |
| **P0** | the same program at the flags of its manifest: what its users have |

Each cell has the median, and the least and the most in parentheses. The ratio has those of single blocks in parentheses.
W is the number of workers of a job.

Kubernetes is KUBERNETES. What was measured when, with a link to all samples, and the load of the machine before it:

| | date | run | minutes | muster | machine |
|---|---|---|---|---|---|
PARTS

## Results
";

const CLOSING: &str = "
## How it is measured

- A real etcd, kube-apiserver and kube-controller-manager run on this machine, on loopback. etcd does not sync to disk. The
  controller manager may send 500 requests a second.
- There are no nodes. One [kubelet without containers](../e2e/src/fake_kubelet.rs) serves all sides. It says with one write
  that a pod runs, one second after the pod was made. The pods name their node, so that nobody schedules them.
- One operator runs at a time, for all namespaces, as a new process. It first runs one small job, which is not measured. Every
  sample has a namespace of its own.
- The order of samples is P1, muster, muster, P1, and the other way around in the next block. P0 is measured once. B9, B11, B13,
  B14, B16, B17 and B24 have three blocks in a full run, and one sample of each side in a quick one.
- At the end, Kubeflow's operator begins ten jobs, muster takes them over, and Kubeflow's operator takes them back
  (`--only takeover`). The run fails if a pod or a verdict changes; `takeovers` in the file has the number of writes.
- Counts and times come from the API server's audit log. The time of a condition is that of the write that made it visible to a
  watch. Processor time and memory come from `/proc`.
- All sides use muster's CRD, which accepts all jobs of Kubeflow's. Kubeflow's operator has every right, muster has those of its
  manifest.
- Both programs are built on this machine, Kubeflow's with the Go version that builds Kubernetes for the tests.

The same machine runs everything, this program and the kubelet included. So the API server and the operator compete for
processors, and times say less about large clusters than counts and processor time do.

## Run it again

```
cargo xtask bench                  quick: a quarter of an hour
cargo xtask bench --full           all sizes, five blocks: hours
cargo xtask bench --full --only B6 only what is measured with B6
```

Each part that is measured replaces its results of before, and this page is written again. A full part is shown rather than a
quick one. It needs root, Debian and Go, as `make test` does, and a machine that does nothing else. It ends all that it started, also if
it is interrupted. `cargo run -p bench -- page` writes this page again from the kept results.

## What is not measured

- Watch traffic (B4), processor time of the API server (B12), foreign changes (B15), DNS (B19) and failover (B20).
- The start of MPI programs (B18): [bench/README.md](../bench/README.md) has it.
- Schedulers, image pulls, real kubelets and networks. They take the same time whichever operator made the pods.
";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_page_is_what_the_results_make() -> Result<()> {
        let (files, page) = (files()?, e2e::operator::repository().join(PAGE));
        assert_eq!(files.is_empty(), !page.exists(), "{}", page.display());
        for (file, text) in files {
            let kept = fs::read_to_string(&file).unwrap_or_default();
            assert!(
                kept == text,
                "{} is not what the results make: `cargo run -p bench -- page` writes it",
                file.display()
            );
        }
        Ok(())
    }

    fn life(side: &str, block: u64, workers: u64, secs: f64) -> Value {
        json!({"side": side, "block": block, "workers": workers, "lastWorkerSecs": secs, "writes": workers + 14})
    }

    fn result() -> Value {
        json!({
            "lives": [
                life("P1", 0, 64, 4.0), life("muster", 0, 64, 1.0), life("muster", 0, 64, 1.0),
                life("P1", 0, 64, 4.0), life("P1", 1, 64, 3.0), life("muster", 1, 64, 1.5),
                life("muster", 0, 2, 0.5), life("P1", 0, 2, 0.5), life("P0", 0, 64, 12.0),
            ],
            "floors": [{"side": "L", "block": 0, "pods": 65, "lastWorkerSecs": 0.9}],
        })
    }

    #[test]
    fn a_row_has_medians_spread_ratio_and_judgement() {
        let text = summary(&result());
        let row = "| W = 64 | 0.900 | 1.000 (1.000–1.500) | 4.000 (3.000–4.000) | 12.000 | \
                   **0.25** (0.25–0.50) | ≤ 1.25 × L | met |";
        assert!(text.contains(row), "{text}");
        assert!(
            text.contains("| W = 2 | – | 16 | 16 | – | **1.00** | ≤ W + 14 | met |"),
            "{text}"
        );
        assert!(!text.contains("B13"), "what was not measured has no table");
    }

    #[test]
    fn a_missed_target_is_called_so() {
        let mut result = result();
        result["floors"][0]["lastWorkerSecs"] = json!(0.1);
        assert!(summary(&result).contains("≤ 1.25 × L | missed |"));
    }

    #[test]
    fn lines_are_drawn_over_the_workers() {
        let b1 = METRICS.iter().find(|metric| metric.id == "B1");
        let svg = drawing(b1.expect("B1 is a metric"), &result()).expect("two sizes");
        assert!(svg.contains(">muster<") && svg.contains(">P1<"), "{svg}");
    }
}
