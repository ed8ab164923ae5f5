//! Real Kubernetes on this machine: a control plane and nodes, all of them processes in namespaces
//! under one process. Decides what can be asked of it from the command line and by other chores; how
//! it is built, started and ended is in the files beside this one.

mod api;
mod cgroups;
mod control_plane;
mod daemons;
mod down;
mod layout;
mod mounts;
mod network;
mod node;
mod pki;
mod processes;
mod programs;
mod store;
mod up;
mod wait;

use std::os::unix::process::CommandExt;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Subcommand;

pub(crate) use down::down;
use layout::{Node, State};
pub(crate) use up::{install_packages, up};

use crate::images;

const WITH_NODES: &str = "kube";
const WITHOUT_NODES: &str = "api";

/// What cluster is wanted.
pub(crate) struct Spec {
    pub(crate) name: String,
    /// None: just etcd, API server and controller manager, on 127.0.0.1.
    pub(crate) nodes: u8,
    /// Image archives that every node shall have, besides those of the cluster itself.
    pub(crate) archives: Vec<PathBuf>,
}

/// Where to find what a running cluster offers.
pub(crate) struct Running {
    pub(crate) kubeconfig: PathBuf,
    pub(crate) kubectl: PathBuf,
    pub(crate) audit_log: PathBuf,
    pub(crate) state_dir: PathBuf,
}

impl Running {
    fn of(state: &State) -> Self {
        Self {
            kubeconfig: state.kubeconfig("admin"),
            kubectl: state.kubectl(),
            audit_log: state.log("audit"),
            state_dir: state.dir().to_owned(),
        }
    }
}

/// Arguments of this chore.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Start the cluster, or find it running
    Up {
        /// How many nodes; 0 starts the API server and controller manager only, on 127.0.0.1
        #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(0..=9))]
        nodes: u8,
        /// The cluster's name [default: kube, or api without nodes]
        #[arg(long)]
        name: Option<String>,
        /// Leave out the images of tests and of the product
        #[arg(long)]
        no_images: bool,
    },
    /// End the cluster and everything it made on this machine; its image stores and logs stay
    Down {
        #[command(flatten)]
        which: Which,
        /// Remove the image stores and logs too
        #[arg(long)]
        purge: bool,
    },
    /// Print the variables that tests and tools need, one per line
    Env {
        #[command(flatten)]
        which: Which,
    },
    /// Bring images into every node, from archives that `cargo xtask images` or others made
    Load {
        #[command(flatten)]
        which: Which,
        #[arg(required = true)]
        archives: Vec<PathBuf>,
    },
    /// Run kubectl as the cluster's administrator
    Kubectl {
        #[command(flatten)]
        which: Which,
        #[arg(last = true)]
        args: Vec<String>,
    },
    #[command(hide = true)]
    Inside {
        #[command(flatten)]
        which: Which,
    },
    #[command(hide = true)]
    InsideNode {
        #[command(flatten)]
        which: Which,
        node: String,
    },
}

#[derive(clap::Args)]
struct Which {
    /// The cluster's name
    #[arg(long, default_value = WITH_NODES)]
    name: String,
}

impl Which {
    fn state(&self) -> Result<State> {
        State::named(&self.name)
    }

    fn running(&self) -> Result<State> {
        let state = self.state()?;
        if processes::top(&state).is_none() {
            bail!(
                "the cluster {} does not run: start it with `cargo xtask cluster up`",
                self.name
            );
        }
        Ok(state)
    }
}

/// Ends a cluster when it goes, also by way of an error or a panic.
pub(crate) struct Guard {
    name: &'static str,
    keep: bool,
}

impl Guard {
    /// With `keep` the cluster stays.
    pub(crate) fn new(name: &'static str, keep: bool) -> Self {
        Self { name, keep }
    }

    /// The same, but what cannot be cleaned up is an error.
    pub(crate) fn close(mut self) -> Result<()> {
        let name = self.name;
        if std::mem::replace(&mut self.keep, true) {
            println!("the cluster stays up; end it with `cargo xtask cluster down --name {name}`");
            return Ok(());
        }
        down(name)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let name = self.name;
        if !self.keep
            && let Err(error) = down(name)
        {
            eprintln!("{error:#}\nTry again with `cargo xtask cluster down --name {name}`.");
        }
    }
}

/// Builds what a cluster is made of.
pub(crate) fn build() -> Result<()> {
    store::own_archives()?;
    kubectl_directory().map(drop)
}

/// A directory with kubectl in it and nothing else, for search paths.
pub(crate) fn kubectl_directory() -> Result<PathBuf> {
    let kube = programs::built("kube")?;
    let name = kube.to_string_lossy().into_owned();
    crate::cache::keyed("kubectl", &[name], |directory| {
        let link = directory.join("kubectl");
        std::os::unix::fs::symlink(&kube, link).context("cannot link kubectl")
    })
}

pub(crate) fn run(args: Args) -> Result<()> {
    match args.action {
        Action::Up {
            nodes,
            name,
            no_images,
        } => {
            up::require_rights(nodes)?;
            let default = if nodes > 0 { WITH_NODES } else { WITHOUT_NODES };
            let archives = if nodes > 0 && !no_images {
                images::ensure_all()?
            } else {
                Vec::new()
            };
            let name = name.unwrap_or_else(|| default.to_owned());
            print_env(&up(&Spec {
                name,
                nodes,
                archives,
            })?);
            Ok(())
        }
        Action::Down { which, purge } => {
            if purge {
                down::purge(&which.name)
            } else {
                down(&which.name)
            }
        }
        Action::Env { which } => {
            print_env(&Running::of(&which.running()?));
            Ok(())
        }
        Action::Load { which, archives } => up::load_into_running(&which.running()?, &archives),
        Action::Kubectl { which, args } => {
            let error = up::kubectl(&which.running()?).args(args).exec();
            Err(error).context("cannot start kubectl")
        }
        Action::Inside { which } => control_plane::run(&which.state()?),
        Action::InsideNode { which, node } => node::run(&which.state()?, Node::named(&node)?),
    }
}

fn print_env(running: &Running) {
    let Running {
        kubeconfig,
        kubectl,
        audit_log,
        state_dir,
    } = running;
    println!("KUBECONFIG={}", kubeconfig.display());
    println!("KUBECTL={}", kubectl.display());
    println!("AUDIT_LOG={}", audit_log.display());
    println!("CLUSTER_STATE={}", state_dir.display());
}
