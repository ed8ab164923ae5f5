//! Whether an agent lets in whoever shows a key. The client is the one of the agent's own tests.

#[path = "../../crates/agent/tests/loopback/raw_tls.rs"]
mod client;

use std::io::Read;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use ring::hmac;

use client::{Shown, connect};

/// What the agents speak.
const PROTOCOL: &str = "muster/3";
const PATIENCE: Duration = Duration::from_secs(10);

/// The launcher's own key, from the root key that it has mounted.
pub fn launcher_key(root: &[u8]) -> Vec<u8> {
    let root = hmac::Key::new(hmac::HMAC_SHA256, root);
    hmac::sign(&root, b"muster launcher").as_ref().to_vec()
}

/// Whether the agent at this address greets whoever shows this key.
pub fn is_let_in(address: SocketAddr, key: &[u8]) -> Result<bool> {
    let key = key.try_into().context("a private key has 32 bytes")?;
    let mut tls = connect(address, PROTOCOL, Some(&Shown::pair(key)))?;
    tls.sock.set_read_timeout(Some(PATIENCE))?;
    // The server speaks first, once it has verified our key; otherwise it sends an alert.
    let mut greeting = [0; 1];
    Ok(tls.read(&mut greeting).is_ok_and(|bytes| bytes > 0))
}
