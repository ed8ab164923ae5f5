//! The log. Decides its form: lines for people on stderr, one JSON object per line on request.

use std::io::IsTerminal as _;

use tracing::Subscriber;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Variable that chooses what is logged, in the words of `tracing-subscriber`.
const FILTER_VARIABLE: &str = contract::env::LOG;

/// Starts logging. `verbosity` is as in klog: 4 and above log details.
pub fn start(verbosity: u8, json: bool) {
    let default = match verbosity {
        0..=3 => "info,kube_client::client::builder=off,kube_client=warn,kube_runtime=warn",
        4..=7 => {
            "debug,kube_client::client::builder=off,kube_client=info,kube_runtime=info,tower=info,hyper=info,hyper_util=info,rustls=info"
        }
        _ => "trace",
    };
    let filter = EnvFilter::try_from_env(FILTER_VARIABLE).unwrap_or_else(|_| default.into());
    let has_colours = std::io::stderr().is_terminal();
    log(filter, json, has_colours, std::io::stderr).init();
}

/// The log as this writer gets it.
fn log<W>(
    filter: EnvFilter,
    json: bool,
    has_colours: bool,
    writer: W,
) -> Box<dyn Subscriber + Send + Sync>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(writer);
    match json {
        true => Box::new(builder.json().finish()),
        false => Box::new(builder.with_ansi(has_colours).finish()),
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use serde_json::Value;

    use super::*;

    /// Keeps what is written.
    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What is logged of a job with this message.
    fn logged(json: bool, message: &str) -> String {
        let kept = Kept::default();
        let writer = kept.clone();
        let log = log("info".into(), json, false, move || writer.clone());
        tracing::subscriber::with_default(log, || {
            tracing::warn!(job = "team-a/pi", "{message}");
            tracing::debug!("details");
        });
        let bytes = kept.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    /// Whoever reads logs by machine reads line by line.
    #[test]
    fn a_line_of_the_json_log_is_one_object_whatever_it_says() {
        let message = "refused:\nline two \"quoted\" \u{1b}[31m";
        let text = logged(true, message);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 1, "{text}");
        let line: Value = serde_json::from_str(lines[0]).unwrap();
        assert_eq!(line["level"], "WARN");
        assert_eq!(line["fields"]["message"], message);
        assert_eq!(line["fields"]["job"], "team-a/pi");
        assert!(line["timestamp"].as_str().unwrap().ends_with('Z'), "{line}");
    }

    #[test]
    fn the_log_for_people_is_text_without_control_characters() {
        let text = logged(false, "blocked");
        assert!(
            text.contains(" WARN ") && text.contains("blocked"),
            "{text}"
        );
        assert!(text.contains("job=\"team-a/pi\""), "{text}");
        assert!(
            !text.contains('\u{1b}') && !text.contains("details"),
            "{text}"
        );
    }
}
