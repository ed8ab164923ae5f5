//! A kubelet without containers: every pod of a namespace starts, runs, ends and goes as a kubelet
//! would say, at the price of one write each. Tests and benchmarks of ten thousand pods need it.
//!
//! Decides when a pod is said to be something; must not know who made it. Pods that name no node are
//! bound to one first, which costs a write more.

mod node;
mod pod;
mod queue;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::api::{Api, Hangup, Lines, METADATA_ONLY, collection};
pub use pod::{ENDS_AFTER_MS, EXIT_CODE};
use pod::{Event, Metadata, Spec, WithSpec};
use queue::Queue;

/// Requests that are sent at the same time.
const HANDS: usize = 8;
/// A node whose lease is older than 15 s counts as lost in the clusters of these tests.
const RENEWAL: Duration = Duration::from_secs(4);
/// A connection may end while a request is on its way; it is sent again.
const TRIES: usize = 3;
/// After a watch that ended.
const PAUSE: Duration = Duration::from_millis(100);
/// Begins with all that is there, as if it had just been added.
const FROM_THE_START: &str =
    "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";

/// How a kubelet is to behave.
#[derive(Clone, Debug)]
pub struct Behaviour {
    /// From when a pod appears to when it runs: at least, and at most. Each pod has its own time,
    /// which is the same whenever its UID is.
    pub start_after: (Duration, Duration),
    /// From when a pod shall go to when it is gone.
    pub stop_after: Duration,
}

impl Default for Behaviour {
    /// As fast as it can.
    fn default() -> Self {
        Self {
            start_after: (Duration::ZERO, Duration::ZERO),
            stop_after: Duration::ZERO,
        }
    }
}

/// A running kubelet. It ends when it is dropped, and its node goes with it.
#[derive(Debug)]
pub struct FakeKubelet {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    api: Arc<Api>,
    namespace: String,
    node: String,
    behaviour: Behaviour,
    queue: Queue<Task>,
    /// Pods that were told to start, or to go, by UID: each is told so once.
    starting: Mutex<HashSet<String>>,
    stopping: Mutex<HashSet<String>>,
    specs: Mutex<HashMap<String, Arc<Spec>>>,
    addresses: AtomicU32,
    started: AtomicUsize,
    closed: AtomicBool,
    hangups: Mutex<Vec<Hangup>>,
    trouble: Mutex<Option<String>>,
}

#[derive(Debug)]
enum Task {
    Start(Metadata),
    End(Metadata, i32),
    Stop(Metadata),
}

/// A watch sees either pods that wait for a kubelet, or those that one has started.
#[derive(Clone, Copy)]
enum Pods {
    Pending,
    Started,
}

impl FakeKubelet {
    /// Starts a kubelet for all pods of a namespace, those that are there included.
    pub fn start(api: &Arc<Api>, namespace: &str, behaviour: Behaviour) -> Result<Self> {
        let shared = Arc::new(Shared {
            api: api.clone(),
            namespace: namespace.to_owned(),
            node: format!("node-of-{namespace}"),
            behaviour,
            queue: Queue::new(),
            starting: Mutex::default(),
            stopping: Mutex::default(),
            specs: Mutex::default(),
            addresses: AtomicU32::new(1),
            started: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            hangups: Mutex::default(),
            trouble: Mutex::default(),
        });
        node::register(api, &shared.node)?;
        let mut kubelet = Self {
            shared,
            threads: Vec::new(),
        };
        for pods in [Pods::Pending, Pods::Started] {
            let lines = kubelet.shared.watch(pods)?;
            kubelet.spawn(move |shared| shared.follow(pods, lines));
        }
        for _ in 0..HANDS {
            kubelet.spawn(Shared::work);
        }
        kubelet.spawn(Shared::renew);
        Ok(kubelet)
    }

    fn spawn(&mut self, work: impl FnOnce(&Shared) + Send + 'static) {
        let shared = self.shared.clone();
        self.threads.push(thread::spawn(move || work(&shared)));
    }

    /// The node that all its pods are on. A template that names it saves a write for each pod.
    pub fn node(&self) -> &str {
        &self.shared.node
    }

    /// How many pods it has started so far.
    pub fn started(&self) -> usize {
        self.shared.started.load(Ordering::Relaxed)
    }

