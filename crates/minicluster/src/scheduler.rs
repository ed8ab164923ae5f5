//! The scheduler: pods to the one node, as long as what they ask for fits; members of a group all
//! at once or not at all. Decides by requests only; it never evicts.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::Value;

use crate::conditions;
use crate::schema::format;
use crate::server::Server;
use crate::store::{Change, Key};
use crate::value::{items, text};

/// Amounts by resource, in billionths.
type Amounts = BTreeMap<String, i128>;

/// What waits and what is taken.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scheduler {
    waiting: BTreeSet<Key>,
    bound: BTreeMap<Key, Amounts>,
    used: Amounts,
    /// Something was freed or came since the last look.
    stirred: bool,
}

impl Scheduler {
    /// Takes in a change of a pod.
    pub(crate) fn note(&mut self, change: &Change) {
        let pod = change.after.as_deref();
        let over = |pod: &Value| matches!(text(&pod["status"]["phase"]), "Succeeded" | "Failed");
        match pod {
            Some(pod) if !text(&pod["spec"]["nodeName"]).is_empty() && !over(pod) => {
                self.waiting.remove(&change.key);
                if !self.bound.contains_key(&change.key) {
                    self.take(&change.key, requests(&pod["spec"]));
                }
            }
            Some(pod)
                if text(&pod["spec"]["nodeName"]).is_empty()
                    && pod["metadata"]["deletionTimestamp"].is_null()
                    && !over(pod) =>
            {
                if self.waiting.insert(change.key.clone())
                    || change
                        .before
                        .as_ref()
                        .is_some_and(|before| before["spec"] != pod["spec"])
                {
                    self.stirred = true;
                }
            }
            _ => {
                self.waiting.remove(&change.key);
                self.stirred |= self.free(&change.key);
            }
        }
    }

    /// A group may have become complete.
    pub(crate) fn stir(&mut self) {
        self.stirred = true;
    }

    fn take(&mut self, key: &Key, amounts: Amounts) {
        for (name, amount) in &amounts {
            *self.used.entry(name.clone()).or_default() += amount;
        }
        self.bound.insert(key.clone(), amounts);
    }

    /// True if it held anything.
    fn free(&mut self, key: &Key) -> bool {
        let Some(amounts) = self.bound.remove(key) else {
            return false;
        };
        for (name, amount) in amounts {
            *self.used.entry(name).or_default() -= amount;
        }
        true
    }

    /// The first resource of which there is not enough left.
    fn lacking(&self, wanted: &Amounts, room: &Amounts) -> Option<String> {
        wanted
            .iter()
            .filter(|(_, amount)| **amount > 0)
            .find(|(name, amount)| {
                let used = self.used.get(*name).copied().unwrap_or(0);
                let total = room.get(*name).copied().unwrap_or(0);
                used + **amount > total
            })
            .map(|(name, _)| name.clone())
    }
}

/// What a pod asks for: its containers together, or its largest init container.
pub(crate) fn requests(spec: &Value) -> Amounts {
    let of = |container: &Value| -> Amounts {
        let requests = container["resources"]["requests"].as_object();
        requests
            .into_iter()
            .flatten()
            .filter_map(|(name, amount)| Some((name.clone(), format::amount(text(amount))?)))
            .collect()
    };
    let mut total: Amounts = BTreeMap::from([("pods".to_owned(), 1_000_000_000)]);
    for container in items(&spec["containers"]) {
        for (name, amount) in of(container) {
            *total.entry(name).or_default() += amount;
        }
    }
    for container in items(&spec["initContainers"]) {
        for (name, amount) in of(container) {
            let entry = total.entry(name).or_default();
            if container["restartPolicy"] == "Always" {
                *entry += amount;
            } else {
                *entry = (*entry).max(amount);
            }
        }
    }
    total
}

/// The group that a pod must be scheduled with.
fn group(pod: &Value) -> Option<&str> {
    let metadata = &pod["metadata"];
    [
        &metadata["annotations"]["scheduling.k8s.io/group-name"],
        &metadata["labels"]["scheduling.x-k8s.io/pod-group"],
        &pod["spec"]["schedulingGroup"]["podGroupName"],
    ]
    .into_iter()
    .find_map(Value::as_str)
}

impl Scheduler {
    /// Binds what fits.
    pub(crate) fn run(&mut self, server: &mut Server, now: Timestamp) {
        if !std::mem::take(&mut self.stirred) {
            return;
        }
        let Some(node) = server.config.node.clone() else {
            return;
        };
        let mut room: Amounts =
            BTreeMap::from([("pods".to_owned(), i128::from(node.pods) * 1_000_000_000)]);
        let named = [("cpu", &node.cpu), ("memory", &node.memory)];
        room.extend(named.map(|(name, text)| (name.to_owned(), format::amount(text).unwrap_or(0))));
        for (name, text) in &node.extended {
            room.insert(name.clone(), format::amount(text).unwrap_or(0));
        }
        room.entry("ephemeral-storage".to_owned())
            .or_insert(i128::MAX / 2);
        let mut done = BTreeSet::new();
        for key in self.waiting.clone() {
            if done.contains(&key) {
                continue;
            }
            let Some(pod) = server.store.get(&key).cloned() else {
                continue;
            };
            let members = self.members(server, &key, &pod);
            done.extend(members.iter().cloned());
            let missing = self.missing_members(server, &pod, &members);
            self.schedule_together(server, now, &members, missing, &node.name, &room);
        }
    }

