//! Obeys the cluster's kubelet with real processes: places pods (addresses, names, volumes), starts
//! and stops their containers, and reports what became of them. Decides what a pod's fields mean
//! on this machine; when anything must run is the cluster's decision.

mod addresses;
mod bare;
pub(crate) mod container;
mod environment;
mod isolated;
pub(crate) mod library;
pub(crate) mod live_logs;
pub(crate) mod log;
mod pod;
mod probe;
mod volumes;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use minicluster::kubelet::{Order, PodRef, Report};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use self::addresses::Addresses;
use self::container::{Chunk, Launch, Wish};
use self::environment::Surroundings;
use self::isolated::{Holder, Network};
use self::library::Library;
use self::pod::{Container, Pod};
use self::probe::Probes;
use crate::local::stages::recipe::{Isolation, Mount, Program, Recipe};

/// Where a container finds its directory for temporary files: its own, and short, because Open MPI
/// makes sockets in it and their names are limited.
const TEMPORARY: &str = "/.muster/tmp";
const SSHD_DIRECTORY: &str = "/run/sshd";
/// Where ssh looks for settings of others.
const SSH_SETTINGS: &str = "/etc/ssh/ssh_config.d";
const TRUSTING: &str =
    "Host *\n  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n  LogLevel ERROR\n";
/// Name of the image that holds the agent and nothing else.
const AGENT_IMAGE: &str = "muster-agent";

/// What the runner is told once.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Holds `pods` and `logs`.
    pub(crate) directory: PathBuf,
    /// This binary.
    pub(crate) binary: PathBuf,
    /// The agent's binary, where there is one.
    pub(crate) agent: Option<PathBuf>,
    pub(crate) isolation: Isolation,
    /// A tree to run in instead of this machine's.
    pub(crate) root: Option<PathBuf>,
    /// What every container gets beside its own volumes.
    pub(crate) mounts: Vec<Mount>,
    /// Variables that were asked for by hand.
    pub(crate) variables: Vec<(String, String)>,
    /// Pods have a network of their own.
    pub(crate) isolated: bool,
    /// Keeps runs at the same time apart.
    pub(crate) seed: u32,
}

/// Whose output is watched, and where it goes.
pub(crate) type Tee = dyn Fn(&Value, &str) -> Option<mpsc::Sender<Chunk>> + Send;

/// The pods of this machine.
pub(crate) struct Runner {
    settings: Settings,
    library: Arc<Library>,
    reports: mpsc::UnboundedSender<Report>,
    tee: Box<Tee>,
    addresses: Addresses,
    network: Option<Network>,
    pods: BTreeMap<String, Placed>,
    running: JoinSet<()>,
}

struct Placed {
    object: Value,
    ip: String,
    directory: PathBuf,
    /// Holds its network.
    holder: Option<Holder>,
    containers: BTreeMap<String, mpsc::UnboundedSender<Wish>>,
}

impl Runner {
    pub(crate) fn new(
        settings: Settings,
        library: Arc<Library>,
        reports: mpsc::UnboundedSender<Report>,
        tee: Box<Tee>,
    ) -> Self {
        let addresses = match settings.isolated {
            true => Addresses::isolated(),
            false => Addresses::new(settings.seed),
        };
        Self {
            network: None,
            settings,
            library,
            reports,
            tee,
            addresses,
            pods: BTreeMap::new(),
            running: JoinSet::new(),
        }
    }

    /// Does as told; what comes of it is reported.
    pub(crate) fn obey(&mut self, order: Order) {
        while self.running.try_join_next().is_some() {}
        match order {
            Order::Place { pod, object } => self.place(pod, object),
            Order::Start {
                pod,
                container,
                attempt,
                object,
                ..
            } => self.start(pod, container, attempt, object),
            Order::Stop {
                pod,
                container,
                grace_secs,
            } => self.wish(&pod, &container, Wish::Stop { grace_secs }),
            Order::Refresh { pod, object } => self.refresh(&pod, object),
            Order::Release { pod } => self.release(&pod),
        }
    }

    /// A signal to the programs of all launchers.
    pub(crate) fn signal_launchers(&self, number: i32) {
        let launchers = self.pods.values();
        for placed in launchers.filter(|placed| Pod(&placed.object).role() == "launcher") {
            for container in placed.containers.values() {
                let _ = container.send(Wish::Signal(number));
            }
        }
    }