    /// Ends a pod now.
    pub fn end(&self, pod: &str, exit_code: i32) -> Result<()> {
        let path = format!("{}/{pod}", collection(&self.shared.namespace, "pods"));
        let pod = self.shared.api.get(&path)?;
        let pod = pod.with_context(|| format!("there is no pod at {path}"))?;
        let metadata = serde_json::from_value(pod["metadata"].clone())?;
        self.shared.end(&metadata, exit_code)
    }

    /// Fails if something went wrong that no test has asked for.
    pub fn assert_well(&self) -> Result<()> {
        match &*lock(&self.shared.trouble) {
            Some(trouble) => bail!("the fake kubelet failed: {trouble}"),
            None => Ok(()),
        }
    }
}

impl Drop for FakeKubelet {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::SeqCst);
        self.shared.queue.close();
        lock(&self.shared.hangups).iter().for_each(Hangup::hang_up);
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            // A thread that panicked has said so.
            drop(thread.join());
        }
        if let Err(error) = node::remove(&self.shared.api, &self.shared.node) {
            eprintln!("cannot remove {}: {error:#}", self.shared.node);
        }
    }
}

impl Shared {
    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    fn watch(&self, pods: Pods) -> Result<Lines> {
        let selector = match pods {
            Pods::Pending => "status.phase%3DPending",
            Pods::Started => "status.phase%21%3DPending",
        };
        let pods = collection(&self.namespace, "pods");
        let path = format!("{pods}?{FROM_THE_START}&fieldSelector={selector}");
        let lines = self.api.watch(&path, METADATA_ONLY)?;
        let mut hangups = lock(&self.hangups);
        hangups.push(lines.hangup()?);
        drop(hangups);
        if self.is_closed() {
            bail!("closed");
        }
        Ok(lines)
    }

    /// Follows a watch, and the one after it when it ends.
    fn follow(&self, pods: Pods, lines: Lines) {
        let mut lines = Ok(lines);
        while !self.is_closed() {
            let ended = lines.and_then(|mut lines| {
                while let Some(line) = lines.next_line()? {
                    self.on_line(pods, line)?;
                }
                Ok(())
            });
            if !self.is_closed() {
                if let Err(error) = ended {
                    eprintln!("a watch of the fake kubelet ended: {error:#}");
                }
                thread::sleep(PAUSE);
            }
            lines = self.watch(pods);
        }
    }

    fn on_line(&self, pods: Pods, line: &[u8]) -> Result<()> {
        let event: Event = serde_json::from_slice(line)
            .with_context(|| format!("no event: {}", String::from_utf8_lossy(line)))?;
        match event.kind.as_str() {
            "ADDED" | "MODIFIED" => self.on_pod(pods, event.object.metadata),
            "DELETED" | "BOOKMARK" => {}
            other => bail!("{other}: {}", String::from_utf8_lossy(line)),
        }
        Ok(())
    }

    fn on_pod(&self, pods: Pods, pod: Metadata) {
        let now = Instant::now();
        if pod.is_terminating() {
            if lock(&self.stopping).insert(pod.uid.clone()) {
                let due = now + self.behaviour.stop_after;
                self.queue.push(due, Task::Stop(pod));
            }
        } else if matches!(pods, Pods::Pending) && lock(&self.starting).insert(pod.uid.clone()) {
            let (least, most) = self.behaviour.start_after;
            let share = f64::from(spread(&pod.uid)) / f64::from(u16::MAX);
            let due = now + least + most.saturating_sub(least).mul_f64(share);
            self.queue.push(due, Task::Start(pod));
        }
    }

    fn work(&self) {
        while let Some(task) = self.queue.pop() {
            let done = match &task {
                Task::Start(pod) => self.start(pod),
                Task::End(pod, code) => self.end(pod, *code),
                Task::Stop(pod) => self.stop(pod),
            };
            if let Err(error) = done {
                let trouble = format!("{task:?}: {error:#}");
                eprintln!("{trouble}");
                lock(&self.trouble).get_or_insert(trouble);
                continue;
            }
            if let Task::Start(pod) = task
                && let Some((after, code)) = pod.end()
            {
                self.queue
                    .push(Instant::now() + after, Task::End(pod, code));
            }
        }
    }

