//! `muster cancel JOB…`: stops jobs and removes them.

use anyhow::Result;

use crate::args::{CancelArgs, Global};
use crate::out;
use crate::site::Site;
use crate::verbs::render::typed_name;
use crate::view::JobView;

pub(crate) async fn run(global: &Global, args: &CancelArgs) -> Result<u8> {
    for name in &args.names {
        let site = Site::connect(global, Some(name)).await?;
        let job = site.job(name).await?;
        site.delete(JobView(&job)).await?;
        out::data(&format!("{} deleted\n", typed_name(&job)));
    }
    Ok(0)
}
