//! What the tests need and is slow to build: a list. Decides which artefacts there are and what makes
//! each; must not know who needs them.

use anyhow::Result;
use clap::ValueEnum;

use crate::{clients, cluster, gangs, images, queues};

/// Arguments of this chore.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which; all of them when none is named
    artifacts: Vec<Artifact>,
}

/// Something that is built once for each content and kept in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Artifact {
    /// Kubernetes, cluster DNS and their images
    Kubernetes,
    /// The operator as it ships, with its image
    Operator,
    /// The agent as it ships, with its image
    Agent,
    /// Python environments with flytekit and Kubeflow's training SDK
    Python,
    /// Flyte's MPI plugin
    Flyte,
    /// Helm
    Helm,
    /// Images with MPI for test jobs
    Images,
    /// Kueue, with its image
    Queues,
    /// Volcano, and a scheduler with the coscheduling plugin, with their images
    Gangs,
    /// Definitions of the PodGroups of gang schedulers
    PodGroups,
}

impl Artifact {
    /// As it is written on the command line.
    pub(crate) fn name(self) -> String {
        let value = self.to_possible_value().expect("no artefact is hidden");
        value.get_name().to_owned()
    }

    fn build(self) -> Result<()> {
        match self {
            Self::Kubernetes => cluster::build(),
            Self::Operator => images::operator_program().map(drop),
            Self::Agent => images::ensure(&["muster-agent"]).map(drop),
            Self::Python => clients::pythons().map(drop),
            Self::Flyte => clients::flyte().map(drop),
            Self::Helm => clients::helm().map(drop),
            Self::Images => images::ensure_stacks(),
            Self::Queues => queues::kueue().map(drop),
            Self::Gangs => gangs::schedulers().map(drop),
            Self::PodGroups => gangs::pod_groups().map(drop),
        }
    }
}

/// What is in the cache already is not mentioned.
pub(crate) fn run(args: &Args) -> Result<()> {
    let all = Artifact::value_variants();
    let chosen = match args.artifacts.as_slice() {
        [] => all,
        chosen => chosen,
    };
    chosen.iter().try_for_each(|artifact| artifact.build())
}
