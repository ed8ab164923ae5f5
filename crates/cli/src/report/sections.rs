//! What each section of a page shows of a report, as HTML that can be read without colours, without a mouse and
//! aloud: tables hold the numbers, and bars only repeat them. Must not know the page around it.

use jiff::Timestamp;

use super::data::{Census, Report};
use super::html::Html;
use crate::table;
use crate::timeline::{PodPhase, ROWS_MAX, Row, Timeline};

/// A log or a table with more lines is folded.
const OPEN_EVENTS_MAX: usize = 40;

/// A mark beside the word of a phase, for those who see no colours.
pub(crate) fn mark(phase: &str) -> &'static str {
    match phase {
        "Succeeded" => "✔",
        "Failed" => "✘",
        "Running" => "▶",
        "Suspended" => "⏸",
        _ => "…",
    }
}

pub(super) fn verdict(report: &Report, html: &mut Html) {
    let verdict = &report.verdict;
    let phase = verdict.phase.as_str();
    html.element("h1", &[], |h1| {
        h1.element(
            "span",
            &[("class", "phase"), ("data-phase", phase)],
            |inside| {
                inside.element("span", &[("aria-hidden", "true")], |span| {
                    span.constant(mark(phase));
                });
                inside.text(&format!(" {phase}"));
            },
        );
        h1.text(" ").leaf("bdi", &report.job.name);
    });
    html.element("p", &[("class", "sentence")], |p| {
        p.text(&verdict.sentence).text(".");
    });
    if !verdict.advice.is_empty() {
        html.element("p", &[], |p| {
            p.leaf("strong", "What to do: ")
                .text(&verdict.advice)
                .text(".");
        });
    }
    html.element("p", &[], |p| {
        p.text("On a terminal: ").leaf("code", &verdict.command);
    });
    facts(report, html);
    for slow in &report.slowest {
        html.element("p", &[("class", "slow")], |p| {
            let node = match slow.node.as_str() {
                "" => String::new(),
                node => format!(" on {node}"),
            };
            let took = table::seconds(slow.seconds);
            p.text(&format!(
                "{} took {took} in phase {}{node}.",
                slow.worker, slow.phase
            ));
        });
    }
}

fn facts(report: &Report, html: &mut Html) {
    let (job, verdict) = (&report.job, &report.verdict);
    let number = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
    let code = |code: Option<i64>| code.map(|code| code.to_string()).unwrap_or_default();
    let took = verdict.seconds.map(table::run_time).unwrap_or_default();
    let rows = [
        ("Namespace", job.namespace.clone()),
        ("API", job.dialect.clone()),
        ("Reason", verdict.reason.clone()),
        ("Workers ready", job.ready.clone()),
        ("Ranks", number(job.ranks)),
        ("Created", job.created.clone()),
        ("Started", verdict.started.clone()),
        ("Ended", verdict.ended.clone()),
        ("Took", took),
        ("Exit code", code(verdict.program_exit_code)),
    ];
    html.element("dl", &[("class", "facts")], |dl| {
        for (name, value) in rows.iter().filter(|(_, value)| !value.is_empty()) {
            dl.element("div", &[], |div| {
                div.leaf("dt", name).leaf("dd", value);
            });
        }
    });
}

pub(super) fn missing(report: &Report, html: &mut Html) {
    if report.missing.is_empty() {
        return;
    }
    html.constant("<h2>What is missing here</h2>");
    html.element("ul", &[], |ul| {
        for sentence in &report.missing {
            ul.leaf("li", sentence);
        }
    });
}

