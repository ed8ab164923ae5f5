//! What the process ends with. Verbs that follow a job end as the job did, and what is not the
//! job's own doing has codes of its own (120 and above); all other verbs know 0, 1 and 2.

/// A verb that follows no job found something, or failed.
pub(crate) const FAILED: u8 = 1;
/// Words that are not in the grammar.
pub(crate) const USAGE: u8 = 2;
/// The job never started.
pub(crate) const NEVER_STARTED: u8 = 120;
/// The program said 0, but its ranks were not where they were asked for.
pub(crate) const NOT_DISTRIBUTED: u8 = 121;
/// Somebody stopped the job.
pub(crate) const STOPPED: u8 = 122;
/// The job was lost with the machines under it.
pub(crate) const LOST: u8 = 123;
/// A deadline, of the job or of the command.
pub(crate) const DEADLINE: u8 = 124;
/// Trouble that is muster's or the cluster's, or words that are not in the grammar.
pub(crate) const TROUBLE: u8 = 125;
/// The launcher's command is not there.
pub(crate) const NOT_FOUND: u8 = 127;
/// Added to the number of a signal.
pub(crate) const SIGNAL: u8 = 128;
/// Ctrl-C.
pub(crate) const INTERRUPTED: u8 = SIGNAL + 2;
/// Whoever read our output has gone.
pub(crate) const PIPE_CLOSED: u8 = SIGNAL + 13;

/// An error that knows what the process should end with. An empty text means that everything was
/// said already.
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

    /// Wrong words, in a way that the grammar cannot see.
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self {
            code: USAGE,
            text: text.into(),
        }
    }
}
