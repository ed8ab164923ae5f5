//! Peers that are not the launcher, and peers that are broken.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agent::frame::Frame;
use rcgen::ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};
use rcgen::{CertificateParams, Issuer, KeyPair};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use super::world::{Authority, JOB, Worker, World, text, wait_for, write_tls};

fn world_with_worker() -> (World, Worker) {
    let world = World::new();
    let worker = world.serve();
    world.write_hosts(&[("w0", worker.port)]);
    (world, worker)
}

#[test]
fn launchers_of_any_other_kind_start_nothing() {
    let (world, _worker) = world_with_worker();
    let (ca, own) = (world.authority.pem(), &world.authority);
    let launcher = format!("launcher.{JOB}");
    let stranger = Authority::new();
    let cases = [
        ("foreign", stranger.client()),
        ("expired", own.issue(&launcher, &[ClientAuth], true)),
        ("worker's", own.issue(&launcher, &[ServerAuth], false)),
        (
            "both",
            own.issue(&launcher, &[ClientAuth, ServerAuth], false),
        ),
        ("no purpose", own.issue(&launcher, &[], false)),
    ];
    let proof = world.path("started");
    for (kind, pair) in cases {
        let directory = world.path(&format!("tls-{kind}"));
        write_tls(&directory, &ca, "client", &pair);
        let output = world
            .agent("rsh")
            .args([
                "-oConnectTimeout=2",
                "w0",
                &format!("touch {}", proof.display()),
            ])
            .env("MUSTER_TLS_DIR", &directory)
            .output()
            .unwrap();
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(255), "{kind}: {stderr}");
        assert!(
            stderr.contains("refused our certificate"),
            "{kind}: {stderr}"
        );
        assert!(!proof.exists(), "{kind}");
    }
}

#[test]
fn a_worker_with_all_its_files_is_not_a_launcher() {
    let (world, _worker) = world_with_worker();
    let pair = world.authority.server();
    let directory = world.path("tls-swapped");
    write_tls(&directory, &world.authority.pem(), "client", &pair);
    let output = world
        .agent("rsh")
        .args(["-oConnectTimeout=2", "w0", "true"])
        .env("MUSTER_TLS_DIR", &directory)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(255), "{output:?}");
    assert!(text(&output.stderr).contains("launcher"), "{output:?}");
}

#[test]
fn workers_of_any_other_kind_are_not_spoken_to() {
    let world = World::new();
    let (ca, own) = (world.authority.pem(), &world.authority);
    let worker_name = format!("worker.{JOB}");
    let cases = [
        ("foreign", Authority::new().server(), "another job"),
        (
            "expired",
            own.issue(&worker_name, &[ServerAuth], true),
            "expired",
        ),
        (
            "launcher's",
            own.issue(&worker_name, &[ClientAuth], false),
            "its role",
        ),
        (
            "other job",
            own.issue("worker.0.muster", &[ServerAuth], false),
            "role or job",
        ),
    ];
    for (kind, pair, words) in cases {
        let directory = world.path(&format!("serve-{kind}"));
        write_tls(&directory, &ca, "server", &pair);
        let worker = world.serve_with(|command| {
            command.env("MUSTER_TLS_DIR", &directory);
        });
        world.write_hosts(&[("w0", worker.port)]);
        let output = world.rsh(&["-oConnectTimeout=2", "w0", "true"]);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(255), "{kind}: {stderr}");
        assert!(stderr.contains(words), "{kind}: {stderr}");
    }
}

/// The most memory that it ever had.
fn peak_kib(worker: &Worker) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", worker.process.id()));
    let status = status.unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    line.unwrap()
        .split_whitespace()
        .nth(1)
        .unwrap()
        .parse()
        .unwrap()
}

const PEAK_KIB_MAX: u64 = 32 * 1024;

