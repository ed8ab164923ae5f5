//! Who is who in the cluster: one authority, a key and certificate for each component, and the
//! kubeconfig files that use them. Decides names, groups and host names; must not know how the
//! components are started.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::process::Command;
use std::thread;

use anyhow::{Context, Result};

use super::layout::{Node, Shape, State};
use super::network;
use crate::command;

/// Someone with a certificate.
struct Subject {
    file: String,
    /// As openssl writes it: `/O=group/CN=user`.
    name: String,
    /// What a server may be called by, as openssl writes it; empty for clients.
    hosts: String,
}

/// Makes everything anew under the cluster's `pki` directory.
pub(crate) fn make(state: &State, shape: &Shape) -> Result<()> {
    let dir = state.pki("");
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&dir)
        .with_context(|| format!("cannot make {}", dir.display()))?;
    // Without a file of ours, openssl would mark every certificate as an authority's.
    fs::write(
        state.pki("openssl.cnf"),
        "[req]\ndistinguished_name = none\n[none]\n",
    )?;
    command::output(
        certificate(state, "ca", "/CN=muster-test-ca")
            .args(["-addext", "basicConstraints=critical,CA:TRUE"])
            .args([
                "-addext",
                "keyUsage=critical,keyCertSign,cRLSign,digitalSignature",
            ]),
    )?;
    make_token_keys(state)?;
    let subjects = subjects(shape);
    thread::scope(|scope| {
        let signing: Vec<_> = subjects
            .iter()
            .map(|who| scope.spawn(|| sign(state, who)))
            .collect();
        let results = signing
            .into_iter()
            .map(|thread| thread.join().expect("signing never panics"));
        results.collect::<Result<Vec<_>>>()
    })?;
    for subject in subjects {
        let text = kubeconfig(state, shape, &subject.file);
        fs::write(state.kubeconfig(&subject.file), text)?;
    }
    Ok(())
}

/// The pair that signs and checks the tokens of service accounts.
fn make_token_keys(state: &State) -> Result<()> {
    let private = state.pki("serviceaccounts.key");
    command::output(
        Command::new("openssl")
            .args([
                "genpkey",
                "-algorithm",
                "EC",
                "-pkeyopt",
                "ec_paramgen_curve:P-256",
                "-out",
            ])
            .arg(&private),
    )?;
    command::output(
        Command::new("openssl")
            .args(["pkey", "-pubout", "-in"])
            .arg(&private)
            .arg("-out")
            .arg(state.pki("serviceaccounts.pub")),
    )?;
    Ok(())
}

fn subjects(shape: &Shape) -> Vec<Subject> {
    let client = |file: &str, name: &str| Subject {
        file: file.to_owned(),
        name: name.to_owned(),
        hosts: String::new(),
    };
    let node = |node: Node| Subject {
        file: node.name(),
        name: format!("/O=system:nodes/CN=system:node:{}", node.name()),
        hosts: format!("DNS:{},IP:{}", node.name(), node.address()),
    };
    let api_server = Subject {
        file: "apiserver".to_owned(),
        name: "/CN=kube-apiserver".to_owned(),
        hosts: format!(
            "DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,\
             DNS:kubernetes.default.svc.cluster.local,IP:127.0.0.1,IP:10.96.0.1,IP:{}",
            network::API
        ),
    };
    let mut subjects = vec![
        api_server,
        client(
            "apiserver-kubelet",
            "/O=system:masters/CN=apiserver-kubelet-client",
        ),
        client("admin", "/O=system:masters/CN=admin"),
        client("controller-manager", "/CN=system:kube-controller-manager"),
        client("scheduler", "/CN=system:kube-scheduler"),
        client("proxy", "/CN=system:kube-proxy"),
    ];
    subjects.extend(shape.nodes().map(node));
    subjects
}

fn sign(state: &State, subject: &Subject) -> Result<()> {
    let mut command = certificate(state, &subject.file, &subject.name);
    command
        .arg("-CA")
        .arg(state.pki("ca.crt"))
        .arg("-CAkey")
        .arg(state.pki("ca.key"))
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .args(["-addext", "keyUsage=critical,digitalSignature"])
        .args(["-addext", "extendedKeyUsage=serverAuth,clientAuth"]);
    if !subject.hosts.is_empty() {
        command.args(["-addext", &format!("subjectAltName={}", subject.hosts)]);
    }
    command::output(&mut command).map(drop)
}

/// A new key and a certificate for it, signed by itself unless the caller adds an authority.
fn certificate(state: &State, file: &str, name: &str) -> Command {
    let mut command = Command::new("openssl");
    command
        .args(["req", "-x509", "-days", "3650", "-nodes", "-newkey", "ec"])
        .args([
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-subj",
            name,
            "-config",
        ])
        .arg(state.pki("openssl.cnf"))
        .arg("-keyout")
        .arg(state.pki(&format!("{file}.key")))
        .arg("-out")
        .arg(state.pki(&format!("{file}.crt")));
    command
}

fn kubeconfig(state: &State, shape: &Shape, user: &str) -> String {
    format!(
        "apiVersion: v1
kind: Config
current-context: {cluster}
clusters:
- name: {cluster}
  cluster: {{server: \"https://{address}\", certificate-authority: {ca}}}
users:
- name: {user}
  user: {{client-certificate: {certificate}, client-key: {key}}}
contexts:
- name: {cluster}
  context: {{cluster: {cluster}, user: {user}}}
",
        cluster = state.name(),
        address = shape.api,
        ca = state.pki("ca.crt").display(),
        certificate = state.pki(&format!("{user}.crt")).display(),
        key = state.pki(&format!("{user}.key")).display(),
    )
}
