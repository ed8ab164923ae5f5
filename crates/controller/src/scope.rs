//! What whoever starts the operator decides: the command line, local mode, or a test.

use jiff::Timestamp;
use planner::site::Site;
use serde_json::Value;

use crate::{agent_keys, keys};

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
    /// Where keys come from; [`KeySource::FRESH`] but for simulations.
    pub keys: KeySource,
}

/// Who makes keys, each as the `data` of a Secret.
#[derive(Clone, Copy, Debug)]
pub struct KeySource {
    /// A pair of SSH keys.
    pub ssh: fn() -> Value,
    /// The keys of one start, for transport Agent: of the launcher, and of so many workers whose pods are
    /// called by a prefix. They are valid until a time.
    pub agent: fn(&str, u32, Timestamp) -> Value,
}

impl KeySource {
    /// Keys that nobody had before.
    pub const FRESH: Self = Self {
        ssh: keys::secret_data,
        agent: agent_keys::secret_data,
    };
}
