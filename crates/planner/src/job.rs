//! What was asked for: an MPI job in no dialect, already valid. Dialects lower into it; after
//! that no impossible job can be spelled, so the planner needs no error type.
//!
//! Pod templates stay JSON: a typed round trip would drop fields newer than our types.

use std::collections::BTreeMap;

pub use contract::mpi::Mpi;
use serde_json::Value;

use crate::site::{GangScheduler, Site, Transport};

/// A job to run.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// The object that asked for it, and owns every child.
    pub owner: Owner,
    /// Which family of launchers the program uses.
    pub mpi: Mpi,
    /// Ranks per host.
    pub slots: u32,
    /// The pod that runs mpirun.
    pub launcher: Role,
    /// The pods that mpirun reaches; none in a job of a launcher alone.
    pub workers: Option<Workers>,
    /// Who makes the workers' pods.
    pub workers_as: WorkersAs,
    /// What the launcher is in the cluster.
    pub launcher_as: LauncherAs,
    /// The launcher takes ranks too, and stands first in the host list.
    pub launcher_is_host: bool,
    /// Where the launcher is a host, index labels count it: it is 0, the first worker 1.
    pub launcher_is_indexed: bool,
    /// By which names the hosts know each other.
    pub host_names: HostNames,
    /// The discovery script says how many ranks each host takes.
    pub discovery_tells_slots: bool,
    /// The launcher was promised its remote shell as [`contract::files::EXEC_SCRIPT`] too.
    pub exec_script: bool,
    /// When the launcher may start.
    pub launcher_start: LauncherStart,
    /// How mpirun reaches the workers; as the site has it when the job does not say.
    pub transport: Option<Transport>,
    /// The launcher's program waits until every worker has answered.
    pub gate: bool,
    /// Port of the workers' sshd, where it is none of the usual ones.
    pub ssh_port: Option<u16>,
    /// A program that ended well on fewer hosts than there are workers has failed.
    pub census: bool,
    /// Where the SSH key pair is mounted in every pod.
    pub ssh_mount_path: String,
    /// The program asks for hosts while it runs, so the discovery script must follow the pods.
    pub elastic: bool,
    /// Limits, clean-up, suspension.
    pub policy: Policy,
    /// The gang scheduler that the job asks for; the site's, if it has one, when absent.
    pub gang_scheduler: Option<GangScheduler>,
    /// What a gang scheduler is told; used only where there is one.
    pub gang: GangWish,
    /// Clients read of every pod in the status.
    pub tells_of_pods: bool,
    /// The end of its launcher is not the end of the job: workers are looked after as before, and a
    /// launcher that somebody deletes is made again. No outcome of such a job is ever recorded.
    pub outlives_launcher: bool,
    /// What its launcher may ask of the API server; nothing when absent.
    pub account: Option<Account>,
    /// The templates bring everything, and a script of the job's brings the pods up. Then no key is
    /// made, nothing is added to the pods, and workers end by themselves.
    pub bootstrap: Option<Bootstrap>,
}

/// How the pods of a job come up, and end, where that is not muster's doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bootstrap {
    /// Files of the ConfigMap that the templates mount.
    pub files: BTreeMap<String, String>,
    /// The workers' container that runs muster's agent; none where it has an image of its own.
    pub attendant: Option<String>,
    /// Ports of the Service, by name.
    pub service_ports: BTreeMap<String, u16>,
    /// How long the script may take, for words about it.
    pub init_secs: u64,
}

/// An account of the job's own with the API server: a ServiceAccount, a Role and the RoleBinding
/// between them, all of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Name of the three objects.
    pub name: String,
    /// The user's own ServiceAccount, which is then bound instead of one that is made.
    pub given: Option<String>,
    /// What the account may do.
    pub rights: Vec<Right>,
}

/// One thing that an account may do, in the core API group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Right {
    /// `pods`, `pods/exec`…
    pub resource: &'static str,
    /// `get`, `list`…
    pub verbs: &'static [&'static str],
    /// To these objects alone; to all of them in the namespace when absent.
    pub names: Option<Vec<String>>,
}

impl Account {
    /// Name of the ServiceAccount that pods run as.
    pub fn service_account(&self) -> &str {
        self.given.as_deref().unwrap_or(&self.name)
    }
}

/// The custom resource that a job comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Written into owner references, e.g. `kubeflow.org/v2beta1`.
    pub api_version: String,
    /// Written into owner references, e.g. `MPIJob`.
    pub kind: String,
    /// Namespace of the job and of all its children.
    pub namespace: String,
    /// Name of the job; children's names begin with it.
    pub name: String,
    /// UID of the job; decides what is ours.
    pub uid: String,
    /// `metadata.generation`: which version of the spec this is.
    pub generation: i64,
    /// It is being deleted, and somebody's finalizer still holds it.
    pub deleting: bool,
}

/// Who makes the workers' pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkersAs {
    /// We do.
    Pods,
    /// The controller of a StatefulSet, which also replaces them when their template changes.
    StatefulSet,
}

/// What the launcher is in the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LauncherAs {
    /// A batch Job: its controller makes the pods, tries again, and watches the deadline.
    Job,
    /// A pod of ours, which is never tried again unless its restart policy says so.
    Pod,
}

/// By which names the hosts of a job know each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostNames {
    /// By DNS, below a headless Service of the job.
    Service,
    /// By the bare names of their pods, which nothing resolves.
    Pods,
}

/// One kind of pod of the job.
#[derive(Clone, Debug, PartialEq)]
pub struct Role {
    /// The user's pod template, as written.
    pub template: Value,
    /// What becomes of a container that ended.
    pub restart: RestartPolicy,
    /// Labels that clients find such pods by, beside those that every pod of a job has.
    pub labels: BTreeMap<String, String>,
    /// The container that MPI runs in; the first one when absent.
    pub container: Option<String>,
}

