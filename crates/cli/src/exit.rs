//! Exit codes. Commands that follow a job exit with the code of its program; 120 and above are for
//! what the program did not cause. All other commands exit with 0, 1 or 2. Wrong
//! arguments are 2 for every command.

/// A command that does not follow a job failed, or `lint` found an error.
pub(crate) const FAILED: u8 = 1;
/// The arguments are wrong, whatever the command, and nothing was started. A program may have the
/// same code.
pub(crate) const USAGE: u8 = 2;
/// The job never started.
pub(crate) const NEVER_STARTED: u8 = 120;
/// The program exited with 0, but its ranks did not run on all workers.
pub(crate) const NOT_DISTRIBUTED: u8 = 121;
/// The job was cancelled.
pub(crate) const STOPPED: u8 = 122;
/// The job failed because it lost a worker.
pub(crate) const LOST: u8 = 123;
/// A deadline of the job or of the command has passed.
pub(crate) const DEADLINE: u8 = 124;
/// A command that follows a job failed because of an error of muster or of the cluster.
pub(crate) const TROUBLE: u8 = 125;
/// The launcher's command was not found.
pub(crate) const NOT_FOUND: u8 = 127;
/// Added to the number of a signal.
pub(crate) const SIGNAL: u8 = 128;
/// Ctrl-C.
pub(crate) const INTERRUPTED: u8 = SIGNAL + 2;
/// The reader of our output has closed the pipe.
pub(crate) const PIPE_CLOSED: u8 = SIGNAL + 13;

/// An error with an exit code. An empty text means that the error has been printed already.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub(crate) struct Failure {
    pub(crate) code: u8,
    pub(crate) text: String,
}

impl Failure {
    /// An error that ends the process with this code.
    #[expect(
        clippy::new_ret_no_self,
        reason = "it is only ever returned as an error"
    )]
    pub(crate) fn new(code: u8, text: impl Into<String>) -> anyhow::Error {
        let text = text.into();
        Self { code, text }.into()
    }

    /// Wrong arguments that the grammar cannot detect.
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self {
            code: USAGE,
            text: text.into(),
        }
    }
}
