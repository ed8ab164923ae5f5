//! Which cluster a command talks to: kubeconfigs as kubectl reads them.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::process::Command;
use std::sync::mpsc;

use serde_json::json;

use crate::world::{World, ended};

/// An API server that knows no resource; each request's first line arrives at the receiver.
fn empty_cluster() -> (SocketAddr, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let mut lines = Vec::new();
            while !matches!(lines.last().map(String::as_str), Some("\r\n" | "")) {
                let mut line = String::new();
                stream.read_line(&mut line).unwrap();
                lines.push(line);
            }
            let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
                "reason": "NotFound", "message": "not found", "code": 404})
            .to_string();
            let head =
                "HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Type: application/json";
            let length = body.len();
            let answer = format!("{head}\r\nContent-Length: {length}\r\n\r\n{body}");
            stream.get_mut().write_all(answer.as_bytes()).unwrap();
            if sender.send(lines.remove(0)).is_err() {
                return;
            }
        }
    });
    (address, receiver)
}

fn kubeconfig(name: &str, server: &str, namespace: &str) -> String {
    json!({"apiVersion": "v1", "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": server}}],
        "users": [{"name": name, "user": {}}],
        "contexts": [{"name": name, "context":
            {"cluster": name, "user": name, "namespace": namespace}}]})
    .to_string()
}

fn get(world: &World, kubeconfig: &str, words: &[&str]) -> Command {
    let mut command = world.muster(words);
    command.env("KUBECONFIG", kubeconfig);
    command
}

#[test]
fn all_files_of_kubeconfig_are_read() {
    let world = World::new("kubeconfig");
    let (address, requests) = empty_cluster();
    let first = world.file("first", &kubeconfig("far", "https://127.0.0.1:1", "nobody"));
    let second = kubeconfig("near", &format!("http://{address}"), "team-b");
    let second = world.file("second", &second);
    let both = format!("{first}:{second}");
    let listed = ended(get(&world, &both, &["get", "--context", "near"]));
    assert_eq!(listed.code, 0, "{}", listed.stderr);
    assert_eq!(listed.stderr, "No jobs found.\n");
    let request = requests.recv().unwrap();
    assert!(request.contains("/namespaces/team-b/mpijobs"), "{request}");
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let world = World::new("kubeconfig-absent");
    let missing = world.directory.join("absent");
    let run = ended(get(&world, missing.to_str().unwrap(), &["get"]));
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("absent"), "{}", run.stderr);
    let none = world.run(&["get"]);
    assert!(
        none.stderr.contains("no cluster configured"),
        "{}",
        none.stderr
    );
    assert!(none.stderr.contains("  do: "), "{}", none.stderr);
}