/// The workers: at least one.
#[derive(Clone, Debug, PartialEq)]
pub struct Workers {
    /// How many.
    pub count: u32,
    /// What each looks like.
    pub role: Role,
    /// A container with arguments and no command only serves: the arguments are not for it.
    pub drops_bare_args: bool,
}

/// Restart policies that a job's pods may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestartPolicy {
    /// A container that ended stays ended.
    Never,
    /// A container that failed is started again in its pod.
    OnFailure,
    /// A container that ended is started again in its pod.
    Always,
    /// A pod that failed with an exit code below 128 stays failed; one that was ended from outside
    /// is made again.
    ExitCode,
}

impl RestartPolicy {
    /// The spelling of the pod API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Never | Self::ExitCode => "Never",
            Self::OnFailure => "OnFailure",
            Self::Always => "Always",
        }
    }
}

/// When the launcher may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LauncherStart {
    /// Together with the workers.
    AtOnce,
    /// Not before every worker is Ready.
    WhenWorkersReady,
}

/// Limits, clean-up, suspension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Which pods go once the job is over.
    pub clean: CleanUp,
    /// The launcher's pod and the pod group go too, not only workers.
    pub clean_covers_launcher: bool,
    /// A worker that failed ends the job.
    pub failed_worker_is_fatal: bool,
    /// How long the launcher Job stays once the job is over.
    pub ttl_secs: Option<u32>,
    /// How long the job itself stays once it is over.
    pub expires_secs: Option<u32>,
    /// How long the job may run.
    pub deadline_secs: Option<u64>,
    /// How long the job may take until its program starts.
    pub startup_secs: Option<u64>,
    /// How often the launcher is tried again.
    pub backoff_limit: Option<u32>,
    /// The job must hold no pods now.
    pub suspended: bool,
}

/// Which pods go once the job is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CleanUp {
    /// None: they stay as they are.
    Nothing,
    /// Those that still hold resources.
    Running,
    /// All of them.
    All,
}

/// What the user tells a gang scheduler.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GangWish {
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
    /// Who places the pods together, if anybody does.
    pub fn gang_scheduler<'a>(&'a self, site: &'a Site) -> Option<&'a GangScheduler> {
        // The controller of a StatefulSet knows of none.
        let ours = self.workers_as == WorkersAs::Pods;
        let of_all = site.gang.as_ref().filter(|_| ours);
        self.gang_scheduler.as_ref().or(of_all)
    }

    /// How many workers were asked for.
    pub fn worker_count(&self) -> u32 {
        self.workers.as_ref().map_or(0, |workers| workers.count)
    }

    /// Name of worker `index`'s pod.
    pub fn worker_name(&self, index: u32) -> String {
        format!("{}-worker-{index}", self.owner.name)
    }

    /// Which worker a pod name belongs to, if it is spelled as ours are.
    pub fn worker_index(&self, pod: &str) -> Option<u32> {
        let digits = pod
            .strip_prefix(self.owner.name.as_str())?
            .strip_prefix("-worker-")?;
        let index: u32 = digits.parse().ok()?;
        (index.to_string() == digits).then_some(index)
    }

    /// Name of the workers' StatefulSet.
    pub fn worker_set_name(&self) -> String {
        format!("{}-worker", self.owner.name)
    }

    /// Name of the launcher's Job and host name of its pods, or name of its pod.
    pub fn launcher_name(&self) -> String {
        let role = match self.bootstrap {
            Some(_) => "master",
            None => "launcher",
        };
        format!("{}-{role}", self.owner.name)
    }

    /// Name of the headless Service, which is the job's own.
    pub fn service_name(&self) -> String {
        self.owner.name.clone()
    }

    /// Name of the ConfigMap with the host list.
    pub fn config_name(&self) -> String {
        let what = match self.bootstrap {
            Some(_) => "assets",
            None => "config",
        };
        format!("{}-{what}", self.owner.name)
    }

    /// Name of the Secret that lets the launcher, and nobody else, start processes on workers.
    pub fn key_name(&self, site: &Site) -> String {
        match self.transport(site) {
            Transport::Ssh => self.ssh_key_name(),
            Transport::Agent | Transport::Exec => self.agent_key_name(),
        }
    }

    /// Name of the Secret with the key pair of transport SSH.
    pub(crate) fn ssh_key_name(&self) -> String {
        format!("{}-ssh", self.owner.name)
    }

    /// Name of the Secret with the certificates of transport Agent.
    pub(crate) fn agent_key_name(&self) -> String {
        format!("{}-agent", self.owner.name)
    }

    /// How mpirun reaches the workers here.
    pub fn transport(&self, site: &Site) -> Transport {
        self.transport.unwrap_or(site.transport)
    }

    /// Its transport needs keys, and they are not its user's own: so there is a Secret.
    pub fn needs_key(&self, site: &Site) -> bool {
        self.transport(site) != Transport::Exec && self.bootstrap.is_none()
    }

    /// The image of the launcher's gate, if it has one: there must be workers to wait for, and a
    /// program to wait with.
    pub fn gate<'s>(&self, site: &'s Site) -> Option<&'s str> {
        // An elastic program begins with the workers that are there.
        let gated = self.gate && self.worker_count() > 0 && !self.elastic;
        site.agent_image.as_deref().filter(|_| gated)
    }

    /// Name of the PodGroup, which is the job's own.
    pub fn pod_group_name(&self) -> String {
        self.owner.name.clone()
    }
}
