//! The two forms of the text that Prometheus reads. Decides which of them a client gets.

/// A form of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// OpenMetrics 1.0, for those who ask for it.
    OpenMetrics,
    /// Prometheus' own, which everything reads.
    Classic,
}

impl Format {
    /// For a client that accepts this.
    pub(crate) fn accepted(accept: Option<&str>) -> Self {
        match accept.is_some_and(|accept| accept.contains("application/openmetrics-text")) {
            true => Self::OpenMetrics,
            false => Self::Classic,
        }
    }

    /// What the text is, for HTTP.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Classic => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// In this form, from a text of OpenMetrics.
    pub(super) fn of(self, text: String) -> String {
        match self {
            Self::OpenMetrics => text,
            Self::Classic => classic(&text),
        }
    }
}

/// In Prometheus' own form, a counter's `_total` is part of its name. Nothing else that we have differs.
fn classic(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut help = None;
    for line in text.lines() {
        if line == "# EOF" {
            continue;
        }
        // The type comes next, and decides the name.
        if let Some(of) = line.strip_prefix("# HELP ") {
            help = of.split_once(' ');
            continue;
        }
        let kind = line
            .strip_prefix("# TYPE ")
            .and_then(|of| of.split_once(' '));
        let Some((name, kind)) = kind else {
            out.push_str(line);
            out.push('\n');
            continue;
        };
        let total = if kind == "counter" { "_total" } else { "" };
        if let Some((_, help)) = help.take() {
            out.push_str(&format!("# HELP {name}{total} {help}\n"));
        }
        out.push_str(&format!("# TYPE {name}{total} {kind}\n"));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_classic_form_names_counters_whole() {
        let open = "# HELP a A thing.\n# TYPE a counter\na_total 1\n# HELP b Another.\n# TYPE b gauge\nb{c=\"# x\"} 2\n# EOF\n";
        let classic = "# HELP a_total A thing.\n# TYPE a_total counter\na_total 1\n# HELP b Another.\n# TYPE b gauge\nb{c=\"# x\"} 2\n";
        assert_eq!(Format::Classic.of(open.to_owned()), classic);
        assert_eq!(Format::OpenMetrics.of(open.to_owned()), open);
    }

    #[test]
    fn a_client_gets_what_it_asks_for_and_others_the_classic_form() {
        let prometheus =
            "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5";
        assert_eq!(Format::accepted(Some(prometheus)), Format::OpenMetrics);
        assert_eq!(Format::accepted(Some("*/*")), Format::Classic);
        assert_eq!(Format::accepted(None), Format::Classic);
    }
}
