//! Long-running programs under the first process of a namespace. Decides that the end of any of them
//! is the end of that process (and so of everything in its namespace), and reaps whatever else is
//! left to it. Must not know what the programs do.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use rustix::process::{WaitOptions, wait};

use super::wait::tail;

#[derive(Default)]
pub(crate) struct Daemons(Vec<Daemon>);

struct Daemon {
    name: &'static str,
    log: PathBuf,
    child: Child,
}

impl Daemons {
    pub(crate) fn start(
        &mut self,
        name: &'static str,
        log: PathBuf,
        command: &mut Command,
    ) -> Result<()> {
        let child = spawn_logged(command, &log).with_context(|| format!("cannot start {name}"))?;
        self.0.push(Daemon { name, log, child });
        Ok(())
    }

    /// Fails if any of the programs has ended.
    pub(crate) fn all_alive(&mut self) -> Result<()> {
        for daemon in &mut self.0 {
            if let Some(status) = daemon.child.try_wait()? {
                bail!("{} ended ({status}); {}", daemon.name, tail(&daemon.log));
            }
        }
        Ok(())
    }

    /// Reaps orphans until one of the programs ends, which is an error.
    pub(crate) fn keep(self) -> Result<()> {
        loop {
            let ended = match wait(WaitOptions::empty()) {
                Ok(Some((pid, _))) => pid.as_raw_nonzero().get().unsigned_abs(),
                Ok(None) | Err(rustix::io::Errno::INTR) => continue,
                Err(error) => bail!("cannot wait for child processes: {error}"),
            };
            if let Some(daemon) = self.0.iter().find(|daemon| daemon.child.id() == ended) {
                bail!("{} ended; {}", daemon.name, tail(&daemon.log));
            }
        }
    }
}

/// Starts a program whose output goes to a file of its own.
pub(crate) fn spawn_logged(command: &mut Command, log: &Path) -> Result<Child> {
    let out = File::create(log).with_context(|| format!("cannot make {}", log.display()))?;
    let copy = out.try_clone()?;
    Ok(command
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(copy)
        .spawn()?)
}
