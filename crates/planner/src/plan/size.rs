//! Policy: a job that is too large to run is refused at once, and told the largest size that is not.
//! Decides what is too large; how large the parts of a job are is for `render`.

use contract::host_list;

use crate::job::{Job, Workers};
use crate::observed::Observed;
use crate::reach::Reach;
use crate::render::identity::config_data;
use crate::render::launcher::directives;
use crate::render::worker_pod::worker_batch;

/// No job of so few workers is too large: the API server stores no template of more than 1.5 MiB, and
/// no names are so long.
const WORKERS_FREE: u32 = 1000;
/// What the pods of one job may take in the API server's store, which is 2 to 8 GiB for a cluster: ten
/// thousand workers of 200 KiB.
const PODS_BYTES_MAX: u64 = 2 * 1024 * 1024 * 1024;
/// What Kubernetes allows for the data of a ConfigMap.
const CONFIG_BYTES_MAX: u64 = 1024 * 1024;
/// What Kubernetes allows for all annotations of an object.
const ANNOTATIONS_BYTES_MAX: u64 = 256 * 1024;
/// What others may add to the annotations of a pod: networks, schedulers, service meshes.
const OTHER_ANNOTATIONS_BYTES: u64 = 16 * 1024;

/// Why the job cannot run, in a sentence that names the largest number of workers that can.
pub(super) fn excess(observed: &Observed, reach: Reach<'_>) -> Option<String> {
    let workers = observed.job.worker_count();
    if workers <= WORKERS_FREE {
        return None;
    }
    let parts = [
        Part {
            what: "the pods of its workers".to_owned(),
            bytes_max: PODS_BYTES_MAX,
            advice: "a smaller template",
            bytes: &|count| pods_bytes(observed, reach, count),
        },
        Part {
            what: format!(
                "ConfigMap {}, the list of its hosts",
                observed.job.names.config
            ),
            bytes_max: CONFIG_BYTES_MAX,
            advice: "shorter names of job and namespace",
            bytes: &|count| config_bytes(observed, reach, count),
        },
        Part {
            what: "the annotations of its launcher, with the addresses of its workers".to_owned(),
            bytes_max: ANNOTATIONS_BYTES_MAX,
            advice: "smaller annotations in the launcher's template",
            bytes: &|count| annotations_bytes(observed, reach, count),
        },
    ];
    let part = parts
        .into_iter()
        .find(|part| (part.bytes)(workers) > part.bytes_max)?;
    let Part {
        what,
        bytes_max,
        advice,
        ..
    } = &part;
    let (bytes, fits) = ((part.bytes)(workers), part.fits(workers));
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

fn pods_bytes(observed: &Observed, reach: Reach<'_>, count: u32) -> u64 {
    let (job, site) = (&observed.job, &observed.site);
    let each = match &job.workers {
        Workers::Pods(workers) => {
            let last = vec![count.saturating_sub(1)];
            let batch = worker_batch(job, site, reach, workers, last);
            batch.map_or(0, |batch| batch.body(count.saturating_sub(1)).len())
        }
        Workers::StatefulSet(set) => set.role.template.to_string().len(),
    };
    u64::from(count) * each as u64
}

fn config_bytes(observed: &Observed, reach: Reach<'_>, count: u32) -> u64 {
    let job = &with_workers(&observed.job, count);
    let files = config_data(job, &observed.site, reach, || job.worker_names().collect());
    let bytes = files.iter().map(|(name, text)| name.len() + text.len());
    let bytes = bytes.sum::<usize>() as u64;
    match reach {
        // Its files were made for the number of workers that the job has.
        Reach::Provided { .. } => bytes * u64::from(count) / u64::from(observed.job.worker_count()),
        Reach::Ssh { .. } | Reach::Agent { .. } | Reach::Exec { .. } => bytes,
    }
}

fn annotations_bytes(observed: &Observed, reach: Reach<'_>, count: u32) -> u64 {
    let (job, site) = (&observed.job, &observed.site);
    let list = match reach {
        Reach::Agent { .. } | Reach::Ssh { gate: Some(_), .. } => {
            host_list::bytes_max(count, &job.names.worker) as u64
        }
        Reach::Ssh { gate: None, .. } | Reach::Exec { .. } | Reach::Provided { .. } => 0,
    };
    let annotations = directives(job, site, reach).annotations;
    let own = annotations
        .iter()
        .map(|(name, text)| name.len() + text.len());
    list + own.sum::<usize>() as u64 + OTHER_ANNOTATIONS_BYTES
}

fn with_workers(job: &Job, count: u32) -> Job {
    let mut job = job.clone();
    match &mut job.workers {
        Workers::Pods(workers) => workers.count = count,
        Workers::StatefulSet(workers) => workers.count = count,
    }
    job
}
