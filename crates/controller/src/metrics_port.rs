//! The metrics over HTTP. Decides who may read them: over TLS, those whom the API server lets; in the clear,
//! whoever can connect. Knows nothing of jobs.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use tokio::time::Instant;

use crate::api::Api;
use crate::certificate;
use crate::error::chain;
use crate::http_port::{self, Answer, text};
use crate::metrics::{Format, Metrics};
use crate::reviews::{self, Access, Reviews};

/// A failure to ask the API server is logged this often: anybody can make us ask.
const LOG_EVERY: Duration = Duration::from_secs(60);

/// Ports of the metrics; 0 is off.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetricsPorts {
    /// Over TLS, for those whom the API server lets.
    pub tls: u16,
    /// Directory of the certificate for TLS; without one, the operator makes its own.
    pub certificate: Option<PathBuf>,
    /// In the clear, for everybody.
    pub plain: u16,
}

impl MetricsPorts {
    /// Somebody can read the metrics.
    pub(crate) fn is_any(&self) -> bool {
        self.tls != 0 || self.plain != 0
    }
}

/// Serves the metrics. The ports listen when this returns, and are served in the background.
pub(crate) async fn serve(
    ports: &MetricsPorts,
    metrics: &Arc<Metrics>,
    reviewer: Api,
) -> anyhow::Result<()> {
    if ports.tls != 0 {
        let tls = certificate::acceptor(ports.certificate.as_deref())?;
        let listener = http_port::listen(ports.tls).await?;
        let door = Arc::new(Door::new(Reviews::new(reviewer), Arc::clone(metrics)));
        tokio::spawn(http_port::accept(listener, Some(tls), move |request| {
            let door = Arc::clone(&door);
            async move { door.answer(&request).await }
        }));
    }
    if ports.plain != 0 {
        let listener = http_port::listen(ports.plain).await?;
        let metrics = Arc::clone(metrics);
        tokio::spawn(http_port::accept(listener, None, move |request| {
            std::future::ready(answer(&metrics, &request))
        }));
    }
    Ok(())
}

/// Metrics for those who may read them.
struct Door {
    reviews: Reviews,
    metrics: Arc<Metrics>,
    logged_at: Mutex<Option<Instant>>,
}

impl Door {
    fn new(reviews: Reviews, metrics: Arc<Metrics>) -> Self {
        Self {
            reviews,
            metrics,
            logged_at: Mutex::default(),
        }
    }

    async fn answer<B>(&self, request: &Request<B>) -> Answer {
        let Some(token) = token(request) else {
            return challenge("send a token: Authorization: Bearer TOKEN\n");
        };
        match self.reviews.of(token).await {
            Ok(Access::Allowed) => answer(&self.metrics, request),
            Ok(Access::Unknown) => challenge("the API server does not know this token\n"),
            Ok(Access::Forbidden) => text(
                StatusCode::FORBIDDEN,
                "the token's user needs the right to get /metrics: bind the ClusterRole \
                 muster-metrics-reader\n",
            ),
            Err(error) => {
                self.log(&chain(&error));
                text(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "the API server could not be asked about this token; the operator's log says why\n",
                )
            }
        }
    }

    fn log(&self, error: &str) {
        let mut logged_at = self
            .logged_at
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if logged_at.is_none_or(|at| at.elapsed() >= LOG_EVERY) {
            *logged_at = Some(Instant::now());
            tracing::warn!(error, "cannot ask the API server who reads the metrics");
        }
    }
}

fn token<B>(request: &Request<B>) -> Option<&str> {
    let value = request.headers().get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("Bearer") && !token.is_empty()).then_some(token)
}

fn challenge(body: &'static str) -> Answer {
    let mut answer = text(StatusCode::UNAUTHORIZED, body);
    let scheme = HeaderValue::from_static("Bearer realm=\"muster\"");
    answer.headers_mut().insert(WWW_AUTHENTICATE, scheme);
    answer
}