    /// Brings volumes up to date whose ConfigMap or Secret may have changed.
    pub(crate) fn refresh_all(&self) {
        for placed in self.pods.values() {
            let volumes = placed.directory.join("volumes");
            // What cannot be updated stays as it is, as on a cluster.
            let _ = volumes::fill(Pod(&placed.object), &volumes, &*self.library);
        }
    }

    /// Ends every container at once, and forgets every pod.
    pub(crate) async fn end(mut self) {
        for placed in self.pods.values_mut() {
            placed.containers.clear();
        }
        while self.running.join_next().await.is_some() {}
        let _ = fs::remove_dir_all(self.settings.directory.join("pods"));
    }

    fn place(&mut self, pod: PodRef, object: Value) {
        let directory = self.settings.directory.join("pods").join(&pod.uid);
        let prepared = self
            .prepare(&directory, &object)
            .and_then(|ip| Ok((self.connect(&ip)?, ip)));
        let (holder, ip) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => {
                let _ = self.reports.send(Report::CannotStart {
                    pod,
                    container: String::new(),
                    reason: "FailedMount".to_owned(),
                    message: format!("{error:#}"),
                    retry: may_pass(&error),
                });
                return;
            }
        };
        let mut placed = Placed {
            object,
            ip: ip.clone(),
            directory,
            holder,
            containers: BTreeMap::new(),
        };
        let ready = placed.holder.as_mut().and_then(Holder::ready);
        self.pods.insert(pod.uid.clone(), placed);
        self.introduce(&pod);
        let reports = self.reports.clone();
        let Some(ready) = ready else {
            let _ = reports.send(Report::Placed { pod, ip });
            return;
        };
        self.running.spawn(async move {
            let report = match ready.await {
                Ok(()) => Report::Placed { pod, ip },
                Err(message) => Report::CannotStart {
                    pod,
                    container: String::new(),
                    reason: "FailedCreatePodSandBox".to_owned(),
                    message,
                    retry: false,
                },
            };
            let _ = reports.send(report);
        });
    }

    /// A pod's end of the run's own network, where it has one.
    fn connect(&mut self, ip: &str) -> Result<Option<Holder>> {
        if !self.settings.isolated {
            return Ok(None);
        }
        let (binary, isolation) = (&self.settings.binary, self.settings.isolation);
        if self.network.is_none() {
            self.network = Some(Network::new(binary, isolation)?);
        }
        let network = self.network.as_mut().expect("it was made above");
        network.pod(binary, isolation, ip).map(Some)
    }

    fn prepare(&mut self, directory: &Path, object: &Value) -> Result<String> {
        let pod = Pod(object);
        let volumes = directory.join("volumes");
        let cannot = || {
            format!(
                "cannot make directories for the pod in {}",
                directory.display()
            )
        };
        fs::create_dir_all(&volumes).with_context(cannot)?;
        fs::create_dir_all(directory.join("tmp")).with_context(cannot)?;
        open_to_all(&directory.join("tmp")).with_context(cannot)?;
        volumes::fill(pod, &volumes, &*self.library)?;
        let mut names = pod.names();
        let longest = names.swap_remove(0);
        // Open MPI knows its own host by the address of an interface, and of the loopback block only
        // this one is.
        let ip = match pod.is_launcher_and_host() && !self.settings.isolated {
            true => "127.0.0.1".to_owned(),
            false => self.addresses.of(&longest).to_string(),
        };
        let machine = fs::read_to_string("/etc/hosts").unwrap_or_default();
        let hosts = format!(
            "127.0.0.1 localhost\n::1 localhost\n{}{machine}\n",
            line(&ip, pod)
        );
        fs::write(directory.join("hosts"), hosts).with_context(cannot)?;
        Ok(ip)
    }

    /// Tells every pod the names of this one, and this one theirs. Lines are only ever added, in
    /// one write each, so that no reader sees half a file.
    fn introduce(&self, new: &PodRef) {
        let Some(arrived) = self.pods.get(&new.uid) else {
            return;
        };
        for (uid, placed) in &self.pods {
            if *uid == new.uid {
                continue;
            }
            append(
                &placed.directory.join("hosts"),
                &line(&arrived.ip, Pod(&arrived.object)),
            );
            append(
                &arrived.directory.join("hosts"),
                &line(&placed.ip, Pod(&placed.object)),
            );
        }
    }

    fn start(&mut self, pod: PodRef, container: String, attempt: u32, object: Value) {
        let launch = self.launch(&pod, &container, attempt, &object);
        let launch = match launch {
            Ok(launch) => launch,
            Err(error) => {
                let _ = self.reports.send(Report::CannotStart {
                    pod,
                    container,
                    reason: "CreateContainerConfigError".to_owned(),
                    message: format!("{error:#}"),
                    retry: may_pass(&error),
                });
                return;
            }
        };
        let (own, wishes) = mpsc::unbounded_channel();
        if let Some(placed) = self.pods.get_mut(&pod.uid) {
            placed.object = object;
            placed.containers.insert(container, own);
        }
        self.running.spawn(container::run(launch, wishes));
    }

    fn launch(&self, pod_ref: &PodRef, name: &str, attempt: u32, object: &Value) -> Result<Launch> {
        let placed = self
            .pods
            .get(&pod_ref.uid)
            .context("the pod was not placed here")?;
        let pod = Pod(object);
        let container = pod
            .container(name)
            .with_context(|| format!("the pod has no container {name:?}"))?;
        let own = placed.directory.join("containers").join(name);
        let scratch = own.join("root");
        fs::create_dir_all(&scratch)?;
        let message = own.join(format!("message-{attempt}"));
        fs::write(&message, "")?;
        open_to_all(&message)?;
        let mut program = self.program(placed, pod, container)?;
        let mounts = self.mounts(placed, pod, container, &message)?;
        if self.settings.isolation == Isolation::Bare {
            bare::reach(&mut program, &mounts);
        }
        let log = log_path(&self.settings.directory, pod_ref, name, attempt);
        Ok(Launch {
            pod: pod_ref.clone(),
            container: name.to_owned(),
            binary: self.settings.binary.clone(),
            isolation: self.settings.isolation,
            recipe: Recipe {
                hostname: pod.hostname().to_owned(),
                root: self.settings.root.clone(),
                scratch,
                mounts,
                program,
            },
            log,
            message,
            falls_back_to_log: container.falls_back_to_log(),
            network: placed.holder.as_ref().map(Holder::id),
            probes: Probes::of(container, &placed.ip, self.asker()),
            tee: (self.tee)(object, name),
            reports: self.reports.clone(),
        })
    }

    fn program(&self, placed: &Placed, pod: Pod<'_>, container: Container<'_>) -> Result<Program> {
        let bare = self.settings.isolation == Isolation::Bare;
        let temporary = placed.directory.join("tmp");
        let around = Surroundings {
            ip: &placed.ip,
            temporary: if bare {
                temporary.to_str().unwrap_or("/tmp")
            } else {
                TEMPORARY
            },
            extra: &self.settings.variables,
            library: &*self.library,
        };
        let mut variables = environment::variables(pod, container, &around)?;
        // The network is shared: an agent on all addresses would take every pod's port.
        let listens = variables.iter().any(|(name, _)| name == "MUSTER_LISTEN");
        if !listens && !self.settings.isolated {
            variables.push(("MUSTER_LISTEN".to_owned(), placed.ip.clone()));
        }
        let user = self.identity(pod, container, "runAsUser");
        if let Some(user) = user {
            environment::become_user(&mut variables, user);
        }
        let words = environment::words(container, &variables);
        if words.is_empty() {
            bail!(
                "container {} has no command, and on this machine there is no image to take \
                 one from: add `command` to it",
                container.text("name")
            );
        }
        Ok(Program {
            words,
            variables,
            directory: Some(container.text("workingDir"))
                .filter(|directory| !directory.is_empty())
                .map(PathBuf::from)
                .or_else(|| {
                    let here = self.settings.root.is_none();
                    here.then(std::env::current_dir)?.ok()
                }),
            user,
            group: self.identity(pod, container, "runAsGroup"),
        })
    }

    fn mounts(
        &self,
        placed: &Placed,
        pod: Pod<'_>,
        container: Container<'_>,
        message: &Path,
    ) -> Result<Vec<Mount>> {
        let mount = |source: PathBuf, target: &str, read_only: bool| Mount {
            source,
            target: PathBuf::from(target),
            read_only,
        };
        let mut mounts = vec![
            mount(placed.directory.join("tmp"), TEMPORARY, false),
            mount(placed.directory.join("hosts"), "/etc/hosts", false),
            mount(message.to_owned(), container.message_path(), false),
        ];
        // Where sshd separates its privileges; only its own service makes it.
        let commands = container.words("command");
        let is_sshd = |word: &&str| word.rsplit('/').next() == Some("sshd");
        if commands.iter().any(|word| is_sshd(word)) && !Path::new(SSHD_DIRECTORY).exists() {
            let source = placed.directory.join("sshd");
            fs::create_dir_all(&source)?;
            mounts.push(mount(source, SSHD_DIRECTORY, false));
        }
        // Hosts of a network that only this run has are new every time, and nobody else's.
        if self.settings.isolated && Path::new(SSH_SETTINGS).is_dir() {
            let source = placed.directory.join("ssh_config");
            fs::write(&source, TRUSTING)?;
            mounts.push(mount(source, &format!("{SSH_SETTINGS}/muster.conf"), true));
        }
        if is_agent(container.text("image")) {
            let agent = self.settings.agent.clone().context(
                "muster-agent is not beside muster: put it there, or name it in MUSTER_AGENT",
            )?;
            let program = planner::contract::AGENT_PROGRAM;
            mounts.push(mount(agent, program, true));
        }
        mounts.extend(self.settings.mounts.iter().cloned());
        let volumes = placed.directory.join("volumes");
        for wanted in container.list("volumeMounts") {
            let target = wanted["mountPath"].as_str().unwrap_or("");
            let source = volumes::source(pod, &volumes, wanted)?;
            mounts.push(mount(source, target, wanted["readOnly"] == true));
        }
        Ok(mounts)
    }

    /// Ports of a network of its own are asked from inside.
    fn asker(&self) -> Option<&Path> {
        self.settings
            .isolated
            .then_some(self.settings.binary.as_path())
    }

    /// Only root can become somebody else; everybody else stays who they are.
    fn identity(&self, pod: Pod<'_>, container: Container<'_>, field: &str) -> Option<u32> {
        (self.settings.isolation == Isolation::Root)
            .then(|| pod.identity(container, field))
            .flatten()
    }

    fn wish(&self, pod: &PodRef, container: &str, wish: Wish) {
        let placed = self.pods.get(&pod.uid);
        if let Some(own) = placed.and_then(|placed| placed.containers.get(container)) {
            let _ = own.send(wish);
        }
    }

    fn refresh(&mut self, pod: &PodRef, object: Value) {
        if let Some(placed) = self.pods.get_mut(&pod.uid) {
            placed.object = object;
            let volumes = placed.directory.join("volumes");
            let _ = volumes::fill(Pod(&placed.object), &volumes, &*self.library);
        }
    }

    fn release(&mut self, pod: &PodRef) {
        if let Some(placed) = self.pods.remove(&pod.uid) {
            let _ = fs::remove_dir_all(placed.directory);
        }
    }
}

/// Where the log of one start of a container is.
pub(crate) fn log_path(directory: &Path, pod: &PodRef, container: &str, attempt: u32) -> PathBuf {
    let name = format!("{}_{}_{}", pod.namespace, pod.name, pod.uid);
    directory
        .join("logs")
        .join(name)
        .join(container)
        .join(format!("{attempt}.log"))
}

/// What a pod refers to may still be made; a disk that is full does not empty itself.
fn may_pass(error: &anyhow::Error) -> bool {
    !error.chain().any(|cause| cause.is::<std::io::Error>())
}

fn is_agent(image: &str) -> bool {
    let last = image.rsplit('/').next().unwrap_or("");
    last.split([':', '@']).next() == Some(AGENT_IMAGE)
}

fn line(ip: &str, pod: Pod<'_>) -> String {
    format!("{ip} {}\n", pod.names().join(" "))
}

fn append(path: &Path, text: &str) {
    use std::io::Write as _;
    if let Ok(mut file) = fs::OpenOptions::new().append(true).open(path) {
        let _ = file.write_all(text.as_bytes());
    }
}

fn open_to_all(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = if path.is_dir() { 0o1777 } else { 0o666 };
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

#[cfg(test)]
mod tests;
