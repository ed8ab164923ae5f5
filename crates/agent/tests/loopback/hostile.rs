//! Peers that are not the launcher, and peers that are broken.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rcgen::ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};
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

fn resident_kib(worker: &Worker) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", worker.process.id()));
    let status = status.unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    line.unwrap()
        .split_whitespace()
        .nth(1)
        .unwrap()
        .parse()
        .unwrap()
}

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
        resident_kib(&worker) < 32 * 1024,
        "{} KiB",
        resident_kib(&worker)
    );
    drop(silent);
}

/// A TLS client with the launcher's own certificate, so that garbage reaches the frame decoder.
fn launcher_socket(
    world: &World,
    port: u16,
    protocol: &str,
) -> rustls::StreamOwned<rustls::ClientConnection, TcpStream> {
    let mut roots = rustls::RootCertStore::empty();
    let read = |name: &str| {
        let file = world.path("launcher").join(name);
        CertificateDer::from_pem_file(file).unwrap()
    };
    roots.add(read("ca.crt")).unwrap();
    let key = PrivateKeyDer::from_pem_file(world.path("launcher").join("client.key")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![read("client.crt")], key)
        .unwrap();
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    let name = format!("worker.{JOB}").try_into().unwrap();
    let tls = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
    rustls::StreamOwned::new(tls, TcpStream::connect(("127.0.0.1", port)).unwrap())
}

#[test]
fn garbage_ends_its_connection_and_nothing_else() {
    let (world, worker) = world_with_worker();
    let mut state = 1_u64;
    for _ in 0..300 {
        let mut socket = launcher_socket(&world, worker.port, "muster/1");
        // A small step of a linear congruence: different garbage each time, the same every run.
        let garbage: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
            (state >> 56) as u8
        })
        .take(64)
        .collect();
        // The worker may hang up in the middle.
        let _ = socket.write_all(&garbage);
        let _ = socket.flush();
    }
    let mut plain = TcpStream::connect(("127.0.0.1", worker.port)).unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    assert_eq!(world.rsh(&["w0", "exit 3"]).status.code(), Some(3));
    wait_for("memory is given back", Duration::from_secs(10), || {
        resident_kib(&worker) < 32 * 1024
    });
}

#[test]
fn another_protocol_version_is_not_spoken_to() {
    let (world, worker) = world_with_worker();
    for (protocol, spoken) in [("muster/1", true), ("muster/2", false)] {
        let mut socket = launcher_socket(&world, worker.port, protocol);
        let shaken = socket.conn.complete_io(&mut socket.sock);
        assert_eq!(shaken.is_ok(), spoken, "{protocol}");
    }
    assert!(world.rsh(&["w0", "true"]).status.success());
}
