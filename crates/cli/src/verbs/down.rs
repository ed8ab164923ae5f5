//! `muster down`: ends the cluster of `muster up`, and waits for that.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use kube::Client;
use serde_json::Value;

use crate::backend::config_of_up;
use crate::local::api_server::STOP;
use crate::{out, state};

/// Longer than killing everything takes on a busy machine.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

pub(crate) async fn run() -> Result<u8> {
    if !state::up_is_alive() {
        out::note("No local cluster runs.\n");
        return Ok(0);
    }
    let client = Client::try_from(config_of_up().await?)?;
    let request = http::Request::post(STOP).body(Vec::new())?;
    let _: Value = client
        .request(request)
        .await
        .context("the local cluster does not answer; end its process by hand")?;
    let since = Instant::now();
    while state::up_is_alive() {
        if since.elapsed() > STOP_TIMEOUT {
            bail!("the local cluster did not end in 30 s");
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    out::note("The local cluster has ended, and its jobs with it.\n");
    Ok(0)
}
