//! What was asked for: an MPI job in no dialect, already valid. Dialects lower into it. Its parts hold
//! exactly the settings that each kind of launcher, worker and access needs, so that an impossible job
//! cannot be written down and the planner needs no error type.
//!
//! Pod templates stay JSON: a typed round trip would drop fields newer than our types.

use std::collections::BTreeMap;

use contract::Reason;
pub use contract::agent_report::RESTARTABLE;
pub use contract::mpi::Mpi;
use serde_json::Value;

mod launcher;
mod lifecycle;
mod role;
mod workers;

pub use launcher::{
    JobRestart, Launcher, LauncherHost, LauncherKind, LauncherStart, RestartPolicy,
};
pub use lifecycle::{CleanUp, End, Lifecycle, Limits};
pub use role::Role;
pub use workers::{
    Access, Account, AccountRule, HostNames, Login, Provided, StatefulWorkers, WorkerPods, Workers,
};

use crate::keys::Keys;
use crate::site::{EXEC, GangScheduler, Site, Transport};

/// Workers that have keys, at least: a job that grows needs no other Secret.
const KEYS_MIN: u32 = 256;
/// Workers that have keys, at most, unless more were asked for: their keys must fit into one Secret.
const KEYS_MAX: u32 = 10_000;
/// Keys of a job with a deadline are valid until this long after the last moment at which it may end.
const AFTER_DEADLINE_SECS: u64 = 3600;
/// Keys of a job without a deadline are valid for a year.
const YEAR_SECS: u64 = 365 * 24 * 3600;

/// A job to run.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// The object that asked for it, and owns every child.
    pub owner: Owner,
    /// What its children are called.
    pub names: Names,
    /// Which family of launchers the program uses.
    pub mpi: Mpi,
    /// Ranks per host.
    pub slots: u32,
    /// The program asks for hosts while it runs, so the discovery script must follow the pods.
    pub elastic: bool,
    /// What runs mpirun.
    pub launcher: Launcher,
    /// The pods that mpirun reaches, and how it reaches them.
    pub workers: Workers,
    /// When the job ends, and what stays then.
    pub lifecycle: Lifecycle,
    /// Only pods of the job may connect to its pods.
    pub isolated: bool,
    /// On which nodes its hosts go.
    pub placement: Placement,
    /// When its program is started again in the pods that it has; never, if absent. Only the agent can do
    /// that, under which the launcher's command must run.
    pub recovery: Option<Recovery>,
    /// What a gang scheduler is told; used only where there is one.
    pub gang: Gang,
    /// Kueue admits its pods as a group, because it does not know the API of the job.
    pub queue: Option<Queue>,
    /// The status lists every pod.
    pub reports_pods: bool,
}

/// A queue of Kueue that admits the pods of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queue {
    /// Its name.
    pub name: String,
    /// Who goes first in it; may be empty.
    pub priority_class: String,
}

/// The custom resource that a job comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Written into owner references, e.g. `kubeflow.org/v2beta1`.
    pub api_version: String,
    /// Written into owner references, and what messages call the job.
    pub kind: String,
    /// Namespace of the job and of all its children.
    pub namespace: String,
    /// Name of the job.
    pub name: String,
    /// UID of the job; decides what is ours.
    pub uid: String,
    /// `metadata.generation`: which version of the spec this is.
    pub generation: i64,
    /// It is being deleted, and somebody's finalizer still holds it.
    pub deleting: bool,
}

/// Names of a job's children.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// Of the launcher's Job and the host name of its pods, or of its pod.
    pub launcher: String,
    /// Of the workers' StatefulSet. With `-` and an index, of a worker's pod.
    pub worker: String,
    /// Of the headless Service.
    pub service: String,
    /// Of the ConfigMap that pods mount.
    pub config: String,
    /// Of the Secret with the SSH key pair.
    pub ssh_key: String,
    /// What the name of the Secret with the keys of transport Agent begins with.
    pub agent_keys: String,
    /// Of the PodGroup.
    pub pod_group: String,
}

impl Names {
    /// What most APIs call the children of a job of this name.
    pub fn usual(job: &str) -> Self {
        Self {
            launcher: format!("{job}-launcher"),
            worker: format!("{job}-worker"),
            service: job.to_owned(),
            config: format!("{job}-config"),
            ssh_key: format!("{job}-ssh"),
            agent_keys: format!("{job}-agent"),
            pod_group: job.to_owned(),
        }
    }
}

/// On which nodes the hosts of a job go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// Wherever the scheduler puts them.
    #[default]
    Anywhere,
    /// No two on one node.
    OnePerNode,
    /// On few nodes, if there is room.
    Pack,
    /// On many nodes, as evenly as there is room.
    Spread,
}

