//! The page about queues and gangs: every command on it runs as it is written.

use std::fs;

use anyhow::{Result, ensure};
use e2e::cluster_fixture::{repository, with_cluster};

use crate::kueue;

const PAGE: &str = "docs/how-to/queues-and-gangs.md";
/// Fewer would mean that the page is not read as it is written.
const BLOCKS_MIN: usize = 8;

#[test]
fn every_command_of_the_page_works() -> Result<()> {
    with_cluster("how-to", |fixture| {
        kueue::install(&fixture.cluster)?;
        let page = fs::read_to_string(repository().join(PAGE))?;
        let blocks: Vec<_> = page.split("\n```\n").skip(1).step_by(2).collect();
        ensure!(blocks.len() >= BLOCKS_MIN, "{} blocks", blocks.len());
        blocks
            .into_iter()
            .try_for_each(|block| fixture.shell(block).map(drop))
    })
}