pub(super) fn timeline(report: &Report, html: &mut Html) {
    html.constant("<h2 id=\"timeline-head\">Timeline</h2>");
    milestones(report, html);
    let Some(timeline) = &report.timeline else {
        return;
    };
    if timeline.rows.is_empty() {
        html.constant("<p>The job has no pods now, so no bars can be drawn.</p>");
        return;
    }
    if timeline.pods > timeline.rows.len() {
        html.leaf("p", &format!(
            "{} of {} pods: launchers, and of the workers {ROWS_MAX}: those that failed, then those that took longest to start.",
            timeline.rows.len(),
            timeline.pods
        ));
    }
    let skewed: Vec<&str> = timeline
        .rows
        .iter()
        .filter(|row| row.clock_skew_seconds.is_some())
        .map(|row| row.node.as_str())
        .collect::<std::collections::BTreeSet<_>>()
        .into_iter()
        .collect();
    if !skewed.is_empty() {
        html.element("p", &[("class", "note")], |p| {
            p.text(&format!(
                "The clocks of {} disagree with the cluster's: a time of a pod there lies before the one that \
                 must precede it. Its phases are drawn one after the other.",
                skewed.join(", ")
            ));
        });
    }
    legend(html);
    let region = region("timeline-head");
    html.element("div", &region, |div| {
        div.element("table", &[("class", "timeline")], |table| {
            bars(timeline, table)
        });
    });
}

fn milestones(report: &Report, html: &mut Html) {
    if report.milestones.is_empty() {
        return;
    }
    html.element("ol", &[("class", "milestones")], |ol| {
        for milestone in &report.milestones {
            ol.element("li", &[], |li| {
                li.leaf("span", &words(milestone.name)).text(" ");
                li.leaf("strong", &format!("+{}", table::seconds(milestone.seconds)));
            });
        }
    });
}

/// `ranksStarted` as people write it.
fn words(name: &str) -> String {
    let mut words = String::new();
    for char in name.chars() {
        if char.is_uppercase() {
            words.push(' ');
        }
        words.extend(char.to_lowercase());
    }
    words
}

fn legend(html: &mut Html) {
    html.element(
        "ul",
        &[("class", "legend"), ("aria-hidden", "true")],
        |ul| {
            for phase in PodPhase::ALL {
                ul.element("li", &[], |li| {
                    li.element("svg", &[("viewBox", "0 0 10 10")], |svg| {
                        svg.element(
                            "rect",
                            &[("class", class(phase)), ("width", "10"), ("height", "10")],
                            |_| {},
                        );
                    });
                    li.text(phase.as_str());
                });
            }
        },
    );
}

fn class(phase: PodPhase) -> &'static str {
    match phase {
        PodPhase::Queued => "q",
        PodPhase::Scheduling => "s",
        PodPhase::Pulling => "p",
        PodPhase::Starting => "t",
        PodPhase::Waiting => "w",
        PodPhase::Running => "r",
    }
}

fn bars(timeline: &Timeline, html: &mut Html) {
    let total = seconds_between(timeline.from, timeline.to);
    html.element("caption", &[], |caption| {
        caption.text(&format!(
            "Seconds in each phase, from {:.0} over {}. Objects of Kubernetes have whole seconds.",
            timeline.from,
            table::seconds(total)
        ));
    });
    html.constant("<thead><tr><th scope=\"col\">Pod</th><td aria-hidden=\"true\"></td>");
    for phase in PodPhase::ALL {
        html.element("th", &[("scope", "col")], |th| {
            th.text(phase.as_str());
        });
    }
    html.constant("<th scope=\"col\">State</th><th scope=\"col\">Node</th></tr></thead>");
    html.element("tbody", &[], |body| {
        for row in &timeline.rows {
            let attributes: &[_] = if row.has_failed() {
                &[("class", "failed")]
            } else {
                &[]
            };
            body.element("tr", attributes, |tr| bar_row(timeline, total, row, tr));
        }
    });
}

