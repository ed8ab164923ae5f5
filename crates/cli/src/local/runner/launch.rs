//! From a pod's container to a spec: what it runs, what it sees and where its output goes. Decides
//! what each field of a container means on this machine; starts nothing.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use contract::env;
use minicluster::kubelet::PodRef;
use serde_json::Value;

use super::container::Launch;
use super::environment::{self, PodContext};
use super::isolated::Holder;
use super::pod::{Container, Pod};
use super::probe::Probes;
use super::{Placed, Runner, bare, homes, log, open_to_all, volumes};
use crate::local::stages::protocol::{ContainerSpec, Isolation, Mount, Program};

/// Where a container finds its directory for temporary files: its own, and short, because Open MPI
/// makes sockets in it and their names are limited.
pub(super) const TEMPORARY: &str = "/.muster/tmp";
const SSHD_DIRECTORY: &str = "/run/sshd";
/// Where ssh looks for settings of others.
const SSH_CONFIG_DIRECTORY: &str = "/etc/ssh/ssh_config.d";
const SSH_CONFIG: &str =
    "Host *\n  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n  LogLevel ERROR\n";
/// Name of the image that holds the agent and nothing else.
pub(crate) const AGENT_IMAGE: &str = contract::files::AGENT_BINARY;

impl Runner {
    pub(super) fn launch(
        &self,
        pod_ref: &PodRef,
        name: &str,
        attempt: u32,
        object: &Value,
    ) -> Result<Launch> {
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
        let mut mounts = self.mounts(placed, pod, container, &message)?;
        let home = homes::own(
            container,
            &mut program,
            &placed.directory,
            self.settings.isolation,
        )?;
        mounts.extend(home);
        if self.settings.isolation == Isolation::Bare {
            bare::reach(&mut program, &mounts);
        }
        let log = log::path(&self.settings.directory, pod_ref, name, attempt);
        Ok(Launch {
            pod: pod_ref.clone(),
            container: name.to_owned(),
            binary: self.settings.binary.clone(),
            isolation: self.settings.isolation,
            spec: ContainerSpec {
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
            probes: Probes::of(container, &placed.ip, self.connect_program()),
            tee: (self.tee)(object, name),
            reports: self.reports.clone(),
        })
    }

    fn program(&self, placed: &Placed, pod: Pod<'_>, container: Container<'_>) -> Result<Program> {
        let bare = self.settings.isolation == Isolation::Bare;
        let temporary = placed.directory.join("tmp");
        let context_of_pod = PodContext {
            ip: &placed.ip,
            temporary: if bare {
                temporary.to_str().unwrap_or("/tmp")
            } else {
                TEMPORARY
            },
            extra: &self.settings.variables,
            lookup: &*self.lookup,
        };
        let mut variables = environment::variables(pod, container, &context_of_pod)?;
        // The network is shared: an agent on all addresses would take every pod's port.
        let listens = variables.iter().any(|(name, _)| name == env::LISTEN);
        if !listens && !self.settings.isolated {
            variables.push((env::LISTEN.to_owned(), placed.ip.clone()));
        }
        let user = self.identity(pod, container, "runAsUser");
        if let Some(user) = user {
            environment::set_user(&mut variables, user);
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
        let wants_it = commands.iter().any(is_sshd) || homes::is_wanted(container);
        if wants_it && !Path::new(SSHD_DIRECTORY).exists() {
            let source = placed.directory.join("sshd");
            fs::create_dir_all(&source)?;
            mounts.push(mount(source, SSHD_DIRECTORY, false));
        }
        // Hosts of a network that only this run has are new every time, and nobody else's.
        if self.settings.isolated && Path::new(SSH_CONFIG_DIRECTORY).is_dir() {
            let source = placed.directory.join("ssh_config");
            fs::write(&source, SSH_CONFIG)?;
            mounts.push(mount(
                source,
                &format!("{SSH_CONFIG_DIRECTORY}/muster.conf"),
                true,
            ));
        }
        if is_agent(container.text("image")) {
            let agent = self.settings.agent.clone().context(
                "muster-agent is not beside muster: put it there, or name it in MUSTER_AGENT",
            )?;
            let program = contract::files::AGENT_PROGRAM;
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
    fn connect_program(&self) -> Option<&Path> {
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
}

fn is_agent(image: &str) -> bool {
    let last = image.rsplit('/').next().unwrap_or("");
    last.split([':', '@']).next() == Some(AGENT_IMAGE)
}
