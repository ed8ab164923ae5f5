//! Workers of one job that one request reaches. Decides how the request selects them; which workers
//! shall go is for the policies.

use contract::labels::{
    JOB_ROLE_LABEL, JOB_UID_LABEL, OPERATOR_NAME, OPERATOR_NAME_LABEL, REPLICA_INDEX_LABEL,
    WORKER_ROLE,
};

/// Workers of one job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerSelection {
    /// The job's UID.
    pub job_uid: String,
    /// Only those that have not ended.
    pub is_unfinished: bool,
    /// Only those with a higher replica index, by label.
    pub above: Option<i64>,
}

impl WorkerSelection {
    /// The field selector of pods that have not ended.
    pub const UNFINISHED: &str = "status.phase!=Succeeded,status.phase!=Failed";

    /// All workers of a job.
    pub(crate) fn all(job_uid: &str) -> Self {
        Self {
            job_uid: job_uid.to_owned(),
            is_unfinished: false,
            above: None,
        }
    }

    /// The label selector. Its length does not depend on the number of workers.
    pub fn labels(&self) -> String {
        let above = match self.above {
            Some(index) => format!(",{REPLICA_INDEX_LABEL}>{index}"),
            None => String::new(),
        };
        let uid = &self.job_uid;
        // The operator's name is what pods are watched by: nothing that the selector reaches may
        // be out of sight.
        format!(
            "{OPERATOR_NAME_LABEL}={OPERATOR_NAME},{JOB_UID_LABEL}={uid},{JOB_ROLE_LABEL}={WORKER_ROLE}{above}"
        )
    }

    /// The field selector, or empty for all.
    pub fn fields(&self) -> &'static str {
        match self.is_unfinished {
            true => Self::UNFINISHED,
            false => "",
        }
    }
}
