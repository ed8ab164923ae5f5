//! Which logs are still being written, so that whoever follows one knows when to stop.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex};

static LIVE: LazyLock<Mutex<BTreeSet<PathBuf>>> = LazyLock::new(Mutex::default);

/// A log that is being written as long as this lives.
#[derive(Debug)]
pub(crate) struct Live(PathBuf);

impl Live {
    pub(crate) fn begin(path: &Path) -> Self {
        let mut live = LIVE.lock().expect("no thread panics with the lock held");
        live.insert(path.to_owned());
        Self(path.to_owned())
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        let mut live = LIVE.lock().expect("no thread panics with the lock held");
        live.remove(&self.0);
    }
}

/// Whether more may come.
pub(crate) fn is_live(path: &Path) -> bool {
    let live = LIVE.lock().expect("no thread panics with the lock held");
    live.contains(path)
}
