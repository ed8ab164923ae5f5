//! Which processes belong to a request, and how they are ended. Launchers' ranks leave their process
//! group and session, so neither tells: a process belongs if it, or an ancestor, is the one that we
//! started or carries our mark in its environment. Must not know requests or MPI.

use std::collections::{HashMap, HashSet};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};
use rustix::rand::GetRandomFlags;
use serde::{Deserialize, Serialize};

/// How often the tree is looked at while it is being ended.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// After SIGKILL only the kernel itself can hold a process; nobody gains from waiting longer.
const KILL_WAIT_MAX: Duration = Duration::from_secs(5);

/// A process, as `/proc/PID/stat` tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Process {
    pub(crate) number: i32,
    pub(crate) parent: i32,
    /// Ended, and not yet collected by its parent.
    pub(crate) zombie: bool,
    /// In clock ticks since boot; with the number it names a process for good.
    pub(crate) started: u64,
    /// Of a zombie: its wait status, if we may see it.
    pub(crate) status: i32,
}

impl Process {
    pub(crate) fn read(number: i32) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
        Self::parse(number, &stat)
    }

    /// The name in the second field may hold blanks and brackets; the last bracket ends it.
    fn parse(number: i32, stat: &str) -> Option<Self> {
        let (_, rest) = stat.rsplit_once(')')?;
        let fields: Vec<_> = rest.split_ascii_whitespace().collect();
        let state = fields.first()?;
        // The first thread may have ended while others run; then the process has not.
        let threads: u32 = fields.get(17)?.parse().ok()?;
        Some(Self {
            number,
            parent: fields.get(1)?.parse().ok()?,
            zombie: *state == "X" || (*state == "Z" && threads <= 1),
            started: fields.get(19)?.parse().ok()?,
            status: fields.get(49).and_then(|s| s.parse().ok()).unwrap_or(0),
        })
    }

    pub(crate) fn is(&self, other: &Self) -> bool {
        (self.number, self.started) == (other.number, other.started)
    }

    /// Sent to this process or to nobody.
    pub(crate) fn signal(&self, signal: Signal) {
        let Some(pid) = Pid::from_raw(self.number) else {
            return;
        };
        let handle = pidfd_open(pid, PidfdFlags::empty());
        // The number may have been given away before the handle was made.
        if !Self::read(self.number).is_some_and(|now| self.is(&now)) {
            return;
        }
        // It may end at any moment, which is what the signal is for.
        let _ = match handle {
            Ok(handle) => pidfd_send_signal(handle, signal),
            // Kernels before 5.3, and sandboxes that do not know handles.
            Err(Errno::NOSYS) => kill_process(pid, signal),
            Err(error) => Err(error),
        };
    }

    /// It does something of its own when it gets this signal.
    pub(crate) fn handles(&self, signal: i32) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.number));
        let caught = status.ok().and_then(|status| {
            let mask = status
                .lines()
                .find_map(|line| line.strip_prefix("SigCgt:"))?;
            u64::from_str_radix(mask.trim(), 16).ok()
        });
        let bit = u32::try_from(signal - 1)
            .ok()
            .and_then(|bit| 1_u64.checked_shl(bit));
        caught
            .zip(bit)
            .is_some_and(|(caught, bit)| caught & bit != 0)
    }

    /// It runs the same file as this process.
    pub(crate) fn runs_our_program(&self) -> bool {
        let file = |path: &str| {
            let file = std::fs::metadata(path);
            file.map(|file| (file.dev(), file.ino())).ok()
        };
        let own = file("/proc/self/exe");
        own.is_some() && file(&format!("/proc/{}/exe", self.number)) == own
    }

    /// Variables with which it began its program.
    pub(crate) fn environment(&self) -> Vec<u8> {
        std::fs::read(format!("/proc/{}/environ", self.number)).unwrap_or_default()
    }
}

/// All processes that this one can see.
pub(crate) fn all() -> Vec<Process> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(Process::read)
        .collect()
}

