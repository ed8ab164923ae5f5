//! The local API on a loopback socket, for kubectl and other clients: TLS with a certificate of its
//! own, and a token that every request must carry. Decides how much a client without the token may
//! take. Must not know what the requests mean.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Either, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use minicluster::service::{Body, Shared};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;

use crate::constant_time::is_equal_constant_time;
use crate::yaml;

/// A client that has not presented the token by then is disconnected.
const TOKEN_TIMEOUT: Duration = Duration::from_secs(10);
/// Connections that have not presented the token yet; more are refused.
const STRANGERS_MAX: usize = 128;
/// A request that is larger is not read.
const BODY_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Pause after a connection could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Path by which `muster down` ends it.
pub(crate) const STOP: &str = "/muster/stop";

/// The socket and what clients need to use it.
pub(crate) struct ApiServer {
    listener: TcpListener,
    acceptor: TlsAcceptor,
    token: String,
    certificate: String,
}

impl ApiServer {
    /// Port 0 takes any free port.
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

    /// Serves until a client with the token asks it to stop.
    pub(crate) async fn serve(self, shared: Shared) {
        let stop = Arc::new(Notify::new());
        let strangers = Arc::new(Semaphore::new(STRANGERS_MAX));
        let token: Arc<str> = format!("Bearer {}", self.token).into();
        loop {
            let connection = tokio::select! {
                connection = self.listener.accept() => connection,
                () = stop.notified() => return,
            };
            let Ok((stream, _)) = connection else {
                // Out of file descriptors, most likely: others must end first.
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            };
            let Ok(permit) = Arc::clone(&strangers).try_acquire_owned() else {
                continue;
            };
            let gate = Gate {
                shared: shared.clone(),
                token: Arc::clone(&token),
                stop: Arc::clone(&stop),
                stranger: Mutex::new(Some(permit)).into(),
            };
            tokio::spawn(converse(self.acceptor.clone(), stream, gate));
        }
    }
}

async fn converse(acceptor: TlsAcceptor, stream: TcpStream, gate: Gate) {
    let accepted = tokio::time::timeout(TOKEN_TIMEOUT, acceptor.accept(stream)).await;
    let Ok(Ok(stream)) = accepted else {
        return;
    };
    let service = service_fn(move |request| answer(request, gate.clone()));
    let _ = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(TOKEN_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

/// What a connection must pass, and what is behind it.
#[derive(Clone)]
struct Gate {
    shared: Shared,
    token: Arc<str>,
    stop: Arc<Notify>,
    /// Given back with the first request that has the token.
    stranger: Arc<Mutex<Option<OwnedSemaphorePermit>>>,
}

type Answer = Response<Either<Body, Full<Bytes>>>;

async fn answer(request: Request<Incoming>, gate: Gate) -> Result<Answer, Infallible> {
    let given = request.headers().get(http::header::AUTHORIZATION);
    let token = gate.token.as_bytes();
    if !given.is_some_and(|given| is_equal_constant_time(given.as_bytes(), token)) {
        let mut response = status_response(StatusCode::UNAUTHORIZED, "Unauthorized");
        let close = http::HeaderValue::from_static("close");
        response
            .headers_mut()
            .insert(http::header::CONNECTION, close);
        return Ok(response);
    }
    drop(gate.stranger.lock().map(|mut permit| permit.take()));
    if request.uri().path() == STOP && request.method() == http::Method::POST {
        gate.stop.notify_one();
        return Ok(status_response(StatusCode::OK, "Success"));
    }
    let (parts, body) = request.into_parts();
    let body = http_body_util::Limited::new(body, BODY_BYTES_MAX);
    let Ok(body) = body.collect().await else {
        let reason = "RequestEntityTooLarge";
        return Ok(status_response(StatusCode::PAYLOAD_TOO_LARGE, reason));
    };
    let request = Request::from_parts(parts, body.to_bytes().to_vec());
    Ok(gate.shared.handle(request).map(Either::Left))
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
