//! What a seed decides before anything happens: the job, the operators, what its user does, how its program
//! fares, and the faults.

use crate::fault::{Fault, FaultKind};
use crate::jobs;
use crate::random::Random;

/// One run, before it runs.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// Where everything else comes from.
    pub seed: u64,
    /// The job, by the name of its file.
    pub job: &'static str,
    /// A second job, which its user submits at the same time and leaves alone.
    pub beside: Option<&'static str>,
    /// Workers at first.
    pub workers: u32,
    /// Operators that lead at once: one, or two.
    pub replicas: usize,
    /// How the program fares.
    pub fate: Fate,
    /// What the user does, and after how many milliseconds.
    pub script: Vec<(u64, UserAction)>,
    /// What goes wrong.
    pub faults: Vec<Fault>,
}

/// How the launcher's program fares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It exits with 0.
    Succeeds,
    /// It fails once and then exits with 0.
    FailsOnce,
    /// It always fails.
    Fails,
    /// It never starts, because the containers of its workers never do.
    Stuck,
}

/// What a user does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserAction {
    /// Creates the job.
    Submit,
    /// Suspends it.
    Suspend,
    /// Resumes it.
    Resume,
    /// Asks for so many workers.
    Scale(u32),
    /// Changes an annotation.
    Touch,
    /// Gives it an annotation of a hundred kilobytes.
    Bloat,
    /// Deletes it.
    Delete,
    /// Deletes it and creates it again under the same name.
    Recreate,
}

impl UserAction {
    /// It asks for nothing else than before.
    fn is_idle(self) -> bool {
        matches!(self, Self::Touch | Self::Bloat)
    }
}

/// Writes at which a fault may strike: a job has some twenty, and more when things go wrong.
const WRITES: u64 = 30;
/// Between two actions of a user who takes their time.
const USUAL_MS: u64 = 5_000;
/// Faults of one schedule. Most have few: they take less time, and show as much.
const FAULTS_MAX: u64 = 12;

impl Schedule {
    /// The schedule of this seed.
    pub fn of_seed(seed: u64) -> Self {
        let mut random = Random::new(seed, "schedule");
        let names: Vec<&'static str> = jobs::names().collect();
        let job = *random.pick(&names);
        let replicas = 1 + usize::from(random.one_in(5));
        let mut fate =
            *random.pick(&[Fate::Succeeds, Fate::Succeeds, Fate::FailsOnce, Fate::Fails]);
        // Only a deadline ends a job that never starts.
        if jobs::template(job).has_deadline && random.one_in(3) {
            fate = Fate::Stuck;
        }
        let beside = (fate != Fate::Stuck && random.one_in(8)).then(|| *random.pick(&names));
        let mut schedule = Self {
            seed,
            job,
            beside,
            workers: 1 + u32::try_from(random.skewed(0, 3)).unwrap_or(0),
            replicas,
            fate,
            script: script(&mut random, job),
            faults: Vec::new(),
        };
        let mut random = Random::new(seed, "faults");
        for _ in 0..random.skewed(0, FAULTS_MAX) {
            schedule.faults.push(Fault {
                replica: usize::try_from(random.below(replicas as u64)).unwrap_or(0),
                write: u32::try_from(random.skewed(0, WRITES)).unwrap_or(0),
                kind: *random.pick(FaultKind::ALL),
            });
        }
        schedule.faults.sort();
        schedule.faults.dedup();
        schedule
    }

    /// The user changes the number of workers.
    pub(crate) fn scales(&self) -> bool {
        let is_scaling = |action: &UserAction| matches!(action, UserAction::Scale(_));
        self.script.iter().any(|(_, action)| is_scaling(action))
    }

    /// The same without faults.
    pub fn undisturbed(&self) -> Self {
        Self {
            faults: Vec::new(),
            ..self.clone()
        }
    }

    /// The same without what chance decides: one operator, and a user who takes their time.
    pub(crate) fn usual(&self) -> Self {
        let mut script = self.script.clone();
        script.retain(|(_, action)| !action.is_idle());
        for (index, (at, _)) in (0..).zip(&mut script) {
            *at = (*at).min(1) * index * USUAL_MS;
        }
        Self {
            seed: 0,
            replicas: 1,
            script,
            ..self.clone()
        }
    }

    /// The job as its user left it, submitted like that. None where what happened before may matter: a job
    /// that was deleted, a program that failed, and whatever is done to pods.
    pub fn without_history(&self) -> Option<Self> {
        let mut fresh = Self {
            script: vec![(0, UserAction::Submit)],
            ..self.undisturbed()
        };
        let mut suspended = false;
        for (_, action) in self.script.iter().skip(1) {
            match action {
                UserAction::Scale(count) => fresh.workers = *count,
                UserAction::Suspend => suspended = true,
                UserAction::Resume => suspended = false,
                UserAction::Touch | UserAction::Bloat => {}
                UserAction::Submit | UserAction::Delete | UserAction::Recreate => return None,
            }
        }
        if suspended {
            fresh.script.push((0, UserAction::Suspend));
        }
        let transparent = self.faults.iter().all(|fault| fault.kind.is_transparent());
        let applies = self.script.len() > 1 && transparent && self.fate == Fate::Succeeds;
        applies.then_some(fresh)
    }

    /// Whether the job must end as it would without the faults. A user who acts while the job runs acts at
    /// another point of its life when a fault delays it.
    pub fn has_twin(&self) -> bool {
        let transparent = self.faults.iter().all(|fault| fault.kind.is_transparent());
        let acts = |action: &UserAction| {
            let begins = matches!(
                action,
                UserAction::Submit | UserAction::Recreate | UserAction::Delete
            );
            !begins && !action.is_idle()
        };
        // Time that a fault costs may be all that was left.
        let mut both = [Some(self.job), self.beside].into_iter().flatten();
        let deadline = both.any(|job| jobs::template(job).has_deadline);
        transparent && !deadline && !self.script.iter().any(|(_, action)| acts(action))
    }
}

fn script(random: &mut Random, job: &str) -> Vec<(u64, UserAction)> {
    let mut script = vec![(0, UserAction::Submit)];
    let (mut at, mut suspended) = (0, false);
    let can_suspend = jobs::template(job).suspension(true).is_some();
    for _ in 0..random.skewed(0, 4) {
        at += random.skewed(10, 20_000);
        let action = match random.below(8) {
            0..=2 if can_suspend && !suspended => UserAction::Suspend,
            0..=2 if suspended => UserAction::Resume,
            3 | 4 => UserAction::Scale(1 + u32::try_from(random.below(4)).unwrap_or(0)),
            5 => UserAction::Delete,
            6 => UserAction::Recreate,
            _ if random.one_in(4) => UserAction::Bloat,
            _ => UserAction::Touch,
        };
        suspended = match action {
            UserAction::Suspend => true,
            UserAction::Resume | UserAction::Recreate => false,
            _ => suspended,
        };
        script.push((at, action));
        if action == UserAction::Delete {
            break;
        }
    }
    script
}
