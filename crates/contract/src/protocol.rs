//! What the agents of a job need to talk to each other: ports, the protocol's version, whose key is
//! which, and how soon a silent peer is lost.

use std::time::Duration;

/// Port of the agent in a worker with an address of its own.
pub const AGENT_PORT: u16 = 7077;
/// Ports on which the sshd of an image may listen: the usual one, and that of images which run as a
/// user who may not bind it.
pub const SSH_PORTS: [u16; 2] = [22, 2222];

/// Protocol and version, agreed on in the TLS handshake.
pub const ALPN: &[u8] = b"muster/3";

/// How often each side sends a sign of life.
pub const PING_INTERVAL: Duration = Duration::from_secs(2);
/// A peer that was silent for this long is lost.
pub const PEER_SILENCE_MAX: Duration = Duration::from_secs(8);

/// Length of every key.
pub const KEY_BYTES: usize = 32;
/// HMAC-SHA256 of this label under the launcher's root key is the launcher's own private key (Ed25519).
pub const LAUNCHER_KEY_LABEL: &str = "muster launcher";

/// HMAC-SHA256 of this label under the launcher's root key is the private key (Ed25519) of the worker
/// whose pod has this name. So the launcher knows the key of each worker that it calls, and no worker
/// that of another.
pub fn worker_key_label(pod: &str) -> String {
    format!("muster worker {pod}")
}
