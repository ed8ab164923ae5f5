//! A TLS client that shows whatever key it is given, and takes any server: what somebody would write who
//! wants in. muster's own client would give up before it connects. Tests on a real cluster use it, too.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use rustls::client::AlwaysResolvesClientRawPublicKeys;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring::sign::any_eddsa_type;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme, StreamOwned};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// What precedes the 32 bytes of an Ed25519 private key in PKCS #8.
const PKCS8: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];
/// What precedes the 32 bytes of an Ed25519 public key in a raw public key.
const SPKI: [u8; 12] = [
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
];

pub(crate) type Tls = StreamOwned<ClientConnection, TcpStream>;

/// A private key and the public key that is shown with it, which need not belong together.
pub(crate) struct Shown {
    pub(crate) private: [u8; 32],
    pub(crate) public: Vec<u8>,
}

impl Shown {
    pub(crate) fn pair(private: [u8; 32]) -> Self {
        let pair = Ed25519KeyPair::from_seed_unchecked(&private);
        let pair = pair.expect("32 bytes are a private key");
        let public = pair.public_key().as_ref().to_vec();
        Self { private, public }
    }
}

/// Connects, and shows this key or nothing.
pub(crate) fn connect(address: SocketAddr, protocol: &str, shown: Option<&Shown>) -> Result<Tls> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody));
    let mut config = match shown {
        None => builder.with_no_client_auth(),
        Some(Shown { private, public }) => {
            let signing =
                any_eddsa_type(&PrivatePkcs8KeyDer::from([&PKCS8[..], private].concat()))?;
            let public = CertificateDer::from([&SPKI[..], public].concat());
            let key = CertifiedKey::new(vec![public], signing);
            let key = AlwaysResolvesClientRawPublicKeys::new(Arc::new(key));
            builder.with_client_cert_resolver(Arc::new(key))
        }
    };
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    let name = ServerName::try_from("worker.muster")?;
    let connection = ClientConnection::new(Arc::new(config), name)?;
    let socket = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT)
        .with_context(|| format!("nothing listens on {address}"))?;
    Ok(StreamOwned::new(connection, socket))
}

#[derive(Debug)]
struct Anybody;

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _shown: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}
