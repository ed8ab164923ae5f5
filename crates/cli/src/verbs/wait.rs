//! `muster wait JOB`: waits until the job is over, and exits with its code.

use std::time::Duration;

use anyhow::Result;

use crate::args::{Global, WaitArgs};
use crate::backend::Backend;
use crate::exit;
use crate::follow::Follower;
use crate::out;

pub(crate) async fn run(global: &Global, args: &WaitArgs) -> Result<u8> {
    let backend = Backend::connect(global, Some(&args.job.name)).await?;
    let follower = Follower::new(global, &backend);
    let name = &args.job.name;
    let finished = follower.interruptible(follower.until_finished(name), name);
    let verdict = match args.timeout {
        Some(secs) => match tokio::time::timeout(Duration::from_secs(secs), finished).await {
            Ok(verdict) => verdict?,
            Err(_) => {
                let name = &args.job.name;
                out::note(&format!(
                    "error: {name} is not finished after {secs}s; it keeps running\n"
                ));
                return Ok(exit::DEADLINE);
            }
        },
        None => finished.await?,
    };
    if args.output.is_some() {
        out::data(&format!("{:#}\n", verdict.json));
    }
    Ok(verdict.code)
}
