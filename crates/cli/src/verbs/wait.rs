//! `muster wait JOB`: until it is over, then ends as it did.

use std::time::Duration;

use anyhow::Result;

use crate::args::{Global, WaitArgs};
use crate::exit;
use crate::follow::Follower;
use crate::out;
use crate::site::Site;

pub(crate) async fn run(global: &Global, args: &WaitArgs) -> Result<u8> {
    let site = Site::connect(global, Some(&args.job.name)).await?;
    let follower = Follower::new(global, &site);
    let name = &args.job.name;
    let over = follower.attended(follower.until_over(name), name);
    let verdict = match args.timeout {
        Some(secs) => match tokio::time::timeout(Duration::from_secs(secs), over).await {
            Ok(verdict) => verdict?,
            Err(_) => {
                let name = &args.job.name;
                out::note(&format!(
                    "error: {name} is not over after {secs}s; it goes on\n"
                ));
                return Ok(exit::DEADLINE);
            }
        },
        None => over.await?,
    };
    if args.output.is_some() {
        out::data(&format!("{:#}\n", verdict.json));
    }
    Ok(verdict.code)
}
