//! When the process is told to stop: SIGTERM, as Kubernetes does it, or SIGINT, as people do.

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};

/// Resolves when that happens.
pub(crate) fn told_to_stop() -> anyhow::Result<impl Future<Output = ()> + Send + 'static> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("told to stop");
    })
}
