//! What the operator and the agent have agreed on: files, variables, names in certificates, exit
//! codes. The operator renders these into pods, the agent reads them. Decides names and defaults
//! only; must not know what is done with them.

use std::time::Duration;

/// Name of the binary in the directory that `install` fills.
pub const BINARY: &str = "muster-agent";
/// Names under which the binary is the remote shell: links beside it, made by `install`.
pub const SHIM_NAMES: [&str; 3] = ["ssh", "rsh", "kubexec.sh"];

/// Directory of certificates and keys; default [`TLS_DIR_DEFAULT`].
pub const TLS_DIR: &str = "MUSTER_TLS_DIR";
/// Where certificates and keys are mounted.
pub const TLS_DIR_DEFAULT: &str = "/muster/tls";
/// The job's authority, for everyone.
pub const CA_CERTIFICATE: &str = "ca.crt";
/// Only in workers: extended key usage serverAuth alone, name `worker.<job-uid>.muster`.
pub const SERVER_CERTIFICATE: &str = "server.crt";
/// Only in workers.
pub const SERVER_KEY: &str = "server.key";
/// Only in the launcher: extended key usage clientAuth alone, name `launcher.<job-uid>.muster`.
pub const CLIENT_CERTIFICATE: &str = "client.crt";
/// Only in the launcher.
pub const CLIENT_KEY: &str = "client.key";
/// First label of a worker's name in its certificate.
pub const WORKER_LABEL: &str = "worker";
/// First label of the launcher's name in its certificate.
pub const LAUNCHER_LABEL: &str = "launcher";
/// Protocol and version, agreed on in the TLS handshake.
pub const ALPN: &[u8] = b"muster/1";

/// Address and port of the API server, as the kubelet tells every pod.
pub const API_SERVER_HOST: &str = "KUBERNETES_SERVICE_HOST";
/// See [`API_SERVER_HOST`].
pub const API_SERVER_PORT: &str = "KUBERNETES_SERVICE_PORT";
/// Directory with the pod's own `token`, `ca.crt` and `namespace`.
pub const SERVICE_ACCOUNT_DIR: &str = "MUSTER_SERVICE_ACCOUNT_DIR";
/// Used when [`SERVICE_ACCOUNT_DIR`] is not set: where the kubelet mounts it.
pub const SERVICE_ACCOUNT_DIR_DEFAULT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Port of `serve`, and of hosts that are listed without one; `serve` takes 0 for any free port.
pub const PORT: &str = "MUSTER_PORT";
/// Used when [`PORT`] is not set.
pub const PORT_DEFAULT: u16 = 7077;
/// Address on which `serve` listens; all of them when not set.
pub const LISTEN: &str = "MUSTER_LISTEN";
/// File with one `NAME ADDRESS[:PORT]` per line, after a first line [`WORKERS_LINE`]; it may appear,
/// grow and shrink after the start.
pub const HOSTS_FILE: &str = "MUSTER_HOSTS_FILE";
/// Used when [`HOSTS_FILE`] is not set.
pub const HOSTS_FILE_DEFAULT: &str = "/muster/hosts/hosts";
/// How many workers the job asked for: lines that the hosts file must have, hosts that must take
/// part. What the hosts file says counts more, since a job can be scaled after its pods were made.
pub const WORKERS: &str = "MUSTER_WORKERS";
/// How the first line of the hosts file begins; the number of workers follows.
pub const WORKERS_LINE: &str = "# workers ";
/// Names of variables, separated by commas, that the shim carries to the workers.
pub const FORWARD_ENV: &str = "MUSTER_FORWARD_ENV";

/// Seconds between SIGTERM and SIGKILL when a process tree is ended; default 5.
pub const GRACE: &str = "MUSTER_GRACE";
/// Seconds in which the shim must reach a worker; default 30. `-o ConnectTimeout=` wins.
pub const CONNECT_TIMEOUT: &str = "MUSTER_CONNECT_TIMEOUT";
/// Seconds after which `gate` gives up; never when not set or 0.
pub const GATE_TIMEOUT: &str = "MUSTER_GATE_TIMEOUT";
/// How `gate` asks: `agent` (default) or `ssh`.
pub const GATE_TRANSPORT: &str = "MUSTER_GATE_TRANSPORT";
/// Ports, separated by commas, on which an SSH worker may answer; one that does is enough.
pub const SSH_PORTS: &str = "MUSTER_SSH_PORTS";
/// Used when [`SSH_PORTS`] is not set: the usual one, and that of images that run as a user.
pub const SSH_PORTS_DEFAULT: &str = "22,2222";
/// Seconds for which SSH workers may refuse all ports before `gate` stops asking; default 60. What
/// does neither answer nor refuse has three times as long.
pub const SSH_PATIENCE: &str = "MUSTER_SSH_PATIENCE";