fn bar_row(timeline: &Timeline, total: i64, row: &Row, html: &mut Html) {
    html.element("th", &[("scope", "row")], |th| {
        th.text(&row.pod);
    });
    html.constant("<td class=\"bar\" aria-hidden=\"true\">");
    html.element(
        "svg",
        &[("viewBox", "0 0 1000 10"), ("preserveAspectRatio", "none")],
        |svg| {
            let at = |time: Timestamp| position(seconds_between(timeline.from, time), total);
            // What took no second has no number either.
            for span in row.phases.iter().filter(|span| span.seconds > 0) {
                let (from, to) = (at(span.from), at(span.to));
                let place = (tenths(from), tenths(to - from));
                let attributes = [
                    ("class", class(span.phase)),
                    ("x", place.0.as_str()),
                    ("width", &place.1),
                    ("height", "10"),
                ];
                svg.element("rect", &attributes, |_| {});
            }
        },
    );
    html.constant("</td>");
    for phase in PodPhase::ALL {
        let seconds: i64 = row
            .phases
            .iter()
            .filter(|span| span.phase == phase)
            .map(|span| span.seconds)
            .sum();
        html.element("td", &[], |td| {
            if seconds > 0 {
                td.text(&seconds.to_string());
            }
        });
    }
    html.element("td", &[], |td| {
        td.text(&row.state);
        if let Some(code) = row.exit_code {
            td.text(&format!(" {code}"));
        }
    });
    html.leaf("td", &row.node);
}

fn seconds_between(from: Timestamp, to: Timestamp) -> i64 {
    to.as_second() - from.as_second()
}

/// In tenths of a thousandth of the bar.
fn position(seconds: i64, total: i64) -> i64 {
    seconds.saturating_mul(10_000) / total.max(1)
}

fn tenths(number: i64) -> String {
    match number % 10 {
        0 => (number / 10).to_string(),
        rest => format!("{}.{rest}", number / 10),
    }
}

pub(super) fn attempts(report: &Report, html: &mut Html) {
    if report.attempts.is_empty() {
        return;
    }
    html.constant("<h2 id=\"attempts-head\">Attempts</h2>");
    let region = region("attempts-head");
    html.element("div", &region, |div| {
        div.element("table", &[], |table| attempt_rows(report, table));
    });
}

/// A part of the page that scrolls by itself, also with the keyboard, under a heading with this id.
fn region(heading: &'static str) -> [(&'static str, &'static str); 4] {
    [
        ("class", "wide"),
        ("role", "region"),
        ("tabindex", "0"),
        ("aria-labelledby", heading),
    ]
}

fn attempt_rows(report: &Report, html: &mut Html) {
    html.constant(
        "<thead><tr><th scope=\"col\">Attempt</th><th scope=\"col\">Ended with</th>\
        <th scope=\"col\">Took</th><th scope=\"col\">Started</th></tr></thead>",
    );
    html.element("tbody", &[], |body| {
        for attempt in &report.attempts {
            let took = attempt
                .seconds
                .and_then(|seconds| i64::try_from(seconds).ok());
            body.element("tr", &[], |tr| {
                tr.element("th", &[("scope", "row")], |th| {
                    th.text(&attempt.number.to_string());
                });
                tr.leaf("td", &attempt.reason);
                tr.leaf("td", &took.map(table::seconds).unwrap_or_default());
                tr.leaf("td", &attempt.started);
            });
        }
    });
}

pub(super) fn ranks(report: &Report, html: &mut Html) {
    if report.hosts.is_empty() {
        return;
    }
    html.constant("<h2 id=\"ranks-head\">Ranks</h2>");
    if let Some(census) = &report.census {
        html.leaf("p", &counted(census));
    }
    html.constant("<details><summary>Ranks, hosts and nodes</summary>\
        <p>Ranks are numbered host after host, as Open MPI and Hydra do without options for mapping. \
        Counted is what the agent saw on the host.</p>");
    let region = region("ranks-head");
    html.element("div", &region, |div| {
        div.constant("<table class=\"ranks\"><thead><tr><th scope=\"col\">Host</th><th scope=\"col\">Ranks</th>\
            <th scope=\"col\">Slots</th><th scope=\"col\">Counted</th><th scope=\"col\">Node</th></tr></thead>");
        div.element("tbody", &[], |body| {
            for host in &report.hosts {
                let range = match host.first_rank == host.last_rank {
                    true => host.first_rank.to_string(),
                    false => format!("{}–{}", host.first_rank, host.last_rank),
                };
                body.element("tr", &[], |tr| {
                    tr.element("th", &[("scope", "row")], |th| {
                        th.text(&host.host);
                    });
                    tr.leaf("td", &range).leaf("td", &host.slots.to_string());
                    let counted = host.counted.map(|count| count.to_string());
                    tr.leaf("td", &counted.unwrap_or_default()).leaf("td", &host.node);
                });
            }
        });
        div.constant("</table>");
    });
    html.constant("</details>");
}

