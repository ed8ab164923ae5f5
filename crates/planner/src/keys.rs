//! What the Secret of a job holds. Nobody here makes keys or sees them.

/// What a key Secret holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keys {
    /// One SSH key pair, for all pods.
    SshPair,
    /// Keys of transport Agent: one for the launcher, and one for each worker.
    Agent {
        /// What the names of the workers' pods begin with; `-` and an index follow.
        worker: String,
        /// So many workers have keys.
        workers: u32,
        /// How long the keys are valid.
        valid_secs: u64,
    },
}
