//! Who is who between a launcher and its workers: every side has an Ed25519 key of its own, and accepts one
//! key from the other. A worker knows the launcher's public key. The launcher derives the key of the very
//! worker that it calls, so that no worker can answer for another. Must not know the protocol on top.
//!
//! Keys are shown as raw public keys (RFC 7250): nobody has to issue or to parse certificates.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use contract::{env, files, protocol};
use ring::hmac;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use rustls::client::AlwaysResolvesClientRawPublicKeys;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring::sign::any_eddsa_type;
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key,
};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::CertifiedKey;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, DistinguishedName,
    ServerConfig, SignatureScheme,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{
    CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
};

use crate::settings;

/// What precedes the 32 bytes of an Ed25519 public key in DER.
const PUBLIC_KEY_PREFIX: [u8; 12] = [
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
];
/// What precedes the 32 bytes of an Ed25519 private key in PKCS #8.
const PRIVATE_KEY_PREFIX: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];

type Key = [u8; protocol::KEY_BYTES];

/// The one key that the other side must show, and until when it is good for anything.
#[derive(Debug)]
struct Peer {
    public_key: Vec<u8>,
    valid_until: SystemTime,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Peer {
    fn check(&self, shown: &CertificateDer<'_>, now: UnixTime) -> Result<(), rustls::Error> {
        let refused = |why| Err(rustls::Error::InvalidCertificate(why));
        if **shown != self.public_key[..] {
            return refused(CertificateError::ApplicationVerificationFailure);
        }
        if UNIX_EPOCH + Duration::from_secs(now.as_secs()) >= self.valid_until {
            return refused(CertificateError::Expired);
        }
        Ok(())
    }
}

/// What both kinds of verifiers have in common. TLS 1.2 is never offered; a verifier has to answer for it
/// all the same.
macro_rules! tls13_signatures {
    () => {
        fn verify_tls12_signature(
            &self,
            _message: &[u8],
            _certificate: &CertificateDer<'_>,
            _signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            Err(rustls::Error::General("TLS 1.2 is not spoken".into()))
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            let key = SubjectPublicKeyInfoDer::from(certificate.as_ref());
            verify_tls13_signature_with_raw_key(message, &key, signed, &self.algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.algorithms.supported_schemes()
        }

        fn requires_raw_public_keys(&self) -> bool {
            true
        }
    };
}

impl ServerCertVerifier for Peer {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.check(shown, now)?;
        Ok(ServerCertVerified::assertion())
    }

    tls13_signatures!();
}

impl ClientCertVerifier for Peer {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        shown: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.check(shown, now)?;
        Ok(ClientCertVerified::assertion())
    }

    tls13_signatures!();
}

fn read_key(directory: &Path, name: &str) -> Result<Key> {
    let file = directory.join(name);
    let bytes = std::fs::read(&file);
    let bytes = bytes.with_context(|| format!("cannot read the key in {}", file.display()))?;
    let key = Key::try_from(bytes);
    key.map_err(|bytes| anyhow::anyhow!("{} bytes in {}", bytes.len(), file.display()))
}

/// Until when the keys of this pod are valid.
fn read_valid_until(directory: &Path) -> Result<SystemTime> {
    let file = directory.join(files::VALID_UNTIL);
    let text = std::fs::read_to_string(&file);
    let text = text.with_context(|| format!("cannot read {}", file.display()))?;
    let seconds = text.trim().parse().map(Duration::from_secs);
    let time = seconds.ok().and_then(|secs| UNIX_EPOCH.checked_add(secs));
    time.with_context(|| format!("no time in {}: {:?}", file.display(), text.trim()))
}

fn public_key_of(private: &Key) -> Result<Vec<u8>> {
    let pair = Ed25519KeyPair::from_seed_unchecked(private).ok();
    let pair = pair.context("the key is not usable")?;
    Ok(public_key_der(pair.public_key().as_ref()))
}

fn public_key_der(bytes: &[u8]) -> Vec<u8> {
    [&PUBLIC_KEY_PREFIX[..], bytes].concat()
}

