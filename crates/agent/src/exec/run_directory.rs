//! The directory in which shims tell of their sessions. Decides where it is and when it is worth reading; must
//! not know what follows from a record.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use contract::env;

use crate::session_record::SessionRecord;
use crate::settings;

/// The clock of a file system may be coarse.
const SETTLED_AGE: Duration = Duration::from_millis(400);

/// Where shims write; removed with the attempt.
pub(super) struct RunDirectory {
    pub(super) path: Option<PathBuf>,
    ours: bool,
    seen: Option<SystemTime>,
}

impl RunDirectory {
    /// The root file system may be read-only; somewhere there is room for small files. A container
    /// that was restarted may find its predecessor's directory, whose process had the same number.
    pub(super) fn make(mark: &str, is_again: bool) -> Self {
        let given = settings::variable(env::RUN_DIR).map(PathBuf::from);
        let name = format!("muster-{mark}");
        // Whoever sets TMPDIR removes what is left there when this program is killed.
        let temporary = std::env::temp_dir();
        let places = [
            &*temporary,
            Path::new("/tmp"),
            Path::new("/dev/shm"),
            Path::new("/var/tmp"),
        ];
        let places = places.map(|place| place.join(&name));
        let made = |path: &PathBuf| std::fs::create_dir(path).is_ok();
        let ours = given.is_none();
        if let Some(given) = given.as_ref().filter(|_| is_again) {
            let earlier = SessionRecord::read_all(given);
            earlier.iter().for_each(|record| record.remove(given));
        }
        let path = given.or_else(|| places.into_iter().find(made));
        if path.is_none() {
            eprintln!(
                "muster-agent: no directory can be written to, so this run reports nothing of its ranks: mount an emptyDir on /tmp"
            );
        }
        Self {
            path,
            ours,
            seen: None,
        }
    }

    /// The next read tells everything.
    pub(super) fn forget(&mut self) {
        self.seen = None;
    }

    /// New records, if there was any change since they were last read.
    pub(super) fn read(&mut self) -> Option<Vec<SessionRecord>> {
        let path = self.path.as_ref()?;
        let changed = std::fs::metadata(path).and_then(|m| m.modified()).ok()?;
        // A change in the same tick of the clock would be missed; look once more a moment later.
        let settled = changed.elapsed().is_ok_and(|age| age > SETTLED_AGE);
        if self.seen == Some(changed) {
            return None;
        }
        self.seen = settled.then_some(changed);
        Some(SessionRecord::read_all(path))
    }
}

impl Drop for RunDirectory {
    fn drop(&mut self) {
        if let (Some(path), true) = (&self.path, self.ours) {
            // Small, and gone with the container at the latest.
            let _ = std::fs::remove_dir_all(path);
        }
    }
}
