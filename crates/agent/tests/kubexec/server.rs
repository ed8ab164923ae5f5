//! A server that speaks as an API server does: TLS, one request, then a WebSocket whose channels carry a
//! command's streams and its end.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tempfile::TempDir;

use crate::AGENT;

pub(crate) const V5: &str = "v5.channel.k8s.io";
pub(crate) const V4: &str = "v4.channel.k8s.io";
pub(crate) const SUCCESS: &[u8] = br#"{"metadata":{},"status":"Success"}"#;

/// A server's certificates and where it listens; ends with the test.
pub(crate) struct Server {
    pub(crate) directory: TempDir,
    pub(crate) port: u16,
}

/// One connection, after its request was read.
pub(crate) struct Peer {
    pub(crate) stream: StreamOwned<ServerConnection, TcpStream>,
    pub(crate) path: String,
    pub(crate) head: String,
}

pub(crate) fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(vec![]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

pub(crate) fn config(authority: &CertifiedIssuer<'_, KeyPair>) -> Arc<ServerConfig> {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, authority).unwrap();
    let chain = vec![CertificateDer::from(certificate.der().to_vec())];
    let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    Arc::new(config)
}

impl Server {
    /// Every connection is handled so, the first with 0.
    pub(crate) fn new(handle: impl Fn(Peer, usize) + Send + 'static) -> Self {
        let authority = authority();
        Self::trusting(&authority.pem(), &authority, handle)
    }

    pub(crate) fn trusting(
        trusted: &str,
        authority: &CertifiedIssuer<'_, KeyPair>,
        handle: impl Fn(Peer, usize) + Send + 'static,
    ) -> Self {
        let directory = tempfile::tempdir().unwrap();
        for (file, text) in [("ca.crt", trusted), ("token", "t0ken"), ("namespace", "ns")] {
            std::fs::write(directory.path().join(file), text).unwrap();
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let config = config(authority);
        std::thread::spawn(move || {
            for (number, socket) in listener.incoming().enumerate() {
                let tls = ServerConnection::new(Arc::clone(&config)).unwrap();
                if let Some(peer) = Peer::of(StreamOwned::new(tls, socket.unwrap())) {
                    handle(peer, number);
                }
            }
        });
        Self { directory, port }
    }

    pub(crate) fn agent(&self, words: &[&str]) -> Command {
        let mut command = Command::new(AGENT);
        command
            .arg("kubexec")
            .args(words)
            .env("KUBERNETES_SERVICE_HOST", "127.0.0.1")
            .env("KUBERNETES_SERVICE_PORT", self.port.to_string())
            .env("MUSTER_SERVICE_ACCOUNT_DIR", self.directory.path())
            .env("MUSTER_CONNECT_TIMEOUT", "5")
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, words: &[&str]) -> (Option<i32>, String, String) {
        told(&self.agent(words).output().unwrap())
    }
}

pub(crate) fn told(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

impl Peer {
    pub(crate) fn of(mut stream: StreamOwned<ServerConnection, TcpStream>) -> Option<Self> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).ok()?;
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).ok()?;
        let path = head.split(' ').nth(1)?.to_owned();
        Some(Self { stream, path, head })
    }

    /// The values of a parameter, in order.
    pub(crate) fn parameters(&self, name: &str) -> Vec<String> {
        let (_, query) = self.path.split_once('?').unwrap_or_default();
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let named = pairs.filter(|(key, _)| *key == name);
        named.map(|(_, value)| unquoted(value)).collect()
    }

    pub(crate) fn refuse(&mut self, code: u16, message: &str) {
        let body = serde_json::json!({"kind": "Status", "message": message}).to_string();
        let head = format!(
            "HTTP/1.1 {code} No\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        self.write((head + &body).as_bytes());
    }

    pub(crate) fn accept(&mut self, protocol: &str) {
        let head = format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Protocol: {protocol}\r\n\r\n"
        );
        self.write(head.as_bytes());
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
        self.stream.flush().unwrap();
    }

    pub(crate) fn frame(&mut self, first: u8, payload: &[u8]) {
        let mut frame = vec![first];
        match payload.len() {
            length @ 0..126 => frame.push(u8::try_from(length).unwrap()),
            length => {
                frame.push(126);
                frame.extend(u16::try_from(length).unwrap().to_be_bytes());
            }
        }
        frame.extend(payload);
        self.write(&frame);
    }

    pub(crate) fn say(&mut self, channel: u8, bytes: &[u8]) {
        for part in bytes.chunks(30_000) {
            self.frame(0x82, &[&[channel], part].concat());
        }
    }

    /// Ends the connection as a server does that wants all of it to arrive.
    pub(crate) fn close(&mut self) {
        self.frame(0x88, &1000_u16.to_be_bytes());
        while self.hear().is_some() {}
    }

    /// The next message; pings are only noted.
    pub(crate) fn hear(&mut self) -> Option<(u8, Vec<u8>)> {
        let mut head = [0; 2];
        self.stream.read_exact(&mut head).ok()?;
        assert_eq!(head[1] & 0x80, 0x80, "clients mask");
        let length = match head[1] & 0x7f {
            126 => {
                let mut bytes = [0; 2];
                self.stream.read_exact(&mut bytes).ok()?;
                usize::from(u16::from_be_bytes(bytes))
            }
            short => usize::from(short),
        };
        let mut mask = [0; 4];
        self.stream.read_exact(&mut mask).ok()?;
        let mut payload = vec![0; length];
        self.stream.read_exact(&mut payload).ok()?;
        let bare = payload.iter().zip(mask.iter().cycle()).map(|(a, b)| a ^ b);
        Some((head[0] & 0x0f, bare.collect()))
    }

    /// What comes on the input until it is ended.
    pub(crate) fn input(&mut self) -> Vec<u8> {
        let mut input = Vec::new();
        while let Some((opcode, payload)) = self.hear() {
            match (opcode, payload.as_slice()) {
                (2, [255, 0]) => break,
                (2, [0, rest @ ..]) => input.extend(rest),
                _ => {}
            }
        }
        input
    }

    /// Runs the command as a kubelet would, with all of its input.
    pub(crate) fn serve(mut self) {
        self.accept(V5);
        let input = self.input();
        let words = self.parameters("command");
        let mut child = Command::new(&words[0])
            .args(&words[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(&input).unwrap();
        let output = child.wait_with_output().unwrap();
        self.say(1, &output.stdout);
        self.say(2, &output.stderr);
        match output.status.code().unwrap_or(137) {
            0 => self.say(3, SUCCESS),
            code => self.say(3, &ended(code)),
        }
        self.close();
    }
}

pub(crate) fn ended(code: i32) -> Vec<u8> {
    let cause = serde_json::json!({"reason": "ExitCode", "message": code.to_string()});
    let status = serde_json::json!({"status": "Failure", "reason": "NonZeroExitCode",
        "message": "command terminated", "details": {"causes": [cause]}});
    status.to_string().into_bytes()
}

pub(crate) fn unquoted(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = match (first, tail) {
            (b'%', [a, b, tail @ ..]) => {
                let digits = [*a, *b];
                let digits = std::str::from_utf8(&digits).unwrap();
                bytes.push(u8::from_str_radix(digits, 16).unwrap());
                tail
            }
            (byte, tail) => {
                bytes.push(*byte);
                tail
            }
        };
    }
    String::from_utf8(bytes).unwrap()
}