#[test]
fn a_thousand_half_open_connections_do_not_keep_the_launcher_out() {
    let (world, worker) = world_with_worker();
    let connect = |_| TcpStream::connect(("127.0.0.1", worker.port));
    let silent: Vec<_> = (0..1000).map(connect).collect();
    let begun = Instant::now();
    let output = world.rsh(&["w0", "exit 3"]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(begun.elapsed() < Duration::from_secs(5));
    assert!(
        peak_kib(&worker) <= PEAK_KIB_MAX,
        "{} KiB",
        peak_kib(&worker)
    );
    drop(silent);
}

type Tls = rustls::StreamOwned<rustls::ClientConnection, TcpStream>;

/// A certificate with its key, as files hold them.
type Pair = (String, String);

/// A TLS client that shows this pair, or nothing, and takes whatever the authority signed.
fn tls_client(world: &World, port: u16, protocol: &str, pair: Option<&Pair>) -> Tls {
    let mut roots = rustls::RootCertStore::empty();
    let certificate = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
    roots.add(certificate(&world.authority.pem())).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match pair {
        None => builder.with_no_client_auth(),
        Some((pem, key)) => {
            let chain = CertificateDer::pem_slice_iter(pem.as_bytes()).map(Result::unwrap);
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
            builder.with_client_auth_cert(chain.collect(), key).unwrap()
        }
    };
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    let name = format!("worker.{JOB}").try_into().unwrap();
    let tls = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
    rustls::StreamOwned::new(tls, TcpStream::connect(("127.0.0.1", port)).unwrap())
}

/// With the launcher's own certificate, so that what is sent reaches the frame decoder.
fn launcher_socket(world: &World, port: u16, protocol: &str) -> Tls {
    tls_client(world, port, protocol, Some(&world.authority.client()))
}

/// Sends all of it and waits for the other side to hang up; whether it ever said a word.
fn is_answered(mut socket: impl Read + Write, bytes: &[u8]) -> bool {
    // It may hang up in the middle.
    let _ = socket.write_all(bytes).and_then(|()| socket.flush());
    let mut answer = [0; 1];
    socket.read(&mut answer).is_ok_and(|bytes| bytes > 0)
}

/// What whoever broke into a worker can show: that worker's files, and what can be made of them.
fn loot(world: &World) -> Vec<(&'static str, Option<Pair>)> {
    let read = |name: &str| std::fs::read_to_string(world.path("worker").join(name)).unwrap();
    let (certificate, key) = (read("server.crt"), read("server.key"));
    // A launcher's certificate signed with the worker's key, and the worker's own as its issuer.
    let issuer_key = KeyPair::from_pem(&key).unwrap();
    let worker = CertificateParams::new(vec![format!("worker.{JOB}")]).unwrap();
    let issuer = Issuer::from_params(&worker, &issuer_key);
    let mut params = CertificateParams::new(vec![format!("launcher.{JOB}")]).unwrap();
    params.extended_key_usages = vec![ClientAuth];
    let own_key = KeyPair::generate().unwrap();
    let forged = params.signed_by(&own_key, &issuer).unwrap().pem();
    let self_signed = params.self_signed(&own_key).unwrap().pem();
    let own_key = own_key.serialize_pem();
    vec![
        ("nothing", None),
        ("its own", Some((certificate.clone(), key))),
        (
            "forged",
            Some((format!("{forged}{certificate}"), own_key.clone())),
        ),
        ("self-signed", Some((self_signed, own_key))),
    ]
}

#[test]
fn nobody_with_a_workers_files_starts_anything_on_another_worker() {
    let (world, worker) = world_with_worker();
    let proof = world.path("started");
    let start = Frame::Start(format!("touch {}", proof.display()).into_bytes()).encode();
    let loot = loot(&world);
    let mut attempts = 0;
    while attempts < 1000 {
        for (what, pair) in &loot {
            let socket = tls_client(&world, worker.port, "muster/2", pair.as_ref());
            assert!(!is_answered(socket, &start), "{what}");
        }
        let plain = TcpStream::connect(("127.0.0.1", worker.port)).unwrap();
        // An alert, if anything: what matters is that nothing was started.
        is_answered(plain, &start);
        attempts += loot.len() + 1;
    }
    assert!(!proof.exists());
    // The same frame from the launcher does start it.
    let mut socket = launcher_socket(&world, worker.port, "muster/2");
    socket.write_all(&start).unwrap();
    socket.flush().unwrap();
    wait_for("the launcher's is started", Duration::from_secs(5), || {
        // Whatever comes in is the session's.
        let _ = socket.read(&mut [0; 64]);
        proof.exists()
    });
}

/// Numbers that look random and are the same in every run.
fn garbage(state: &mut u64, length: usize) -> Vec<u8> {
    let next = || {
        *state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (*state >> 56) as u8
    };
    std::iter::repeat_with(next).take(length).collect()
}

/// Frames with the right length before garbage, so that each is read as one.
fn garbage_frames(state: &mut u64, count: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..count {
        let mut body = garbage(state, 48);
        // Few kinds exist; half of the frames are of one. None starts a shell on garbage.
        body[0] %= 24;
        if body[0] == Frame::Start(Vec::new()).encode()[4] {
            body[0] = 0;
        }
        bytes.extend(u32::try_from(body.len()).unwrap().to_be_bytes());
        bytes.extend(body);
    }
    bytes
}

#[test]
fn garbage_ends_its_connection_and_nothing_else() {
    const FRAMES: usize = 10;
    let (world, worker) = world_with_worker();
    let mut state = 1_u64;
    let request = Frame::Start(b"true".to_vec()).encode();
    // Ten thousand frames: before TLS, instead of a request, and behind one.
    for round in 0..1000 {
        let frames = garbage_frames(&mut state, FRAMES);
        match round % 10 {
            0..4 => {
                let mut plain = TcpStream::connect(("127.0.0.1", worker.port)).unwrap();
                let _ = plain.write_all(&frames);
            }
            4..9 => {
                let mut socket = launcher_socket(&world, worker.port, "muster/2");
                let _ = socket.write_all(&frames).and_then(|()| socket.flush());
            }
            _ => {
                let mut socket = launcher_socket(&world, worker.port, "muster/2");
                let all = [request.clone(), frames].concat();
                let _ = socket.write_all(&all).and_then(|()| socket.flush());
            }
        }
    }
    let mut plain = TcpStream::connect(("127.0.0.1", worker.port)).unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    assert_eq!(world.rsh(&["w0", "exit 3"]).status.code(), Some(3));
    assert!(
        peak_kib(&worker) <= PEAK_KIB_MAX,
        "{} KiB",
        peak_kib(&worker)
    );
}

#[test]
fn another_protocol_version_is_not_spoken_to() {
    let (world, worker) = world_with_worker();
    for (protocol, spoken) in [("muster/2", true), ("muster/1", false)] {
        let mut socket = launcher_socket(&world, worker.port, protocol);
        let shaken = socket.conn.complete_io(&mut socket.sock);
        assert_eq!(shaken.is_ok(), spoken, "{protocol}");
    }
    assert!(world.rsh(&["w0", "true"]).status.success());
}
