//! What a pod calls itself. Decides that alone; by which names hosts find each other is the job's
//! choice.

use crate::job::HostNames;

/// The longest host name.
const HOSTNAME_BYTES_MAX: usize = 63;

/// The host name that a pod's spec sets; none where the pod's own name is one.
pub(crate) fn of_pod(host_names: HostNames, pod: &str) -> Option<String> {
    match host_names {
        HostNames::Service => Some(pod.to_owned()),
        HostNames::Pods if pod.contains('.') => Some(one_label(pod)),
        HostNames::Pods => None,
    }
}

/// A host's own name in one label. Open MPI cuts names at the first dot, and would then take all
/// hosts of a job for one. The end tells pods apart, so that stays.
fn one_label(hostname: &str) -> String {
    let label = hostname.replace('.', "-");
    let start = label.len().saturating_sub(HOSTNAME_BYTES_MAX);
    label[start..].trim_start_matches('-').to_owned()
}
