//! Entry of `muster-operator`: parse arguments, start the log, run.

use std::process::ExitCode;

use controller::{args, run, telemetry};

// One thread: the operator mostly waits, and more threads cost memory.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let settings = args::parse();
    telemetry::start(settings.verbosity, settings.log_json);
    settings.log();
    match run(settings).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}