/// When a program that failed is started again in the pods that it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// How often at most.
    pub restarts: u32,
    /// For which of [`RESTARTABLE`]; never empty.
    pub on: Vec<Reason>,
    /// After an attempt of this length, all restarts are left again.
    pub reset_secs: Option<u64>,
    /// How the program is stopped when a pod has to leave its node.
    pub stop: PlannedStop,
}

/// How a program is stopped in good order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedStop {
    /// What its ranks get.
    pub signal: StopSignal,
    /// How long they have to end.
    pub grace_secs: u32,
}

impl PlannedStop {
    /// What Kubernetes does to a pod.
    pub const USUAL: Self = Self {
        signal: StopSignal::ALL[0],
        grace_secs: 30,
    };
}

/// A signal that a program may handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StopSignal {
    /// Its name, such as `SIGUSR1`.
    pub name: &'static str,
    /// Its number on Linux.
    pub number: u8,
}

impl StopSignal {
    /// All of them, the usual one first.
    pub const ALL: [Self; 6] = [
        Self::new("SIGTERM", 15),
        Self::new("SIGINT", 2),
        Self::new("SIGQUIT", 3),
        Self::new("SIGHUP", 1),
        Self::new("SIGUSR1", 10),
        Self::new("SIGUSR2", 12),
    ];

    const fn new(name: &'static str, number: u8) -> Self {
        Self { name, number }
    }
}

/// Who places the pods of a job together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum GangChoice {
    /// The site's gang scheduler, if it has one.
    #[default]
    Site,
    /// Nobody, whatever the site has.
    Nobody,
    /// Whoever is found in the cluster, if anybody is.
    Found,
    /// This one.
    Scheduler(GangScheduler),
}

/// What the user tells a gang scheduler.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gang {
    /// Who places its pods together.
    pub scheduler: GangChoice,
    /// Pods that must fit at once; the launcher and all workers when absent.
    pub min_members: Option<i32>,
    /// Queue, by field or by the job's annotation.
    pub queue: Option<String>,
    /// Resources that must be free, as written; computed from the templates when absent.
    pub min_resources: Option<BTreeMap<String, Value>>,
    /// Priority class of the group.
    pub priority_class: Option<String>,
    /// Priority of the group, where it is a number.
    pub priority: Option<i32>,
    /// How long the scheduler may wait for the group.
    pub schedule_timeout_secs: Option<i32>,
}

impl Job {
    /// How many workers were asked for.
    pub fn worker_count(&self) -> u32 {
        self.workers.count()
    }

    /// Name of worker `index`'s pod.
    pub fn worker_name(&self, index: u32) -> String {
        format!("{}-{index}", self.names.worker)
    }

    /// Names of all workers' pods.
    pub fn worker_names(&self) -> impl Iterator<Item = String> {
        (0..self.worker_count()).map(|index| self.worker_name(index))
    }

    /// Which worker a pod name belongs to, if it is spelled as ours are.
    pub fn worker_index(&self, pod: &str) -> Option<u32> {
        let digits = pod.strip_prefix(&self.names.worker)?.strip_prefix('-')?;
        // Asked for every pod of every pass, so it allocates nothing. Ours have no sign and no zero in
        // front.
        let first = digits.bytes().next()?;
        let is_ours = first.is_ascii_digit() && (first != b'0' || digits.len() == 1);
        digits.parse().ok().filter(|_| is_ours)
    }

    /// What ends it beside its launcher.
    pub fn limits(&self) -> &Limits {
        match &self.lifecycle.end {
            End::WithLauncher(limits) => limits,
            End::OnDeletion => &Limits::NONE,
        }
    }

    /// The end of its launcher is not the end of the job.
    pub fn outlives_launcher(&self) -> bool {
        self.lifecycle.end == End::OnDeletion
    }

    /// Its pods could be placed together. The controller of a StatefulSet knows no gangs, and one machine
    /// that takes every pod needs none.
    fn may_be_gang(&self, site: &Site) -> bool {
        site.machine_cores.is_none() && matches!(self.workers, Workers::Pods(_))
    }

    /// Whoever places its pods together must be found in the cluster.
    pub fn takes_found_gang(&self, site: &Site) -> bool {
        let takes = match self.gang.scheduler {
            GangChoice::Found => true,
            GangChoice::Site => site.gang_is_auto,
            GangChoice::Nobody | GangChoice::Scheduler(_) => false,
        };
        takes && self.may_be_gang(site)
    }