/// The value of a variable in an environment as the kernel shows it.
pub(crate) fn value_in<'e>(environment: &'e [u8], name: &str) -> Option<&'e [u8]> {
    environment.split(|byte| *byte == 0).find_map(|entry| {
        let rest = entry.strip_prefix(name.as_bytes())?;
        rest.strip_prefix(b"=")
    })
}

/// Text for a mark that no other tree carries, and that nobody else can guess.
pub(crate) fn new_mark() -> String {
    let mut bytes = [0; 16];
    let filled = rustix::rand::getrandom(&mut bytes, GetRandomFlags::empty());
    assert_eq!(
        filled,
        Ok(bytes.len()),
        "the kernel has random bytes for all"
    );
    format!("{:032x}", u128::from_ne_bytes(bytes))
}

/// The processes of one request.
pub(crate) struct Tree {
    root: Process,
    mark_name: &'static str,
    mark_value: String,
}

impl Tree {
    pub(crate) fn new(root: Process, mark_name: &'static str, mark_value: String) -> Self {
        Self {
            root,
            mark_name,
            mark_value,
        }
    }

    /// Members that are alive, the root first if it is.
    pub(crate) fn members(&self) -> Vec<Process> {
        self.select(all(), |process| {
            let environment = process.environment();
            value_in(&environment, self.mark_name) == Some(self.mark_value.as_bytes())
        })
    }

    /// Members that are known by descent alone: cheap, and enough to watch a healthy tree.
    pub(crate) fn descendants(&self) -> Vec<Process> {
        self.select(all(), |_| false)
    }

    fn select(&self, all: Vec<Process>, marked: impl Fn(&Process) -> bool) -> Vec<Process> {
        let own = std::process::id().cast_signed();
        let mut children: HashMap<i32, Vec<Process>> = HashMap::new();
        let mut waiting = Vec::new();
        for process in all.into_iter().filter(|process| process.number != own) {
            if process.is(&self.root) || (!process.zombie && marked(&process)) {
                waiting.push(process);
            }
            children.entry(process.parent).or_default().push(process);
        }
        let mut members = with_descendants(waiting, &children);
        members.sort_by_key(|process| !process.is(&self.root));
        members
    }

    /// Ends all members, as [`end_all`] does.
    pub(crate) fn end(&self, grace: Duration) {
        end_all(|| self.members(), grace);
    }
}

/// Ends processes: SIGTERM, a grace, SIGKILL. Looks for more of them until there are none, or until the
/// kernel does not let go of one. Whether there are none. Looks twice: a process may start another one while
/// the table is read.
pub(crate) fn end_all(members: impl Fn() -> Vec<Process>, grace: Duration) -> bool {
    let mut asked = HashSet::new();
    let kill_from = Instant::now() + grace;
    loop {
        let mut found = members();
        if found.is_empty() {
            found = members();
        }
        let now = Instant::now();
        if found.is_empty() || now >= kill_from + KILL_WAIT_MAX {
            return found.is_empty();
        }
        for member in &found {
            if now >= kill_from {
                member.signal(Signal::KILL);
            } else if asked.insert((member.number, member.started)) {
                member.signal(Signal::TERM);
                // A stopped process would sit out its grace.
                member.signal(Signal::CONT);
            }
        }
        std::thread::sleep(LOOK_INTERVAL);
    }
}

/// Everything that this process started, and everything below that. Once this process has adopted the
/// orphans below it, nothing can leave by losing its parents or its environment. `is_spared`: children of
/// this process to leave out, with what is below them.
pub(crate) fn below_this_process(is_spared: impl Fn(&Process) -> bool) -> Vec<Process> {
    below(std::process::id().cast_signed(), all(), is_spared)
}

