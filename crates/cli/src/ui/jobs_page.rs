//! The list of jobs, and what stands around the sections of one. Decides what of a list is shown to whoever searches it.
//! Must not know how pages are kept up to date.

use jiff::Timestamp;
use serde_json::Value;

use super::Ui;
use crate::backend::Watched;
use crate::report::data::Report;
use crate::report::html::Html;
use crate::report::page::{self, Section};
use crate::report::redact;
use crate::table;
use crate::view::JobView;

/// Of a list that is longer the newest are shown; the search finds the others.
const LISTED_MAX: usize = 1_000;
const PHASES: [&str; 5] = ["Waiting", "Running", "Failed", "Succeeded", "Suspended"];

/// What is searched for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Filter {
    text: String,
    phase: String,
}

impl Filter {
    /// Of the query of an address, as a form writes it.
    pub(super) fn of(query: &str) -> Self {
        let mut filter = Self::default();
        for (name, value) in pairs(query) {
            match name.as_str() {
                "q" => filter.text = value,
                "state" => filter.phase = value,
                _ => {}
            }
        }
        filter
    }
}

/// Names and values of a query.
pub(super) fn pairs(query: &str) -> impl Iterator<Item = (String, String)> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs.map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decoded(name), decoded(value))
    })
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let hex = tail.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        let byte = hex
            .and_then(|hex| u8::from_str_radix(hex, 16).ok())
            .filter(|_| *first == b'%');
        bytes.push(match first {
            b'+' => b' ',
            first => byte.unwrap_or(*first),
        });
        rest = if byte.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The page of all jobs.
pub(super) async fn list(ui: &Ui, filter: &Filter) -> String {
    // The first page waits for the first answer, so that it can be read without scripts.
    ui.found("").await;
    shell("muster: jobs", "/live", |main| {
        main.constant("<h1>Jobs</h1>");
        form(filter, main);
        for section in filtered(ui, filter) {
            page::place(main, &section);
        }
    })
}

/// The page of one job.
pub(super) fn job(report: &Report, uid: &str) -> String {
    let address = format!("/jobs/{uid}/live");
    let title = format!("{}: {}", report.job.name, report.verdict.phase);
    shell(&title, &address, |main| {
        page::place(main, &trouble(&[]));
        for section in page::sections(report) {
            let is_verdict = section.id == "verdict";
            page::place(main, &section);
            if is_verdict {
                logs(report, uid, main);
            }
        }
    })
}

