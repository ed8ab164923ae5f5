//! What is said over the control socket of a container: one JSON object per line. The runner says
//! the container's spec first and then commands; the first process answers with events. When the socket
//! closes, the container ends, so a runner that is killed leaves nothing behind.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// How much of a container's own surroundings the kernel lets us make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Isolation {
    /// Namespaces, as root.
    Root,
    /// Namespaces inside a user namespace of our own.
    User,
    /// None: the process sees what we see.
    Bare,
}

impl Isolation {
    /// The word on a stage's command line.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::User => "user",
            Self::Bare => "bare",
        }
    }

    /// The same, read.
    pub(crate) fn parse(word: &str) -> Option<Self> {
        [Self::Root, Self::User, Self::Bare]
            .into_iter()
            .find(|isolation| isolation.as_str() == word)
    }
}

/// Everything that the first process must know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ContainerSpec {
    /// Name of the machine, as the program sees it.
    pub(crate) hostname: String,
    /// The tree to run in instead of this machine's.
    pub(crate) root: Option<PathBuf>,
    /// An empty directory over which the new root is mounted, unseen by others.
    pub(crate) scratch: PathBuf,
    /// In this order.
    pub(crate) mounts: Vec<Mount>,
    pub(crate) program: Program,
}

/// A file or directory that appears elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mount {
    pub(crate) source: PathBuf,
    pub(crate) target: PathBuf,
    pub(crate) read_only: bool,
}

/// What to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Program {
    /// Program and arguments; never empty.
    pub(crate) words: Vec<String>,
    /// The whole environment.
    pub(crate) variables: Vec<(String, String)>,
    pub(crate) directory: Option<PathBuf>,
    /// Only root can become another user.
    pub(crate) user: Option<u32>,
    pub(crate) group: Option<u32>,
}

/// From the runner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Command {
    /// First and once.
    Run(Box<ContainerSpec>),
    /// To the program and its process group.
    Signal(i32),
    /// To everything in the container.
    Kill,
    /// Run something beside the program; answered by [`ContainerEvent::ExecExited`].
    Exec {
        id: u64,
        words: Vec<String>,
        timeout_secs: u64,
    },
}

/// To the runner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ContainerEvent {
    /// The program runs.
    Started,
    /// The program could not be started: `code` is what a shell would end with.
    NotStarted { code: i32, message: String },
    /// The container could not be made around it.
    SetupFailed { message: String },
    /// The program ended; so does the container.
    Exited { code: i32, signal: Option<i32> },
    /// What was run beside the program ended; no code when it took too long or did not start.
    ExecExited { id: u64, code: Option<i32> },
}
