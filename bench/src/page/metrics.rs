//! Which numbers the page has: what each means, where it is in the results, and what is wanted of it.
//! Decides how samples become rows; must not know how a row is printed.

use serde_json::Value;

/// Who has a column. The first knows only how to post pods.
pub(super) const SIDES: [&str; 4] = ["L", "muster", "P1", "P0"];

/// What is wanted of muster's median.
#[derive(Clone, Copy, Debug)]
pub(super) enum Target {
    /// At most so much.
    AtMost(f64),
    /// At most the number of workers and so many.
    WorkersAnd(f64),
    /// At most so many times L.
    OfFloor(f64),
    /// At most so many times P1.
    OfPeer(f64),
    /// At least so many times P1.
    TimesPeer(f64),
}

/// A number of the page.
pub(super) struct Metric {
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    /// What it is, in one or two sentences.
    pub(super) text: &'static str,
    /// The file that measures it, below `bench/src/compare`.
    pub(super) code: &'static str,
    /// The list of samples.
    list: &'static str,
    /// The number in a sample; the whole result is there for what needs another sample.
    value: fn(&Value, &Value) -> Option<f64>,
    pub(super) digits: usize,
    /// By the row's number of workers.
    pub(super) target: fn(f64) -> Option<Target>,
    /// It grows with the number of workers, which a drawing shows.
    pub(super) drawn: bool,
    /// Why a target is missed; said only if one is.
    pub(super) missed: &'static str,
}

/// One row: what it is of, and each side's numbers with their blocks.
pub(super) struct Row {
    pub(super) label: String,
    pub(super) workers: f64,
    pub(super) sides: [Vec<(u64, f64)>; 4],
}

impl Row {
    pub(super) fn values(&self, side: usize) -> Vec<f64> {
        self.sides[side].iter().map(|(_, value)| *value).collect()
    }
}

fn number(sample: &Value, key: &str) -> Option<f64> {
    sample[key].as_f64()
}

const LIFE: Metric = Metric {
    id: "",
    title: "",
    text: "",
    code: "life.rs",
    list: "lives",
    value: |_, _| None,
    digits: 0,
    target: |_| None,
    drawn: false,
    missed: "",
};

