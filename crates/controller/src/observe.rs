//! The cluster, as a value for the planner. Decides which cached objects belong to the job: those
//! that its UID controls. Reads the clock once, and writes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use planner::job::{HostNames, LauncherKind, Owner, Workers};
use planner::observed::{
    AccountSlots, Key, LauncherJob, NetworkPolicyState, Observed, Pod, PodGroup, ServiceState,
    Slot, WorkerSet,
};
use planner::site::Site;
use planner::{Action, Job, Kind, Recorded};
use serde_json::Value;

use crate::context::Context;
use crate::error::Error;
use crate::found_gang;
use crate::key_secret::key_secret;
use crate::lookup::{Found, Lookup};
use crate::memory::JobMemory;
use crate::mounts;
use crate::object_index::ObjectIndex;
use crate::pod_lookup::PodLookup;
use crate::wire::{Facts, ObjectKey};
use crate::write_policy::{self, Holder};

/// What is known of a job now.
#[derive(Debug)]
pub(crate) struct Observation {
    pub(crate) observed: Observed,
    /// When to observe again although no event may come.
    pub(crate) recheck_at: Option<Timestamp>,
}

/// Observes one job.
pub(crate) async fn observe(
    context: &Context,
    job: &Job,
    recorded: Recorded,
) -> Result<Observation, Error> {
    let job = &taken_over(context, job, &recorded);
    let lookup = Lookup {
        context,
        owner: &job.owner,
    };
    let key = key_secret(lookup, job, &recorded).await?;
    let site = found_gang::site(lookup, job, &recorded).await?;
    let priorities = priorities(context, &site, job).await;
    let now = context.now();
    let mut names = NameLookup {
        context,
        site: &site,
        owner: &job.owner,
        now,
        retry_at: Vec::new(),
    };

    let service = names.service(job);
    let config = names.slot(&Kind::ConfigMap, &job.names.config, Facts::config);
    let account = names.account(job);
    let launcher = names.launcher(job);
    let worker_set = names.worker_set(job);
    let network_policy = names.network_policy(job);
    let pod_group = names.pod_group(job);
    names.await_key_name(job, &key);
    let set_uid = worker_set.ours().map(|set| set.uid.as_str());
    let launcher_uid = launcher.ours().map(|launcher| launcher.uid.as_str());
    let pods = PodLookup { context, job };
    let (mut launcher_pods, mut workers) =
        (pods.of_launcher(launcher_uid), pods.of_workers(set_uid));
    let foreign_pods = names.foreign_pods(job, set_uid, &workers);
    let retry_at = names.retry_at;
    let unfinished = workers.iter_mut().chain(&mut launcher_pods);
    let unfinished = unfinished.filter(|_| recorded.outcome.is_none());
    let known = context
        .memory
        .with(&job.owner.uid, |memory| memory.mount_events.take());
    let (recheck_mounts_at, mount_events) =
        mounts::explain(&context.api, &job.owner, unfinished, known, now).await;
    let refused = context.memory.with(&job.owner.uid, |memory| {
        memory.mount_events = mount_events;
        memory.fill_waiting_since(launcher_pods.iter_mut().chain(&mut workers), now);
        memory.refusals(now)
    });
    let observed = Observed {
        now,
        site,
        recorded,
        launcher_pods,
        workers,
        foreign_in_selection: pods.foreign_in_selection(),
        foreign_pods,
        service,
        config,
        key,
        nonce: (context.nonce)(),
        account,
        network_policy,
        pod_group,
        worker_set,
        launcher,
        refused,
        priorities,
        job: job.clone(),
    };
    Ok(Observation {
        observed,
        recheck_at: retry_at.into_iter().chain(recheck_mounts_at).min(),
    })
}

/// The job, with the transport that it was begun with if another operator began it.
fn taken_over(context: &Context, job: &Job, recorded: &Recorded) -> Job {
    if !job.takes_site_transport() || !recorded.seen || recorded.outcome.is_some() {
        return job.clone();
    }
    let key = ObjectKey::new(&job.owner.namespace, &job.names.launcher);
    let launcher = context.cache.with(&Kind::Job, |index| {
        let child = &index.get(&key)?.child;
        let ours = child.is_owned_by(&job.owner.uid);
        child.facts.launcher().filter(|_| ours)
    });
    let workers = PodLookup { context, job }.of_workers(None);
    planner::taken_over(job.clone(), launcher.as_ref(), &workers)
}

