//! Exit codes of the agent, and the two conventions of shells that its readers rely on.

/// The shim itself failed; ssh uses the same code.
pub const SHIM_FAILED: u8 = 255;
/// `gate`: some workers had not answered by the deadline.
pub const GATE_DEADLINE: u8 = 117;
/// `exec`: the command succeeded on fewer hosts than the job asked for.
pub const NOT_DISTRIBUTED: u8 = 118;
/// `exec`: a worker was lost or could not be reached, whatever the command returned.
pub const WORKER_LOST: u8 = 119;
/// Wrong arguments, or files missing that the pod should have.
pub const USAGE: u8 = 64;

/// A shell's exit code for a program that does not exist.
pub const NOT_FOUND: u8 = 127;
/// A shell's exit code for a program that a signal ended is this plus the signal's number.
pub const SIGNALLED: u8 = 128;
