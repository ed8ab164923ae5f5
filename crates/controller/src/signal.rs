//! The signals that stop the process: SIGTERM from Kubernetes, SIGINT from a terminal.

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};

/// Resolves when one of them arrives.
pub(crate) fn told_to_stop() -> anyhow::Result<impl Future<Output = ()> + Send + 'static> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("stopping");
    })
}
