//! The API server as a pod reaches it: address, authority, token. Decides how a command is requested;
//! the token is sent to no other server.

use std::fs;
use std::io::{self, Read};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, anyhow};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use contract::{env, files};
use percent_encoding::{percent_encode, utf8_percent_encode};
use ring::rand::{SecureRandom as _, SystemRandom};
use rustls::RootCertStore;
use serde_json::Value;
use thiserror::Error;

use super::web_socket::WebSocket;
use crate::http::{self, Answer, RESERVED, Request, Server};
use crate::{identity, settings};

/// The second cannot end a standard input; API servers before 1.30 know only that one.
const PROTOCOLS: [&str; 2] = ["v5.channel.k8s.io", "v4.channel.k8s.io"];
const DEFAULT_CONTAINER: &str = "kubectl.kubernetes.io/default-container";
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
/// No answer of an API server to one of our requests is longer.
const BODY_BYTES_MAX: u64 = 4 << 20;

/// What to run, and where.
pub(super) struct Target<'a> {
    pub(super) pod: &'a str,
    pub(super) command: &'a [u8],
    /// Absent when the pod has only one.
    pub(super) container: Option<String>,
}

/// Why there was no answer, or not the one that was asked for.
#[derive(Debug, Error)]
pub(super) enum ApiError {
    #[error("the API server answered {code}: {message}")]
    Answered { code: u16, message: String },
    #[error("the API server cannot be reached: {0}")]
    Unreachable(io::Error),
    #[error(transparent)]
    Other(anyhow::Error),
}

impl ApiError {
    fn of(mut answer: Answer) -> Self {
        let mut body = Vec::new();
        // Half of an explanation is better than none.
        let _ = answer.by_ref().take(BODY_BYTES_MAX).read_to_end(&mut body);
        let status: Value = serde_json::from_slice(&body).unwrap_or_default();
        let message = match status["message"].as_str() {
            Some(message) => message.to_owned(),
            None => String::from_utf8_lossy(&body).trim().to_owned(),
        };
        Self::Answered {
            code: answer.status,
            message,
        }
    }

    fn unconnected(error: io::Error) -> Self {
        match error.kind() {
            // The server can be reached, and will not be trusted more the next time.
            io::ErrorKind::InvalidData => {
                let error = anyhow::Error::new(error);
                Self::Other(error.context("cannot make sure that it is the API server"))
            }
            io::ErrorKind::InvalidInput => Self::Other(error.into()),
            _ => Self::Unreachable(error),
        }
    }

    /// Whether a retry can help. Only where nothing was started for certain: a command whose request
    /// went out may run, and must not run twice.
    pub(super) fn is_retryable(&self) -> bool {
        match self {
            Self::Answered {
                code: 429 | 503, ..
            }
            | Self::Unreachable(_) => true,
            Self::Answered { code: 500, message } => message.contains("error dialing backend"),
            Self::Answered { .. } | Self::Other(_) => false,
        }
    }
}

/// Where the API server is, and who we are.
pub(super) struct ApiServer {
    server: Server,
    namespace: String,
    token: String,
}

impl ApiServer {
    /// As the kubelet describes it to every pod that has a service account.
    pub(super) fn of_environment() -> Result<Self> {
        let host = settings::variable(env::API_SERVER_HOST);
        let host = host.context("KUBERNETES_SERVICE_HOST is not set: this is not a pod")?;
        let port = settings::variable(env::API_SERVER_PORT);
        let port = port.and_then(|port| port.parse().ok()).unwrap_or(443);
        let directory = settings::path(env::SERVICE_ACCOUNT_DIR, files::SERVICE_ACCOUNT_PATH);
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
        let mut authorities = RootCertStore::empty();
        for certificate in identity::certificates(&directory.join(files::CA_CERTIFICATE))? {
            authorities.add(certificate)?;
        }
        let mut tls = http::tls_config(authorities)?;
        // A WebSocket starts in this version.
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self {
            server: Server {
                host,
                port,
                tls: Some(Arc::new(tls)),
            },
            namespace: read("namespace")?,
            token: read("token")?,
        })
    }

    /// Asks for the command; it runs when this returns.
    pub(super) fn exec(&self, target: &Target<'_>, until: Instant) -> Result<WebSocket, ApiError> {
        let mut path = format!(
            "/api/v1/namespaces/{}/pods/{}/exec?stdin=true&stdout=true&stderr=true",
            self.namespace, target.pod
        );
        if let Some(container) = &target.container {
            path += &format!("&container={}", utf8_percent_encode(container, RESERVED));
        }
        for word in [super::SHELL.as_bytes(), b"-c", target.command] {
            path += &format!("&command={}", percent_encode(word, RESERVED));
        }
        let upgrade = [
            ("Connection", "Upgrade".to_owned()),
            ("Upgrade", "websocket".to_owned()),
            ("Sec-WebSocket-Version", "13".to_owned()),
            ("Sec-WebSocket-Key", STANDARD.encode(random::<16>())),
            ("Sec-WebSocket-Protocol", PROTOCOLS.join(", ")),
        ];
        let answer = self.ask(&path, &upgrade, until)?;
        if answer.status != 101 {
            return Err(ApiError::of(answer));
        }
        let protocol = answer.header("sec-websocket-protocol").unwrap_or_default();
        if !PROTOCOLS.contains(&protocol) {
            return Err(ApiError::Other(anyhow!(
                "the API server speaks {protocol:?} instead of {PROTOCOLS:?}"
            )));
        }
        let ends_input = protocol == PROTOCOLS[0];
        Ok(WebSocket::new(answer.upgraded(), random(), ends_input))
    }

    /// The container that kubectl would choose: the one that the pod names, otherwise the first. The
    /// API server lists them when the request names none.
    pub(super) fn container(&self, pod: &str, listed: &str, until: Instant) -> Result<String> {
        let path = format!("/api/v1/namespaces/{}/pods/{pod}", self.namespace);
        let mut answer = self.ask(&path, &[("Accept", METADATA.to_owned())], until)?;
        if answer.status != 200 {
            return Err(ApiError::of(answer).into());
        }
        named(answer.text(BODY_BYTES_MAX)?.as_bytes())
            .or_else(|| first(listed))
            .with_context(|| format!("the API server names no container of {pod}: {listed}"))
    }

    fn ask(
        &self,
        target: &str,
        headers: &[(&'static str, String)],
        until: Instant,
    ) -> Result<Answer, ApiError> {
        let connection = self.server.connect(Some(until));
        let connection = connection.map_err(ApiError::unconnected)?;
        let own = [
            ("Host", self.server.authority()),
            ("Authorization", format!("Bearer {}", self.token)),
        ];
        let request = Request {
            method: "GET",
            target,
            headers: &[&own, headers].concat(),
        };
        let answer = connection.ask(&request, &mut io::empty(), 0);
        answer.map_err(|error| ApiError::Other(error.context("the API server")))
    }
}

/// Everything random here travels inside TLS: a number that can be guessed would hurt nobody.
fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    let _ = SystemRandom::new().fill(&mut bytes);
    bytes
}

/// The container that the pod's own annotation names.
fn named(pod: &[u8]) -> Option<String> {
    let pod: Value = serde_json::from_slice(pod).ok()?;
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
