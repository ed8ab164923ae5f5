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
/// `attend OPTIONS…`: the sidecar of a worker that ends by itself.
pub const ATTEND: &str = "attend";
/// `connect HOST PORT`: the ProxyCommand of a real ssh.
pub const CONNECT: &str = "connect";
/// `kubexec POD COMMAND…`: a remote shell through the API server.
pub const KUBEXEC: &str = "kubexec";
