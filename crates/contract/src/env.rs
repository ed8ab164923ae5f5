//! Environment variables and their defaults. What a variable's value means is in its comment.

/// Prefix of muster's own variables: never sent to a worker, never given to ranks, except
/// [`OF_ATTEMPT`].
pub const PREFIX: &str = "MUSTER_";

/// In the first container of every pod: `launcher` or `worker`, as Kubeflow's users know it.
pub const ROLE_VARIABLE: &str = "K_MPI_JOB_ROLE";

/// Directory of the keys; default [`crate::files::TLS_MOUNT_PATH`].
pub const TLS_DIR: &str = "MUSTER_TLS_DIR";

/// Address of the API server, which the kubelet sets in every pod.
pub const API_SERVER_HOST: &str = "KUBERNETES_SERVICE_HOST";
/// Port of the API server.
pub const API_SERVER_PORT: &str = "KUBERNETES_SERVICE_PORT";
/// Directory with the pod's own `token`, `ca.crt` and `namespace`; default
/// [`crate::files::SERVICE_ACCOUNT_PATH`].
pub const SERVICE_ACCOUNT_DIR: &str = "MUSTER_SERVICE_ACCOUNT_DIR";

/// Port of `serve`, and of hosts that are listed without one; default
/// [`crate::protocol::AGENT_PORT`]. `serve` takes 0 for any free port.
pub const PORT: &str = "MUSTER_PORT";
/// Address on which `serve` listens; default all.
pub const LISTEN: &str = "MUSTER_LISTEN";
/// The file with the list of workers; default [`crate::files::HOSTS_PATH`].
pub const HOSTS_FILE: &str = "MUSTER_HOSTS_FILE";
/// How many workers the job has: lines that the list of workers must have, hosts that must take part.
/// The number in the list itself wins, because a job can be scaled after its pods were created.
pub const WORKERS: &str = "MUSTER_WORKERS";
/// Names of variables, separated by commas, that the shim sends to the workers.
pub const FORWARD_ENV: &str = "MUSTER_FORWARD_ENV";

/// Seconds between SIGTERM and SIGKILL when a process tree is ended; default 5.
pub const GRACE: &str = "MUSTER_GRACE";
/// Seconds in which the shim must reach a worker; default 30. `-o ConnectTimeout=` wins.
pub const CONNECT_TIMEOUT: &str = "MUSTER_CONNECT_TIMEOUT";
/// Seconds after which `gate` gives up; default never, and so is 0.
pub const GATE_TIMEOUT: &str = "MUSTER_GATE_TIMEOUT";
/// How `gate` asks workers whether they are ready: [`GATE_BY_AGENT`] (default) or [`GATE_BY_SSH`].
pub const GATE_TRANSPORT: &str = "MUSTER_GATE_TRANSPORT";
/// Value of [`GATE_TRANSPORT`]: workers run the agent.
pub const GATE_BY_AGENT: &str = "agent";
/// Value of [`GATE_TRANSPORT`]: workers run an sshd.
pub const GATE_BY_SSH: &str = "ssh";
/// Ports, separated by commas, on which a worker's sshd may listen; default
/// [`crate::protocol::SSH_PORTS`]. One that answers is enough.
pub const SSH_PORTS: &str = "MUSTER_SSH_PORTS";
/// Seconds for which workers may refuse all of these ports before `gate` stops asking; default 60.
/// A worker that neither answers nor refuses has three times as long.
pub const SSH_PATIENCE: &str = "MUSTER_SSH_PATIENCE";

/// Directory in which `gate`, and `exec` once more, write the host lists; default none.
pub const LISTS_DIR: &str = "MUSTER_LISTS_DIR";
/// Seconds that `exec` waits for workers before it writes the host lists; default 120.
pub const LISTS_TIMEOUT: &str = "MUSTER_LISTS_TIMEOUT";
/// Syntax of the host list without a family in its name: `slots` (default) or `colon`.
pub const LISTS_SYNTAX: &str = "MUSTER_LISTS_SYNTAX";
/// Ranks per host in the host lists; default 1.
pub const SLOTS: &str = "MUSTER_SLOTS";
/// The launcher's own address, only where it takes ranks too; first in every host list.
pub const LAUNCHER_ADDRESS: &str = "MUSTER_LAUNCHER_ADDRESS";
/// The launcher's name, for host lists of names.
pub const LAUNCHER_NAME: &str = "MUSTER_LAUNCHER_NAME";
/// [`OFF`]: a run on fewer hosts than asked for does not fail.
pub const CENSUS: &str = "MUSTER_CENSUS";
/// [`OFF`]: a rank that failed does not end a launcher that goes on regardless.
pub const RANK_WATCH: &str = "MUSTER_RANK_WATCH";
/// Value that turns [`CENSUS`] or [`RANK_WATCH`] off, in any case of letters.
pub const OFF: &str = "Off";

