//! The log. Decides its form: lines for people on stderr, one JSON object per line on request.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

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
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    if json {
        builder.json().init();
    } else {
        builder.with_ansi(std::io::stderr().is_terminal()).init();
    }
}
