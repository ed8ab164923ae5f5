//! The kubelet as a state machine: pods bound to the node in, orders to the runner out; reports
//! in, statuses out. Decides the order in which containers start and stop. Runs nothing itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::life::{End, Life, Lives, State, later};
use super::{Order, PodRef, PodReport, status};
use crate::api::delete::Options;
use crate::schema::format;
use crate::server::Server;
use crate::store::{Change, Key, KindId};
use crate::value::text;

/// The node's memory of its pods.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kubelet {
    lives: Lives,
    /// Pods to look at.
    dirty: BTreeSet<(String, String)>,
    orders: Vec<Order>,
    /// Pods that wait for a time, by pod and by time.
    due: BTreeMap<(String, String), Timestamp>,
    timers: BTreeSet<(Timestamp, (String, String))>,
}

/// Between two tries to place a pod.
const PLACE_AGAIN_SECS: i64 = 5;

impl Kubelet {
    /// Takes in a change of a pod.
    pub(crate) fn note(&mut self, change: &Change, node: &str) {
        let place = (
            change.key.namespace.to_string(),
            change.key.name.to_string(),
        );
        let ours = |pod: &Value| text(&pod["spec"]["nodeName"]) == node;
        let Some(after) = change.after.as_ref().filter(|pod| ours(pod)) else {
            if let Some(life) = self.lives.remove(&place) {
                self.abandon(&place, life);
            }
            return;
        };
        // Deleted and recreated between two looks.
        if let Some(life) = self.lives.get(&place)
            && life.uid != text(&after["metadata"]["uid"])
            && let Some(life) = self.lives.remove(&place)
        {
            self.abandon(&place, life);
        }
        if let Some(before) = change.before.as_deref()
            && self.lives.get(&place).is_some_and(|life| life.ip.is_some())
        {
            let told = |pod: &Value| {
                (
                    pod["metadata"]["annotations"].clone(),
                    pod["metadata"]["labels"].clone(),
                )
            };
            if told(before) != told(after) {
                self.orders.push(Order::Refresh {
                    pod: PodRef::of(after),
                    object: Arc::clone(after),
                });
            }
        }
        self.dirty.insert(place);
    }

    /// The pod is gone from the API: whatever still runs is killed.
    fn abandon(&mut self, place: &(String, String), life: Life) {
        self.wake_at(place, None);
        let (namespace, name) = place;
        let pod = PodRef {
            namespace: namespace.clone(),
            name: name.clone(),
            uid: life.uid.clone(),
        };
        for container in life.containers.iter().filter(|one| one.is_up()) {
            self.orders.push(Order::Stop {
                pod: pod.clone(),
                container: container.name.clone(),
                grace_secs: 0,
            });
        }
        self.orders.push(Order::Release { pod });
    }

    /// When something is due although nothing happens.
    pub(crate) fn next_wake(&self) -> Option<Timestamp> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Something waits to be looked at.
    pub(crate) fn is_restless(&self) -> bool {
        !self.dirty.is_empty() || !self.orders.is_empty()
    }

    fn wake_due(&mut self, now: Timestamp) {
        while self.timers.first().is_some_and(|(at, _)| *at <= now)
            && let Some((_, place)) = self.timers.pop_first()
        {
            self.due.remove(&place);
            self.dirty.insert(place);
        }
    }

    /// Remembers when to look at a pod again.
    fn wake_at(&mut self, place: &(String, String), at: Option<Timestamp>) {
        if let Some(old) = self.due.remove(place) {
            self.timers.remove(&(old, place.clone()));
        }
        if let Some(at) = at {
            self.due.insert(place.clone(), at);
            self.timers.insert((at, place.clone()));
        }
    }

    /// Takes in what the runner says.
    pub(crate) fn report(&mut self, now: Timestamp, report: PodReport) {
        let pod = report.pod();
        let place = (pod.namespace.clone(), pod.name.clone());
        let Some(life) = self
            .lives
            .get_mut(&place)
            .filter(|life| life.uid == pod.uid)
        else {
            return;
        };
        match report {
            PodReport::Placed { ip, .. } => {
                life.ip = Some(ip);
                life.trouble = None;
            }
            PodReport::Started { container, .. } => {
                if let Some(one) = life.container(&container).filter(|one| one.is_up()) {
                    one.run(now);
                }
            }
            PodReport::Ready {
                container, ready, ..
            } => {
                if let Some(one) = life.container(&container)
                    && matches!(one.state, State::Running { .. })
                {
                    one.started = true;
                    one.ready = ready;
                }
            }
            PodReport::Exited {
                container,
                code,
                signal,
                message,
                oom,
                ..
            } => {
                if let Some(one) = life.container(&container).filter(|one| one.is_up()) {
                    let started = match one.state {
                        State::Running { since } => Some(since),
                        _ => Some(now),
                    };
                    let reason = match (oom, code) {
                        (true, _) => "OOMKilled",
                        (_, 0) => "Completed",
                        _ => "Error",
                    };
                    one.finish(End {
                        code,
                        signal,
                        reason: reason.to_owned(),
                        message,
                        started,
                        finished: now,
                    });
                }
            }
            PodReport::CannotStart {
                container,
                reason,
                message,
                retry,
                ..
            } => {
                cannot_start(life, now, &container, &reason, &message, retry);
            }
        }
        self.dirty.insert(place);
    }
}

fn cannot_start(
    life: &mut Life,
    now: Timestamp,
    name: &str,
    reason: &str,
    message: &str,
    retry: bool,
) {
    if name.is_empty() {
        if retry {
            life.trouble = Some((reason.to_owned(), message.to_owned()));
            life.place_again_at = Some(later(now, PLACE_AGAIN_SECS));
        } else {
            life.failed = Some((reason.to_owned(), message.to_owned()));
        }
        return;
    }
    let Some(one) = life.container(name) else {
        return;
    };
    if retry {
        one.hold(now, reason, message);
    } else {
        one.finish(End {
            code: 128,
            signal: None,
            reason: reason.to_owned(),
            message: message.to_owned(),
            started: None,
            finished: now,
        });
    }
}

