//! The job as it was written and as it is rendered, as YAML. Decides what of the two is not shown: what is
//! secret, what only machines read, and copies of the same pod.

use std::collections::BTreeSet;

use planner::site::Site;
use serde_json::Value;

use super::redact;
use crate::{children, manifest, yaml};

/// Characters of one string that are shown; lists of hosts are longer.
const STRING_CHARS_MAX: usize = 2_000;
/// Rendering a larger job takes longer than whoever looks at a page waits.
const RENDERED_WORKERS_MAX: u32 = 1_000;

/// The job as written, and everything that it becomes; empty where it becomes nothing.
pub(super) fn of(job: &Value) -> (String, String) {
    let mut written = redact::shown(job);
    if let Some(object) = written.as_object_mut() {
        object.remove("status");
    }
    cut_strings(&mut written);
    (yaml::text(&written), rendered(job))
}

fn rendered(job: &Value) -> String {
    let Some(Ok(lowered)) = manifest::lower(job) else {
        return String::new();
    };
    if lowered.worker_count() > RENDERED_WORKERS_MAX {
        return String::new();
    }
    let agent = concat!("muster-agent:", env!("CARGO_PKG_VERSION"));
    let site = Site {
        agent_image: Some(agent.to_owned()),
        ..Site::default()
    };
    let Ok(objects) = children::of(lowered, &site) else {
        return String::new();
    };
    let (mut texts, mut seen, mut alike) = (Vec::new(), BTreeSet::new(), 0);
    for object in &objects {
        // All workers are alike but for their number.
        let labels = &object["metadata"]["labels"];
        let role = labels[contract::labels::JOB_ROLE_LABEL].as_str();
        if object["kind"] == "Pod" && !seen.insert(role.unwrap_or_default()) {
            alike += 1;
            continue;
        }
        let mut object = redact::shown(object);
        cut_strings(&mut object);
        texts.push(yaml::text(&object));
    }
    if alike > 0 {
        texts.push(format!("# and {alike} more pods like the worker above\n"));
    }
    texts.join("---\n")
}

fn cut_strings(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Some((end, _)) = text.char_indices().nth(STRING_CHARS_MAX) {
                *text = format!("{} ... ({} bytes)", &text[..end], text.len());
            }
        }
        Value::Array(items) => items.iter_mut().for_each(cut_strings),
        Value::Object(map) => map.values_mut().for_each(cut_strings),
        _ => {}
    }
}
