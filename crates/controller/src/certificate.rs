//! The certificate of the metrics' port: one that is mounted, which may change while the operator runs, or one
//! that the operator makes for itself when it starts. Knows nothing of what is asked.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;

/// The name in a certificate of our own. Nobody can verify it: its client trusts whoever has the address.
const OWN_NAME: &str = "muster";
/// The files of a Secret of type kubernetes.io/tls.
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
/// A certificate that was renewed is shown this much later at the latest.
pub(crate) const READ_EVERY: Duration = Duration::from_secs(60);

/// Accepts TLS with the certificate of this directory, or with one of our own.
pub(crate) fn acceptor(directory: Option<&Path>) -> anyhow::Result<TlsAcceptor> {
    let provider = Arc::new(ring::default_provider());
    let shown = match directory {
        Some(directory) => Shown::mounted(directory, &provider)?,
        None => Shown::own(&provider)?,
    };
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .context("cannot speak TLS")?;
    let mut config = config
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(shown));
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // Scrapers come twice a minute: sessions would cost more memory than they save time.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// The certificate that is shown.
#[derive(Debug)]
struct Shown {
    /// None for one of our own.
    directory: Option<PathBuf>,
    provider: Arc<CryptoProvider>,
    read: Mutex<(Instant, Arc<CertifiedKey>)>,
}

impl Shown {
    fn mounted(directory: &Path, provider: &Arc<CryptoProvider>) -> anyhow::Result<Self> {
        let key = read(directory, provider)?;
        Ok(Self::new(Some(directory.to_owned()), provider, key))
    }

    fn own(provider: &Arc<CryptoProvider>) -> anyhow::Result<Self> {
        let made = rcgen::generate_simple_self_signed([OWN_NAME.to_owned()]);
        let made = made.context("cannot make a certificate")?;
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let chain = vec![made.cert.der().clone()];
        let key = CertifiedKey::from_der(chain, PrivateKeyDer::from(key), provider);
        let key = key.context("cannot use a certificate of our own")?;
        Ok(Self::new(None, provider, key))
    }

    fn new(directory: Option<PathBuf>, provider: &Arc<CryptoProvider>, key: CertifiedKey) -> Self {
        Self {
            directory,
            provider: Arc::clone(provider),
            read: Mutex::new((Instant::now(), Arc::new(key))),
        }
    }
}

impl ResolvesServerCert for Shown {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let mut last = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(directory) = &self.directory
            && last.0.elapsed() >= READ_EVERY
        {
            last.0 = Instant::now();
            match read(directory, &self.provider) {
                Ok(key) => last.1 = Arc::new(key),
                Err(error) => {
                    tracing::warn!("showing the old certificate of the metrics: {error:#}")
                }
            }
        }
        Some(Arc::clone(&last.1))
    }
}

fn read(directory: &Path, provider: &CryptoProvider) -> anyhow::Result<CertifiedKey> {
    let (certificate, key) = (directory.join(CERTIFICATE), directory.join(KEY));
    let unreadable = |path: &Path| format!("cannot read {}", path.display());
    let chain = CertificateDer::pem_file_iter(&certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .with_context(|| unreadable(&certificate))?;
    let private = PrivateKeyDer::from_pem_file(&key).with_context(|| unreadable(&key))?;
    CertifiedKey::from_der(chain, private, provider).with_context(|| {
        format!(
            "{} and {} do not belong together",
            certificate.display(),
            key.display()
        )
    })
}
