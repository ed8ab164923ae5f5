//! Keys of both ways to start: those of one job, as the operator makes them, and an SSH key pair with what
//! makes it trusted. Decides files and names; must not know who reads them.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use ring::hmac;
use ring::signature::{Ed25519KeyPair, KeyPair as _};

use crate::hosts;

/// The benchmark is alone with its hosts.
const ROOT_KEY: [u8; 32] = [7; 32];
const NEXT_CENTURY: &str = "4102444800";

/// `worker-NAME/` for each host and `launcher/`, with what each of them has mounted.
pub(crate) fn write_agent_keys(directory: &Path, hosts: usize) -> Result<()> {
    let root = hmac::Key::new(hmac::HMAC_SHA256, &ROOT_KEY);
    let own = hmac::sign(&root, b"muster launcher");
    let own = Ed25519KeyPair::from_seed_unchecked(own.as_ref()).ok();
    let own = own.context("any 32 bytes are a private key")?;
    let folder = |name: &str, files: &[(&str, &[u8])]| -> Result<()> {
        let folder = directory.join(name);
        fs::create_dir_all(&folder)?;
        for (file, bytes) in files {
            fs::write(folder.join(file), bytes)?;
        }
        fs::write(folder.join("valid-until"), NEXT_CENTURY)?;
        Ok(())
    };
    folder("launcher", &[("launcher.key", &ROOT_KEY)])?;
    for host in 1..=hosts {
        let key = hmac::sign(&root, format!("muster worker host{host}").as_bytes());
        let public = ("launcher.pub", own.public_key().as_ref());
        folder(
            &format!("worker-host{host}"),
            &[("worker.key", key.as_ref()), public],
        )?;
    }
    Ok(())
}

/// `ssh/` as a user's directory has it, and `host_key` for every server.
pub(crate) fn write_ssh_keys(directory: &Path, addresses: &[String]) -> Result<()> {
    let user = directory.join("ssh");
    fs::create_dir_all(&user)?;
    for key in [user.join("id_ed25519"), directory.join("host_key")] {
        let mut keygen = Command::new("ssh-keygen");
        keygen.args(["-q", "-t", "ed25519", "-N", "", "-C", "bench", "-f"]);
        hosts::succeed(keygen.arg(key))?;
    }
    let public = fs::read_to_string(user.join("id_ed25519.pub"))?;
    fs::write(user.join("authorized_keys"), public)?;
    let host_key = fs::read_to_string(directory.join("host_key.pub"))?;
    let known = addresses
        .iter()
        .map(|address| format!("{address} {host_key}"));
    fs::write(user.join("known_hosts"), known.collect::<String>())
        .context("cannot write known_hosts")
}
