//! Exit codes of the agent, and the two conventions of shells that its readers rely on.

/// `rsh`, which mpirun calls in place of ssh, failed itself; ssh uses the same code.
pub const SHIM_FAILED: u8 = 255;
/// `gate`: some workers had not answered by the deadline.
pub const GATE_DEADLINE: u8 = 117;
/// `exec`: the command succeeded on fewer hosts than the job asked for.
pub const NOT_DISTRIBUTED: u8 = 118;
/// `exec`: a worker was lost or could not be reached, whatever the command returned.
pub const WORKER_LOST: u8 = 119;
/// The arguments are wrong, or files are missing that the pod should have.
pub const USAGE: u8 = 64;

/// A shell's exit code for a program that does not exist.
pub const NOT_FOUND: u8 = 127;
/// A shell adds this to the number of the signal that ended a program.
pub const SIGNALLED: u8 = 128;
