//! Every process below this one, for where no PID namespace ends them with their first process.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};

/// Kills everything below us until nothing is left. New children of what was just killed become
/// ours, because this process is a subreaper, and are found in the next round.
pub(super) fn kill_all() {
    let me = rustix::process::getpid().as_raw_nonzero().get();
    for _ in 0..1000 {
        while let Ok(Some(_)) = rustix::process::wait(rustix::process::WaitOptions::NOHANG) {}
        let below = descendants(me);
        if below.is_empty() {
            return;
        }
        for pid in below {
            if let Some(pid) = Pid::from_raw(pid) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        std::thread::yield_now();
    }
}

fn descendants(root: i32) -> Vec<i32> {
    let mut parents = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<i32>().ok())
        else {
            continue;
        };
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else {
            continue;
        };
        // The name in brackets may hold anything, also brackets and blanks.
        let parent = stat
            .rsplit_once(')')
            .and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse::<i32>().ok());
        if let Some(parent) = parent {
            parents.push((pid, parent));
        }
    }
    let mut found = vec![root];
    let mut next = 0;
    while next < found.len() {
        let parent = found[next];
        found.extend(
            parents
                .iter()
                .filter(|(_, of)| *of == parent)
                .map(|(pid, _)| *pid),
        );
        next += 1;
    }
    found.split_off(1)
}
