//! The cluster as a value: what it is made of and the few ways to move it. Decides the order of
//! its parts' steps; the parts decide the rest.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::api::Answer;
use crate::api::watch::{Next, Watch};
use crate::garbage::Garbage;
use crate::jobs::Jobs;
use crate::kubelet::machine::Kubelet;
use crate::kubelet::{Order, PodReport};
use crate::scheduler::Scheduler;
use crate::server::{Config, Server};
use crate::store::KindId;

/// A Kubernetes in a value. A clone is a snapshot.
#[derive(Clone, Debug)]
pub struct Cluster {
    server: Server,
    garbage: Garbage,
    jobs: Jobs,
    scheduler: Scheduler,
    kubelet: Kubelet,
}

impl Cluster {
    /// A cluster with the usual namespaces and, if configured, its node.
    pub fn new(config: Config) -> Self {
        Self {
            server: Server::new(config),
            garbage: Garbage::default(),
            jobs: Jobs::default(),
            scheduler: Scheduler::default(),
            kubelet: Kubelet::default(),
        }
    }

    /// Answers a request. Controllers see what it changed at the next [`Self::tick`].
    pub fn handle(&mut self, now: Timestamp, request: http::Request<Vec<u8>>) -> Answer {
        self.server.answer(now, request)
    }

    /// What a watch has to say since it was last asked.
    pub fn follow(&self, now: Timestamp, watch: &mut Watch) -> Next {
        self.server.follow(now, watch)
    }

    /// Whether something of its kind changed since the watch was last asked, or it was never asked.
    pub fn has_news(&self, watch: &Watch) -> bool {
        self.server.has_news(watch)
    }

    /// A number that grows with every change: watches need not be asked while it stands still.
    pub fn revision(&self) -> u64 {
        self.server.store.revision()
    }

    /// All stored objects of a kind, in order, without a request.
    pub fn objects<'a>(
        &'a self,
        group: &str,
        plural: &str,
    ) -> impl Iterator<Item = &'a Arc<Value>> + use<'a> {
        let kind = KindId::new(group, plural);
        self.server.store.list(&kind, None, None)
    }

    /// Forgets history up to now, as a server does from time to time: watches that are behind end
    /// with 410.
    pub fn compact(&mut self) {
        let revision = self.server.store.revision();
        self.server.store.forget_before(revision);
    }

    /// Lets controllers act on what changed. The orders are for the runner.
    pub fn tick(&mut self, now: Timestamp) -> Vec<Order> {
        while self.server.alarms.first().is_some_and(|at| *at <= now) {
            self.server.alarms.pop_first();
        }
        let node = self
            .server
            .config
            .node
            .as_ref()
            .map(|node| node.name.clone());
        let mut orders = Vec::new();
        loop {
            for change in self.server.store.changes() {
                self.garbage.note(&change, &self.server.store);
                if !self.server.config.controllers {
                    continue;
                }
                self.jobs.note(&change);
                if change.key.kind.is("/pods") {
                    self.scheduler.note(&change);
                    if let Some(node) = &node {
                        self.kubelet.note(&change, node);
                    }
                } else if change.key.kind.0.ends_with("/podgroups") {
                    self.scheduler.stir();
                }
            }
            self.garbage.run(&mut self.server, now);
            if self.server.config.controllers {
                self.jobs.run(&mut self.server, now);
                self.scheduler.run(&mut self.server, now);
                orders.append(&mut self.kubelet.run(&mut self.server, now));
            }
            if !self.server.store.has_changes() {
                return orders;
            }
        }
    }

    /// Takes in what the runner says; its consequences come with the next [`Self::tick`].
    pub fn report(&mut self, now: Timestamp, report: PodReport) {
        self.kubelet.report(now, report);
    }

    /// [`Self::tick`] has something to do now.
    pub fn is_restless(&self) -> bool {
        self.server.store.has_changes() || self.kubelet.is_restless()
    }

    /// When [`Self::tick`] has something to do although nothing happened.
    pub fn next_wake(&self) -> Option<Timestamp> {
        let alarms = [
            self.server.alarms.first().copied(),
            self.jobs.next_wake(),
            self.kubelet.next_wake(),
        ];
        alarms.into_iter().flatten().min()
    }
}