fn answer<B>(metrics: &Metrics, request: &Request<B>) -> Answer {
    if (request.method(), request.uri().path()) != (&Method::GET, reviews::PATH) {
        return text(StatusCode::NOT_FOUND, "404 page not found\n");
    }
    let accept = request.headers().get(ACCEPT);
    let format = Format::accepted(accept.and_then(|accept| accept.to_str().ok()));
    let mut answer = Response::new(Full::from(metrics.text(format)));
    let content_type = HeaderValue::from_static(format.content_type());
    answer.headers_mut().insert(CONTENT_TYPE, content_type);
    answer
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::path::Path;

    use rustls::RootCertStore;
    use rustls::pki_types::pem::PemObject as _;
    use rustls::pki_types::{CertificateDer, ServerName};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;
    use tokio_rustls::TlsConnector;

    use super::*;
    use crate::reviews::tests::reviews;

    fn get(path: &str, headers: &[(&str, &str)]) -> Request<()> {
        let request = Request::builder().uri(path);
        let request = headers.iter().fold(request, |request, (name, value)| {
            request.header(*name, *value)
        });
        request.body(()).expect("the parts are valid")
    }

    #[tokio::test]
    async fn t14_only_those_who_may_read_the_metrics_do() {
        let (reviews, _) = reviews();
        let door = Door::new(reviews, Arc::new(Metrics::new()));
        for (headers, code) in [
            (&[][..], 401),
            (&[("Authorization", "Basic scraper")], 401),
            (&[("Authorization", "Bearer ")], 401),
            (&[("Authorization", "Bearer guess")], 401),
            (&[("Authorization", "Bearer nobody")], 403),
            (&[("Authorization", "Bearer scraper")], 200),
            (&[("Authorization", "bearer  scraper")], 200),
        ] {
            let answer = door.answer(&get("/metrics", headers)).await;
            assert_eq!(answer.status().as_u16(), code, "{headers:?}");
            let challenged = answer.headers().contains_key(WWW_AUTHENTICATE);
            assert_eq!(challenged, code == 401, "{headers:?}");
        }
        let scraper = [("Authorization", "Bearer scraper")];
        let answer = door.answer(&get("/debug", &scraper)).await;
        assert_eq!(answer.status(), StatusCode::NOT_FOUND);
        let open = ("Accept", "application/openmetrics-text;version=1.0.0");
        let answer = door.answer(&get("/metrics", &[scraper[0], open])).await;
        let kind = answer.headers()[CONTENT_TYPE].to_str().unwrap_or_default();
        assert!(kind.starts_with("application/openmetrics-text"), "{kind}");
    }

    /// Writes a certificate for 127.0.0.1 as a Secret is mounted.
    fn mount(directory: &Path) {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]);
        let made = made.expect("a certificate can be made");
        let files = [
            ("tls.crt", made.cert.pem()),
            ("tls.key", made.signing_key.serialize_pem()),
        ];
        for (name, text) in files {
            std::fs::write(directory.join(name), text).expect("the directory can be written");
        }
    }

    /// Connects as somebody who trusts this certificate alone, and asks for /healthz.
    async fn connect(port: u16, trusted: &Path) -> Option<String> {
        let mut roots = RootCertStore::empty();
        let own = CertificateDer::from_pem_file(trusted.join("tls.crt"));
        let own = own.expect("the certificate is readable");
        roots.add(own).expect("it is a certificate");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("ring speaks TLS")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from("127.0.0.1").expect("it is an address");
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.ok()?;
        let connector = TlsConnector::from(Arc::new(config));
        let mut stream = connector.connect(name, stream).await.ok()?;
        let request = b"GET /metrics HTTP/1.1\r\nHost: it\r\nConnection: close\r\n\r\n";
        stream.write_all(request).await.ok()?;
        let mut answer = String::new();
        // We close without a farewell.
        let _ = stream.read_to_string(&mut answer).await;
        answer.lines().next().map(str::to_owned)
    }

    #[tokio::test]
    async fn the_mounted_certificate_is_shown_and_a_wrong_one_is_named() {
        let directory = std::env::temp_dir().join(format!("certificate-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("the directory can be made");
        mount(&directory);
        let tls = certificate::acceptor(Some(&directory)).expect("it is a good certificate");
        let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        let listener = listener.expect("loopback has a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let (reviews, _) = reviews();
        let door = Arc::new(Door::new(reviews, Arc::new(Metrics::new())));
        let server = tokio::spawn(http_port::accept(listener, Some(tls), move |request| {
            let door = Arc::clone(&door);
            async move { door.answer(&request).await }
        }));
        let answer = connect(port, &directory).await;
        assert_eq!(answer.as_deref(), Some("HTTP/1.1 401 Unauthorized"));
        // Who trusts another certificate does not get so far.
        mount(&directory);
        assert_eq!(connect(port, &directory).await, None);
        // The renewed one is shown after a while.
        tokio::time::pause();
        tokio::time::advance(certificate::READ_EVERY).await;
        tokio::time::resume();
        let answer = connect(port, &directory).await;
        assert_eq!(answer.as_deref(), Some("HTTP/1.1 401 Unauthorized"));
        server.abort();

        std::fs::write(directory.join("tls.key"), "no key").expect("it can be written");
        let error = certificate::acceptor(Some(&directory)).err();
        let error = error.map(|error| format!("{error:#}")).unwrap_or_default();
        assert!(error.contains("tls.key"), "{error}");
        std::fs::remove_dir_all(&directory).expect("the directory can be removed");
        assert!(
            certificate::acceptor(None).is_ok(),
            "one of our own needs no file"
        );
    }
}