impl Kubelet {
    /// Looks at pods that changed; the orders are for the runner.
    pub(crate) fn run(&mut self, server: &mut Server, now: Timestamp) -> Vec<Order> {
        self.wake_due(now);
        while let Some(place) = self.dirty.pop_first() {
            self.run_pod(server, now, place);
        }
        std::mem::take(&mut self.orders)
    }

    fn run_pod(&mut self, server: &mut Server, now: Timestamp, place: (String, String)) {
        let key = Key::new(&KindId::new("", "pods"), &place.0, &place.1);
        let Some(pod) = server.store.get(&key).cloned() else {
            return;
        };
        let mut orders = Vec::new();
        let known = self.lives.contains_key(&place);
        let over = matches!(text(&pod["status"]["phase"]), "Succeeded" | "Failed");
        if !known {
            if over {
                return;
            }
            self.lives.insert(place.clone(), Life::new(&pod, now));
            orders.push(Order::Place {
                pod: PodRef::of(&pod),
                object: Arc::clone(&pod),
            });
        }
        let life = self.lives.get_mut(&place).expect("it was inserted above");
        advance(life, &pod, now, &mut orders);
        let node_ip = server
            .config
            .node
            .as_ref()
            .map_or("", |node| node.ip.as_str());
        let status = status::compose(&pod, life, node_ip, &format::seconds(now));
        let deleting = !pod["metadata"]["deletionTimestamp"].is_null();
        let done = deleting && !life.any_up();
        let next = life.next();
        self.wake_at(&place, next);
        self.orders.append(&mut orders);
        if pod["status"] != status {
            let mut object = (*pod).clone();
            object["status"] = status;
            server.store.put(&key, object);
        }
        if done {
            // Nothing of it runs any more, so that the API may forget it.
            let options = Options {
                grace: Some(0),
                uid: Some(text(&pod["metadata"]["uid"]).to_owned()),
                ..Options::default()
            };
            server.delete_any(now, &key, &options);
        }
    }
}

/// The pod with its address, which the API may not know yet.
fn with_address(pod: &Arc<Value>, life: &Life) -> Arc<Value> {
    let mut object = Arc::clone(pod);
    if let Some(ip) = &life.ip
        && object["status"]["podIP"] != ip.as_str()
    {
        Arc::make_mut(&mut object)["status"]["podIP"] = ip.as_str().into();
    }
    object
}

/// Starts and stops what is due.
fn advance(life: &mut Life, pod: &Arc<Value>, now: Timestamp, orders: &mut Vec<Order>) {
    let policy = text(&pod["spec"]["restartPolicy"]).to_owned();
    let secs = pod["spec"]["activeDeadlineSeconds"].as_i64();
    life.deadline_at = secs
        .filter(|_| life.stopping.is_none() && !life.is_decided(&policy))
        .map(|secs| later(life.start_time, secs));
    if life.deadline_at.is_some_and(|at| at <= now) {
        life.deadline_at = None;
        let message = "Pod was active on the node longer than the specified deadline";
        life.failed = Some(("DeadlineExceeded".to_owned(), message.to_owned()));
    }
    let grace = pod["spec"]["terminationGracePeriodSeconds"]
        .as_u64()
        .unwrap_or(30);
    if !pod["metadata"]["deletionTimestamp"].is_null() {
        let left = pod["metadata"]["deletionGracePeriodSeconds"]
            .as_u64()
            .unwrap_or(grace);
        life.stopping = Some(left);
    } else if life.failed.is_some() {
        life.stopping = Some(grace);
    }
    let target = PodRef::of(pod);
    if let Some(grace) = life.stopping {
        stop(life, |_| true, grace, &target, orders);
        return;
    }
    if life.is_decided(&policy) {
        // Sidecars, and whatever else still runs, have nobody left to serve.
        stop(life, |_| true, grace, &target, orders);
        return;
    }
    if life.ip.is_none() {
        if life.place_again_at.is_some_and(|at| at <= now) {
            life.place_again_at = None;
            orders.push(Order::Place {
                pod: target,
                object: Arc::clone(pod),
            });
        }
        return;
    }
    let object = with_address(pod, life);
    for index in 0..life.containers.len() {
        if life.restarts(&life.containers[index], &policy) {
            life.containers[index].again(now);
        }
    }
    for one in &mut life.containers {
        let passed = match (one.init, one.sidecar) {
            (false, _) => true,
            (true, true) => one.started,
            (true, false) => one.end().is_some_and(|end| end.code == 0),
        };
        if one.is_due(now) {
            orders.push(Order::Start {
                pod: target.clone(),
                container: one.name.clone(),
                init: one.init,
                attempt: one.restarts,
                object: Arc::clone(&object),
            });
            one.state = State::Starting;
            one.start_at = None;
        }
        if !passed {
            break;
        }
    }
}

fn stop(
    life: &mut Life,
    which: impl Fn(&super::life::Container) -> bool,
    grace: u64,
    pod: &PodRef,
    orders: &mut Vec<Order>,
) {
    for one in life
        .containers
        .iter_mut()
        .filter(|one| one.is_up() && which(one))
    {
        if one.stopping.is_none_or(|told| grace < told) {
            one.stopping = Some(grace);
            orders.push(Order::Stop {
                pod: pod.clone(),
                container: one.name.clone(),
                grace_secs: grace,
            });
        }
    }
}
