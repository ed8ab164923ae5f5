//! The API server, as a pod knows it: where it is, whom it trusts, who we are to it. Decides how a
//! command is asked for; the token is sent to it and to nobody else.

use std::fs;
use std::net::ToSocketAddrs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};

use super::http::{self, Refusal, Response};
use super::link::Link;
use super::web_socket::WebSocket;
use crate::contract;

/// The second cannot end a standard input, and is all that API servers before 1.30 have.
const PROTOCOLS: [&str; 2] = ["v5.channel.k8s.io", "v4.channel.k8s.io"];
const DEFAULT_CONTAINER: &str = "kubectl.kubernetes.io/default-container";
const HTTP: &str = "HTTP/1.1";
/// Whoever speaks this gets an answer in one piece.
const HTTP_WHOLE: &str = "HTTP/1.0";
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

/// What is to run where.
pub(super) struct Target<'a> {
    pub(super) pod: &'a str,
    pub(super) command: &'a [u8],
    /// The only one there is when absent.
    pub(super) container: Option<String>,
}

/// Where the API server is, and who we are.
pub(super) struct ApiServer {
    host: String,
    port: u16,
    namespace: String,
    token: String,
    tls: Arc<ClientConfig>,
}

impl ApiServer {
    /// As the kubelet says it to every pod that has a service account.
    pub(super) fn of_environment() -> Result<Self> {
        let host = contract::variable(contract::API_SERVER_HOST);
        let host = host.context("KUBERNETES_SERVICE_HOST is not set: this is no pod")?;
        let port = contract::variable(contract::API_SERVER_PORT);
        let port = port.and_then(|port| port.parse().ok()).unwrap_or(443);
        let directory = contract::variable(contract::SERVICE_ACCOUNT_DIR);
        let directory = directory.unwrap_or_else(|| contract::SERVICE_ACCOUNT_DIR_DEFAULT.into());
        let directory = PathBuf::from(directory);
        let read = |file: &str| {
            let path = directory.join(file);
            let text = fs::read_to_string(&path).with_context(|| {
                format!(
                    "cannot read {}: the pod needs automountServiceAccountToken",
                    path.display()
                )
            })?;
            anyhow::Ok(text.trim().to_owned())
        };
        let mut roots = RootCertStore::empty();
        let authority = directory.join("ca.crt");
        let cannot = || format!("cannot read certificates in {}", authority.display());
        for certificate in CertificateDer::pem_file_iter(&authority).with_context(cannot)? {
            roots.add(certificate.with_context(cannot)?)?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut tls = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_root_certificates(roots)
            .with_no_client_auth();
        // A WebSocket begins in this version.
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self {
            host,
            port,
            namespace: read("namespace")?,
            token: read("token")?,
            tls: Arc::new(tls),
        })
    }

    /// Asks for the command; it runs when this returns.
    pub(super) fn exec(&self, target: &Target<'_>, until: Instant) -> Result<WebSocket, Refusal> {
        let mut path = format!(
            "/api/v1/namespaces/{}/pods/{}/exec?stdin=true&stdout=true&stderr=true",
            self.namespace, target.pod
        );
        if let Some(container) = &target.container {
            path += &format!("&container={}", http::quoted(container.as_bytes()));
        }
        for word in [super::SHELL.as_bytes(), b"-c", target.command] {
            path += &format!("&command={}", http::quoted(word));
        }
        let mut link = self.link(until)?;
        let mut key = [0; 16];
        self.random(&mut key);
        let upgrade = format!(
            "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: {}\r\nSec-WebSocket-Protocol: {}\r\n",
            http::base64(&key),
            PROTOCOLS.join(", ")
        );
        let response = self.ask(&mut link, HTTP, &path, &upgrade, until)?;
        if response.code != 101 {
            return Err(refusal(&response));
        }
        let protocol = response
            .header("sec-websocket-protocol")
            .unwrap_or_default();
        if !PROTOCOLS.contains(&protocol) {
            let said = format!("the API server speaks {protocol:?} instead of {PROTOCOLS:?}");
            return Err(Refusal::Other(anyhow::Error::msg(said)));
        }
        let mut mask = [0; 4];
        self.random(&mut mask);
        let ends_input = protocol == PROTOCOLS[0];
        Ok(WebSocket::new(link, response.rest, mask, ends_input))
    }

