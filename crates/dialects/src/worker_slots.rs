//! How many ranks a worker can run, by what its container asks for: one for each accelerator, otherwise for
//! each CPU that it may use at most, otherwise one. Decides which resources are accelerators; whether a job
//! is counted in this way is its own choice.

use std::fmt;

use quantity::Quantity;
use serde_json::Value;

/// Resources of device plugins, each unit of which computes for one rank. Network devices are none.
const ACCELERATORS: [&str; 10] = [
    "nvidia.com/gpu",
    "nvidia.com/gpu.shared",
    "amd.com/gpu",
    "gpu.intel.com/i915",
    "gpu.intel.com/xe",
    "habana.ai/gaudi",
    "google.com/tpu",
    "aws.amazon.com/neuron",
    "aws.amazon.com/neuroncore",
    "aws.amazon.com/neurondevice",
];
/// How the names of others begin: parts of a GPU, and models.
const ACCELERATOR_PREFIXES: [&str; 2] = ["nvidia.com/mig-", "huawei.com/Ascend"];
const CPU: &str = "cpu";

/// What a worker has room for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerSlots {
    /// Ranks; at least one.
    pub slots: u32,
    /// Why so many.
    pub basis: Basis,
}

/// What the number was derived from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Basis {
    /// So many accelerators.
    Accelerators(u32),
    /// The CPU limit, as written.
    CpuLimit(String),
    /// Nothing.
    Default,
}

impl WorkerSlots {
    /// Of the container in which ranks start.
    pub fn of(container: &Value) -> Self {
        let resources = &container["resources"];
        let accelerators = accelerators(resources);
        if accelerators > 0 {
            return Self {
                slots: accelerators,
                basis: Basis::Accelerators(accelerators),
            };
        }
        let limit = amount(&resources["limits"][CPU]);
        match limit.filter(|(cpus, _)| *cpus > 0) {
            Some((cpus, text)) => Self {
                slots: cpus,
                basis: Basis::CpuLimit(text),
            },
            None => Self {
                slots: 1,
                basis: match resources["limits"][CPU].is_null() {
                    true => Basis::Default,
                    false => Basis::CpuLimit(written(&resources["limits"][CPU])),
                },
            },
        }
    }
}

impl fmt::Display for Basis {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Accelerators(1) => write!(formatter, "1 accelerator"),
            Self::Accelerators(count) => write!(formatter, "{count} accelerators"),
            Self::CpuLimit(limit) => write!(formatter, "a CPU limit of {limit}"),
            Self::Default => write!(formatter, "neither accelerators nor a CPU limit"),
        }
    }
}

/// All of them. A container that names only requests gets no other limits: Kubernetes wants both equal.
fn accelerators(resources: &Value) -> u32 {
    let named = |list: &str| {
        let list = resources[list].as_object().into_iter().flatten();
        let accelerators = list.filter(|(name, _)| is_accelerator(name));
        let counts = accelerators.filter_map(|(_, value)| amount(value));
        counts.fold(0, |sum: u32, (count, _)| sum.saturating_add(count))
    };
    match named("limits") {
        0 => named("requests"),
        count => count,
    }
}

fn is_accelerator(name: &str) -> bool {
    let begins = |prefix: &&str| name.starts_with(*prefix);
    ACCELERATORS.contains(&name) || ACCELERATOR_PREFIXES.iter().any(begins)
}

/// In whole ones, rounded down, and as written. What cannot be read is skipped: the API server refuses the
/// pod anyway.
fn amount(value: &Value) -> Option<(u32, String)> {
    let text = written(value);
    let nanos = Quantity::parse(&text)?.nanos();
    let ones = nanos.div_euclid(1_000_000_000).max(0);
    Some((u32::try_from(ones).unwrap_or(u32::MAX), text))
}

fn written(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn accelerators_count_before_cpus_and_cpus_before_nothing() {
        for (resources, slots, words) in [
            (
                json!({"limits": {"nvidia.com/gpu": 8, "cpu": "96"}}),
                8,
                "8 accelerators",
            ),
            (
                json!({"limits": {"nvidia.com/gpu": "1"}}),
                1,
                "1 accelerator",
            ),
            (
                json!({"limits": {"nvidia.com/mig-1g.5gb": 2, "nvidia.com/mig-2g.10gb": "1"}}),
                3,
                "3 accelerators",
            ),
            (json!({"requests": {"amd.com/gpu": 4}}), 4, "4 accelerators"),
            (
                json!({"limits": {"nvidia.com/gpu": 0, "cpu": "4"}}),
                4,
                "a CPU limit of 4",
            ),
            (
                json!({"limits": {"vpc.amazonaws.com/efa": 4, "cpu": 2}}),
                2,
                "a CPU limit of 2",
            ),
            (
                json!({"limits": {"cpu": "2500m"}}),
                2,
                "a CPU limit of 2500m",
            ),
            (json!({"limits": {"cpu": "500m"}}), 1, "a CPU limit of 500m"),
            (json!({"limits": {"cpu": "a"}}), 1, "a CPU limit of a"),
            (
                json!({"requests": {"cpu": "16"}}),
                1,
                "neither accelerators nor a CPU limit",
            ),
            (json!(null), 1, "neither accelerators nor a CPU limit"),
        ] {
            let found = WorkerSlots::of(&json!({"resources": resources}));
            assert_eq!(
                (found.slots, found.basis.to_string().as_str()),
                (slots, words),
                "{resources}"
            );
        }
        let most = json!({"resources": {"limits": {"cpu": "99E"}}});
        assert_eq!(WorkerSlots::of(&most).slots, u32::MAX);
    }
}