fn shell(title: &str, address: &str, inside: impl FnOnce(&mut Html)) -> String {
    let mut html = Html::default();
    html.constant("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">");
    html.constant(page::VIEWPORT).leaf("title", title);
    html.constant("<link rel=\"stylesheet\" href=\"/style.css\"><script type=\"module\" src=\"/app.js\"></script>");
    html.constant("</head><body><header><nav><a href=\"/\">muster: all jobs</a></nav>");
    html.constant("<p id=\"lost\" role=\"status\" hidden>This page is not up to date: `muster ui` does not answer.</p></header>");
    html.element("main", &[("data-live", address)], inside);
    html.constant("<p id=\"said\" role=\"status\" class=\"unseen\"></p>");
    html.constant("<footer>Read-only, with your own rights. This page changes nothing.</footer></body></html>\n");
    html.as_str().to_owned()
}

fn form(filter: &Filter, html: &mut Html) {
    html.element("form", &[("id", "filter"), ("role", "search")], |form| {
        form.constant("<label>Search <input type=\"search\" name=\"q\" autocomplete=\"off\"");
        form.constant(" value=\"")
            .text(&filter.text)
            .constant("\"></label> ");
        form.constant("<label>State <select name=\"state\"><option value=\"\">all</option>");
        for phase in PHASES {
            let chosen: &[_] = match filter.phase == phase {
                true => &[("value", phase), ("selected", "")],
                false => &[("value", phase)],
            };
            form.element("option", chosen, |option| {
                option.text(phase);
            });
        }
        form.constant("</select></label> <button>Show</button>");
    });
}

/// The sections of the list that change. A page filters what it is sent by itself, and asks for the page of its
/// search where it was not sent all jobs.
pub(super) fn sections(ui: &Ui) -> Vec<Section> {
    filtered(ui, &Filter::default())
}

fn filtered(ui: &Ui, filter: &Filter) -> Vec<Section> {
    let mut troubles: Vec<String> = ui.jobs.iter().filter_map(Watched::trouble).collect();
    troubles.sort();
    troubles.dedup();
    let mut jobs: Vec<_> = ui.jobs.iter().flat_map(Watched::objects).collect();
    jobs.sort_by(|one, other| {
        let key = |job| {
            (
                JobView(job).created().to_owned(),
                JobView(job).uid().to_owned(),
            )
        };
        key(other).cmp(&key(one))
    });
    let mut counts = Html::default();
    counts.element("p", &[], |p| {
        for phase in PHASES {
            let count = jobs
                .iter()
                .filter(|job| phase_of(JobView(job)) == phase)
                .count();
            p.text(&format!("{phase} {count}  "));
        }
    });
    let rows = listed(&jobs, filter, ui.all_namespaces);
    vec![
        trouble(&troubles),
        Section {
            id: "counts",
            html: counts,
        },
        Section {
            id: "list",
            html: rows,
        },
    ]
}

/// The newest of the jobs that are searched for.
fn listed(jobs: &[Value], filter: &Filter, with_namespace: bool) -> Html {
    let found = jobs.iter().map(JobView).filter(|job| matches(*job, filter));
    let found: Vec<JobView<'_>> = found.collect();
    let shown = &found[..found.len().min(LISTED_MAX)];
    let mut html = Html::default();
    html.constant("<h2 id=\"list-head\">Newest first</h2>");
    if shown.len() < found.len() {
        // The script of the page asks for those that it was not sent where it finds this mark.
        html.element("p", &[("data-cut", "")], |p| {
            let text = format!(
                "{} of {} jobs are shown; the search finds the others.",
                shown.len(),
                found.len()
            );
            p.text(&text);
        });
    }
    table_of(shown, with_namespace, &mut html);
    html
}

fn phase_of<'j>(job: JobView<'j>) -> &'j str {
    match job.phase() {
        "" => "Waiting",
        phase => phase,
    }
}

fn matches(job: JobView<'_>, filter: &Filter) -> bool {
    let text = filter.text.to_lowercase();
    (filter.phase.is_empty() || filter.phase == phase_of(job)) && searched(job).contains(&text)
}

/// What the search looks at, in small letters.
fn searched(job: JobView<'_>) -> String {
    let words = [
        job.namespace(),
        job.name(),
        &job.dialect(),
        job.word("reason"),
    ];
    words.join(" ").to_lowercase()
}

