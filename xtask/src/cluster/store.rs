//! The images of the cluster: its own two, and how an archive gets into a node's image store. Decides
//! that an image which is there already, with the same content, is not brought in again. Must not know
//! what other images are for.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::layout::{Node, State};
use super::programs;
use crate::archive::{self, Config, Identity};
use crate::{cache, command};

/// Holds the namespaces of every pod.
pub(crate) const PAUSE: &str = "muster.test/pause:1";
const COREDNS: &str = "muster.test/coredns:1";

/// The archives without which no node works.
pub(crate) fn own_archives() -> Result<Vec<PathBuf>> {
    Ok(vec![
        single_program(PAUSE, "pause")?,
        single_program(COREDNS, "coredns")?,
    ])
}

/// An image with one static program in an otherwise empty root.
fn single_program(reference: &str, name: &str) -> Result<PathBuf> {
    let program = programs::built(name)?;
    // The path names the build, so it stands for the content. The number is this function's version.
    let inputs = ["1", reference, &program.to_string_lossy()];
    let dir = cache::keyed(&format!("image-{name}"), &inputs, |dir| {
        archive::write_program(
            dir,
            reference,
            &[(name, &program, 0o755)],
            Config::default(),
        )
    })?;
    Ok(dir.join("image.tar"))
}

/// Brings an archive into the store of the containerd that listens on the socket, unless the node has
/// it. Says what it brought in.
pub(crate) fn import(
    state: &State,
    node: Node,
    socket: &Path,
    archive: &Path,
) -> Result<Option<String>> {
    let Identity { reference, digest } = archive::identity(archive)?;
    let marks = state.node(node).join("images");
    let mark = marks.join(reference.replace('/', "_"));
    if fs::read_to_string(&mark).is_ok_and(|known| known == digest) {
        return Ok(None);
    }
    command::output(
        Command::new("ctr")
            .arg("--address")
            .arg(socket)
            .args(["--namespace", "k8s.io", "images", "import"])
            .arg(archive),
    )
    .with_context(|| format!("cannot import {reference} on {}", node.name()))?;
    fs::create_dir_all(&marks).with_context(|| format!("cannot make {}", marks.display()))?;
    fs::write(&mark, digest).with_context(|| format!("cannot write {}", mark.display()))?;
    Ok(Some(reference))
}
