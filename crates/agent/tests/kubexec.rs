//! `kubexec` against a server that speaks as an API server does: TLS, one request, then a WebSocket
//! whose channels carry a command's streams and its end. What the server does is said by each test.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tempfile::TempDir;

const AGENT: &str = env!("CARGO_BIN_EXE_muster-agent");
const V5: &str = "v5.channel.k8s.io";
const V4: &str = "v4.channel.k8s.io";
const SUCCESS: &[u8] = br#"{"metadata":{},"status":"Success"}"#;

/// A server's certificates and where it listens; ends with the test.
struct Server {
    directory: TempDir,
    port: u16,
}

/// One connection, after its request was read.
struct Peer {
    stream: StreamOwned<ServerConnection, TcpStream>,
    path: String,
    head: String,
}

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(vec![]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

fn config(authority: &CertifiedIssuer<'_, KeyPair>) -> Arc<ServerConfig> {
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
    fn new(handle: impl Fn(Peer, usize) + Send + 'static) -> Self {
        let authority = authority();
        Self::trusting(&authority.pem(), &authority, handle)
    }

    fn trusting(
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

    fn agent(&self, words: &[&str]) -> Command {
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

    fn run(&self, words: &[&str]) -> (Option<i32>, String, String) {
        told(&self.agent(words).output().unwrap())
    }
}

fn told(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

impl Peer {
    fn of(mut stream: StreamOwned<ServerConnection, TcpStream>) -> Option<Self> {
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
    fn parameters(&self, name: &str) -> Vec<String> {
        let (_, query) = self.path.split_once('?').unwrap_or_default();
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let named = pairs.filter(|(key, _)| *key == name);
        named.map(|(_, value)| unquoted(value)).collect()
    }

    fn refuse(&mut self, code: u16, message: &str) {
        let body = serde_json::json!({"kind": "Status", "message": message}).to_string();
        let head = format!(
            "HTTP/1.1 {code} No\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        self.write((head + &body).as_bytes());
    }

    fn accept(&mut self, protocol: &str) {
        let head = format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Protocol: {protocol}\r\n\r\n"
        );
        self.write(head.as_bytes());
    }

    fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
        self.stream.flush().unwrap();
    }

    fn frame(&mut self, first: u8, payload: &[u8]) {
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

    fn say(&mut self, channel: u8, bytes: &[u8]) {
        for part in bytes.chunks(30_000) {
            self.frame(0x82, &[&[channel], part].concat());
        }
    }

    /// Ends the connection as a server does that wants all of it to arrive.
    fn close(&mut self) {
        self.frame(0x88, &1000_u16.to_be_bytes());
        while self.hear().is_some() {}
    }

    /// The next message; pings are only noted.
    fn hear(&mut self) -> Option<(u8, Vec<u8>)> {
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
    fn input(&mut self) -> Vec<u8> {
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
    fn serve(mut self) {
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

fn ended(code: i32) -> Vec<u8> {
    let cause = serde_json::json!({"reason": "ExitCode", "message": code.to_string()});
    let status = serde_json::json!({"status": "Failure", "reason": "NonZeroExitCode",
        "message": "command terminated", "details": {"causes": [cause]}});
    status.to_string().into_bytes()
}

fn unquoted(text: &str) -> String {
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

#[test]
fn output_and_exit_codes_are_the_commands_own() {
    let server = Server::new(|peer, _| peer.serve());
    let said = server.run(&["w-0", "echo out; echo err >&2; exit 3"]);
    assert_eq!(said, (Some(3), "out\n".to_owned(), "err\n".to_owned()));
    for code in [0, 1, 127, 137, 255] {
        let (told, _, _) = server.run(&["w-0", &format!("exit {code}")]);
        assert_eq!(told, Some(code));
    }
    let (code, out, _) = server.run(&["w-0", "seq 1 100000"]);
    assert_eq!(code, Some(0));
    assert_eq!(out.lines().count(), 100_000);
    assert!(out.ends_with("99999\n100000\n"));
}

#[test]
fn words_become_one_line_for_a_shell() {
    let server = Server::new(|peer, _| peer.serve());
    let said = server.run(&["w-0", " A=b;", "echo", "$A", "'c  d'", "&&", "echo", "100%"]);
    assert_eq!(said, (Some(0), "b c  d\n100%\n".to_owned(), String::new()));
}

#[test]
fn the_request_names_pod_namespace_and_who_asks() {
    let server = Server::new(|mut peer, _| {
        let path = peer.path.split('?').next().unwrap().to_owned();
        let head = peer.head.clone();
        peer.accept(V5);
        peer.say(1, path.as_bytes());
        let token = head.contains("Authorization: Bearer t0ken\r\n");
        let offer = head.contains(&format!("Sec-WebSocket-Protocol: {V5}, {V4}\r\n"));
        peer.say(3, if token && offer { SUCCESS } else { b"{}" });
        peer.close();
    });
    let (code, out, err) = server.run(&["w-0", "true"]);
    assert_eq!(
        (code, out.as_str()),
        (Some(0), "/api/v1/namespaces/ns/pods/w-0/exec"),
        "{err}"
    );
}

#[test]
fn input_is_passed_on_and_ended() {
    let server = Server::new(|peer, _| peer.serve());
    let mut child = server
        .agent(&["w-0", "wc -c"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(&vec![b'x'; 300_000]).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "300000");
}

#[test]
fn an_older_protocol_is_spoken_too() {
    let server = Server::new(|mut peer, _| {
        peer.accept(V4);
        peer.say(1, b"old");
        peer.say(3, &ended(7));
        peer.close();
    });
    let said = server.run(&["w-0", "true"]);
    assert_eq!(said, (Some(7), "old".to_owned(), String::new()));
}

#[test]
fn output_that_the_end_overtakes_is_not_lost() {
    let server = Server::new(|mut peer, _| {
        peer.accept(V5);
        peer.say(3, b"");
        peer.say(3, &ended(4));
        std::thread::sleep(Duration::from_millis(100));
        // In pieces, with a question in between.
        peer.frame(0x02, &[1, b'l', b'a']);
        peer.frame(0x89, b"there?");
        peer.frame(0x00, b"te");
        peer.frame(0x80, b"!");
        peer.close();
    });
    let said = server.run(&["w-0", "true"]);
    assert_eq!(said, (Some(4), "late!".to_owned(), String::new()));
}

#[test]
fn a_refusal_is_ours_and_is_said_in_the_servers_words() {
    let server = Server::new(|mut peer, _| peer.refuse(403, "pods \"db-0\" is forbidden"));
    let (code, out, err) = server.run(&["db-0", "true"]);
    assert_eq!((code, out.as_str()), (Some(255), ""));
    assert_eq!(
        err,
        "muster-agent: cannot run on db-0: the API server answered 403: pods \"db-0\" is forbidden\n"
    );
}

#[test]
fn a_pod_of_several_containers_is_entered_as_kubectl_does() {
    let message = "a container name must be specified for pod w-0, choose one of: [a b]";
    for (annotations, wanted) in [
        ("{}", "a"),
        (r#"{"kubectl.kubernetes.io/default-container":"b"}"#, "b"),
    ] {
        let server = Server::new(move |mut peer, _| {
            if !peer.path.contains("/exec?") {
                let body = format!(r#"{{"metadata":{{"annotations":{annotations}}}}}"#);
                let length = body.len();
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
                return peer.write((head + &body).as_bytes());
            }
            match peer.parameters("container").first().cloned() {
                None => peer.refuse(400, message),
                Some(container) => {
                    peer.accept(V5);
                    peer.say(1, container.as_bytes());
                    peer.say(3, SUCCESS);
                    peer.close();
                }
            }
        });
        let said = server.run(&["w-0", "true"]);
        assert_eq!(said, (Some(0), wanted.to_owned(), String::new()));
    }
}

#[test]
fn a_server_that_is_busy_is_asked_again_and_one_that_stays_so_is_not_waited_for_long() {
    let server = Server::new(|mut peer, number| match number {
        0 => peer.refuse(503, "starting"),
        _ => peer.serve(),
    });
    let said = server.run(&["w-0", "echo here"]);
    assert_eq!(said, (Some(0), "here\n".to_owned(), String::new()));

    let server = Server::new(|mut peer, _| peer.refuse(503, "starting"));
    let start = Instant::now();
    let output = server
        .agent(&["w-0", "true"])
        .env("MUSTER_CONNECT_TIMEOUT", "1")
        .output();
    let (code, _, err) = told(&output.unwrap());
    assert_eq!(code, Some(255));
    assert!(err.contains("503: starting"), "{err}");
    assert!(start.elapsed() < Duration::from_secs(4));
}

#[test]
fn a_server_that_never_answers_whole_is_not_waited_for() {
    let server = Server::new(|mut peer, _| {
        peer.write(b"HTTP/1.1 101 Switching Protocols\r\n");
        while peer.hear().is_some() {}
    });
    let output = server
        .agent(&["w-0", "true"])
        .env("MUSTER_CONNECT_TIMEOUT", "1")
        .output();
    let (code, _, err) = told(&output.unwrap());
    assert_eq!(code, Some(255));
    assert_eq!(
        err,
        "muster-agent: cannot run on w-0: the API server: no answer in time\n"
    );
}

#[test]
fn a_connection_that_breaks_is_never_success() {
    let server = Server::new(|mut peer, _| {
        peer.accept(V5);
        peer.say(1, b"half");
    });
    let (code, out, err) = server.run(&["w-0", "true"]);
    assert_eq!((code, out.as_str()), (Some(255), "half"));
    assert!(
        err.contains("cannot run on w-0: the connection was"),
        "{err}"
    );
}

#[test]
fn a_container_that_cannot_run_it_is_no_exit_code() {
    let server = Server::new(|mut peer, _| {
        peer.accept(V5);
        let said = r#"{"status":"Failure","reason":"InternalError","message":"no /bin/sh there"}"#;
        peer.say(3, said.as_bytes());
        peer.close();
    });
    let (code, _, err) = server.run(&["w-0", "true"]);
    assert_eq!(code, Some(255));
    assert_eq!(err, "muster-agent: cannot run on w-0: no /bin/sh there\n");
}

#[test]
fn the_token_goes_to_nobody_else() {
    let (ours, theirs) = (authority(), authority());
    let server = Server::trusting(&ours.pem(), &theirs, |peer, _| peer.serve());
    let output = server
        .agent(&["w-0", "true"])
        .env("MUSTER_CONNECT_TIMEOUT", "1")
        .output();
    let (code, _, err) = told(&output.unwrap());
    assert_eq!(code, Some(255));
    assert!(
        err.contains("cannot make sure that it is the API server"),
        "{err}"
    );
    assert!(!err.contains("t0ken"), "{err}");
}

#[test]
fn outside_of_a_pod_it_says_what_is_missing() {
    let output = Command::new(AGENT)
        .args(["kubexec", "w-0", "true"])
        .env_remove("KUBERNETES_SERVICE_HOST")
        .output();
    let (code, _, err) = told(&output.unwrap());
    assert_eq!(code, Some(255));
    assert!(err.contains("KUBERNETES_SERVICE_HOST is not set"), "{err}");
}

#[test]
fn a_signal_ends_the_call() {
    let server = Server::new(|mut peer, _| {
        peer.accept(V5);
        peer.say(1, b"x");
        while peer.hear().is_some_and(|(opcode, _)| opcode != 8) {}
    });
    let mut child = server
        .agent(&["w-0", "sleep 100"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut byte = [0];
    child
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut byte)
        .unwrap();
    let pid = rustix::process::Pid::from_raw(child.id().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(143));
}