    /// Who places the pods together, if anybody does.
    pub fn gang_scheduler<'a>(&'a self, site: &'a Site) -> Option<&'a GangScheduler> {
        if !self.may_be_gang(site) {
            return None;
        }
        if self.takes_found_gang(site) {
            return site.found_gang.as_ref();
        }
        match (&self.gang.scheduler, &site.gang) {
            (GangChoice::Nobody | GangChoice::Found, _) => None,
            (GangChoice::Site, of_site) => of_site.as_ref(),
            // The site knows what its scheduler is called.
            (
                GangChoice::Scheduler(GangScheduler::SchedulerPlugins(_)),
                Some(of_site @ GangScheduler::SchedulerPlugins(_)),
            ) => Some(of_site),
            (GangChoice::Scheduler(scheduler), _) => Some(scheduler),
        }
    }

    /// Its account with the API server, if it has one.
    pub fn account(&self) -> Option<&Account> {
        match &self.workers {
            Workers::StatefulSet(set) => Some(&set.account),
            Workers::Pods(pods) => match &pods.access {
                Access::Provided(provided) => provided.account.as_ref(),
                Access::SiteDefault(_) | Access::Ssh(_) | Access::Agent(..) => None,
            },
        }
    }

    /// By which names its hosts know each other.
    pub fn host_names(&self) -> HostNames {
        match &self.workers {
            Workers::StatefulSet(_) => HostNames::Pods,
            Workers::Pods(pods) => match pods.access {
                Access::Agent(_, names) => names,
                Access::SiteDefault(_) | Access::Ssh(_) | Access::Provided(_) => HostNames::Service,
            },
        }
    }

    /// The transport that muster arranges here, if it does.
    pub(crate) fn login(&self, site: &Site) -> Option<(&Login, Transport)> {
        let Workers::Pods(pods) = &self.workers else {
            return None;
        };
        match &pods.access {
            Access::SiteDefault(login) => Some((login, site.transport)),
            Access::Ssh(login) => Some((login, Transport::Ssh)),
            Access::Agent(login, _) => Some((login, Transport::Agent)),
            Access::Provided(_) => None,
        }
    }

    /// The word for how mpirun reaches the workers here.
    pub fn transport(&self, site: &Site) -> &'static str {
        match (&self.workers, self.login(site)) {
            (Workers::StatefulSet(_), _) => EXEC,
            (Workers::Pods(_), Some((_, transport))) => transport.as_str(),
            (Workers::Pods(_), None) => Transport::Ssh.as_str(),
        }
    }

    /// Neither the job nor its status names a transport.
    pub fn takes_site_transport(&self) -> bool {
        let Workers::Pods(pods) = &self.workers else {
            return false;
        };
        matches!(pods.access, Access::SiteDefault(_))
    }

    /// A job keeps the transport that it began with; by the agent, its workers have these names.
    pub fn begun_with(mut self, transport: Transport, by_agent: HostNames) -> Self {
        if let Workers::Pods(pods) = &mut self.workers
            && let Access::SiteDefault(login) | Access::Ssh(login) | Access::Agent(login, _) =
                &pods.access
        {
            let login = login.clone();
            pods.access = match transport {
                Transport::Ssh => Access::Ssh(login),
                Transport::Agent => Access::Agent(login, by_agent),
            };
        }
        self
    }

    /// What its key Secret holds; none where nobody needs one, or where it is the user's own. It lets the
    /// launcher, and nobody else, start processes on workers.
    pub fn keys(&self, site: &Site) -> Option<Keys> {
        let (_, transport) = self.login(site)?;
        Some(match transport {
            Transport::Ssh => Keys::SshPair,
            Transport::Agent => self.agent_keys(),
        })
    }

    fn agent_keys(&self) -> Keys {
        let wanted = self.worker_count();
        // Its workers may gather until the deadline, and its launcher then has as long again.
        let ends_secs = self
            .limits()
            .deadline_secs
            .map(|secs| secs.saturating_mul(2));
        Keys::Agent {
            worker: self.names.worker.clone(),
            workers: wanted.max(wanted.saturating_mul(4).clamp(KEYS_MIN, KEYS_MAX)),
            valid_secs: ends_secs
                .map_or(YEAR_SECS, |secs| secs.saturating_add(AFTER_DEADLINE_SECS)),
        }
    }

    /// The image of the launcher's gate, if it has one: there must be workers to wait for, and a
    /// program to wait with.
    pub fn gate<'s>(&self, site: &'s Site) -> Option<&'s str> {
        let (login, _) = self.login(site)?;
        // An elastic program begins with the workers that are there.
        let gated = login.gate && self.worker_count() > 0 && !self.elastic;
        site.agent_image.as_deref().filter(|_| gated)
    }
}
