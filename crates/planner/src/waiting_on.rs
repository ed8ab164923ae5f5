//! What a job waits for, as a value: the one source of the reason and the sentence in its status, of its
//! events and of the operator's log.

use crate::action::Kind;

/// What a job waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitingOn {
    /// Nothing: the job is over and cleaned up.
    Nothing,
    /// The user, to resume it.
    Resume,
    /// Somebody else's object to let go of a name.
    Name {
        /// What the job needs.
        kind: Kind,
        /// The name that is taken.
        name: String,
    },
    /// The API server, to accept an object.
    Acceptance {
        /// What was refused.
        kind: Kind,
        /// Its name.
        name: String,
    },
    /// The operator, to accept jobs in its own namespace.
    Namespace,
    /// The operator, to be told the image of the agent.
    Agent,
    /// The user, to ask for less.
    Edit,
    /// Its objects other than pods, to exist.
    Objects,
    /// Workers, to run.
    Workers {
        /// So many run.
        running: u32,
        /// So many are wanted.
        wanted: u32,
    },
    /// The launcher's pod, to run.
    Launcher,
    /// The program, to end.
    Program,
    /// The outcome, to be written into the status.
    Record,
    /// Pods that are being deleted, to be gone.
    Departures,
    /// Somebody, to delete the launcher that has ended, and so to ask for another.
    AnotherLauncher,
}