/// In the order of the page.
pub(super) const METRICS: &[Metric] = &[
    Metric {
        id: "B1",
        title: "Writes of a job's whole life",
        text: "Requests of the operator that change something, from the job's creation to the last \
               worker's removal, events included and the lease excluded.",
        value: |_, sample| number(sample, "writes"),
        target: |_| Some(Target::WorkersAnd(14.0)),
        drawn: true,
        ..LIFE
    },
    Metric {
        id: "B3",
        title: "Wasted writes",
        text: "Of these: refused, a second request to delete the same pod, or an update that changed nothing.",
        value: |_, sample| number(sample, "wasted"),
        target: |_| Some(Target::AtMost(0.0)),
        ..LIFE
    },
    Metric {
        id: "B5",
        title: "Writes that wait for each other",
        text: "The longest chain of writes before the launcher exists, each sent after the answer to \
               the one before.",
        value: |_, sample| number(sample, "depth"),
        ..LIFE
    },
    Metric {
        id: "B6",
        title: "Seconds from the job to its last worker's pod",
        text: "From the API server's receipt of the job to its answer to the last worker's creation.",
        value: |_, sample| number(sample, "lastWorkerSecs"),
        digits: 3,
        target: |workers| Some(Target::OfFloor(if workers > 64.0 { 1.05 } else { 1.25 })),
        drawn: true,
        missed: "Before the first pod, muster creates what pods need and records in the status which keys it is about to \
                 create ([decision 38](decisions/0038-keys-are-recorded-first.md)): four requests that wait for each \
                 other. The first pod is a trial, which keeps a job that a quota refuses from asking for all of its \
                 pods. These five take most of what is more than L.",
        ..LIFE
    },
    Metric {
        id: "B7",
        title: "Seconds from the job to Running",
        text: "To the write of the status that says so. Each pod runs one second after it was made. L's \
               column is when its last pod ran.",
        value: |_, sample| number(sample, "runningSecs"),
        digits: 3,
        target: |_| Some(Target::OfFloor(1.1)),
        drawn: true,
        ..LIFE
    },
    Metric {
        id: "B8",
        title: "Seconds from the launcher's end to Succeeded",
        text: "From the kubelet's write of the launcher pod's end to the write of the job's status.",
        value: |_, sample| number(sample, "succeededSecs"),
        digits: 3,
        target: |_| Some(Target::AtMost(0.020)),
        ..LIFE
    },
    Metric {
        id: "B10",
        title: "Processor seconds of the operator for a whole life",
        text: "User and system time of its process; the kernel counts hundredths.",
        value: |_, sample| number(sample, "cpuSecs"),
        digits: 2,
        target: |workers| (workers > 64.0).then_some(Target::OfPeer(0.1)),
        drawn: true,
        ..LIFE
    },
    Metric {
        id: "B21",
        title: "Requests that remove the workers",
        text: "Deletions that the operator asked for once the job had succeeded.",
        value: |_, sample| number(sample, "deletes"),
        target: |_| Some(Target::AtMost(1.0)),
        ..LIFE
    },
    Metric {
        id: "B21",
        title: "Seconds from the launcher's end until all workers are gone",
        text: "With a kubelet that lets go of a pod at once.",
        value: |_, sample| number(sample, "cleanedUpSecs"),
        digits: 3,
        ..LIFE
    },
    Metric {
        id: "B9",
        title: "Jobs per second until all run",
        text: "Small jobs that come all at once. L posts as many pods.",
        code: "crowd.rs",
        list: "bursts",
        value: |_, sample| match sample["side"] == "L" {
            // Three pods each.
            true => Some(number(sample, "pods")? / 3.0 / number(sample, "runningSecs")?),
            false => number(sample, "jobsPerSecond"),
        },
        digits: 1,
        target: |_| Some(Target::TimesPeer(2.0)),
        missed: "The API server and the controller manager are the limit: while the jobs start, both processors are busy, and \
                 a request of either operator takes 20 to 30 ms instead of 3. For each job, the controller manager sends \
                 about 30 requests of its own (the garbage collector reads the owner of every object, and endpoints follow \
                 every pod), whichever operator created it.",
        ..LIFE
    },
    Metric {
        id: "B11",
        title: "Processor seconds of the operator for many jobs in one namespace",
        text: "Their whole lives.",
        code: "crowd.rs",
        list: "crowds",
        value: |_, sample| number(sample, "cpuSecs"),
        digits: 2,
        target: |_| Some(Target::OfPeer(0.1)),
        missed: "A profile of 1,000 workers is flat: a quarter is the kernel, which sends and receives, a fifth is memory \
                 allocation, a sixth is HTTP and TLS for the answers and the watch, a tenth reads the events of pods, and \
                 the planner is a twentieth.",
        ..LIFE
    },
    Metric {
        id: "B11",
        title: "Jobs of these that were ever Running",
        text: "Of as many as the row says; all their pods ran.",
        code: "crowd.rs",
        list: "crowds",
        value: |_, sample| number(sample, "ranJobs"),
        ..LIFE
    },
    Metric {
        id: "B13",
        title: "MiB of memory with nothing to do",
        text: "Resident memory of the process, alone and beside pods, ConfigMaps of 10 kB and Secrets of 1 \
               kB that are not its own.",
        code: "standing.rs",
        list: "standing",
        value: |_, sample| number(sample, "residentMib"),
        digits: 1,
        target: |foreign| Some(Target::AtMost(if foreign > 0.0 { 9.0 } else { 8.0 })),
        ..LIFE
    },
    Metric {
        id: "B14",
        title: "KiB of memory for each pod of its jobs",
        text: "Resident memory of an operator that starts beside running jobs, less that of one without, \
               by the number of their pods.",
        code: "restart.rs",
        list: "restarts",
        value: |result, sample| {
            let alone = result["standing"].as_array()?.iter();
            let mut alone: Vec<f64> = alone
                .filter(|one| one["side"] == sample["side"] && one["foreign"] == 0)
                .filter_map(|one| number(one, "residentMib"))
                .collect();
            alone.sort_by(f64::total_cmp);
            let more = number(sample, "residentMib")? - alone.get(alone.len() / 2)?;
            Some(more * 1024.0 / number(sample, "pods")?)
        },
        digits: 1,
        target: |_| Some(Target::AtMost(0.5)),
        ..LIFE
    },
    Metric {
        id: "B16",
        title: "Writes after a restart",
        text: "An operator starts again beside jobs that run and need nothing.",
        code: "restart.rs",
        list: "restarts",
        value: |_, sample| number(sample, "writes"),
        target: |_| Some(Target::AtMost(0.0)),
        ..LIFE
    },
    Metric {
        id: "B16",
        title: "Seconds from that start to its last request",
        text: "From the start of the process, without those of the election and those that ask which APIs \
               there are.",
        code: "restart.rs",
        list: "restarts",
        value: |_, sample| number(sample, "restSecs"),
        digits: 2,
        ..LIFE
    },
    Metric {
        id: "B24",
        title: "Writes after the loss of one worker",
        text: "A worker of a job that runs is deleted, or its containers fail. muster's job has `spec.muster.recovery`, so \
               muster replaces this pod alone. P1 replaces a pod that was deleted, and the launcher's Job tries again; \
               a pod that failed stays, so somebody deletes the job and creates it again, at once, which is two of its \
               writes. L is a client that deletes all pods of the job and posts them again, as a controller does that \
               restarts a job as a whole.",
        code: "loss.rs",
        list: "losses",
        value: |_, sample| number(sample, "writes"),
        target: |_| Some(Target::AtMost(10.0)),
        ..LIFE
    },
    Metric {
        id: "B24",
        title: "Pods made for it",
        text: "By anybody.",
        code: "loss.rs",
        list: "losses",
        value: |_, sample| number(sample, "podsMade"),
        target: |_| Some(Target::AtMost(1.0)),
        ..LIFE
    },
    Metric {
        id: "B24",
        title: "Seconds from the loss until as many pods run as before",
        text: "A pod runs one second after it was made. In muster's job, the program then starts again in the pods that \
               stayed ([how long that takes](../bench/README.md#recovery)); in the others, the launcher's pod has just started. \
               Kubernetes waits ten seconds before it creates a launcher's next pod.",
        code: "loss.rs",
        list: "losses",
        value: |_, sample| number(sample, "againSecs"),
        digits: 2,
        ..LIFE
    },
    Metric {
        id: "B17",
        title: "Requests a minute with nothing to do",
        text: "Of any kind, the lease included.",
        code: "standing.rs",
        list: "standing",
        value: |_, sample| match sample["foreign"] == 0 {
            true => number(sample, "requestsPerMinute"),
            false => None,
        },
        digits: 1,
        target: |_| Some(Target::AtMost(7.0)),
        ..LIFE
    },
];

