//! Whether a rank of Hydra is in MPI: it then holds the connection to its launcher that `MPI_Finalize`
//! closes. On kernels before Linux 6.15 this is all that can be said of a rank whose parent collected
//! its status first. Must not know what follows from that.

use crate::frame::RankState;
use crate::tree::{Process, value_in};

/// A program that does not load MPI within this many looks is taken for one without.
const MPI_LOOKS_MAX: u32 = 40;
const MPI_LIBRARIES: [&str; 2] = ["/libmpi", "/libpmpi"];

/// The connection of one rank.
pub(super) struct PmiConnection {
    process: i32,
    path: String,
    loaded_mpi: bool,
    looks: u32,
    in_mpi: bool,
}

impl PmiConnection {
    /// Nothing for a rank without one.
    pub(super) fn of(process: &Process) -> Option<Self> {
        let environment = process.environment();
        let process = process.number;
        let descriptor = std::str::from_utf8(value_in(&environment, "PMI_FD")?).ok()?;
        let descriptor: u32 = descriptor.parse().ok()?;
        Some(Self {
            process,
            path: format!("/proc/{process}/fd/{descriptor}"),
            loaded_mpi: false,
            looks: 0,
            in_mpi: false,
        })
    }

    /// Whether the rank is in MPI now, if that is news.
    pub(super) fn changed(&mut self) -> Option<RankState> {
        if !self.loaded_mpi && self.looks < MPI_LOOKS_MAX {
            self.looks += 1;
            let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.process));
            let maps = maps.unwrap_or_default();
            self.loaded_mpi = MPI_LIBRARIES.iter().any(|name| maps.contains(name));
        }
        let open = std::fs::read_link(&self.path);
        let open = open.is_ok_and(|target| target.to_string_lossy().starts_with("socket:"));
        let in_mpi = self.loaded_mpi && open;
        if in_mpi == self.in_mpi {
            return None;
        }
        self.in_mpi = in_mpi;
        Some(if in_mpi {
            RankState::InMpi
        } else {
            RankState::Running
        })
    }

    /// What can be said of the rank when it is gone.
    pub(super) fn lost(&self) -> Option<RankState> {
        self.in_mpi.then_some(RankState::Vanished)
    }
}
