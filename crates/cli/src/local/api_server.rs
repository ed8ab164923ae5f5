//! The local API on a loopback socket, for kubectl and other clients: TLS with a certificate of its
//! own, and a token without which nobody gets anything. Knows nothing of what is asked.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Either, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use minicluster::service::{Body, Shared};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;

use crate::yaml;

/// A request that is larger is not read.
const BODY_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Between two tries to let somebody in, when there is no room.
const OTHERS_END: Duration = Duration::from_millis(100);
/// Path by which `muster down` ends it.
pub(crate) const STOP: &str = "/muster/stop";

/// A door to the API.
pub(crate) struct ApiServer {
    listener: TcpListener,
    acceptor: TlsAcceptor,
    token: String,
    certificate: String,
}

impl ApiServer {
    /// Opens it; port 0 takes any that is free.
    pub(crate) async fn bind(port: u16) -> Result<Self> {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let listener = TcpListener::bind(address).await.with_context(|| {
            format!("cannot listen on {address}: name another port with --port, or none for any")
        })?;
        let mut token = [0; 32];
        getrandom::fill(&mut token).context("this machine has no random numbers")?;
        let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
        let made =
            rcgen::generate_simple_self_signed(names).context("cannot make a certificate")?;
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let mut config = rustls::ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .context("cannot use the certificate")?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self {
            listener,
            acceptor: TlsAcceptor::from(Arc::new(config)),
            token: BASE64_URL_SAFE_NO_PAD.encode(token),
            certificate: made.cert.pem(),
        })
    }

    /// Writes a kubeconfig that only we can read.
    pub(crate) fn write_kubeconfig(&self, path: &Path) -> Result<()> {
        use std::io::Write as _;
        use std::os::unix::fs::OpenOptionsExt as _;
        let address = self.listener.local_addr()?;
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "muster",
            "clusters": [{"name": "muster", "cluster": {
                "server": format!("https://{address}"),
                "certificate-authority-data": BASE64_STANDARD.encode(&self.certificate),
            }}],
            "users": [{"name": "muster", "user": {"token": self.token}}],
            "contexts": [{"name": "muster", "context": {
                "cluster": "muster", "user": "muster", "namespace": "default",
            }}],
        });
        let draft = path.with_extension("tmp");
        let _ = std::fs::remove_file(&draft);
        std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&draft)
            .and_then(|mut file| file.write_all(yaml::text(&config).as_bytes()))
            .and_then(|()| std::fs::rename(&draft, path))
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// Serves until somebody who may asks it to stop.
    pub(crate) async fn serve(self, shared: Shared) {
        let stop = Arc::new(Notify::new());
        let token: Arc<str> = format!("Bearer {}", self.token).into();
        loop {
            let connection = tokio::select! {
                connection = self.listener.accept() => connection,
                () = stop.notified() => return,
            };
            let Ok((stream, _)) = connection else {
                // Out of file descriptors, most likely: others must end first.
                tokio::time::sleep(OTHERS_END).await;
                continue;
            };
            let (acceptor, shared) = (self.acceptor.clone(), shared.clone());
            let (token, stop) = (Arc::clone(&token), Arc::clone(&stop));
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else {
                    return;
                };
                let service = service_fn(move |request| {
                    answer(
                        request,
                        shared.clone(),
                        Arc::clone(&token),
                        Arc::clone(&stop),
                    )
                });
                let _ = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            });
        }
    }
}

type Answer = Response<Either<Body, Full<Bytes>>>;

async fn answer(
    request: Request<Incoming>,
    shared: Shared,
    token: Arc<str>,
    stop: Arc<Notify>,
) -> Result<Answer, Infallible> {
    let given = request.headers().get(http::header::AUTHORIZATION);
    if !given.is_some_and(|given| is_equal_constant_time(given.as_bytes(), token.as_bytes())) {
        return Ok(status_response(StatusCode::UNAUTHORIZED, "Unauthorized"));
    }
    if request.uri().path() == STOP && request.method() == http::Method::POST {
        stop.notify_one();
        return Ok(status_response(StatusCode::OK, "Success"));
    }
    let (parts, body) = request.into_parts();
    let body = http_body_util::Limited::new(body, BODY_BYTES_MAX);
    let Ok(body) = body.collect().await else {
        let reason = "RequestEntityTooLarge";
        return Ok(status_response(StatusCode::PAYLOAD_TOO_LARGE, reason));
    };
    let request = Request::from_parts(parts, body.to_bytes().to_vec());
    Ok(shared.handle(request).map(Either::Left))
}

/// Takes the same time wherever the two differ.
fn is_equal_constant_time(given: &[u8], expected: &[u8]) -> bool {
    given.len() == expected.len()
        && given
            .iter()
            .zip(expected)
            .fold(0, |differences, (one, other)| differences | (one ^ other))
            == 0
}

fn status_response(code: StatusCode, reason: &str) -> Answer {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {},
        "status": if code.is_success() { "Success" } else { "Failure" },
        "reason": reason, "message": reason, "code": code.as_u16(),
    });
    Response::builder()
        .status(code)
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(Either::Right(Full::new(Bytes::from(status.to_string()))))
        .expect("the parts are constant")
}