    fn start(&self, pod: &Metadata) -> Result<()> {
        let Some(spec) = self.spec(pod)? else {
            return Ok(());
        };
        if spec.node_name.is_none() {
            let target = json!({"apiVersion": "v1", "kind": "Node", "name": self.node});
            let binding = json!({
                "metadata": {"name": pod.name, "uid": pod.uid}, "target": target,
            });
            self.send("POST", &format!("{}/binding", self.path(pod)), &binding)?;
        }
        let address = self.addresses.fetch_add(1, Ordering::Relaxed);
        let [_, a, b, c] = address.to_be_bytes();
        let status = spec.running(&format!("10.{a}.{b}.{c}"), &now());
        self.say(pod, &status)?;
        self.started.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn end(&self, pod: &Metadata, code: i32) -> Result<()> {
        match self.spec(pod)? {
            Some(spec) => self.say(pod, &spec.ended(code, &now())),
            None => Ok(()),
        }
    }

    fn stop(&self, pod: &Metadata) -> Result<()> {
        let now = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": pod.uid}});
        self.send("DELETE", &self.path(pod), &now)
    }

    fn say(&self, pod: &Metadata, status: &Value) -> Result<()> {
        let patch = json!({"metadata": {"uid": pod.uid}, "status": status});
        self.send("PATCH", &format!("{}/status", self.path(pod)), &patch)
    }

    fn path(&self, pod: &Metadata) -> String {
        format!("{}/{}", collection(&pod.namespace, "pods"), pod.name)
    }

    /// What the pods of this one's kind are made of; `None` when the pod is gone.
    fn spec(&self, pod: &Metadata) -> Result<Option<Arc<Spec>>> {
        let template = pod.template();
        if let Some(spec) = lock(&self.specs).get(&template) {
            return Ok(Some(spec.clone()));
        }
        let (code, text) = self.send_again("GET", &self.path(pod), "")?;
        if code == 404 {
            return Ok(None);
        }
        ensure!(code == 200, "{code}: {}", String::from_utf8_lossy(&text));
        let found: WithSpec = serde_json::from_slice(&text)?;
        let spec = Arc::new(found.spec);
        lock(&self.specs).insert(template, spec.clone());
        Ok(Some(spec))
    }

    /// A pod that is gone, or was replaced by another of its name, needs nothing any more.
    fn send(&self, method: &str, path: &str, body: &Value) -> Result<()> {
        let (code, text) = self.send_again(method, path, &body.to_string())?;
        // Another pod of the name may be there already; its UID is not the one that we say.
        let other = code == 422 && String::from_utf8_lossy(&text).contains("metadata.uid");
        let gone = matches!(code, 404 | 409) || other;
        ensure!(
            code < 300 || gone,
            "{method} {path}: {code}: {}",
            String::from_utf8_lossy(&text)
        );
        Ok(())
    }

    fn send_again(&self, method: &str, path: &str, body: &str) -> Result<(u16, Vec<u8>)> {
        let mut tries = 0;
        loop {
            tries += 1;
            match self.api.send_text(method, path, body) {
                Err(_) if tries < TRIES && !self.is_closed() => {}
                answer => return answer,
            }
        }
    }

    fn renew(&self) {
        while !self.is_closed() {
            if let Err(error) = node::renew(&self.api, &self.node) {
                eprintln!("cannot renew the lease of {}: {error:#}", self.node);
            }
            thread::park_timeout(RENEWAL);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("nobody panics with this lock held")
}

/// A number of a pod's own, evenly spread: the last digits of its UID.
fn spread(uid: &str) -> u16 {
    let digits = uid.len().checked_sub(4).and_then(|at| uid.get(at..));
    digits
        .and_then(|digits| u16::from_str_radix(digits, 16).ok())
        .unwrap_or(0)
}

/// As the API server writes times.
fn now() -> String {
    format!("{:.0}", Timestamp::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_spread_by_uid() {
        assert_eq!(spread("8c5a9a3e-0000-4000-8000-00000000ffff"), u16::MAX);
        assert_eq!(spread("8c5a9a3e-0000-4000-8000-000000000000"), 0);
        assert_eq!(spread("x"), 0);
    }

    #[test]
    fn times_have_whole_seconds() {
        let now = now();
        assert_eq!(now.len(), "2026-01-01T00:00:00Z".len(), "{now}");
    }
}