    /// The pods that wait together with this one.
    fn members(&self, server: &Server, key: &Key, pod: &Value) -> Vec<Key> {
        let Some(name) = group(pod) else {
            return vec![key.clone()];
        };
        let waiting = self.waiting.iter();
        waiting
            .filter(|other| other.namespace == key.namespace)
            .filter(|other| {
                server
                    .store
                    .get(other)
                    .is_some_and(|pod| group(pod) == Some(name))
            })
            .cloned()
            .collect()
    }

    /// How many members a group lacks before it may run.
    fn missing_members(&self, server: &Server, pod: &Value, waiting: &[Key]) -> usize {
        let Some(name) = group(pod) else {
            return 0;
        };
        let namespace = text(&pod["metadata"]["namespace"]);
        let groups = server.kinds.all().filter(|kind| kind.plural == "podgroups");
        let found = groups
            .filter_map(|kind| server.store.get(&Key::new(&kind.id, namespace, name)))
            .next();
        let least = found
            .and_then(|group| {
                let spec = &group["spec"];
                spec["minMember"]
                    .as_u64()
                    .or(spec["schedulingPolicy"]["gang"]["minCount"].as_u64())
            })
            .unwrap_or(1);
        let bound = self.bound.keys().filter(|key| {
            *key.namespace == *namespace
                && server
                    .store
                    .get(key)
                    .is_some_and(|pod| group(pod) == Some(name))
        });
        let have = bound.count() + waiting.len();
        usize::try_from(least)
            .unwrap_or(usize::MAX)
            .saturating_sub(have)
    }

    fn schedule_together(
        &mut self,
        server: &mut Server,
        now: Timestamp,
        members: &[Key],
        missing: usize,
        node: &str,
        room: &Amounts,
    ) {
        let mut refused = (missing > 0)
            .then(|| format!("0/1 nodes are available: the pod group lacks {missing} members."));
        let mut chosen = Vec::new();
        for key in members {
            let Some(pod) = server.store.get(key).cloned() else {
                continue;
            };
            let why = self.unfit(server, &pod, room);
            match why {
                None => {
                    self.take(key, requests(&pod["spec"]));
                    chosen.push((key.clone(), pod));
                }
                Some(why) => {
                    refused = Some(why);
                    break;
                }
            }
        }
        let Some(why) = refused else {
            for (key, pod) in chosen {
                server.bind_pod(now, &key, &pod, node);
                let name = format!("{}/{}", key.namespace, key.name);
                let said = format!("Successfully assigned {name} to {node}");
                server.say(now, &pod, "Normal", "Scheduled", &said, "default-scheduler");
            }
            return;
        };
        for (key, _) in &chosen {
            self.free(key);
        }
        for key in members {
            refuse_pod(server, now, key, &why);
        }
    }

    /// Why a pod cannot be on the node now; nothing when it can.
    fn unfit(&self, server: &Server, pod: &Value, room: &Amounts) -> Option<String> {
        let spec = &pod["spec"];
        if !items(&spec["schedulingGates"]).is_empty() {
            return Some("Scheduling is blocked due to non-empty scheduling gates".to_owned());
        }
        let wanted = spec["nodeSelector"].as_object().into_iter().flatten();
        for (key, value) in wanted {
            let labels = server.node_labels();
            if labels.get(key.as_str()).map(String::as_str) != value.as_str() {
                return Some(
                    "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."
                        .to_owned(),
                );
            }
        }
        let lacking = self.lacking(&requests(spec), room)?;
        let what = match lacking.as_str() {
            "pods" => "Too many pods".to_owned(),
            other => format!("Insufficient {other}"),
        };
        Some(format!("0/1 nodes are available: 1 {what}."))
    }
}

fn refuse_pod(server: &mut Server, now: Timestamp, key: &Key, why: &str) {
    let Some(pod) = server.store.get(key).cloned() else {
        return;
    };
    let gated = !items(&pod["spec"]["schedulingGates"]).is_empty();
    let reason = if gated {
        "SchedulingGated"
    } else {
        "Unschedulable"
    };
    let mut object = (*pod).clone();
    let at = format::seconds(now);
    conditions::set(
        &mut object["status"],
        "PodScheduled",
        "False",
        Some((reason, why)),
        &at,
    );
    if object["status"] == pod["status"] {
        return;
    }
    server.store.put(key, object);
    if !gated {
        server.say(
            now,
            &pod,
            "Warning",
            "FailedScheduling",
            why,
            "default-scheduler",
        );
    }
}
