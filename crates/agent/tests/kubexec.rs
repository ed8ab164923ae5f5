//! `kubexec` against a server that speaks as an API server does: TLS, one request, then a WebSocket
//! whose channels carry a command's streams and its end. What the server does is said by each test.

#[path = "kubexec/server.rs"]
mod server;

use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use server::*;

const AGENT: &str = env!("CARGO_BIN_EXE_muster-agent");
/// What the agent says when it has waited for a second.
fn given_up(server: &Server) -> String {
    let output = server
        .agent(&["w-0", "true"])
        .env("MUSTER_CONNECT_TIMEOUT", "1")
        .output();
    let (code, _, err) = told(&output.unwrap());
    assert_eq!(code, Some(255));
    err
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
    let err = given_up(&server);
    assert!(err.contains("503: starting"), "{err}");
    assert!(start.elapsed() < Duration::from_secs(4));
}

#[test]
fn a_server_that_refuses_and_then_says_nothing_is_named_with_its_refusal() {
    let server = Server::new(|mut peer, _| {
        peer.refuse(503, "starting");
        std::thread::park();
    });
    let err = given_up(&server);
    assert!(err.contains("503: starting"), "{err}");
}

#[test]
fn a_server_that_never_answers_whole_is_not_waited_for() {
    let server = Server::new(|mut peer, _| {
        peer.write(b"HTTP/1.1 101 Switching Protocols\r\n");
        while peer.hear().is_some() {}
    });
    let err = given_up(&server);
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
    let err = given_up(&server);
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
