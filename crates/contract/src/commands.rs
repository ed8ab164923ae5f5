//! The agent's commands, as the operator writes them into containers and the agent reads them.

/// `install DIR`: copies the agent into a directory, with links under [`crate::files::SHIM_NAMES`].
pub const INSTALL: &str = "install";
/// `serve [-- COMMAND…]`: the server in a worker.
pub const SERVE: &str = "serve";
/// `gate [--install DIR]`: waits in the launcher's init container until all workers answer.
pub const GATE: &str = "gate";
/// Option of [`GATE`]: does what [`INSTALL`] does first.
pub const GATE_INSTALL: &str = "--install";
/// `exec -- COMMAND…`: runs the launcher's command and writes the verdict.
pub const EXEC: &str = "exec";
/// `sidecar OPTIONS…`: the sidecar of a worker that ends by itself.
pub const SIDECAR: &str = "sidecar";
/// Options of [`SIDECAR`]. Those of the data and of GPUs are spelled as in the program that it replaces.
pub mod sidecar {
    /// Namespace of the job.
    pub const NAMESPACE: &str = "--namespace";
    /// Name of the job.
    pub const JOB: &str = "--job";
    /// Directory in which the worker looks for signals.
    pub const SIGNAL_DIR: &str = "--signal-dir";
    /// GPUs of the worker, whose driver must be loaded before it starts.
    pub const GPUS: &str = "--num-gpus";
    /// Seconds to wait for the driver.
    pub const TIMEOUT_SECS: &str = "--timeout-secs";
    /// Where data comes from before the start.
    pub const DOWNLOAD_FROM: &str = "--download-data-from";
    /// Where that data goes.
    pub const DOWNLOAD_TO: &str = "--download-data-to";
    /// Where data comes from after the end.
    pub const UPLOAD_FROM: &str = "--upload-data-from";
    /// Where that data goes.
    pub const UPLOAD_TO: &str = "--upload-data-to";
}

/// `connect HOST PORT`: the ProxyCommand of a real ssh.
pub const CONNECT: &str = "connect";
/// `kubexec POD COMMAND…`: a remote shell through the API server.
pub const KUBEXEC: &str = "kubexec";