/// Asks for a launcher's Job that our watch does not show: the Kubeflow operator created it, or
/// somebody removed its label. Without this, the job would look as if it had never started. Asks
/// once, and again whenever the Job's pods exist. Returns the patch that makes the Job visible.
pub(crate) async fn find_launcher(
    context: &Context,
    job: &Job,
    recorded: &Recorded,
) -> Result<Option<Action>, Error> {
    let owner = &job.owner;
    let lookup = Lookup { context, owner };
    let name = &job.names.launcher;
    let is_cached = || {
        let key = lookup.key(name);
        let index = |index: &ObjectIndex| index.get(&key).is_some();
        context.cache.with(&Kind::Job, index)
    };
    let looked_up = |memory: &mut JobMemory| memory.launcher_looked_up;
    if job.launcher.kind.is_pod() {
        find_launcher_pod(lookup, job, recorded).await?;
        return Ok(None);
    }
    if !recorded.seen {
        // Nobody has begun with it; from now on we know what we make.
        let know = |memory: &mut JobMemory| memory.launcher_looked_up = true;
        context.memory.with(&owner.uid, know);
        return Ok(None);
    }
    if recorded.outcome.is_some()
        || is_cached()
        || (context.memory.with(&owner.uid, looked_up)
            && PodLookup { context, job }.of_launcher(None).is_empty())
    {
        return Ok(None);
    }
    let found = lookup.find(&Kind::Job, name).await;
    let found = found.map_err(|source| Error::observing(&Kind::Job, name, source))?;
    match write_policy::after_lookup(&Kind::Job, found) {
        Holder::Adopt { uid } => {
            return Ok(Some(Action::Patch {
                kind: Kind::Job,
                name: name.clone(),
                uid,
                subresource: None,
                merge: write_policy::adoption(),
            }));
        }
        Holder::Wait => lookup.mark_name_taken(&Kind::Job, name),
        Holder::Keep | Holder::Replan => {}
    }
    context
        .memory
        .with(&owner.uid, |memory| memory.launcher_looked_up = true);
    Ok(None)
}

/// Asks for a launcher's pod whose absence would end the job. Users take the label off a pod to keep it,
/// and then our watch says that it is gone.
async fn find_launcher_pod(
    lookup: Lookup<'_>,
    job: &Job,
    recorded: &Recorded,
) -> Result<(), Error> {
    let (context, name) = (lookup.context, &job.names.launcher);
    let is_fatal = recorded.ran && recorded.outcome.is_none();
    let is_cached = || {
        let is_there = |index: &ObjectIndex| index.get(&lookup.key(name)).is_some();
        context.cache.with(&Kind::Pod, is_there)
    };
    if !is_fatal || !job.limits().deleted_launcher_is_fatal || is_cached() {
        return Ok(());
    }
    let found = lookup.find(&Kind::Pod, name).await;
    match found.map_err(|source| Error::observing(&Kind::Pod, name, source))? {
        Found::Absent | Found::Ours { .. } => {}
        Found::Unlabelled { .. } | Found::Foreign => lookup.mark_name_taken(&Kind::Pod, name),
    }
    Ok(())
}

/// Values of the priority classes that the templates name. Only gang schedulers need them.
async fn priorities(context: &Context, site: &Site, job: &Job) -> BTreeMap<String, i32> {
    let mut values = BTreeMap::new();
    if job.gang_scheduler(site).is_none() {
        return values;
    }
    for role in [&job.launcher.role, job.workers.role()] {
        let name = role
            .template
            .pointer("/spec/priorityClassName")
            .and_then(Value::as_str);
        if let Some(name) = name
            && let Some(value) = context.priorities.value(&context.api, name).await
        {
            values.insert(name.to_owned(), value);
        }
    }
    values
}

/// The names that a job needs, and who holds them.
struct NameLookup<'a> {
    context: &'a Context,
    site: &'a Site,
    owner: &'a Owner,
    now: Timestamp,
    retry_at: Vec<Timestamp>,
}

