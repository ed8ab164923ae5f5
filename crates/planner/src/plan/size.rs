//! Policy: a job that is too large to run is refused at once, and told the largest size that is not.
//! Decides what is too large; how large the parts of a job are is for `render`. A tenant may ask for a job
//! again and again, so nothing is written down to be measured.

use contract::host_list;

use crate::observed::Observed;
use crate::reach::Reach;
use crate::render::identity::{config_bytes, live_discovery_bytes};
use crate::render::launcher::own_annotations_bytes;
use crate::render::worker_pod::worker_pod_bytes;

/// What the pods of one job may have in all: ten thousand workers of 12 KiB, or 159 of 1 MiB. The API
/// server stores them, and sends each of them at each change to everybody who watches pods. Others wait
/// for their own pods meanwhile.
const PODS_BYTES_MAX: u64 = 160 * 1024 * 1024;
/// What Kubernetes allows for the data of a ConfigMap.
const CONFIG_BYTES_MAX: u64 = 1024 * 1024;
/// What Kubernetes allows for all annotations of an object.
const ANNOTATIONS_BYTES_MAX: u64 = 256 * 1024;
/// What we and others may add to the annotations of a pod: networks, schedulers, service meshes.
const OTHER_ANNOTATIONS_BYTES: u64 = 16 * 1024;

/// Why the job cannot run, in a sentence that names the largest number of workers that can.
pub(super) fn excess(observed: &Observed, reach: Reach<'_>) -> Option<String> {
    let (job, site) = (&observed.job, &observed.site);
    let workers = job.worker_count();
    let pod_bytes = worker_pod_bytes(job) as u64;
    let own_annotations = own_annotations_bytes(job) as u64 + OTHER_ANNOTATIONS_BYTES;
    let parts = [
        Part {
            what: "the pods of its workers".to_owned(),
            bytes_max: PODS_BYTES_MAX,
            advice: "a smaller template",
            bytes: &|count| u64::from(count) * pod_bytes,
        },
        Part {
            what: format!("ConfigMap {}, the list of its hosts", job.names.config),
            bytes_max: CONFIG_BYTES_MAX,
            advice: "shorter names of job and namespace",
            bytes: &|count| config_bytes(job, site, reach, count) as u64,
        },
        Part {
            what: "the annotations of its launcher, with the list of its workers".to_owned(),
            bytes_max: ANNOTATIONS_BYTES_MAX,
            advice: "smaller annotations in the launcher's template",
            bytes: &|count| {
                let list = match reach {
                    Reach::Agent { .. } | Reach::Ssh { gate: Some(_), .. } => {
                        host_list::bytes_max(count, &job.names.worker)
                    }
                    Reach::Ssh { gate: None, .. } | Reach::Exec { .. } | Reach::Provided { .. } => {
                        0
                    }
                };
                match list + live_discovery_bytes(job, site, reach, count) {
                    0 => 0,
                    lists => own_annotations + lists as u64,
                }
            },
        },
    ];
    let too_large = |part: &Part<'_>| (part.bytes)(workers) > part.bytes_max;
    let part = parts.into_iter().find(too_large)?;
    let (bytes, fits) = ((part.bytes)(workers), part.fits(workers));
    let Part {
        what,
        bytes_max,
        advice,
        ..
    } = part;
    Some(format!(
        "{workers} workers are too many: {what} would have {bytes} bytes, and at most {bytes_max} are \
         allowed; {fits} workers fit, or more with {advice}"
    ))
}

/// A part of a job that grows with its workers, and how far it may.
struct Part<'a> {
    what: String,
    bytes_max: u64,
    /// What makes it smaller.
    advice: &'static str,
    /// Its size with so many workers.
    bytes: &'a dyn Fn(u32) -> u64,
}

impl Part<'_> {
    /// The largest number of workers that fits, below one that does not.
    fn fits(&self, too_many: u32) -> u32 {
        let (mut fits, mut too_many) = (0, too_many);
        while too_many - fits > 1 {
            let middle = fits + (too_many - fits) / 2;
            match (self.bytes)(middle) > self.bytes_max {
                true => too_many = middle,
                false => fits = middle,
            }
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_limits_has_these_numbers() {
        let page = include_str!("../../../../docs/limits.md");
        let (pods, config) = (PODS_BYTES_MAX >> 20, CONFIG_BYTES_MAX >> 20);
        let (others, annotations) = (OTHER_ANNOTATIONS_BYTES >> 10, ANNOTATIONS_BYTES_MAX >> 10);
        for part in [
            format!("its template and 4 KiB | {pods} MiB | `TooLarge` |"),
            format!("the list of its hosts | {config} MiB | `TooLarge` |"),
            format!("and {others} KiB for those of others | {annotations} KiB | `TooLarge` |"),
        ] {
            assert!(page.contains(&part), "docs/limits.md must contain {part}");
        }
    }
}
