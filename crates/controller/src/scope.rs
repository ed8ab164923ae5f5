//! What whoever starts the operator decides: the command line, local mode, or a test.

use jiff::Timestamp;
use planner::site::Site;

/// Which jobs the operator reconciles, and how.
#[derive(Clone, Debug)]
pub struct Scope {
    /// Settings that change the objects of jobs.
    pub site: Site,
    /// One namespace, or all.
    pub namespace: Option<String>,
    /// Jobs reconciled at once.
    pub concurrency: u16,
    /// The time.
    pub clock: fn() -> Timestamp,
    /// Letters for the name of an object that nobody can guess; [`crate::nonce`] but for tests.
    pub nonce: fn() -> String,
}