impl Metric {
    /// The rows, smallest first.
    pub(super) fn rows(&self, result: &Value) -> Vec<Row> {
        let mut rows: Vec<Row> = Vec::new();
        for list in [self.list, "floors"] {
            for sample in result[list].as_array().into_iter().flatten() {
                let Some((label, workers)) = self.place(list, sample, result) else {
                    continue;
                };
                let side = SIDES.iter().position(|side| sample["side"] == *side);
                let (Some(side), Some(value)) = (side, (self.value)(result, sample)) else {
                    continue;
                };
                let block = sample["block"].as_u64().unwrap_or(0);
                let index = rows.iter().position(|row| row.label == label);
                let index = index.unwrap_or_else(|| {
                    let sides = Default::default();
                    rows.push(Row {
                        label,
                        workers,
                        sides,
                    });
                    rows.len() - 1
                });
                rows[index].sides[side].push((block, value));
            }
        }
        rows.sort_by(|a, b| a.workers.total_cmp(&b.workers));
        rows
    }

    /// The row that a sample belongs to. L has no jobs, so it belongs to those with as many pods.
    fn place(&self, list: &str, sample: &Value, result: &Value) -> Option<(String, f64)> {
        let number = |key| number(sample, key);
        if list == "floors" {
            let pods = number("pods")?;
            let is_life = |life: &Value| life["workers"].as_f64() == Some(pods - 1.0);
            return match self.list {
                "lives" => {
                    let lives = result["lives"].as_array()?;
                    let found = lives.iter().any(is_life);
                    found.then(|| (format!("W = {}", pods - 1.0), pods - 1.0))
                }
                "bursts" => {
                    let burst = result["bursts"].as_array()?.first()?;
                    let (jobs, workers) = (burst["jobs"].as_f64()?, burst["workers"].as_f64()?);
                    let as_many = (pods - jobs * (workers + 1.0)).abs() < 0.5;
                    as_many.then(|| (of_crowd(jobs, workers), workers))
                }
                _ => None,
            };
        }
        if let (Some(jobs), Some(workers)) = (number("jobs"), number("workers")) {
            return Some((of_crowd(jobs, workers), workers));
        }
        if let Some(foreign) = number("foreign") {
            let label = match foreign > 0.0 {
                true => format!("beside {foreign} objects"),
                false => "alone".to_owned(),
            };
            return Some((label, foreign));
        }
        let workers = number("workers")?;
        let kind = sample["kind"].as_str();
        let kind = kind.map_or(String::new(), |kind| format!(", {kind}"));
        Some((format!("W = {workers}{kind}"), workers))
    }
}

fn of_crowd(jobs: f64, workers: f64) -> String {
    format!("{jobs} jobs × {workers}")
}