fn below(own: i32, all: Vec<Process>, is_spared: impl Fn(&Process) -> bool) -> Vec<Process> {
    let mut children: HashMap<i32, Vec<Process>> = HashMap::new();
    for process in all {
        children.entry(process.parent).or_default().push(process);
    }
    let own_children = children.remove(&own).unwrap_or_default();
    let chosen = own_children.into_iter().filter(|child| !is_spared(child));
    with_descendants(chosen.collect(), &children)
}

/// These and what descends from them, without those that wait to be collected.
fn with_descendants(
    mut waiting: Vec<Process>,
    children: &HashMap<i32, Vec<Process>>,
) -> Vec<Process> {
    let mut members = Vec::new();
    let mut seen = HashSet::new();
    while let Some(process) = waiting.pop() {
        if seen.insert(process.number) {
            waiting.extend(children.get(&process.number).into_iter().flatten());
            members.push(process);
        }
    }
    members.retain(|process| !process.zombie);
    members
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_look_like_fields() {
        let stat = "42 (a) R 1 ) b) S 7 42 42 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 12345 1 1";
        let process = Process::parse(42, stat).unwrap();
        assert_eq!((process.parent, process.started), (7, 12345));
        assert!(!process.zombie);
        assert_eq!(Process::parse(42, "garbage"), None);
        let of_threads = |threads: u32| {
            let stat =
                format!("42 (a) Z 7 42 42 0 -1 4 1 0 0 0 0 0 0 0 20 0 {threads} 0 12345 1 1");
            Process::parse(42, &stat).unwrap().zombie
        };
        assert!(of_threads(1));
        assert!(!of_threads(2), "only its first thread has ended");
    }

    #[test]
    fn this_process_is_its_own_and_no_other() {
        let own = Process::read(std::process::id().cast_signed()).unwrap();
        assert!(own.is(&own));
        assert!(!own.is(&Process { started: 0, ..own }));
        assert!(all().iter().any(|process| process.is(&own)));
    }

    #[test]
    fn variables_are_found_by_their_whole_name() {
        let environment = b"AB=1\0B=2\0C=\0";
        assert_eq!(value_in(environment, "B"), Some(&b"2"[..]));
        assert_eq!(value_in(environment, "C"), Some(&b""[..]));
        assert_eq!(value_in(environment, "A"), None);
    }

    fn process(number: i32, parent: i32) -> Process {
        Process {
            number,
            parent,
            zombie: false,
            started: 1,
            status: 0,
        }
    }

    #[test]
    fn members_are_descendants_and_what_is_marked_with_theirs() {
        let tree = Tree::new(process(10, 1), "MARK", "x".into());
        let all = vec![
            process(10, 1),
            process(11, 10),
            process(12, 11),
            process(20, 1), // marked: left its parents
            process(21, 20),
            process(30, 1),
            process(31, 30),
        ];
        let found = tree.select(all, |process| process.number == 20);
        let mut numbers: Vec<_> = found.iter().map(|process| process.number).collect();
        assert_eq!(numbers[0], 10);
        numbers.sort_unstable();
        assert_eq!(numbers, [10, 11, 12, 20, 21]);
    }

    #[test]
    fn below_a_process_is_all_but_what_is_spared() {
        let all = vec![
            process(1, 0),
            process(5, 1), // this process
            process(6, 5),
            process(7, 6),
            process(8, 5), // spared
            process(9, 8),
            Process {
                zombie: true,
                ..process(10, 5)
            },
            process(20, 1),
        ];
        let found = below(5, all, |child| child.number == 8);
        let mut numbers: Vec<_> = found.iter().map(|process| process.number).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, [6, 7]);
    }

    #[test]
    fn a_number_given_away_is_not_the_root() {
        let tree = Tree::new(process(10, 1), "MARK", "x".into());
        let later = Process {
            started: 2,
            ..process(10, 1)
        };
        assert!(
            tree.select(vec![later, process(11, 10)], |_| false)
                .is_empty()
        );
    }

    #[test]
    fn marks_differ() {
        assert_ne!(new_mark(), new_mark());
    }
}
