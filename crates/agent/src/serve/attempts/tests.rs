//! One worker and the attempts of one launcher or of two, in every order of their requests.

use std::collections::BTreeSet;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::attempt_mark::LauncherStart;

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(10)
}

/// A process of this machine that no signal reaches, because it was never there.
fn nobody() -> Process {
    Process {
        number: i32::MAX,
        parent: 1,
        zombie: false,
        started: 0,
        status: 0,
    }
}

#[test]
fn nothing_is_started_for_an_attempt_that_is_over() {
    let attempts = Arc::new(Attempts::default());
    let launcher = LauncherStart::new();
    let (one, two) = (launcher.attempt(1), launcher.attempt(2));
    let start = |mark: Option<&str>| attempts.start(mark, Vec::new, || ());
    assert!(start(Some(&one)).is_ok());
    assert!(attempts.has_worker(&one));
    let ended = attempts.end(one.clone(), Vec::new, Duration::ZERO, soon());
    assert!(ended.is_ok(), "{ended:?}");
    let late = start(Some(&one));
    assert!(matches!(late, Err(Refused::Over)), "{late:?}");
    assert!(!attempts.has_worker(&one) && attempts.has_worker(&two));
    assert!(start(Some(&two)).is_ok());
    assert!(start(None).is_ok());
}

#[test]
fn nothing_is_started_while_anything_is_left_and_what_began_later_is_not_ended() {
    let attempts = Arc::new(Attempts::default());
    let launcher = LauncherStart::new();
    let two = launcher.attempt(2);
    let left = Arc::new(AtomicUsize::new(1));
    let count = left.clone();
    let leftovers = move || vec![nobody(); count.load(Ordering::SeqCst)];
    let at_once = Instant::now();
    let end = |until| {
        attempts.end(
            launcher.attempt(1),
            leftovers.clone(),
            Duration::ZERO,
            until,
        )
    };
    let early = end(at_once);
    assert!(matches!(early, Err(Refused::Left(1))), "{early:?}");
    let early = attempts.start(Some(&two), Vec::new, || ());
    assert!(matches!(early, Err(Refused::Ending)), "{early:?}");
    left.store(0, Ordering::SeqCst);
    assert!(end(soon()).is_ok());
    assert!(attempts.start(Some(&two), Vec::new, || ()).is_ok());
    // Asked once more, as a launcher does that has not heard the answer.
    left.store(1, Ordering::SeqCst);
    assert!(end(at_once).is_ok());
    assert!(attempts.start(Some(&two), Vec::new, || ()).is_ok());
}

/// As of an agent of another version, whose marks name no launcher; or of a worker that an elastic program did
/// without, when its launcher began.
#[test]
fn a_launcher_that_has_not_begun_here_gets_a_worker_where_nothing_is_left() {
    let attempts = Arc::new(Attempts::default());
    let busy = || vec![nobody()];
    assert!(attempts.start(Some("5f"), busy, || ()).is_ok());
    let refused = attempts.start(Some("60"), busy, || ());
    assert!(
        matches!(refused, Err(Refused::OtherLauncher)),
        "{refused:?}"
    );
    assert!(!attempts.has_worker("60") && attempts.has_worker("5f"));
    assert!(attempts.start(Some("60"), Vec::new, || ()).is_ok());
    let outranked = attempts.start(Some("5f"), Vec::new, || ());
    assert!(matches!(outranked, Err(Refused::OtherLauncher)));
}

/// What a launcher asks a worker for, one after the other.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Request {
    End(u32),
    Start(u32),
}

/// It begins, starts its program, and starts it again after a failure.
const LIFE: [Request; 5] = [
    Request::End(0),
    Request::Start(1),
    Request::End(1),
    Request::Start(2),
    Request::End(2),
];

/// One worker, on which every process carries its attempt's mark.
struct Worker {
    attempts: Arc<Attempts>,
    launchers: [LauncherStart; 2],
    running: Arc<Mutex<BTreeSet<String>>>,
}

impl Worker {
    fn new() -> Self {
        Self {
            attempts: Arc::default(),
            launchers: [LauncherStart::new(), LauncherStart::new()],
            running: Arc::default(),
        }
    }

    fn running(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the worker did it.
    fn ask(&self, launcher: usize, request: Request) -> bool {
        let running = self.running.clone();
        let count = move || {
            let running = running.lock().unwrap_or_else(PoisonError::into_inner);
            vec![nobody(); running.len()]
        };
        let mark = |number| self.launchers[launcher].attempt(number);
        match request {
            Request::Start(number) => {
                let mark = mark(number);
                let run = || self.running().insert(mark.clone());
                let started = self.attempts.start(Some(&mark), count, run);
                started.is_ok()
            }
            Request::End(number) => {
                let running = self.running.clone();
                let dying = move || {
                    let mut running = running.lock().unwrap_or_else(PoisonError::into_inner);
                    running.clear();
                    Vec::new()
                };
                let ended = self
                    .attempts
                    .end(mark(number), dying, Duration::ZERO, soon());
                ended.is_ok()
            }
        }
    }
}

/// All orders of the requests of two launchers: whose turn it is.
fn orders(left: [usize; 2]) -> Vec<Vec<usize>> {
    if left == [0, 0] {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for launcher in [0, 1] {
        if left[launcher] > 0 {
            let mut rest = left;
            rest[launcher] -= 1;
            for mut order in orders(rest) {
                order.insert(0, launcher);
                all.push(order);
            }
        }
    }
    all
}

/// Two launchers that live, in every order of what they ask for. A launcher asks for nothing more once it was
/// refused, except that a start which is under way arrives late: once more after everything else that it
/// asked for.
#[test]
fn a_worker_never_runs_two_attempts_and_the_later_launcher_keeps_it() {
    for order in orders([LIFE.len() + 1; 2]) {
        let worker = Worker::new();
        let mut asked = [0; 2];
        let mut refused = [false; 2];
        let mut last_begun = None;
        for launcher in &order {
            let launcher = *launcher;
            let next = asked[launcher];
            asked[launcher] += 1;
            let Some(request) = LIFE.get(next).copied() else {
                let late = worker.ask(launcher, Request::Start(1));
                assert!(!late, "{order:?}: attempt 1 is over");
                continue;
            };
            if refused[launcher] {
                continue;
            }
            let was_done = worker.ask(launcher, request);
            if request == Request::End(0) {
                assert!(was_done, "{order:?}: a launcher can begin");
                last_begun = Some(launcher);
            }
            let has_worker = last_begun == Some(launcher);
            assert_eq!(was_done, has_worker, "{order:?}: {launcher} {request:?}");
            refused[launcher] = !was_done;
            let running = worker.running();
            assert!(running.len() <= 1, "{order:?}: {running:?}");
        }
    }
}