    /// The container that kubectl would choose: the one that the pod names, otherwise the first. The
    /// API server lists them when it is not told one.
    pub(super) fn container(&self, pod: &str, listed: &str, until: Instant) -> Result<String> {
        let path = format!("/api/v1/namespaces/{}/pods/{pod}", self.namespace);
        let accept = format!("Accept: {METADATA}\r\nConnection: close\r\n");
        let mut link = self.link(until)?;
        let answer = self.ask(&mut link, HTTP_WHOLE, &path, &accept, until)?;
        if answer.code != 200 {
            return Err(refusal(&answer).into());
        }
        named(&answer.body)
            .or_else(|| first(listed))
            .with_context(|| format!("the API server names no container of {pod}: {listed}"))
    }

    fn link(&self, until: Instant) -> Result<Link, Refusal> {
        let other = |error: anyhow::Error| Refusal::Other(error);
        let name = ServerName::try_from(self.host.clone());
        let name = name.map_err(|error| other(error.into()))?;
        let addresses = (self.host.as_str(), self.port).to_socket_addrs();
        let addresses = addresses.map_err(Refusal::Unreachable)?;
        let tls = ClientConnection::new(Arc::clone(&self.tls), name);
        let tls = tls.map_err(|error| other(error.into()))?;
        Link::connect(&addresses.collect::<Vec<_>>(), tls, until)
    }

    fn ask(
        &self,
        link: &mut Link,
        version: &str,
        path: &str,
        headers: &str,
        until: Instant,
    ) -> Result<Response, Refusal> {
        let host = match self.host.contains(':') {
            true => format!("[{}]", self.host),
            false => self.host.clone(),
        };
        let request = format!(
            "GET {path} {version}\r\nHost: {host}:{}\r\nUser-Agent: muster-agent\r\n\
             Authorization: Bearer {}\r\n{headers}\r\n",
            self.port, self.token
        );
        link.send(request.as_bytes())?;
        http::response(link, until)
    }

    fn random(&self, bytes: &mut [u8]) {
        let provider = self.tls.crypto_provider();
        // What is masked is inside of TLS: that a mask can be guessed would hurt nobody.
        let _ = provider.secure_random.fill(bytes);
    }
}

fn refusal(response: &Response) -> Refusal {
    let status: serde_json::Value =
        serde_json::from_slice(&response.body).unwrap_or(serde_json::Value::Null);
    let message = match status["message"].as_str() {
        Some(message) => message.to_owned(),
        None => String::from_utf8_lossy(&response.body).trim().to_owned(),
    };
    Refusal::Answered {
        code: response.code,
        message,
    }
}

/// The container that the pod's own annotation names.
fn named(pod: &[u8]) -> Option<String> {
    let pod: serde_json::Value = serde_json::from_slice(pod).ok()?;
    let name = pod["metadata"]["annotations"][DEFAULT_CONTAINER].as_str()?;
    Some(name.to_owned()).filter(|name| !name.is_empty())
}

/// The first in `… choose one of: [a b] …`.
fn first(listed: &str) -> Option<String> {
    let (_, rest) = listed.split_once('[')?;
    let (names, _) = rest.split_once(']')?;
    names.split_whitespace().next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_container_is_the_one_that_the_pod_names_or_the_first() {
        let pod =
            br#"{"metadata": {"managedFields":[{"f:kubectl.kubernetes.io/default-container":{}}],
            "annotations":{"kubectl.kubernetes.io/default-container":"main","b":"c"}}}"#;
        assert_eq!(named(pod).as_deref(), Some("main"));
        assert_eq!(named(br#"{"metadata": {"annotations":{}}}"#), None);
        let listed = "a container name must be specified for pod x, choose one of: [a b] or one \
                      of the init containers: [c]";
        assert_eq!(first(listed).as_deref(), Some("a"));
        assert_eq!(first("no list"), None);
    }
}
