//! The workers of a job: pods or a StatefulSet, and how mpirun reaches them.

use std::collections::BTreeMap;

use super::launcher::RestartPolicy;
use super::role::Role;

/// The pods that mpirun reaches. Those of a job that is a launcher alone are none.
#[derive(Clone, Debug, PartialEq)]
pub enum Workers {
    /// Pods that the operator creates.
    Pods(WorkerPods),
    /// Pods of a StatefulSet, whose controller also replaces them when their template changes.
    StatefulSet(StatefulWorkers),
}

impl Workers {
    /// How many.
    pub fn count(&self) -> u32 {
        match self {
            Self::Pods(pods) => pods.count,
            Self::StatefulSet(set) => set.count,
        }
    }

    /// What each looks like.
    pub fn role(&self) -> &Role {
        match self {
            Self::Pods(pods) => &pods.role,
            Self::StatefulSet(set) => &set.role,
        }
    }
}

/// Workers that the operator creates.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerPods {
    /// How many.
    pub count: u32,
    /// What each looks like.
    pub role: Role,
    /// What becomes of a container that ended.
    pub restart: RestartPolicy,
    /// A container with arguments and no command only serves: the arguments are not for it.
    pub drops_bare_args: bool,
    /// How mpirun reaches them.
    pub access: Access,
}

/// Workers of a StatefulSet. Nothing is added to their template, so mpirun reaches them through the API
/// server, which runs commands in pods.
#[derive(Clone, Debug, PartialEq)]
pub struct StatefulWorkers {
    /// How many.
    pub count: u32,
    /// What each looks like.
    pub role: Role,
    /// Who the launcher is for the API server.
    pub account: Account,
}

/// How mpirun reaches worker pods.
#[derive(Clone, Debug, PartialEq)]
pub enum Access {
    /// By ssh or by agent, as the site says.
    SiteDefault(Login),
    /// Through the sshd of the workers' image, with a key pair of the job.
    Ssh(Login),
    /// Through muster's own agent, with keys of the job; the images need no ssh.
    Agent(Login, HostNames),
    /// As the user's templates arrange it: no key is made and nothing is added to the pods.
    Provided(Provided),
}

/// Settings of an access that muster arranges. Those for the transport that is not used do nothing, as
/// in the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    /// The launcher's program waits until every worker has answered.
    pub gate: bool,
    /// By agent: a program that ended well on fewer hosts than there are workers has failed.
    pub census: bool,
    /// By ssh: port of the workers' sshd, where it is none of the usual ones.
    pub ssh_port: Option<u16>,
    /// By ssh: where the key pair is mounted in every pod.
    pub ssh_mount_path: String,
    /// The discovery script prints how many ranks each host takes.
    pub discovery_has_slots: bool,
    /// The launcher was promised its remote shell as [`contract::files::EXEC_SCRIPT`] too.
    pub exec_script: bool,
}

/// By which names the hosts of a job know each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostNames {
    /// By DNS, below a headless Service of the job.
    Service,
    /// By the bare names of their pods, which nothing resolves.
    Pods,
}

/// What belongs to a job whose templates arrange the access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provided {
    /// Files of the ConfigMap that the templates mount.
    pub files: BTreeMap<String, String>,
    /// The workers' container that runs muster's agent; none where it has an image of its own.
    pub sidecar: Option<String>,
    /// Labels of the pods that the Service selects.
    pub selector: BTreeMap<String, String>,
    /// Ports of the Service, by name.
    pub ports: BTreeMap<String, u16>,
    /// How long the pods may take to start their programs, as the user knows it, for messages.
    pub startup_limit: String,
    /// An account that the templates name.
    pub account: Option<Account>,
}

/// An account of the job's own with the API server: a ServiceAccount, a Role and the RoleBinding
/// between them, all of one name. An account that a user names gets no rights from us: pods of
/// others use it too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Name of the three objects.
    pub name: String,
    /// What the account may do.
    pub rules: Vec<AccountRule>,
}

/// One thing that an account may do, in the core API group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountRule {
    /// `pods`, `pods/exec`…
    pub resource: &'static str,
    /// `get`, `list`…
    pub verbs: &'static [&'static str],
    /// To these objects alone; to all of them in the namespace when absent.
    pub names: Option<Vec<String>>,
}
