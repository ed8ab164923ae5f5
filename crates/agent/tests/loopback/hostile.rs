//! Peers that are not the launcher, and peers that are broken.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use agent::frame::Frame;
use rustls::pki_types::ServerName;
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection, RootCertStore, SupportedProtocolVersion};

use super::raw_tls::{Shown, Tls, connect};
use super::world::{Keys, Worker, World, text, wait_for, write_valid_until};

/// The protocol that workers speak.
const SPOKEN: &str = "muster/3";

fn world_with_worker() -> (World, Worker) {
    let world = World::new();
    let worker = world.serve();
    world.write_hosts(&[("w0", worker.port)]);
    (world, worker)
}

/// What `rsh` says when it calls w0 with the files of this directory; it must not have started anything.
fn refused_with(world: &World, directory: &str) -> String {
    let proof = world.path("started");
    let output = world
        .agent("rsh")
        .args(["-oConnectTimeout=2", "w0"])
        .arg(format!("touch {}", proof.display()))
        .env("MUSTER_TLS_DIR", world.path(directory))
        .output()
        .unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(255), "{directory}: {stderr}");
    assert!(!proof.exists(), "{directory}");
    stderr
}

#[test]
fn launchers_of_any_other_kind_start_nothing() {
    let (world, _worker) = world_with_worker();
    Keys::new(2).write_launcher(&world.path("foreign"));
    let said = refused_with(&world, "foreign");
    assert!(said.contains("has not the key of that worker"), "{said}");
    world.keys.write_launcher(&world.path("expired"));
    write_valid_until(&world.path("expired"), 1_600_000_000);
    let said = refused_with(&world, "expired");
    assert!(said.contains("have expired"), "{said}");
}

#[test]
fn a_worker_with_all_its_files_is_not_a_launcher() {
    let (world, _worker) = world_with_worker();
    let said = refused_with(&world, "worker");
    assert!(said.contains("launcher.key"), "{said}");
    // Not even if it takes its own key for the launcher's.
    let directory = world.path("swapped");
    world.keys.write_launcher(&directory);
    std::fs::write(directory.join("launcher.key"), world.keys.worker("w0")).unwrap();
    refused_with(&world, "swapped");
}

#[test]
fn workers_of_any_other_kind_are_not_spoken_to() {
    let world = World::new();
    Keys::new(2).write_worker(&world.path("foreign"), "w0");
    world.keys.write_worker(&world.path("expired"), "w0");
    write_valid_until(&world.path("expired"), 1_600_000_000);
    for (kind, words) in [
        ("foreign", &["has not the key of that worker"][..]),
        // As the client sees the end of the connection, before or after it has written.
        ("expired", &["closed", "reset"]),
    ] {
        let directory = world.path(kind);
        let worker = world.serve_as("w0", |command| {
            command.env("MUSTER_TLS_DIR", &directory);
        });
        world.write_hosts(&[("w0", worker.port)]);
        let output = world.rsh(&["-oConnectTimeout=2", "w0", "true"]);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(255), "{kind}: {stderr}");
        let says_so = words.iter().any(|words| stderr.contains(words));
        assert!(says_so, "{kind}: {stderr}");
    }
}

