//! Draws the pictures of the documentation in a real browser. Decides where they go; a test of `muster report` knows what is on
//! them.

use anyhow::{Context, Result};

use crate::command::{self, cargo};
use crate::{packages, root};

/// Draws all of them anew.
pub(crate) fn run() -> Result<()> {
    packages::ensure(&["chromium", packages::BROWSER_FONT])?;
    let place = root().join("docs/pictures");
    std::fs::create_dir_all(&place)
        .with_context(|| format!("cannot create {}", place.display()))?;
    let mut draw = cargo("test");
    draw.args([
        "--package",
        "cli",
        "--test",
        "local",
        "--",
        "--ignored",
        "--exact",
        "report::pictures",
    ]);
    command::run(draw.env("MUSTER_PICTURES", &place))
}
