//! Which rank a process is, by the variables that its launcher gave it. Must not know where they were
//! read.

use serde::{Deserialize, Serialize};

use contract::mpi::MpiLauncher;

/// One rank of a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    pub(crate) rank: u32,
    /// Ranks of the same program on this host, this one included, as the launcher says.
    pub(crate) local_size: Option<u32>,
    /// Tells programs of one daemon apart, where the daemon can start several.
    pub(crate) world: String,
}

impl Identity {
    /// Nothing for a process that is not a rank, and for one that ranks have spawned: its number is
    /// that of another rank, and its end does not concern them.
    pub(crate) fn of(variable: impl Fn(&str) -> Option<Vec<u8>>) -> Option<Self> {
        let text = |name: &str| String::from_utf8(variable(name)?).ok();
        let number = |name: &&str| text(name)?.parse().ok();
        if text("PMI_SPAWNED").is_some_and(|value| value != "0") {
            return None;
        }
        let mut rank = MpiLauncher::all().flat_map(|launcher| launcher.rank_variables);
        let mut local_size = MpiLauncher::all().flat_map(|launcher| launcher.local_size_variables);
        Some(Self {
            rank: rank.find_map(number)?,
            local_size: local_size.find_map(number),
            world: text("PMIX_NAMESPACE").unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::value_in;

    fn of(environment: &str) -> Option<Identity> {
        let environment = environment.replace(' ', "\0");
        Identity::of(|name| value_in(environment.as_bytes(), name).map(<[u8]>::to_vec))
    }

    #[test]
    fn ranks_are_told_by_their_variables() {
        let hydra = of("A=1 PMI_RANK=7 MPI_LOCALNRANKS=2 PMI_SPAWNED=0").unwrap();
        assert_eq!((hydra.rank, hydra.local_size), (7, Some(2)));
        let prrte = of("OMPI_COMM_WORLD_RANK=0 PMIX_NAMESPACE=prterun-w-1@1").unwrap();
        assert_eq!((prrte.rank, prrte.local_size), (0, None));
        assert_eq!(prrte.world, "prterun-w-1@1");
    }

    #[test]
    fn what_is_not_a_rank_or_was_spawned_by_one_is_left_out() {
        assert_eq!(of("PMI_RANK_X=7 RANK=1"), None);
        assert_eq!(of("PMI_RANK=7 PMI_SPAWNED=1"), None);
    }
}
