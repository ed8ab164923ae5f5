//! Keys of both ways to start: the certificates of one job, as the operator makes them, and an SSH
//! key pair with what makes it trusted. Decides files and names; must not know who reads them.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair,
};

use crate::hosts;

const JOB: &str = "bench.muster";

/// `worker/` and `launcher/` with what each of them has mounted.
pub(crate) fn write_certificates(directory: &Path) -> Result<()> {
    let mut authority = CertificateParams::new(vec![])?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;
    let roles = [
        ("worker", "server", ExtendedKeyUsagePurpose::ServerAuth),
        ("launcher", "client", ExtendedKeyUsagePurpose::ClientAuth),
    ];
    for (role, file, purpose) in roles {
        let folder = directory.join(role);
        fs::create_dir_all(&folder)?;
        let mut params = CertificateParams::new(vec![format!("{role}.{JOB}")])?;
        params.extended_key_usages = vec![purpose];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &authority)?;
        fs::write(folder.join("ca.crt"), authority.pem())?;
        fs::write(folder.join(format!("{file}.crt")), certificate.pem())?;
        fs::write(folder.join(format!("{file}.key")), key.serialize_pem())?;
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