fn counted(census: &Census) -> String {
    let asked = census
        .asked
        .map(|asked| format!(" of {asked}"))
        .unwrap_or_default();
    let ranks = match census.ranks {
        0 => String::new(),
        ranks => format!(", {ranks} ranks"),
    };
    let lost = match census.lost.as_slice() {
        [] => String::new(),
        lost => format!("; lost: {}", lost.join(", ")),
    };
    format!(
        "The agent counted {}{asked} hosts{ranks}{lost}.",
        census.hosts
    )
}

pub(super) fn logs(report: &Report, html: &mut Html) {
    if report.logs.is_empty() {
        return;
    }
    html.constant("<h2>Last lines</h2>");
    for log in &report.logs {
        html.leaf("h3", &log.title);
        let label = format!("Last lines of {}, container {}", log.pod, log.container);
        html.element("p", &[], |p| {
            p.text(&label).text(":");
        });
        let region = [
            ("class", "log"),
            ("role", "region"),
            ("tabindex", "0"),
            ("aria-label", label.as_str()),
            ("dir", "ltr"),
        ];
        html.element("pre", &region, |pre| {
            for line in &log.lines {
                pre.text(line).text("\n");
            }
        });
    }
}

pub(super) fn events(report: &Report, html: &mut Html) {
    if report.events.is_empty() {
        return;
    }
    html.constant("<h2 id=\"events-head\">Events</h2>");
    let is_open = report.events.len() <= OPEN_EVENTS_MAX;
    let attributes: &[_] = if is_open { &[("open", "")] } else { &[] };
    html.element("details", attributes, |details| {
        details.leaf(
            "summary",
            &format!("{} events, newest last", report.events.len()),
        );
        let region = region("events-head");
        details.element("div", &region, |div| {
            div.constant(
                "<table><thead><tr><th scope=\"col\">Time</th><th scope=\"col\">Reason</th>\
                <th scope=\"col\">Object</th><th scope=\"col\">Message</th></tr></thead>",
            );
            div.element("tbody", &[], |body| {
                for event in &report.events {
                    let attributes: &[_] = if event.warning {
                        &[("class", "warning")]
                    } else {
                        &[]
                    };
                    body.element("tr", attributes, |tr| {
                        tr.leaf("td", &event.time);
                        tr.element("td", &[], |td| {
                            td.text(if event.warning { "⚠ " } else { "" })
                                .text(&event.reason);
                            if event.count > 1 {
                                td.text(&format!(" ×{}", event.count));
                            }
                        });
                        tr.leaf("td", &event.object);
                        tr.leaf("td", &event.message);
                    });
                }
            });
            div.constant("</table>");
        });
    });
}

pub(super) fn written(report: &Report, html: &mut Html) {
    yaml("The job as it was written", &report.written, html);
}

pub(super) fn rendered(report: &Report, html: &mut Html) {
    yaml("The objects that it becomes", &report.rendered, html);
}

fn yaml(title: &'static str, text: &str, html: &mut Html) {
    if text.is_empty() {
        return;
    }
    html.leaf("h2", title);
    html.element("details", &[], |details| {
        details.constant("<summary>YAML, without what is secret</summary>");
        let region = [
            ("class", "log"),
            ("role", "region"),
            ("tabindex", "0"),
            ("aria-label", title),
        ];
        details.element("pre", &region, |pre| {
            pre.text(text);
        });
    });
}