impl NameLookup<'_> {
    fn service(&mut self, job: &Job) -> Slot<ServiceState> {
        match job.host_names() {
            HostNames::Service => self.slot(&Kind::Service, &job.names.service, Facts::service),
            HostNames::Pods => Slot::Absent,
        }
    }

    /// A job that was edited may have asked for one before.
    fn network_policy(&mut self, job: &Job) -> Slot<NetworkPolicyState> {
        if !job.isolated && self.owner.generation <= 1 {
            return Slot::Absent;
        }
        let (kind, name) = (Kind::NetworkPolicy, &job.owner.name);
        self.context.cache.request_kind(&kind);
        self.slot(&kind, name, Facts::network_policy)
    }

    fn pod_group(&mut self, job: &Job) -> Slot<PodGroup> {
        match job.gang_scheduler(self.site) {
            None => Slot::Absent,
            Some(scheduler) => {
                let kind = Kind::PodGroup(scheduler.api());
                self.context.cache.request_kind(&kind);
                self.slot(&kind, &job.names.pod_group, Facts::pod_group)
            }
        }
    }

    /// If somebody else holds the name of the key Secret, when to look again.
    fn await_key_name(&mut self, job: &Job, key: &Slot<Key>) {
        if key.is_foreign() {
            let name = ObjectKey::new(&self.owner.namespace, &job.names.ssh_key);
            let memory = &self.context.memory;
            let until = memory.name_taken_until(&Kind::Secret, &name, self.now);
            // It may have become due since it was looked at.
            self.retry_at.push(until.unwrap_or(self.now));
        }
    }

    /// The job's account with the API server; most have none.
    fn account(&mut self, job: &Job) -> AccountSlots {
        let Some(account) = job.account() else {
            return AccountSlots::default();
        };
        AccountSlots {
            service_account: self.slot(&Kind::ServiceAccount, &account.name, Facts::account),
            role: self.slot(&Kind::Role, &account.name, Facts::account),
            binding: self.slot(&Kind::RoleBinding, &account.name, Facts::account),
        }
    }

    fn worker_set(&mut self, job: &Job) -> Slot<WorkerSet> {
        match job.workers {
            Workers::StatefulSet(_) => {
                self.slot(&Kind::StatefulSet, &job.names.worker, Facts::worker_set)
            }
            Workers::Pods(_) => Slot::Absent,
        }
    }

    /// The launcher's Job; a launcher that is a pod is among the pods.
    fn launcher(&mut self, job: &Job) -> Slot<LauncherJob> {
        match job.launcher.kind {
            LauncherKind::Job { .. } => self.slot(&Kind::Job, &job.names.launcher, Facts::launcher),
            LauncherKind::Pod { .. } => Slot::Absent,
        }
    }

    fn slot<T>(
        &mut self,
        kind: &Kind,
        name: &str,
        read: impl FnOnce(&Facts) -> Option<T>,
    ) -> Slot<T> {
        let key = ObjectKey::new(&self.owner.namespace, name);
        let uid = &self.owner.uid;
        let known = self.context.cache.with(kind, |index| {
            let child = &index.get(&key)?.child;
            Some(if child.is_owned_by(uid) {
                read(&child.facts)
            } else {
                None
            })
        });
        match known {
            Some(Some(object)) => Slot::Ours(object),
            Some(None) => Slot::Foreign,
            None if self.is_taken(kind, &key) => Slot::Foreign,
            None => Slot::Absent,
        }
    }

    fn is_taken(&mut self, kind: &Kind, key: &ObjectKey) -> bool {
        let until = self.context.memory.name_taken_until(kind, key, self.now);
        self.retry_at.extend(until);
        until.is_some()
    }

    /// Names of the job's pods that pods of others hold. Those of its own workers are not asked for:
    /// there may be thousands, in every pass.
    fn foreign_pods(&mut self, job: &Job, set: Option<&str>, own: &[Pod]) -> Vec<String> {
        let own = own.iter().filter_map(|pod| job.worker_index(&pod.name));
        let own: BTreeSet<u32> = own.collect();
        let maker = match job.workers {
            Workers::Pods(_) => Some(self.owner.uid.as_str()),
            Workers::StatefulSet(_) => set,
        };
        let namespace: Arc<str> = self.owner.namespace.as_str().into();
        let own_launcher = job.launcher.kind.is_pod();
        let launcher = own_launcher.then(|| job.names.launcher.clone());
        let launcher = launcher.map(|name| (name, Some(self.owner.uid.as_str())));
        let missing = (0..job.worker_count()).filter(|index| !own.contains(index));
        let workers = missing.map(|index| (job.worker_name(index), maker));
        let mut foreign = Vec::new();
        for (name, maker) in launcher.into_iter().chain(workers) {
            let key = ObjectKey {
                namespace: Arc::clone(&namespace),
                name: name.as_str().into(),
            };
            let is_ours = self.context.cache.with(&Kind::Pod, |index| {
                let child = &index.get(&key)?.child;
                Some(maker.is_some_and(|maker| child.is_owned_by(maker)))
            });
            if is_ours.map_or_else(|| self.is_taken(&Kind::Pod, &key), |ours| !ours) {
                foreign.push(name);
            }
        }
        foreign
    }
}