/// Directory that `gate`, and `exec` once more, fill with host lists; none are written when not set.
pub const LISTS_DIR: &str = "MUSTER_LISTS_DIR";
/// Seconds that `exec` waits for workers before it writes the lists; default 120.
pub const LISTS_TIMEOUT: &str = "MUSTER_LISTS_TIMEOUT";
/// Syntax of the list without a family in its name: `slots` (default) or `colon`.
pub const LISTS_SYNTAX: &str = "MUSTER_LISTS_SYNTAX";
/// Ranks per host in the lists; default 1.
pub const SLOTS: &str = "MUSTER_SLOTS";
/// The launcher's own address, set only when it takes ranks too; first in every list.
pub const LAUNCHER_ADDRESS: &str = "MUSTER_LAUNCHER_ADDRESS";
/// The launcher's name, for lists of names.
pub const LAUNCHER_NAME: &str = "MUSTER_LAUNCHER_NAME";
/// `Off`: fewer hosts than asked for is no failure.
pub const CENSUS: &str = "MUSTER_CENSUS";
/// `Off`: a rank that ended with an error does not end a launcher that goes on regardless.
pub const RANK_WATCH: &str = "MUSTER_RANK_WATCH";

/// Directory in which shims leave what became of their sessions, for `exec`.
pub const RUN_DIR: &str = "MUSTER_RUN_DIR";
/// Where `gate` and `exec` write their verdict.
pub const TERMINATION_LOG: &str = "MUSTER_TERMINATION_LOG";
/// Used when [`TERMINATION_LOG`] is not set.
pub const TERMINATION_LOG_DEFAULT: &str = "/dev/termination-log";
/// Longest verdict; the kubelet keeps 4096 bytes per container.
pub const TERMINATION_BYTES_MAX: usize = 3000;

/// File that says how the job ended, once it has; for `attend`.
pub const END_FILE: &str = "MUSTER_END_FILE";
/// Used when [`END_FILE`] is not set.
pub const END_FILE_DEFAULT: &str = "/muster/end/end";
/// File that is there when the driver of the node's GPUs is; for `attend`.
pub const DRIVER_FILE: &str = "MUSTER_DRIVER_FILE";
/// Used when [`DRIVER_FILE`] is not set.
pub const DRIVER_FILE_DEFAULT: &str = "/proc/driver/nvidia/version";
/// Name of the pod; for `attend`, which uploads to a place of that name.
pub const POD: &str = "MUSTER_POD";

/// Sent with a request, never set in a pod: `NEED NAME`, the host name that the command should have
/// because its worker shares an address, and so a host name, with others.
pub const HOST_NAME: &str = "MUSTER_HOST_NAME";

/// Marks every process that a request started, on a worker. Never set on the launcher, whose
/// environment Hydra lays over the workers'.
pub const SESSION_MARK: &str = "MUSTER_SESSION";
/// Marks every process of the launcher's tree.
pub const EXEC_MARK: &str = "MUSTER_EXEC";
/// Variables of ours: never carried to a worker, never given to ranks.
pub const OURS_PREFIX: &str = "MUSTER_";

/// The shim itself failed, as ssh says it.
pub const EXIT_SHIM_FAILED: u8 = 255;
/// `gate`: some workers had not answered by the deadline.
pub const EXIT_GATE_DEADLINE: u8 = 117;
/// `exec`: the command succeeded, but not on as many hosts as the job asked for.
pub const EXIT_NOT_DISTRIBUTED: u8 = 118;
/// `exec`: a worker was lost or could not be reached, whatever the command said, if it was started.
pub const EXIT_WORKER_LOST: u8 = 119;
/// Wrong words on the command line, or files that the pod should have.
pub const EXIT_USAGE: u8 = 64;

/// How often each side says that it is alive.
pub const PING_INTERVAL: Duration = Duration::from_secs(2);
/// A peer that was silent for this long is lost.
pub const PEER_SILENCE_MAX: Duration = Duration::from_secs(8);

/// The value of a variable, unless it is empty or not text.
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Nobody waits longer, and the clock does not overflow.
pub const WAIT_MAX: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// A whole number of seconds from a variable; what is not a number is as good as not set.
pub fn seconds(name: &str) -> Option<Duration> {
    let seconds = variable(name)?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(WAIT_MAX))
}

/// Time between SIGTERM and SIGKILL.
pub fn grace() -> Duration {
    seconds(GRACE).unwrap_or(Duration::from_secs(5))
}

/// Port of hosts that are listed without one.
pub fn port() -> u16 {
    variable(PORT)
        .and_then(|port| port.trim().parse().ok())
        .unwrap_or(PORT_DEFAULT)
}

/// Ranks per host.
pub fn slots() -> usize {
    variable(SLOTS)
        .and_then(|slots| slots.trim().parse().ok())
        .unwrap_or(1)
}

/// How many workers the job asked for when its pods were made, if the operator said so.
pub fn workers() -> Option<usize> {
    variable(WORKERS)?.trim().parse().ok()
}
