//! Jobs that estimate pi, for each MPI and each user that the test images know. Decides how an image
//! of the contract in `e2e/images` is called; must not know any cluster.

use serde_json::json;

use crate::jobs::MpiJob;

/// The program.
pub const PI: &str = "/home/mpiuser/pi";

/// For `sh -c`: waits for a test to let the launcher go on, then becomes its arguments. The first
/// process of a container ends with a signal only if it asks for it.
pub const HELD: &str =
    "trap 'exit 143' TERM; until [ -e /tmp/go ]; do sleep 0.1; done; exec \"$@\"";

/// An MPI.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mpi {
    /// Open MPI 4.
    OpenMpi4,
    /// Open MPI 5.
    OpenMpi5,
    /// MPICH.
    Mpich,
    /// Intel MPI.
    Intel,
}

impl Mpi {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::OpenMpi4, Self::OpenMpi5, Self::Mpich, Self::Intel];

    /// Its name, in images and namespaces.
    pub fn name(self) -> &'static str {
        match self {
            Self::OpenMpi4 => "openmpi4",
            Self::OpenMpi5 => "openmpi5",
            Self::Mpich => "mpich",
            Self::Intel => "intel",
        }
    }

    /// Its launcher is Hydra's, or made from it.
    pub fn is_hydra(self) -> bool {
        matches!(self, Self::Mpich | Self::Intel)
    }
}

/// Who runs the containers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum User {
    /// Root, with the key where it is by default.
    Root,
    /// An ordinary user, who can bind no port below 1024 by itself.
    Mpiuser,
}

/// A job in which each of the workers has one rank.
pub fn pi(mpi: Mpi, user: User, workers: u32) -> MpiJob {
    let ranks = workers.to_string();
    job(
        mpi,
        user,
        workers,
        &[&mpirun(mpi, user)[..], &["-n", &ranks, PI]].concat(),
    )
}

/// The same, whose launcher waits until the test lets it go on.
pub fn held_pi(mpi: Mpi, user: User, workers: u32) -> MpiJob {
    let ranks = workers.to_string();
    let words = [
        &["sh", "-c", HELD, "held"],
        &mpirun(mpi, user)[..],
        &["-n", &ranks, PI],
    ]
    .concat();
    job(mpi, user, workers, &words)
}

/// A job whose launcher runs these words.
pub fn job(mpi: Mpi, user: User, workers: u32, launcher: &[&str]) -> MpiJob {
    let (image, implementation) = match mpi {
        Mpi::OpenMpi4 => ("muster.test/openmpi4:1", "OpenMPI"),
        Mpi::OpenMpi5 => ("muster.test/openmpi5:1", "OpenMPI"),
        Mpi::Mpich => ("muster.test/mpich:1", "MPICH"),
        Mpi::Intel => ("muster.test/intel:1", "Intel"),
    };
    let job = MpiJob::named("pi")
        .workers(workers)
        .implementation(implementation)
        .clean_pod_policy("Running")
        .launcher_restart_policy("OnFailure")
        .image(image);
    let job = match user {
        User::Root => job,
        User::Mpiuser => as_mpiuser(job),
    };
    match mpi {
        Mpi::OpenMpi4 | Mpi::OpenMpi5 => with_commands(job, user, launcher),
        Mpi::Mpich | Mpi::Intel => with_entry_point(job, user, launcher),
    }
}

fn mpirun(mpi: Mpi, user: User) -> Vec<&'static str> {
    match (mpi, user) {
        (Mpi::OpenMpi4 | Mpi::OpenMpi5, User::Root) => vec!["mpirun", "--allow-run-as-root"],
        (Mpi::Mpich | Mpi::Intel, _) | (_, User::Mpiuser) => vec!["mpirun"],
    }
}

/// The images of Open MPI have no entry point; a worker of root needs no command either.
fn with_commands(job: MpiJob, user: User, launcher: &[&str]) -> MpiJob {
    let job = job.launcher_command(launcher);
    match user {
        User::Root => job,
        User::Mpiuser => job.worker_command(&["/usr/sbin/sshd"]).worker_args(&[
            "-De",
            "-f",
            "/home/mpiuser/.sshd_config",
        ]),
    }
}

/// The images of Hydra's MPIs are started through their entry point, and are ready once sshd
/// answers.
fn with_entry_point(job: MpiJob, user: User, launcher: &[&str]) -> MpiJob {
    let sshd = ["/usr/sbin/sshd", "-De", "-f", "/home/mpiuser/.sshd_config"];
    let words = if user == User::Root {
        &sshd[..2]
    } else {
        &sshd[..]
    };
    job.launcher_args(launcher).worker_args(words).with(
        "/spec/mpiReplicaSpecs/Worker/template/spec/containers/0/readinessProbe",
        json!({"tcpSocket": {"port": 2222}, "initialDelaySeconds": 3}),
    )
}

fn as_mpiuser(job: MpiJob) -> MpiJob {
    let context = json!({"runAsUser": 1000, "capabilities": {"add": ["NET_BIND_SERVICE"]}});
    let place =
        |role| format!("/spec/mpiReplicaSpecs/{role}/template/spec/containers/0/securityContext");
    job.ssh_mount_path("/home/mpiuser/.ssh")
        .with(&place("Launcher"), json!({"runAsUser": 1000}))
        .with(&place("Worker"), context)
}
