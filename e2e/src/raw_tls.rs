//! A TLS client that shows whatever key it is given, and takes any server: what somebody would write who
//! wants in. muster's own client would give up before it connects.

use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use ring::hmac;
use rustls::client::AlwaysResolvesClientRawPublicKeys;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring::sign::any_eddsa_type;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme, StreamOwned};

/// What the agents speak.
const PROTOCOL: &[u8] = b"muster/3";
const PATIENCE: Duration = Duration::from_secs(10);
/// What precedes the 32 bytes of an Ed25519 private key in PKCS #8.
const PKCS8: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];

/// The launcher's own key, from the root key that it has mounted.
pub fn launcher_key(root: &[u8]) -> Vec<u8> {
    let root = hmac::Key::new(hmac::HMAC_SHA256, root);
    hmac::sign(&root, b"muster launcher").as_ref().to_vec()
}

/// Whether the agent at this address greets whoever shows this key.
pub fn is_let_in(address: SocketAddr, key: &[u8]) -> Result<bool> {
    let pkcs8 = [&PKCS8[..], key].concat();
    let signing = any_eddsa_type(&PrivatePkcs8KeyDer::from(pkcs8))?;
    let public = signing.public_key().context("a key without public half")?;
    let shown = vec![CertificateDer::from(public.to_vec())];
    let key = CertifiedKey::new(shown, signing);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody))
        .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(Arc::new(
            key,
        ))));
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    let name = ServerName::try_from("worker.muster")?;
    let connection = ClientConnection::new(Arc::new(config), name)?;
    let socket = TcpStream::connect_timeout(&address, PATIENCE)
        .with_context(|| format!("nothing listens on {address}"))?;
    socket.set_read_timeout(Some(PATIENCE))?;
    // The server speaks first, once it has verified our key; otherwise it sends an alert.
    let mut greeting = [0; 1];
    let read = StreamOwned::new(connection, socket).read(&mut greeting);
    Ok(read.is_ok_and(|bytes| bytes > 0))
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
