//! What the agents of a job need to talk to each other: ports, the protocol's version, the names in
//! certificates, and how soon a silent peer is lost.

use std::time::Duration;

/// Port of the agent in a worker with an address of its own.
pub const AGENT_PORT: u16 = 7077;
/// Ports on which the sshd of an image may listen: the usual one, and that of images which run as a
/// user who may not bind it.
pub const SSH_PORTS: [u16; 2] = [22, 2222];

/// Protocol and version, agreed on in the TLS handshake.
pub const ALPN: &[u8] = b"muster/2";

/// How often each side sends a sign of life.
pub const PING_INTERVAL: Duration = Duration::from_secs(2);
/// A peer that was silent for this long is lost.
pub const PEER_SILENCE_MAX: Duration = Duration::from_secs(8);

/// Last label of every name in a job's certificates.
pub const CERTIFICATE_DOMAIN: &str = "muster";

/// The name in the certificate of a launcher or worker, for a role of [`crate::labels`].
pub fn certificate_name(role: &str, job_uid: &str) -> String {
    format!("{role}.{job_uid}.{CERTIFICATE_DOMAIN}")
}
