//! The page of a report: one file that loads nothing. Decides the order of its sections and what stands around
//! them. Must not know what a section shows.

use super::data::Report;
use super::html::Html;
use super::sections;

/// How pages look, for reports and for `muster ui`.
pub(crate) const STYLE: &str = include_str!("style.css");

/// Nothing may be loaded, and no script may run, whatever got into the page.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'";

/// A part of a page that can be replaced alone.
pub(crate) struct Section {
    pub(crate) id: &'static str,
    pub(crate) html: Html,
}

/// Writes a section.
type Maker = fn(&Report, &mut Html);

/// The sections of a report, in their order; those without content are left out.
pub(crate) fn sections(report: &Report) -> Vec<Section> {
    let makers: [(&'static str, Maker); 9] = [
        ("verdict", sections::verdict),
        ("missing", sections::missing),
        ("timeline", sections::timeline),
        ("attempts", sections::attempts),
        ("ranks", sections::ranks),
        ("logs", sections::logs),
        ("events", sections::events),
        ("written", sections::written),
        ("rendered", sections::rendered),
    ];
    let sections = makers.map(|(id, make)| {
        let mut html = Html::default();
        make(report, &mut html);
        Section { id, html }
    });
    sections.into_iter().collect()
}

/// The whole file.
pub(crate) fn file(report: &Report) -> String {
    let mut html = Html::default();
    let title = format!("{}: {}", report.job.name, report.verdict.phase);
    html.constant("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">");
    html.void(
        "meta",
        &[
            ("http-equiv", "Content-Security-Policy"),
            ("content", POLICY),
        ],
    );
    html.constant(VIEWPORT).leaf("title", &title);
    html.constant("<style>")
        .constant(STYLE)
        .constant("</style></head><body><main>");
    for section in sections(report) {
        place(&mut html, &section);
    }
    html.constant("</main>").element("footer", &[], |inside| {
        let place = format!(
            "{} in namespace {}",
            report.job.resource, report.job.namespace
        );
        let made = format!("Made by muster {} at ", env!("CARGO_PKG_VERSION"));
        inside.text(&format!("{place}. {made}{:.0}.", report.made_at));
    });
    html.constant("</body></html>\n");
    html.as_str().to_owned()
}

/// Pages are as wide as the screen, and follow the colours of the machine.
pub(crate) const VIEWPORT: &str = "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
    <meta name=\"color-scheme\" content=\"light dark\"><link rel=\"icon\" href=\"data:,\">";

/// A section where it stands on the page. Empty ones are there, too: content may come later.
pub(crate) fn place(html: &mut Html, section: &Section) {
    html.element("section", &[("id", section.id)], |inside| {
        inside.add(&section.html);
    });
}
