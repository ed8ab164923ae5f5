//! Keys for simulated operators, the same for all: real ones cost more than all else that a job does. That no
//! two are alike is for the tests of the controller's own source to show.

use std::sync::LazyLock;

use controller::KeySource;
use jiff::Timestamp;
use serde_json::{Map, Value};

/// As the controller's own source makes them, but once.
pub(crate) const SOURCE: KeySource = KeySource { ssh, agent };

/// More workers than any job has here.
const WORKERS_MAX: u32 = 1000;

fn ssh() -> Value {
    static PAIR: LazyLock<Value> = LazyLock::new(KeySource::FRESH.ssh);
    PAIR.clone()
}

fn agent(_: &str, workers: u32, _: Timestamp) -> Value {
    static ALL: LazyLock<Value> =
        LazyLock::new(|| (KeySource::FRESH.agent)("worker", WORKERS_MAX, Timestamp::UNIX_EPOCH));
    let all = ALL.as_object().into_iter().flatten();
    let is_meant = |name: &str| {
        let index = name.strip_prefix('w').and_then(|index| index.parse().ok());
        index.is_none_or(|index: u32| index < workers)
    };
    let meant = all.filter(|(name, _)| is_meant(name));
    let copied = meant.map(|(name, key)| (name.clone(), key.clone()));
    Value::Object(copied.collect::<Map<_, _>>())
}
