//! Settings of the operator that every job of a cluster shares.

/// Settings of the operator that reach into the objects of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Site {
    /// Suffix of host names, e.g. `cluster.local`; none when empty.
    pub cluster_domain: String,
    /// The gang scheduler, if there is one.
    pub gang: Option<GangScheduler>,
    /// A job that names no gang scheduler gets the one that is found.
    pub gang_is_auto: bool,
    /// The gang scheduler that was found for this job, if it takes what is found.
    pub found_gang: Option<GangScheduler>,
    /// Image with muster's agent; without one there is no gate, and no transport but SSH.
    pub agent_image: Option<String>,
    /// How mpirun reaches the workers of a job that does not say.
    pub transport: Transport,
    /// Cores of the one machine on which all pods run, whatever their templates ask for. None where
    /// there are nodes.
    pub machine_cores: Option<u32>,
    /// The operator's own namespace, where it refuses jobs: a pod there can run as the operator's account.
    /// None where it accepts them.
    pub refused_namespace: Option<String>,
}

/// A scheduler that places all pods of a job or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GangScheduler {
    /// Volcano.
    Volcano,
    /// The coscheduling plugin, under the scheduler's name.
    SchedulerPlugins(String),
    /// The scheduler of the T9k platform.
    T9k,
    /// The scheduler of Kubernetes, from 1.37 on, where the cluster has its gate GenericWorkload on. Pods
    /// keep the scheduler that their template names.
    Native,
}

impl GangScheduler {
    /// What tells it from the others, and from one of another name.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Volcano | Self::T9k | Self::Native => self.api().as_str(),
            Self::SchedulerPlugins(name) => name,
        }
    }

    /// What it reads its groups from.
    pub fn api(&self) -> GangApi {
        match self {
            Self::Volcano => GangApi::Volcano,
            Self::SchedulerPlugins(_) => GangApi::SchedulerPlugins,
            Self::T9k => GangApi::T9k,
            Self::Native => GangApi::Native,
        }
    }
}

/// What the scheduler with the coscheduling plugin is called where nobody has renamed it.
const PLUGINS_SCHEDULER: &str = "scheduler-plugins-scheduler";

/// An API with PodGroups; each has its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GangApi {
    /// scheduling.volcano.sh/v1beta1
    Volcano,
    /// scheduling.x-k8s.io/v1alpha1
    SchedulerPlugins,
    /// scheduler.tensorstack.dev/v1beta1
    T9k,
    /// scheduling.k8s.io/v1beta1
    Native,
}

impl GangApi {
    /// All of them. A job that takes what is found takes the first that the cluster serves. That of
    /// Kubernetes comes first: it places all other pods too, so no two schedulers compete for a node.
    pub const BY_PREFERENCE: [Self; 4] = [
        Self::Native,
        Self::Volcano,
        Self::SchedulerPlugins,
        Self::T9k,
    ];

    /// The word that users have for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Volcano => "Volcano",
            Self::SchedulerPlugins => "SchedulerPlugins",
            Self::T9k => "T9k",
            Self::Native => "Native",
        }
    }

    /// The one that the word means.
    pub fn named(word: &str) -> Option<Self> {
        let mut all = Self::BY_PREFERENCE.into_iter();
        all.find(|api| api.as_str() == word)
    }

    /// Who reads its groups, where nobody has renamed it.
    pub fn usual_scheduler(self) -> GangScheduler {
        match self {
            Self::Volcano => GangScheduler::Volcano,
            Self::SchedulerPlugins => GangScheduler::SchedulerPlugins(PLUGINS_SCHEDULER.to_owned()),
            Self::T9k => GangScheduler::T9k,
            Self::Native => GangScheduler::Native,
        }
    }

    /// Group and version.
    pub const fn group_version(self) -> (&'static str, &'static str) {
        match self {
            Self::Volcano => ("scheduling.volcano.sh", "v1beta1"),
            Self::SchedulerPlugins => ("scheduling.x-k8s.io", "v1alpha1"),
            Self::T9k => ("scheduler.tensorstack.dev", "v1beta1"),
            Self::Native => ("scheduling.k8s.io", "v1beta1"),
        }
    }
}

/// Who was found to place the pods of a job together that takes what is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundGang {
    /// Nobody: no such API is served.
    Nobody,
    /// Whoever reads the groups of this one.
    Scheduler(GangApi),
}

impl FoundGang {
    /// The word for nobody.
    const NOBODY: &str = "None";

    /// The word that users have for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Nobody => Self::NOBODY,
            Self::Scheduler(api) => api.as_str(),
        }
    }

    /// The one that the word means.
    pub fn named(word: &str) -> Option<Self> {
        match word {
            Self::NOBODY => Some(Self::Nobody),
            word => GangApi::named(word).map(Self::Scheduler),
        }
    }

    /// The scheduler, if there is one.
    pub fn scheduler(self) -> Option<GangScheduler> {
        match self {
            Self::Nobody => None,
            Self::Scheduler(api) => Some(api.usual_scheduler()),
        }
    }
}

/// The word for reaching workers through the API server, which is no choice of the site's.
pub const EXEC: &str = "Exec";

/// How mpirun reaches worker pods where muster arranges it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// Through the sshd of the workers' image, with a key pair of the job.
    #[default]
    Ssh,
    /// Through muster's own agent, with keys of the job; the images need no ssh.
    Agent,
}

impl Transport {
    /// The word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ssh => "SSH",
            Self::Agent => "Agent",
        }
    }

    /// The transport that the word means.
    pub fn named(word: &str) -> Option<Self> {
        let mut all = [Self::Ssh, Self::Agent].into_iter();
        all.find(|transport| transport.as_str() == word)
    }
}