fn table_of(jobs: &[JobView<'_>], with_namespace: bool, html: &mut Html) {
    if jobs.is_empty() {
        html.constant("<p>No jobs.</p>");
        return;
    }
    let now = Timestamp::now();
    let region = [
        ("class", "wide"),
        ("role", "region"),
        ("tabindex", "0"),
        ("aria-labelledby", "list-head"),
    ];
    html.element("div", &region, |div| {
        div.constant("<table class=\"jobs\"><thead><tr>");
        let mut heads = vec!["Job", "State", "Ready", "Ranks", "Age", "API", "What"];
        if with_namespace {
            heads.insert(0, "Namespace");
        }
        for head in heads {
            div.element("th", &[("scope", "col")], |th| {
                th.text(head);
            });
        }
        div.constant("</tr></thead>");
        div.element("tbody", &[], |body| {
            for job in jobs {
                row(*job, with_namespace, now, body);
            }
        });
        div.constant("</table>");
    });
}

fn row(job: JobView<'_>, with_namespace: bool, now: Timestamp, html: &mut Html) {
    let phase = phase_of(job);
    let text = searched(job);
    let address = format!("/jobs/{}", job.uid());
    html.element("tr", &[("data-text", &text), ("data-state", phase)], |tr| {
        if with_namespace {
            tr.leaf("td", job.namespace());
        }
        tr.element("th", &[("scope", "row")], |th| {
            th.element("a", &[("href", &address)], |a| {
                a.text(job.name());
            });
        });
        tr.element("td", &[], |td| {
            td.element(
                "span",
                &[("class", "phase"), ("data-phase", phase)],
                |span| {
                    span.text(crate::report::mark(phase)).text(" ").text(phase);
                },
            );
        });
        let ranks = job.ranks().map(|ranks| ranks.to_string());
        tr.leaf("td", job.word("ready"))
            .leaf("td", &ranks.unwrap_or_default());
        tr.leaf("td", &table::since(job.created(), now))
            .leaf("td", &job.dialect());
        let what = match job.word("message") {
            "" => job.word("reason"),
            message => message.lines().next().unwrap_or_default(),
        };
        tr.leaf("td", &redact::text_shown(what));
    });
}

/// What keeps a page from being up to date.
pub(super) fn trouble(sentences: &[String]) -> Section {
    let mut html = Html::default();
    for sentence in sentences {
        html.element("p", &[("class", "trouble"), ("role", "alert")], |p| {
            p.text("⚠ ").text(sentence);
        });
    }
    Section {
        id: "trouble",
        html,
    }
}

/// Logs that follow. The lines come when somebody asks for them.
fn logs(report: &Report, uid: &str, html: &mut Html) {
    let address = format!("/jobs/{uid}/log");
    html.element("section", &[("id", "follow"), ("data-log", &address)], |section| {
        section.constant("<h2 id=\"follow-head\">Log</h2><form>");
        section.constant("<label>Pod <select name=\"pod\"><option value=\"\">launcher</option>");
        for host in report.hosts.iter().take(LISTED_MAX) {
            section.element("option", &[("value", &host.host)], |option| {
                option.text(&host.host);
            });
        }
        section.constant("</select></label> <label>Rank <input name=\"rank\" inputmode=\"numeric\" size=\"6\" \
            pattern=\"[0-9]*\" placeholder=\"all\"></label> <button>Follow</button></form>\
            <p>A rank can be chosen where the launcher marks lines with ranks.</p>\
            <pre class=\"log\" role=\"log\" tabindex=\"0\" aria-labelledby=\"follow-head\" dir=\"ltr\" hidden></pre>");
    });
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_searched_for_comes_from_the_address() {
        let filter = Filter::of("q=res+net%2F%C3%A9&state=Failed&x");
        assert_eq!(
            (filter.text.as_str(), filter.phase.as_str()),
            ("res net/é", "Failed")
        );
        assert_eq!(
            Filter::of("q=100%"),
            Filter {
                text: "100%".to_owned(),
                ..Filter::default()
            }
        );
    }

    #[test]
    fn jobs_are_found_by_name_state_and_dialect() {
        let job = json!({"apiVersion": "kubeflow.org/v1", "metadata": {"name": "ResNet", "namespace": "lab"},
            "status": {"muster": {"phase": "Failed", "reason": "OutOfMemory"}}});
        for (query, found) in [
            ("", true),
            ("q=resnet", true),
            ("q=LAB", true),
            ("q=outofmem", true),
            ("q=v1", true),
            ("state=Failed", true),
            ("q=bert", false),
            ("state=Running", false),
        ] {
            assert_eq!(matches(JobView(&job), &Filter::of(query)), found, "{query}");
        }
    }

    #[test]
    fn of_a_long_list_the_newest_are_shown_and_the_search_finds_the_others() {
        let job =
            |at: usize| json!({"metadata": {"name": format!("job-{at}"), "namespace": "lab"}});
        let jobs: Vec<Value> = (0..LISTED_MAX + 200).map(job).collect();
        let all = listed(&jobs, &Filter::default(), false);
        assert!(all.as_str().contains("1000 of 1200 jobs are shown"));
        assert!(all.as_str().contains("data-cut") && !all.as_str().contains(">job-1199<"));
        let one = listed(&jobs, &Filter::of("q=job-1199"), false);
        assert!(one.as_str().contains(">job-1199<") && !one.as_str().contains("data-cut"));
    }
}
