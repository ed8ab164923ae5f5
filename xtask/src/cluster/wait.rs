//! Waiting for a condition, with a limit. Decides what is said when the condition does not come: how
//! long it was waited for, and the end of the log that tells why. Must not know any condition.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

const POLL: Duration = Duration::from_millis(40);
const LOG_LINES: usize = 15;

/// Asks until the answer is yes. An error of `holds` ends the wait at once.
pub(crate) fn until(
    what: &str,
    limit: Duration,
    log: &Path,
    mut holds: impl FnMut() -> Result<bool>,
) -> Result<()> {
    let start = Instant::now();
    while !holds()? {
        if start.elapsed() > limit {
            bail!(
                "timed out after {} s: {what}; {}",
                limit.as_secs(),
                tail(log)
            );
        }
        thread::sleep(POLL);
    }
    Ok(())
}

/// The last lines of a log file, ready to stand in an error message.
pub(crate) fn tail(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<_> = text.lines().collect();
    if lines.is_empty() {
        return format!("{} is empty", log.display());
    }
    let last = &lines[lines.len().saturating_sub(LOG_LINES)..];
    format!("last lines of {}:\n{}", log.display(), last.join("\n"))
}

/// Says on stderr what has been reached, and how long after the start.
pub(crate) struct Progress(Instant);

impl Progress {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn reached(&self, what: &str) {
        eprintln!("{:7.1} s  {what}", self.0.elapsed().as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_shows_the_end_of_the_log() {
        let log = std::env::temp_dir().join(format!("muster-wait-{}", std::process::id()));
        fs::write(&log, "first\nthe reason\n").expect("the temporary directory is writable");
        let error = until("a miracle", Duration::ZERO, &log, || Ok(false))
            .unwrap_err()
            .to_string();
        fs::remove_file(&log).expect("the file was just written");
        assert!(
            error.contains("a miracle") && error.contains("the reason"),
            "{error}"
        );
    }
}