/// How often `exec` may start the command again after it failed, without another pod. If it is not set,
/// `exec` starts the command once, and sets none of [`OF_ATTEMPT`].
pub const RESTARTS: &str = "MUSTER_RESTARTS";
/// Reasons, separated by commas, for which `exec` starts the command again; default
/// [`crate::agent_report::RESTARTABLE`].
pub const RESTART_ON: &str = "MUSTER_RESTART_ON";
/// Seconds after which an attempt counts as good, so that all of [`RESTARTS`] are left again; default
/// never.
pub const RESTART_RESET: &str = "MUSTER_RESTART_RESET";
/// Seconds for which `exec` waits for a worker that was lost; default 900. Then the command is not started
/// again.
pub const REPLACEMENT_TIMEOUT: &str = "MUSTER_REPLACEMENT_TIMEOUT";
/// The signal by which ranks are told that a pod of the job has to leave its node: a number. Set together with
/// [`STOP_GRACE`].
pub const STOP_SIGNAL: &str = "MUSTER_STOP_SIGNAL";
/// Seconds that ranks have to end after [`STOP_SIGNAL`]. A worker that is told to end waits for as long. If it
/// is not set, `serve` ends at once, and `exec` passes signals on to its command.
pub const STOP_GRACE: &str = "MUSTER_STOP_GRACE";
/// For the command and its ranks: which attempt this is, from 1.
pub const ATTEMPT: &str = "MUSTER_ATTEMPT";
/// For the command and its ranks: the reason why the attempt before ended. Not set in the first one.
pub const RESTART_REASON: &str = "MUSTER_RESTART_REASON";
/// Those of our variables that a program may read.
pub const OF_ATTEMPT: [&str; 2] = [ATTEMPT, RESTART_REASON];

/// Directory in which shims record how their sessions ended, for `exec`.
pub const RUN_DIR: &str = "MUSTER_RUN_DIR";
/// Where `gate`, `exec` and `sidecar` write their termination message; default
/// [`crate::files::TERMINATION_LOG`].
pub const TERMINATION_LOG: &str = "MUSTER_TERMINATION_LOG";

/// File that tells `sidecar` how the job ended; default [`crate::files::END_PATH`].
pub const END_FILE: &str = "MUSTER_END_FILE";
/// File that exists when the driver of the node's GPUs does, for `sidecar`; default
/// [`crate::files::GPU_DRIVER`].
pub const DRIVER_FILE: &str = "MUSTER_DRIVER_FILE";
/// Name of the pod, for `sidecar`, which uploads to a place of that name.
pub const POD: &str = "MUSTER_POD";

/// Sent with a request, never set in a pod: `NEED NAME`, the host name that the command should have
/// because its worker shares an address, and so a host name, with others.
pub const HOST_NAME: &str = "MUSTER_HOST_NAME";
/// Marks every process that a request started, on a worker. Never set on the launcher, because Hydra
/// overwrites the workers' environment with the launcher's.
pub const SESSION_MARK: &str = "MUSTER_SESSION";
/// Release of the kernel to assume; for tests of what the agent does on older kernels.
pub const KERNEL_RELEASE: &str = "MUSTER_KERNEL_RELEASE";
/// Marks every process of the launcher's tree. Each attempt has its own mark. Shims send it to the workers
/// of a job that can be restarted, so that a worker can tell the attempts apart.
pub const EXEC_MARK: &str = "MUSTER_EXEC";

/// Directory of the command-line tool's own state; default below the user's.
pub const STATE_DIR: &str = "MUSTER_STATE_DIR";
/// `bare`: local mode starts pods without namespaces.
pub const ISOLATION: &str = "MUSTER_ISOLATION";
/// The agent's program, for local mode; default beside the command-line tool.
pub const AGENT: &str = "MUSTER_AGENT";
/// Filter of the operator's log.
pub const LOG: &str = "MUSTER_LOG";
