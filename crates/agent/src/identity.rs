//! Which certificates a worker and a launcher accept: issued by the job's own authority, for one purpose
//! alone, with the name of the other role in the same job. Must not know the protocol on top.
//!
//! Our own certificate names the job, so that no setting can disagree with it.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use contract::{env, files, labels, protocol};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, DistinguishedName,
    ServerConfig, SignatureScheme,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, TrustAnchor, UnixTime};
use webpki::{EndEntityCert, ExtendedKeyUsageValidator, KeyPurposeId, KeyPurposeIdIter};

use crate::settings;

const SERVER_AUTH: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 1];
const CLIENT_AUTH: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 2];

/// Workers serve; the launcher is their client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Worker,
    Launcher,
}

impl Role {
    fn label(self) -> &'static str {
        match self {
            Self::Worker => labels::WORKER_ROLE,
            Self::Launcher => labels::LAUNCHER_ROLE,
        }
    }

    fn purpose(self) -> KeyPurposeId<'static> {
        KeyPurposeId::new(match self {
            Self::Worker => SERVER_AUTH,
            Self::Launcher => CLIENT_AUTH,
        })
    }
}

/// A certificate for this purpose and no other.
struct ThisPurposeAlone(Role);

impl ExtendedKeyUsageValidator for ThisPurposeAlone {
    fn validate(&self, purposes: KeyPurposeIdIter<'_, '_>) -> Result<(), webpki::Error> {
        let mut found = false;
        for purpose in purposes {
            if purpose? != self.0.purpose() {
                return Err(webpki::Error::ExtensionValueInvalid);
            }
            found = true;
        }
        found
            .then_some(())
            .ok_or(webpki::Error::ExtensionValueInvalid)
    }
}

/// What the other side must show.
#[derive(Debug)]
struct Peer {
    role: Role,
    name: ServerName<'static>,
    anchors: Vec<TrustAnchor<'static>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Peer {
    fn check(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), rustls::Error> {
        let refused = |error: webpki::Error| {
            use webpki::Error as E;
            rustls::Error::InvalidCertificate(match error {
                E::CertExpired { .. } => CertificateError::Expired,
                E::CertNotValidYet { .. } => CertificateError::NotValidYet,
                E::UnknownIssuer => CertificateError::UnknownIssuer,
                E::CertNotValidForName(_) => CertificateError::NotValidForName,
                E::ExtensionValueInvalid => CertificateError::InvalidPurpose,
                _ => CertificateError::BadSignature,
            })
        };
        let certificate = EndEntityCert::try_from(certificate).map_err(refused)?;
        let (algorithms, purpose) = (self.algorithms.all, ThisPurposeAlone(self.role));
        certificate
            .verify_for_usage(
                algorithms,
                &self.anchors,
                intermediates,
                now,
                purpose,
                None,
                None,
            )
            .map_err(refused)?;
        certificate
            .verify_is_valid_for_subject_name(&self.name)
            .map_err(refused)
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
            verify_tls13_signature(message, certificate, signed, &self.algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.algorithms.supported_schemes()
        }
    };
}

impl ServerCertVerifier for Peer {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.check(certificate, intermediates, now)?;
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
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.check(certificate, intermediates, now)?;
        Ok(ClientCertVerified::assertion())
    }

    tls13_signatures!();
}

/// Certificates and keys of this pod.
struct Material {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    peer: Arc<Peer>,
    provider: Arc<CryptoProvider>,
}

impl Material {
    fn read(own: Role, [certificate, key]: [&str; 2]) -> Result<Self> {
        let directory = settings::path(env::TLS_DIR, files::TLS_MOUNT_PATH);
        let chain = certificates(&directory.join(certificate))?;
        let key_file = directory.join(key);
        let key = PrivateKeyDer::from_pem_file(&key_file)
            .with_context(|| format!("cannot read the key in {}", key_file.display()))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let role = match own {
            Role::Worker => Role::Launcher,
            Role::Launcher => Role::Worker,
        };
        let job = job_of(own, &chain).with_context(|| {
            format!(
                "{} is not a certificate of the {}",
                certificate,
                own.label()
            )
        })?;
        let authorities = certificates(&directory.join(files::CA_CERTIFICATE))?;
        let anchors = authorities
            .iter()
            .map(|certificate| Ok(webpki::anchor_from_trusted_cert(certificate)?.to_owned()))
            .collect::<Result<_>>()
            .with_context(|| {
                format!(
                    "{} is not the certificate of an authority",
                    files::CA_CERTIFICATE
                )
            })?;
        Ok(Self {
            chain,
            key,
            peer: Arc::new(Peer {
                role,
                name: ServerName::try_from(format!("{}.{job}", role.label()))?,
                anchors,
                algorithms: provider.signature_verification_algorithms,
            }),
            provider,
        })
    }
}

/// All certificates of a file.
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

/// The rest of one's own name behind the label of one's role: `<job-uid>.muster`.
fn job_of(own: Role, chain: &[CertificateDer<'_>]) -> Result<String> {
    let certificate = EndEntityCert::try_from(&chain[0]).context("the certificate is malformed")?;
    let job = certificate.valid_dns_names().find_map(|name| {
        let (label, job) = name.split_once('.')?;
        (label == own.label()).then(|| job.to_owned())
    });
    let wanted = protocol::certificate_name(own.label(), "<job>");
    job.with_context(|| format!("the certificate has no name {wanted}"))
}

/// For `serve`.
pub(crate) fn server() -> Result<Arc<ServerConfig>> {
    let material = Material::read(Role::Worker, files::SERVER_FILES)?;
    let mut config = ServerConfig::builder_with_provider(material.provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_client_cert_verifier(material.peer)
        .with_single_cert(material.chain, material.key)
        .context("the server's key does not fit its certificate")?;
    config.alpn_protocols = vec![protocol::ALPN.to_vec()];
    // A ticket would remain valid after the certificate has expired.
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// For `rsh` and `gate`: makes connections, all to the same name, which every worker has.
pub(crate) struct Client {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Client {
    pub(crate) fn new() -> Result<Self> {
        let material = Material::read(Role::Launcher, files::CLIENT_FILES)?;
        let name = material.peer.name.clone();
        let mut config = ClientConfig::builder_with_provider(material.provider)
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(material.peer)
            .with_client_auth_cert(material.chain, material.key)
            .context("the client's key does not fit its certificate")?;
        config.alpn_protocols = vec![protocol::ALPN.to_vec()];
        config.resumption = rustls::client::Resumption::disabled();
        Ok(Self {
            config: Arc::new(config),
            name,
        })
    }

    pub(crate) fn connection(&self) -> Result<ClientConnection> {
        Ok(ClientConnection::new(
            self.config.clone(),
            self.name.clone(),
        )?)
    }
}
