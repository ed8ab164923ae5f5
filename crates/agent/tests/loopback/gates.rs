//! The launcher's gate: opens when all have answered, and not before.

use std::io::Write;
use std::net::TcpListener;
use std::process::Command;
use std::time::{Duration, Instant};

use super::world::{World, text};

fn gate(world: &World, workers: usize, seconds: u32) -> Command {
    let mut command = world.agent("gate");
    command
        .env("MUSTER_WORKERS", workers.to_string())
        .env("MUSTER_GATE_TIMEOUT", seconds.to_string())
        .env("MUSTER_TERMINATION_LOG", world.path("termination"));
    command
}

#[test]
fn it_opens_soon_after_the_last_worker_came() {
    let world = World::new();
    let first = world.serve();
    world.write_hosts(&[("w0", first.port)]);
    let mut command = gate(&world, 2, 30);
    let waiting = std::thread::spawn(move || (command.output().unwrap(), Instant::now()));
    std::thread::sleep(Duration::from_millis(400));
    assert!(!waiting.is_finished());
    let second = world.serve();
    world.write_hosts(&[("w0", first.port), ("w1", second.port)]);
    let came = Instant::now();
    let (output, opened) = waiting.join().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(opened.duration_since(came) < Duration::from_secs(5));
    let stdout = text(&output.stdout);
    assert!(stdout.contains("waiting for "), "{stdout}");
    assert!(stdout.contains("1 without an address yet"), "{stdout}");
    assert!(stdout.contains("all 2 workers have answered"), "{stdout}");
}

#[test]
fn at_its_deadline_it_names_who_is_missing() {
    let world = World::new();
    let first = world.serve();
    // Takes connections and never says a word: a bare connect must not count.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    world.write_hosts(&[("w0", first.port), ("w1", port)]);
    let begun = Instant::now();
    let output = gate(&world, 2, 1).output().unwrap();
    assert_eq!(output.status.code(), Some(117), "{output:?}");
    assert!(begun.elapsed() < Duration::from_secs(8));
    assert!(text(&output.stderr).contains("waiting for 1 of 2 workers: w1"));
    let json = std::fs::read_to_string(world.path("termination")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["verdict"], "GateDeadline");
    assert_eq!(json["lost"], serde_json::json!(["w1"]));
    assert_eq!(
        (json["hosts"].as_u64(), json["asked"].as_u64()),
        (Some(1), Some(2))
    );
}

#[test]
fn an_ssh_worker_answers_with_its_banner() {
    let world = World::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            socket.unwrap().write_all(b"SSH-2.0-Test\r\n").unwrap();
        }
    });
    let hosts = format!("w0 localhost:{port}\nw1 127.0.0.1:{port}\n");
    std::fs::write(world.path("hosts"), hosts).unwrap();
    let mut command = gate(&world, 2, 20);
    let output = command
        .env("MUSTER_GATE_TRANSPORT", "ssh")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");

    let web = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = web.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for socket in web.incoming() {
            socket.unwrap().write_all(b"HTTP/1.1 200 OK\r\n").unwrap();
        }
    });
    world.write_hosts(&[("w0", port)]);
    let mut command = gate(&world, 1, 1);
    let output = command
        .env("MUSTER_GATE_TRANSPORT", "ssh")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(117));
    assert!(
        text(&output.stderr).contains("not an SSH server"),
        "{output:?}"
    );
}
