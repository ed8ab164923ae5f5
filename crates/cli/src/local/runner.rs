//! Carries out the orders of the cluster's kubelet with real processes: prepares pods (addresses,
//! names, volumes), starts and stops their containers, and reports how they end. Decides what a pod's
//! fields mean on this machine; the cluster decides what runs when.

mod addresses;
mod bare;
pub(crate) mod config_source;
mod container;
mod environment;
mod homes;
mod isolated;
mod launch;
pub(crate) mod live_logs;
pub(crate) mod log;
mod pod;
mod probe;
pub(crate) mod request;
mod volumes;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use minicluster::kubelet::{Order, PodRef, PodReport};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use self::addresses::Addresses;
use self::config_source::ConfigLookup;
use self::isolated::{Holder, Network};
pub(crate) use self::launch::AGENT_IMAGE;
use self::pod::Pod;
use self::request::{Chunk, ContainerRequest};
use crate::local::stages::protocol::{Isolation, Mount};

/// Settings of the runner.
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
    /// Variables from the command line.
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
    lookup: Arc<ConfigLookup>,
    reports: mpsc::UnboundedSender<PodReport>,
    tee: Box<Tee>,
    addresses: Addresses,
    network: Option<Network>,
    pods: BTreeMap<String, Placed>,
    running: JoinSet<()>,
}

struct Placed {
    object: Arc<Value>,
    ip: String,
    directory: PathBuf,
    /// Holds its network.
    holder: Option<Holder>,
    containers: BTreeMap<String, mpsc::UnboundedSender<ContainerRequest>>,
}

impl Runner {
    pub(crate) fn new(
        settings: Settings,
        lookup: Arc<ConfigLookup>,
        reports: mpsc::UnboundedSender<PodReport>,
        tee: Box<Tee>,
    ) -> Self {
        let addresses = match settings.isolated {
            true => Addresses::isolated(),
            false => Addresses::new(settings.seed),
        };
        Self {
            network: None,
            settings,
            lookup,
            reports,
            tee,
            addresses,
            pods: BTreeMap::new(),
            running: JoinSet::new(),
        }
    }

    /// Carries out an order; the result is reported.
    pub(crate) fn apply(&mut self, order: Order) {
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
            } => self.request(&pod, &container, ContainerRequest::Stop { grace_secs }),
            Order::Refresh { pod, object } => self.refresh(&pod, object),
            Order::Release { pod } => self.release(&pod),
        }
    }

    /// A signal to the programs of all launchers.
    pub(crate) fn signal_launchers(&self, number: i32) {
        let launchers = self.pods.values();
        for placed in launchers.filter(|placed| Pod(&placed.object).is_launcher()) {
            for container in placed.containers.values() {
                let _ = container.send(ContainerRequest::Signal(number));
            }
        }
    }

    /// Brings volumes up to date whose ConfigMap or Secret may have changed.
    pub(crate) fn refresh_all(&self) {
        for placed in self.pods.values() {
            let volumes = placed.directory.join("volumes");
            // A volume that cannot be updated keeps its contents, as on a cluster.
            let _ = volumes::fill(Pod(&placed.object), &volumes, &*self.lookup);
        }
    }

    /// Kills every container and removes the files of every pod.
    pub(crate) async fn end(mut self) {
        for placed in self.pods.values_mut() {
            placed.containers.clear();
        }
        while self.running.join_next().await.is_some() {}
        let _ = fs::remove_dir_all(self.settings.directory.join("pods"));
    }

    fn place(&mut self, pod: PodRef, object: Arc<Value>) {
        let directory = self.settings.directory.join("pods").join(&pod.uid);
        let prepared = self
            .prepare(&directory, &object)
            .and_then(|ip| Ok((self.connect(&ip)?, ip)));
        let (holder, ip) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => {
                let _ = self.reports.send(PodReport::CannotStart {
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
        self.share_host_names(&pod);
        let reports = self.reports.clone();
        let Some(ready) = ready else {
            let _ = reports.send(PodReport::Placed { pod, ip });
            return;
        };
        self.running.spawn(async move {
            let report = match ready.await {
                Ok(()) => PodReport::Placed { pod, ip },
                Err(message) => PodReport::CannotStart {
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

    /// Connects a pod to the network of the run, if it has one.
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
        volumes::fill(pod, &volumes, &*self.lookup)?;
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

    /// Adds the names of this pod to the hosts files of all others, and theirs to its own. Each line
    /// is appended in one write, so that no reader sees half a file.
    fn share_host_names(&self, new: &PodRef) {
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

    fn start(&mut self, pod: PodRef, container: String, attempt: u32, object: Arc<Value>) {
        let launch = self.launch(&pod, &container, attempt, &object);
        let launch = match launch {
            Ok(launch) => launch,
            Err(error) => {
                let _ = self.reports.send(PodReport::CannotStart {
                    pod,
                    container,
                    reason: "CreateContainerConfigError".to_owned(),
                    message: format!("{error:#}"),
                    retry: may_pass(&error),
                });
                return;
            }
        };
        let (own, requests) = mpsc::unbounded_channel();
        if let Some(placed) = self.pods.get_mut(&pod.uid) {
            placed.object = object;
            placed.containers.insert(container, own);
        }
        self.running.spawn(container::run(launch, requests));
    }

    fn request(&self, pod: &PodRef, container: &str, request: ContainerRequest) {
        let placed = self.pods.get(&pod.uid);
        if let Some(own) = placed.and_then(|placed| placed.containers.get(container)) {
            let _ = own.send(request);
        }
    }

    fn refresh(&mut self, pod: &PodRef, object: Arc<Value>) {
        if let Some(placed) = self.pods.get_mut(&pod.uid) {
            placed.object = object;
            let volumes = placed.directory.join("volumes");
            let _ = volumes::fill(Pod(&placed.object), &volumes, &*self.lookup);
        }
    }

    fn release(&mut self, pod: &PodRef) {
        if let Some(placed) = self.pods.remove(&pod.uid) {
            let _ = fs::remove_dir_all(placed.directory);
        }
    }
}

/// An object that the pod refers to may still be created. An I/O error, such as a full disk, stays.
fn may_pass(error: &anyhow::Error) -> bool {
    !error.chain().any(|cause| cause.is::<std::io::Error>())
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
