//! Checks the launcher's command for more ranks than slots. Reports only what is certain; commands inside
//! shell scripts are not read.

use planner::Job;
use serde_json::Value;

use super::{Finding, Severity, error, text_at};
use crate::yaml::Document;

const LAUNCHERS: [&str; 4] = ["mpirun", "mpiexec", "mpiexec.hydra", "prterun"];
const COUNT_FLAGS: [&str; 6] = ["-n", "-np", "--n", "--np", "-c", "-N_total"];
/// Options that allow more ranks than slots.
const OVERSUBSCRIBE: [&str; 3] = ["--oversubscribe", "-oversubscribe", ":OVERSUBSCRIBE"];

pub(super) fn check(document: &Document, job: &Job) -> Vec<Finding> {
    let Some(words) = words(&document.value) else {
        return Vec::new();
    };
    let Some(first) = words.first() else {
        return Vec::new();
    };
    let program = first.text.rsplit('/').next().unwrap_or_default();
    let family = program.split('.').next().unwrap_or_default();
    if !LAUNCHERS.contains(&program) && !LAUNCHERS.contains(&family) {
        return Vec::new();
    }
    let meant = words
        .iter()
        .any(|word| OVERSUBSCRIBE.iter().any(|flag| word.text.contains(flag)));
    let asked = words.windows(2).find_map(|pair| match pair {
        [flag, count] if COUNT_FLAGS.contains(&flag.text.as_str()) => {
            Some((count.text.parse::<u64>().ok()?, count))
        }
        _ => None,
    });
    let Some((ranks, word)) = asked else {
        return Vec::new();
    };
    let hosts = u64::from(job.worker_count()) + u64::from(job.launcher.host.is_some());
    // A launcher without workers runs its ranks itself, without a limit of slots.
    if hosts == 0 || meant {
        return Vec::new();
    }
    let slots = u64::from(job.slots.max(1));
    if ranks <= hosts * slots {
        return Vec::new();
    }
    vec![too_many(document, job, ranks, hosts, slots, word)]
}

fn too_many(
    document: &Document,
    job: &Job,
    ranks: u64,
    hosts: u64,
    slots: u64,
    word: &Word,
) -> Finding {
    let total = hosts * slots;
    let mut finding = error(
        "NotEnoughSlots",
        format!(
            "{ranks} ranks are asked for, but {hosts} hosts × {slots} slots = {total} are there"
        ),
        document.value_mark(&word.pointer),
    );
    finding.label = format!("at most {total}");
    finding.advice = format!(
        "set slotsPerWorker: {}, or {} hosts, or {total} ranks; --oversubscribe if this is meant",
        ranks.div_ceil(hosts),
        ranks.div_ceil(slots)
    );
    // Hydra starts more ranks than slots without an error: slow, but not wrong.
    if !job.mpi.refuses_oversubscription() {
        finding.severity = Severity::Warning;
        finding.reason = "Oversubscribed";
    }
    finding
}

struct Word {
    text: String,
    pointer: String,
}

/// `command` and `args` of the launcher's first container.
fn words(object: &Value) -> Option<Vec<Word>> {
    let container = "/spec/mpiReplicaSpecs/Launcher/template/spec/containers/0";
    object.pointer(container)?;
    let mut words = Vec::new();
    for list in ["command", "args"] {
        let list = format!("{container}/{list}");
        let count = object
            .pointer(&list)
            .and_then(Value::as_array)
            .map_or(0, Vec::len);
        for index in 0..count {
            let pointer = format!("{list}/{index}");
            words.push(Word {
                text: text_at(object, &pointer).to_owned(),
                pointer,
            });
        }
    }
    Some(words)
}