fn certified(private: &Key) -> Result<Arc<CertifiedKey>> {
    let pkcs8 = [&PRIVATE_KEY_PREFIX[..], private].concat();
    let signing = any_eddsa_type(&PrivatePkcs8KeyDer::from(pkcs8))?;
    let shown = vec![CertificateDer::from(public_key_of(private)?)];
    Ok(Arc::new(CertifiedKey::new(shown, signing)))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// All certificates of a file, for connections to servers of others.
pub(crate) fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let cannot_read = || format!("cannot read certificates in {}", file.display());
    let found: Vec<_> = CertificateDer::pem_file_iter(file)
        .with_context(cannot_read)?
        .collect::<Result<_, _>>()
        .with_context(cannot_read)?;
    if found.is_empty() {
        bail!("no certificate in {}", file.display());
    }
    Ok(found)
}

/// For `serve`.
pub(crate) struct WorkerTls {
    pub(crate) config: Arc<ServerConfig>,
    /// Nobody is served afterwards.
    pub(crate) valid_until: SystemTime,
}

impl WorkerTls {
    pub(crate) fn new() -> Result<Self> {
        let directory = settings::path(env::TLS_DIR, files::TLS_MOUNT_PATH);
        let own = read_key(&directory, files::WORKER_KEY)?;
        let launcher = read_key(&directory, files::LAUNCHER_PUBLIC_KEY)?;
        let valid_until = read_valid_until(&directory)?;
        let provider = provider();
        let peer = Peer {
            public_key: public_key_der(&launcher),
            valid_until,
            algorithms: provider.signature_verification_algorithms,
        };
        let own = AlwaysResolvesServerRawPublicKeys::new(certified(&own)?);
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_client_cert_verifier(Arc::new(peer))
            .with_cert_resolver(Arc::new(own));
        config.alpn_protocols = vec![protocol::ALPN.to_vec()];
        // A ticket would remain valid after the keys.
        config.send_tls13_tickets = 0;
        let config = Arc::new(config);
        Ok(Self {
            config,
            valid_until,
        })
    }
}

/// For `rsh` and `gate`: makes connections, each to one worker by its name.
pub(crate) struct Client {
    root: hmac::Key,
    own: Arc<CertifiedKey>,
    valid_until: SystemTime,
    provider: Arc<CryptoProvider>,
}

impl Client {
    pub(crate) fn new() -> Result<Self> {
        let directory = settings::path(env::TLS_DIR, files::TLS_MOUNT_PATH);
        let root = read_key(&directory, files::LAUNCHER_KEY)?;
        let root = hmac::Key::new(hmac::HMAC_SHA256, &root);
        let own = derived(&root, protocol::LAUNCHER_KEY_LABEL)?;
        Ok(Self {
            own: certified(&own)?,
            root,
            valid_until: read_valid_until(&directory)?,
            provider: provider(),
        })
    }

    /// A connection that only this worker can answer, by the name that the operator listed it under.
    pub(crate) fn connection(&self, worker: &str) -> Result<ClientConnection> {
        ensure!(
            SystemTime::now() < self.valid_until,
            "the job's keys have expired; suspend and resume it for new ones"
        );
        let theirs = derived(&self.root, &protocol::worker_key_label(worker))?;
        let peer = Peer {
            public_key: public_key_of(&theirs)?,
            valid_until: self.valid_until,
            algorithms: self.provider.signature_verification_algorithms,
        };
        let own = AlwaysResolvesClientRawPublicKeys::new(self.own.clone());
        let mut config = ClientConfig::builder_with_provider(self.provider.clone())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(peer))
            .with_client_cert_resolver(Arc::new(own));
        config.alpn_protocols = vec![protocol::ALPN.to_vec()];
        config.resumption = rustls::client::Resumption::disabled();
        // The key says who it is. A name of a pod need not be one that TLS can carry.
        config.enable_sni = false;
        let nobody = ServerName::from(std::net::IpAddr::from([0, 0, 0, 0]));
        Ok(ClientConnection::new(Arc::new(config), nobody)?)
    }
}

/// The key that the launcher's root key and a label give.
fn derived(root: &hmac::Key, label: &str) -> Result<Key> {
    let tag = hmac::sign(root, label.as_bytes());
    Ok(Key::try_from(tag.as_ref())?)
}
