//! `muster cancel JOB…`: stops jobs and removes them.

use anyhow::Result;

use crate::args::{CancelArgs, Global};
use crate::backend::Backend;
use crate::manifest::typed_name;
use crate::out;
use crate::view::JobView;

pub(crate) async fn run(global: &Global, args: &CancelArgs) -> Result<u8> {
    for name in &args.names {
        let backend = Backend::connect(global, Some(name)).await?;
        let job = backend.job(name).await?;
        backend.delete(JobView(&job)).await?;
        out::data(&format!("{} deleted\n", typed_name(&job)));
    }
    Ok(0)
}