/// On a node's network a worker can bind the port of another one.
#[test]
fn s08_a_worker_cannot_answer_for_another() {
    let world = World::new();
    let (own, other) = (world.serve(), world.serve());
    world.write_hosts(&[("w0", own.port), ("w1", own.port)]);
    let stolen = world.rsh(&["-oConnectTimeout=2", "w1", "echo told a secret"]);
    let said = text(&stolen.stderr);
    assert_eq!(stolen.status.code(), Some(255), "{said}");
    assert!(said.contains("has not the key of that worker"), "{said}");
    assert_eq!(text(&stolen.stdout), "");
    // Nor does the gate take the one for the other.
    let mut gate = world.agent("gate");
    gate.env("MUSTER_WORKERS", "2")
        .env("MUSTER_GATE_TIMEOUT", "1")
        .env("MUSTER_TERMINATION_LOG", world.path("termination"));
    let output = gate.output().unwrap();
    assert_eq!(output.status.code(), Some(117), "{output:?}");
    world.write_hosts(&[("w0", own.port), ("w1", other.port)]);
    let output = world.rsh(&["w1", "exit 4"]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
}

/// Whoever has the key of an old run gets nowhere.
#[test]
fn s11_a_worker_stops_serving_when_its_keys_expire() {
    let world = World::new();
    let soon = std::time::SystemTime::now() + Duration::from_secs(3);
    let soon = soon.duration_since(std::time::UNIX_EPOCH).unwrap();
    let directory = world.path("short");
    world.keys.write_worker(&directory, "w0");
    write_valid_until(&directory, soon.as_secs());
    let worker = world.serve_as("w0", |command| {
        command.env("MUSTER_TLS_DIR", &directory);
    });
    world.write_hosts(&[("w0", worker.port)]);
    let call = || world.rsh(&["-oConnectTimeout=1", "w0", "exit 4"]);
    assert_eq!(call().status.code(), Some(4));
    wait_for("it to refuse", Duration::from_secs(10), || {
        call().status.code() == Some(255)
    });
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

/// A TLS client that shows this key, or nothing, and takes any server.
fn tls_client(port: u16, protocol: &str, shown: Option<&Shown>) -> Tls {
    connect(([127, 0, 0, 1], port).into(), protocol, shown).unwrap()
}

/// With the launcher's own key, so that what is sent reaches the frame decoder.
fn launcher_socket(world: &World, port: u16, protocol: &str) -> Tls {
    tls_client(port, protocol, Some(&Shown::pair(world.keys.launcher())))
}

/// Sends all of it and waits for the other side to hang up; whether it ever said a word.
fn is_answered(mut socket: impl Read + Write, bytes: &[u8]) -> bool {
    // It may hang up in the middle.
    let _ = socket.write_all(bytes).and_then(|()| socket.flush());
    let mut answer = [0; 1];
    socket.read(&mut answer).is_ok_and(|bytes| bytes > 0)
}

/// What whoever broke into a worker can show: that worker's files, and what can be made of them.
fn loot(world: &World) -> Vec<(&'static str, Option<Shown>)> {
    let read = |name: &str| std::fs::read(world.path("worker").join(name)).unwrap();
    let private: [u8; 32] = read("worker.key").try_into().unwrap();
    let public = read("launcher.pub");
    vec![
        ("nothing", None),
        ("its own", Some(Shown::pair(private))),
        ("the launcher's public key", Some(Shown { private, public })),
        ("a fresh one", Some(Shown::pair([7; 32]))),
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
        for (what, shown) in &loot {
            let socket = tls_client(worker.port, SPOKEN, shown.as_ref());
            assert!(!is_answered(socket, &start), "{what}");
        }
        let plain = TcpStream::connect(("127.0.0.1", worker.port)).unwrap();
        // An alert, if anything: what matters is that nothing was started.
        is_answered(plain, &start);
        attempts += loot.len() + 1;
    }
    assert!(!proof.exists());
    // The same frame from the launcher does start it.
    let mut socket = launcher_socket(&world, worker.port, SPOKEN);
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
                let mut socket = launcher_socket(&world, worker.port, SPOKEN);
                let _ = socket.write_all(&frames).and_then(|()| socket.flush());
            }
            _ => {
                let mut socket = launcher_socket(&world, worker.port, SPOKEN);
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
    for (protocol, spoken) in [(SPOKEN, true), ("muster/2", false)] {
        let mut socket = launcher_socket(&world, worker.port, protocol);
        let shaken = socket.conn.complete_io(&mut socket.sock);
        assert_eq!(shaken.is_ok(), spoken, "{protocol}");
    }
    assert!(world.rsh(&["w0", "true"]).status.success());
}

/// What the other side says to a client that speaks this version of TLS alone.
fn refusal_of(port: u16, version: &'static SupportedProtocolVersion) -> String {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let config = builder
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let name = ServerName::try_from("worker.muster").unwrap();
    let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let error = client.complete_io(&mut socket).unwrap_err();
    error.to_string()
}

#[test]
fn a_client_of_tls_1_2_is_refused_for_its_version() {
    let (world, worker) = world_with_worker();
    let said = refusal_of(worker.port, &TLS12);
    assert!(said.contains("ProtocolVersion"), "{said}");
    let said = refusal_of(worker.port, &TLS13);
    assert!(!said.contains("ProtocolVersion"), "{said}");
    assert!(world.rsh(&["w0", "true"]).status.success());
}

/// Carries one connection to the port, and keeps all bytes of both directions.
fn listened_to(port: u16) -> (u16, JoinHandle<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let own = listener.local_addr().unwrap().port();
    let carry = |mut from: TcpStream, mut to: TcpStream| {
        let (mut heard, mut bytes) = (Vec::new(), [0; 4096]);
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            heard.extend(&bytes[..count]);
            if to.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Write);
        heard
    };
    let listening = thread::spawn(move || {
        let (launcher, _) = listener.accept().unwrap();
        let worker = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let other = (launcher.try_clone().unwrap(), worker.try_clone().unwrap());
        let answers = thread::spawn(move || carry(other.1, other.0));
        [carry(launcher, worker), answers.join().unwrap()].concat()
    });
    (own, listening)
}

#[test]
fn who_reads_the_network_reads_neither_commands_nor_their_output() {
    let (world, worker) = world_with_worker();
    let (port, listening) = listened_to(worker.port);
    world.write_hosts(&[("w0", port)]);
    let output = world.rsh(&["w0", "printf %s-%s con fidential"]);
    assert_eq!(text(&output.stdout), "con-fidential");
    let heard = listening.join().unwrap();
    let has = |words: &str| {
        heard
            .windows(words.len())
            .any(|part| part == words.as_bytes())
    };
    // The name of the protocol is said before anything is encrypted.
    assert!(has(SPOKEN), "{} bytes", heard.len());
    assert!(!has("printf") && !has("fidential"));
}
